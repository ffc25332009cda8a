"""Totals of queues and cohorts: nominal quota, reserved, used, borrowed and promised."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sluice.api.kueue import ResourceGroup
from sluice.core.quota.manifests import quotas_of
from sluice.core.quota.tree import borrowed
from sluice.core.workload.charges import add

from .holding import promised
from .records import ClusterQueueView, FlavorResource
from .state import State

type Amounts = dict[FlavorResource, int]


@dataclass
class QuotaTotals:
    """Of a cluster queue, or of a cohort's whole subtree: amounts by flavor and resource."""

    nominal: Amounts = field(default_factory=dict)
    """In the manifest's order."""
    reservation: Amounts = field(default_factory=dict)
    """All that is charged."""
    usage: Amounts = field(default_factory=dict)
    """What of the reservation is admitted."""
    promised: Amounts = field(default_factory=dict)
    """What of the reservation others have still, who are to be preempted (AC6): it is neither used nor
    borrowed yet."""

    def used(self, fr: FlavorResource) -> int:
        return self.reservation.get(fr, 0) - self.promised.get(fr, 0)

    def borrowed(self, fr: FlavorResource) -> int:
        return borrowed(self.used(fr), self.nominal.get(fr, 0))

    def add(self, other: "QuotaTotals") -> None:
        add(self.nominal, other.nominal)
        add(self.reservation, other.reservation)
        add(self.usage, other.usage)
        add(self.promised, other.promised)

    def rows(self) -> list[FlavorResource]:
        """Return what there is something to say of: what has quota first, in its order."""
        return [*self.nominal, *sorted(fr for fr in self.reservation if fr not in self.nominal)]


def queue_totals(view: State, queue: ClusterQueueView) -> QuotaTotals:
    return QuotaTotals(
        nominal_quota(queue),
        dict(queue.reservation),
        dict(queue.usage),
        promised(view, queue) if queue.preemptors else {},
    )


def cohort_totals(view: State, name: str) -> QuotaTotals:
    """Return what the cohort's whole subtree has and uses."""
    total = QuotaTotals()
    for queue in members(view, name):
        total.add(queue_totals(view, queue))
    for cohort in (name, *descendants(view, name)):
        add(total.nominal, own_nominal_quota(view, cohort))
    return total


def nominal_quota(queue: ClusterQueueView) -> Amounts:
    """Return the nominal quota of a cluster queue, in the manifest's order."""
    return _nominal(queue.spec.resource_groups) if queue.spec is not None else {}


def own_nominal_quota(view: State, cohort: str) -> Amounts:
    """Return the nominal quota that a cohort has itself."""
    spec = view.cohorts.get(cohort)
    return {} if spec is None else _nominal(spec.resource_groups)


def _nominal(groups: Iterable[ResourceGroup]) -> Amounts:
    return {fr: quota.nominal for fr, quota in quotas_of(groups).items()}


def cohort_names(view: State) -> dict[str, None]:
    """Return all cohorts, those included that exist only because a queue names them."""
    named = (queue.spec.cohort_name for queue in view.cluster_queues.values() if queue.spec is not None)
    return dict.fromkeys([*view.cohorts, *filter(None, named)])


def descendants(view: State, name: str) -> list[str]:
    """Return the cohorts below *name*, by name."""

    def below(cohort: str) -> Iterator[str]:
        for child, spec in view.cohorts.items():
            if spec.parent_name == cohort:
                yield child
                yield from below(child)

    return sorted(below(name))


def members(view: State, name: str) -> list[ClusterQueueView]:
    """Return the cluster queues of the cohort's subtree, by name."""
    cohorts = frozenset((name, *descendants(view, name)))
    found = [q for q in view.cluster_queues.values() if q.spec is not None and q.spec.cohort_name in cohorts]
    return sorted(found, key=lambda queue: queue.name)


__all__ = ["QuotaTotals", "cohort_names", "cohort_totals", "members", "nominal_quota", "queue_totals"]
