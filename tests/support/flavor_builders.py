"""Short ways to say what the flavor tests need: a world of few flavors, a workload, a fixed oracle."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sluice.api import kueue
from sluice.api.core_v1 import Taint, Toleration
from sluice.api.meta import ObjectMeta
from sluice.core.flavors.assignment import Possibility
from sluice.core.quota.tree import FlavorResource, Quota, Tree
from sluice.core.world.model import ClusterQueue, ResourceGroup, World
from sluice.core.world.workload import Workload
from sluice.events.base import PodSet
from sluice.events.slices import WorkloadRecord

Amounts = Mapping[str, int | tuple[int, int | None]]
"""Resource -> nominal quota, or (nominal, borrowing limit)."""


def flavor(
    name: str,
    labels: dict[str, str] | None = None,
    taints: Sequence[Taint] = (),
    tolerations: Sequence[Toleration] = (),
) -> kueue.ResourceFlavor:
    spec = kueue.ResourceFlavorSpec(
        node_labels=labels or {}, node_taints=list(taints), tolerations=list(tolerations)
    )
    return kueue.ResourceFlavor(metadata=ObjectMeta(name=name), spec=spec)


def world(*flavors: str | kueue.ResourceFlavor, **gates: bool) -> World:
    """Return a world of these flavors, without queues."""
    made = World(Tree())
    for entry in flavors:
        known = flavor(entry) if isinstance(entry, str) else entry
        made.flavors[known.metadata.name] = known
    made.config = kueue.ConfigurationSpec(feature_gates=gates)
    return made


def queue(
    at: World,
    name: str,
    *groups: Mapping[str, Amounts],
    cohort: str = "",
    borrow: Literal["MayStopSearch", "TryNextFlavor"] = "MayStopSearch",
    preempt: Literal["MayStopSearch", "TryNextFlavor"] = "TryNextFlavor",
    preference: Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"] | None = None,
    preemption: kueue.ClusterQueuePreemption | None = None,
) -> ClusterQueue:
    """Add a cluster queue; each group is flavor -> resource -> quota."""
    quotas: dict[FlavorResource, Quota] = {}
    made = []
    for group in groups:
        for flavor_name, amounts in group.items():
            for resource, amount in amounts.items():
                nominal, limit = amount if isinstance(amount, tuple) else (amount, None)
                quotas[flavor_name, resource] = Quota(nominal, limit)
        covered = {resource: None for amounts in group.values() for resource in amounts}
        made.append(ResourceGroup(tuple(covered), tuple(group)))
    spec = kueue.ClusterQueueSpec(
        cohort_name=cohort,
        flavor_fungibility=kueue.FlavorFungibility(
            when_can_borrow=borrow, when_can_preempt=preempt, preference=preference
        ),
        preemption=preemption,
    )
    node = at.tree.set_cluster_queue(name, cohort, quotas)
    group_of = {resource: group for group in made for resource in group.covered_resources}
    result = at.cluster_queues[name] = ClusterQueue(name, spec, node, tuple(made), group_of)
    return result


def use(at: World, name: str, **usage: Mapping[str, int]) -> None:
    """Charge flavor -> resource -> amount to a queue."""
    at.tree.add(
        at.cluster_queues[name].node,
        {(flv, res): amount for flv, amounts in usage.items() for res, amount in amounts.items()},
    )


def pod_set(name: str = "main", count: int = 1, **fields: Any) -> PodSet:
    return PodSet(name=name, count=count, **fields)


def workload(*pod_sets: PodSet, **fields: Any) -> Workload:
    record = WorkloadRecord(
        namespace="default", name="w", uid="1", queue_name="q", created_at=0, pod_sets=pod_sets, **fields
    )
    return Workload(record, record.key, record.uid, record.priority)


def asks(amount: int, resource: str = "cpu", **fields: Any) -> Workload:
    """Return a workload of one pod that requests one resource."""
    return workload(pod_set(requests={resource: amount}), **fields)


class FixedOracle:
    """Gives the same answer to every question, or one per flavor; remembers the questions."""

    def __init__(
        self,
        answer: tuple[Possibility, int] = (Possibility.PREEMPT, 0),
        **of: tuple[Possibility, int],
    ) -> None:
        self.answer = answer
        self.of = of
        self.asked: list[FlavorResource] = []

    def possibility(
        self,
        cq: ClusterQueue,  # noqa: ARG002
        workload: Workload,  # noqa: ARG002
        fr: FlavorResource,
        amount: int,  # noqa: ARG002
    ) -> tuple[Possibility, int]:
        self.asked.append(fr)
        return self.of.get(fr[0], self.answer)
