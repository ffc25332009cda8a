"""Status of cluster queues, local queues and cohorts, as `status` of their manifests."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from sluice.api.kueue import ResourceGroup
from sluice.api.quantity import format_value, resource_value
from sluice.core.views.holding import promised, waits_for_victims
from sluice.core.views.records import (
    ActiveState,
    ClusterQueueView,
    FlavorResource,
    LocalQueueView,
    WorkloadView,
)
from sluice.core.views.state import State
from sluice.core.workload.charges import add
from sluice.core.world import activity

from .times import timestamp

Status = dict[str, Any]
Totals = Mapping[FlavorResource, int]


def cluster_queue_status(view: State, queue: ClusterQueueView) -> Status:
    """Return counts, usage per flavor and resource with what of it is borrowed, and the condition Active.

    What is only promised is told apart: others use it still, and lend it to nobody.
    """
    nominal = nominal_quota(queue)
    only_promised = promised(view, queue) if queue.preemptors else {}
    return {
        "conditions": [_active(queue.active or _assumed(queue))],
        "pendingWorkloads": sum(_pending(local) for local in queue.local_queues.values()),
        "reservingWorkloads": len(queue.workloads),
        "admittedWorkloads": queue.admitted,
        "flavorsReservation": _flavors(
            nominal, queue.reservation, borrowing=True, only_promised=only_promised
        ),
        "flavorsUsage": _flavors(nominal, queue.usage, borrowing=True),
    }


def local_queue_status(view: State, queue: LocalQueueView) -> Status:
    """Return counts, what its workloads use, and the condition Active.

    Those that were admitted before the queue led to another cluster queue run on with the quota of the old
    one, and count; where they are is told.
    """
    cluster_queue = queue.cluster_queue
    nominal = nominal_quota(cluster_queue) if cluster_queue is not None else {}
    reservation: dict[FlavorResource, int] = {}
    usage: dict[FlavorResource, int] = {}
    only_promised: dict[FlavorResource, int] = {}
    elsewhere: dict[str, int] = {}
    for holder, workload in _holding(view, queue):
        if holder is not cluster_queue:
            elsewhere[holder.name] = elsewhere.get(holder.name, 0) + 1
        add(reservation, workload.charge)
        if workload.admitted_at is not None:
            add(usage, workload.charge)
        elif waits_for_victims(view, holder, workload):
            add(only_promised, workload.charge)
    others = [{"name": name, "reservingWorkloads": count} for name, count in sorted(elsewhere.items())]
    return {
        "conditions": [_active(queue.active or _assumed_local(queue))],
        "pendingWorkloads": _pending(queue),
        "reservingWorkloads": queue.reserving,
        "admittedWorkloads": queue.admitted,
        "flavorsReservation": _flavors(nominal, reservation, borrowing=False, only_promised=only_promised),
        "flavorsUsage": _flavors(nominal, usage, borrowing=False),
        **({"inOtherClusterQueues": others} if others else {}),
    }


def _holding(view: State, queue: LocalQueueView) -> Iterator[tuple[ClusterQueueView, WorkloadView]]:
    """Yield those of the local queue that have quota, each with the cluster queue that they have it of."""
    left, here = queue.reserving, queue.cluster_queue
    others = (other for other in view.cluster_queues.values() if other is not here)
    for holder in (*([here] if here is not None else []), *others):
        if not left:
            return
        for workload in map(view.workloads.__getitem__, holder.workloads):
            if workload.local_queue is queue:
                left -= 1
                yield holder, workload


def _pending(queue: LocalQueueView) -> int:
    """Return how many jobs wait: a family counts once, and not while one of its variants runs (CA14)."""
    waiting = sum(1 for parent in queue.families if parent not in queue.running_parents)
    return len(queue.pending) - sum(queue.families.values()) + waiting


def cohort_status(view: State, name: str) -> Status:
    """Return what the cohort's whole subtree has and uses; Kueue has no such status."""
    nominal: dict[FlavorResource, int] = {}
    reservation: dict[FlavorResource, int] = {}
    usage: dict[FlavorResource, int] = {}
    only_promised: dict[FlavorResource, int] = {}
    queues = members(view, name)
    for queue in queues:
        add(nominal, nominal_quota(queue))
        add(reservation, queue.reservation)
        add(usage, queue.usage)
        add(only_promised, promised(view, queue))
    for cohort in (name, *descendants(view, name)):
        spec = view.cohorts.get(cohort)
        add(nominal, _nominal(spec.resource_groups) if spec is not None else {})
    return {
        "clusterQueues": [queue.name for queue in queues],
        "nominalQuota": _flavors(nominal, nominal, borrowing=False),
        "flavorsReservation": _flavors(nominal, reservation, borrowing=False, only_promised=only_promised),
        "flavorsUsage": _flavors(nominal, usage, borrowing=False),
    }


