"""Plan of flavor assignment for a cluster queue: all that is known before any workload comes.

Derived from the queue's spec and groups and the flavors they name; `plan_of` checks by identity that it
still holds (specs are immutable), so the plan saves time and never changes a result.
"""

from sluice.api import kueue
from sluice.core.quota.tree import FlavorResource
from sluice.core.world.model import ClusterQueue, ResourceGroup

from .eligibility import FlavorRule

__all__ = ["asks_nobody", "plan_of"]

_DEFAULT_FUNGIBILITY = kueue.FlavorFungibility(
    when_can_borrow="MayStopSearch", when_can_preempt="TryNextFlavor"
)


class FlavorPlan:
    """One flavor of one resource group."""

    __slots__ = ("frs", "name", "rule")

    def __init__(self, name: str, resources: tuple[str, ...]) -> None:
        self.name = name
        self.frs: dict[str, FlavorResource] = {resource: (name, resource) for resource in resources}
        self.rule: FlavorRule | None = None

    def current_rule(self, flavor: kueue.ResourceFlavor | None) -> FlavorRule | None:
        """Return the rule for *flavor* as it is now; None when it does not exist (any more)."""
        rule = self.rule
        if rule is None or rule.flavor is not flavor:
            self.rule = rule = None if flavor is None else FlavorRule(flavor)
        return rule


class GroupPlan:
    """One resource group: its flavors in order of preference."""

    __slots__ = ("covered", "flavors", "names")

    def __init__(self, group: ResourceGroup) -> None:
        self.covered = frozenset(group.covered_resources)
        self.names = group.flavors
        self.flavors = tuple(FlavorPlan(name, group.covered_resources) for name in group.flavors)


class Plan:
    """A cluster queue's groups by resource, and its policies in the form that decisions need."""

    __slots__ = (
        "borrow_try_next",
        "counts_pods",
        "frs",
        "group_names",
        "group_of",
        "may_preempt",
        "preempt_try_next",
        "preempts_borrowing",
        "preempts_own",
        "reclaims",
        "single",
        "source",
        "spare_borrowing",
        "spec",
    )

    def __init__(self, cq: ClusterQueue) -> None:
        self.spec = cq.spec
        self.source = cq.groups
        plans = {id(group): GroupPlan(group) for group in cq.groups}
        self.group_names = tuple(group.flavors for group in cq.groups)
        self.group_of: dict[str, GroupPlan] = {
            resource: plans[id(group)] for resource, group in cq.group_of.items()
        }
        self.frs: tuple[FlavorResource, ...] = tuple(
            (flavor, resource) for resource, group in cq.group_of.items() for flavor in group.flavors
        )
        self.counts_pods = "pods" in self.group_of
        fungibility = cq.spec.flavor_fungibility or _DEFAULT_FUNGIBILITY
        self.borrow_try_next = fungibility.when_can_borrow == "TryNextFlavor"
        self.preempt_try_next = fungibility.when_can_preempt == "TryNextFlavor"
        self.spare_borrowing = fungibility.preference == "PreemptionOverBorrowing"
        preemption = cq.spec.preemption or kueue.ClusterQueuePreemption()
        borrow_within = preemption.borrow_within_cohort
        self.preempts_borrowing = borrow_within is not None and borrow_within.policy == "LowerPriority"
        self.reclaims = preemption.reclaim_within_cohort not in ("", "Never")
        self.preempts_own = preemption.within_cluster_queue not in ("", "Never")
        self.may_preempt = self.reclaims or self.preempts_own
        self.single = all(len(group.flavors) == 1 for group in cq.groups)
        """It has one flavor for each resource."""

    def may_preempt_borrowing(self, *, fair_sharing: bool) -> bool:
        """May others be preempted for what it would borrow? With fair sharing that evens out shares."""
        return self.preempts_borrowing or (self.reclaims and fair_sharing)


def asks_nobody(nominal: int, amount: int, *, may_reclaim: bool, may_preempt_borrowing: bool) -> bool:
    """Is nobody preempted for *amount*, as the queue would have to borrow, too (PR2)?

    *may_reclaim*: that of `quota.find_height_of_lowest_subtree_that_fits`.
    """
    return nominal < amount and not may_reclaim and not may_preempt_borrowing


def plan_of(cq: ClusterQueue) -> Plan:
    plan: Plan | None = cq.flavor_plan
    if plan is None or plan.spec is not cq.spec or plan.source is not cq.groups:
        plan = cq.flavor_plan = Plan(cq)
    return plan
