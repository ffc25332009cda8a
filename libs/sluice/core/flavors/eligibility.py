"""May pods of a pod set run on nodes of a flavor? Node selector, required affinity and taints (SC4).

Only label keys that the flavor itself sets count: what a pod asks of other labels, the flavor's nodes
may or may not have, and Kubernetes' own scheduler sees to it later.
"""

from collections.abc import Mapping, Sequence

from sluice.api import kueue
from sluice.api.core_v1 import NodeSelectorTerm, Taint, Toleration
from sluice.api.selectors import compare, meets
from sluice.events.base import PodSet

__all__ = ["FlavorRule"]

BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")
"""A PreferNoSchedule taint keeps nobody out."""


class FlavorRule:
    """A flavor, prepared for being checked against many pod sets."""

    __slots__ = ("flavor", "labels", "name", "open", "taints")

    def __init__(self, flavor: kueue.ResourceFlavor) -> None:
        spec = flavor.spec
        self.flavor = flavor
        self.name = flavor.metadata.name
        self.labels: Mapping[str, str] = spec.node_labels
        # The flavor's own tolerations are added to its pods, so what they tolerate bars nobody.
        self.taints = tuple(
            taint
            for taint in spec.node_taints
            if taint.effect in BLOCKING_EFFECTS and not _tolerated(taint, spec.tolerations)
        )
        self.open = not self.taints and not self.labels
        """Every pod set may use it."""

    def obstacle(self, pod_set: PodSet) -> str:
        """Return why pods of *pod_set* may not run here, in Kueue's words; '' when they may."""
        for taint in self.taints:
            if not _tolerated(taint, pod_set.tolerations):
                return f"untolerated taint {_go_text(taint)} in flavor {self.name}"
        if self.labels and not (
            _selected(self.labels, pod_set.node_selector)
            and _has_affinity(self.labels, pod_set.node_affinity)
        ):
            return f"flavor {self.name} doesn't match node affinity"
        return ""


def _selected(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    return all(labels[key] == value for key, value in selector.items() if key in labels)


def _has_affinity(labels: Mapping[str, str], terms: Sequence[NodeSelectorTerm]) -> bool:
    """Terms are alternatives; one that says nothing of the flavor's own labels is met by any flavor."""
    return not terms or any(_meets(labels, term) for term in terms)


def _meets(labels: Mapping[str, str], term: NodeSelectorTerm) -> bool:
    return all(
        expression.key not in labels or meets(expression, labels) for expression in term.match_expressions
    )


def _tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Empty effect and empty key match all, as in Kubernetes."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Gt":
            return compare(taint.value, (toleration.value,)) > 0
        case "Lt":
            return compare(taint.value, (toleration.value,)) < 0
    return False


def _go_text(taint: Taint) -> str:
    """Spell a taint as Kueue's messages do."""
    return f"{{{taint.key} {taint.value} {taint.effect} {taint.time_added or '<nil>'}}}"