def cohort_names(view: State) -> dict[str, None]:
    """Return all cohorts, those included that exist only because a queue names them."""
    named = (queue.spec.cohort_name for queue in view.cluster_queues.values() if queue.spec is not None)
    return dict.fromkeys([*view.cohorts, *filter(None, named)])


def descendants(view: State, name: str) -> list[str]:
    """Return the cohorts below *name*, by name; each once, even if a manifest closes a cycle."""
    found: list[str] = []
    parents = {name}
    todo = [name]
    while todo:
        above = todo.pop()
        for child in sorted(view.cohorts):
            if view.cohorts[child].parent_name == above and child not in parents:
                parents.add(child)
                found.append(child)
                todo.append(child)
    return sorted(found)


def members(view: State, name: str) -> list[ClusterQueueView]:
    """Return the cluster queues of the cohort's subtree, by name."""
    cohorts = frozenset((name, *descendants(view, name)))
    found = [q for q in view.cluster_queues.values() if q.spec is not None and q.spec.cohort_name in cohorts]
    return sorted(found, key=lambda queue: queue.name)


def nominal_quota(queue: ClusterQueueView) -> dict[FlavorResource, int]:
    """Return the nominal quota of a cluster queue, in the manifest's order."""
    return _nominal(queue.spec.resource_groups) if queue.spec is not None else {}


def _nominal(groups: Iterable[ResourceGroup]) -> dict[FlavorResource, int]:
    return {
        (flavor.name, resource.name): resource_value(resource.name, resource.nominal_quota)
        for group in groups
        for flavor in group.flavors
        for resource in flavor.resources
    }


def _flavors(
    nominal: Totals, totals: Totals, *, borrowing: bool, only_promised: Totals = MappingProxyType({})
) -> list[Status]:
    """Group totals by flavor; flavors with quota first, in their order, then those that only have usage.

    *only_promised*: what of the totals is only promised, and neither used nor borrowed yet.
    """
    flavors: dict[str, list[Status]] = {}
    for flavor, resource in _ordered(nominal, totals):
        total = totals.get((flavor, resource), 0)
        entry: Status = {"name": resource, "total": format_value(resource, total)}
        if borrowing:
            in_use = total - only_promised.get((flavor, resource), 0)
            borrowed = max(0, in_use - nominal.get((flavor, resource), 0))
            entry["borrowed"] = format_value(resource, borrowed)
        if waits := only_promised.get((flavor, resource), 0):
            entry["promised"] = format_value(resource, waits)
        flavors.setdefault(flavor, []).append(entry)
    return [{"name": name, "resources": resources} for name, resources in flavors.items()]


def _ordered(nominal: Totals, totals: Totals) -> Iterable[FlavorResource]:
    yield from nominal
    yield from sorted(key for key in totals if key not in nominal)


def _assumed(queue: ClusterQueueView) -> ActiveState:
    """What the scheduler would say, until it does."""
    if queue.spec is None:
        return ActiveState(False, "NotFound", "There is no such ClusterQueue", 0)
    why = activity.why_closed(queue.spec, terminating=queue.terminating)
    return ActiveState(*activity.queue_status(why), 0)


def _assumed_local(queue: LocalQueueView) -> ActiveState:
    above = queue.cluster_queue
    known = None if above is None or above.spec is None else above.active or _assumed(above)
    stop_policy = None if queue.spec is None else queue.spec.stop_policy
    found = activity.local_queue_status(stop_policy, active=None if known is None else known.active)
    return ActiveState(*found, 0 if known is None or found[1] == activity.STOPPED else known.since)


def _active(state: ActiveState) -> Status:
    return {
        "type": "Active",
        "status": "True" if state.active else "False",
        "reason": state.reason,
        "message": state.message,
        "lastTransitionTime": timestamp(state.since),
    }


__all__ = ["cohort_names", "members", "nominal_quota"]
