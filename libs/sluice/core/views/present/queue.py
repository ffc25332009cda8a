"""Status of cluster queues, local queues and cohorts, as `status` of their manifests."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from sluice.api.quantity import format_value
from sluice.core.quota.tree import borrowed
from sluice.core.views.holding import waits_for_victims
from sluice.core.views.quota_totals import (
    Amounts,
    QuotaTotals,
    cohort_totals,
    members,
    nominal_quota,
    queue_totals,
)
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


def cluster_queue_status(view: State, queue: ClusterQueueView) -> Status:
    """Return counts, usage per flavor and resource with what of it is borrowed, and the condition Active.

    What is only promised is told apart: others use it still, and lend it to nobody.
    """
    totals = queue_totals(view, queue)
    return {
        "conditions": [_active(queue.active or _assumed(queue))],
        "pendingWorkloads": sum(_pending(local) for local in queue.local_queues.values()),
        "reservingWorkloads": len(queue.workloads),
        "admittedWorkloads": queue.admitted,
        "flavorsReservation": _flavors(totals, totals.reservation, borrowing=True, promised=totals.promised),
        "flavorsUsage": _flavors(totals, totals.usage, borrowing=True),
    }


def local_queue_status(view: State, queue: LocalQueueView) -> Status:
    """Return counts, what its workloads use, and the condition Active.

    Those that were admitted before the queue led to another cluster queue run on with the quota of the old
    one, and count; where they are is told.
    """
    cluster_queue = queue.cluster_queue
    totals = QuotaTotals(nominal_quota(cluster_queue) if cluster_queue is not None else {})
    elsewhere: dict[str, int] = {}
    for holder, workload in _holding(view, queue):
        if holder is not cluster_queue:
            elsewhere[holder.name] = elsewhere.get(holder.name, 0) + 1
        add(totals.reservation, workload.charge)
        if workload.admitted_at is not None:
            add(totals.usage, workload.charge)
        elif waits_for_victims(view, holder, workload):
            add(totals.promised, workload.charge)
    others = [{"name": name, "reservingWorkloads": count} for name, count in sorted(elsewhere.items())]
    return {
        "conditions": [_active(queue.active or _assumed_local(queue))],
        "pendingWorkloads": _pending(queue),
        "reservingWorkloads": queue.reserving,
        "admittedWorkloads": queue.admitted,
        "flavorsReservation": _flavors(totals, totals.reservation, promised=totals.promised),
        "flavorsUsage": _flavors(totals, totals.usage),
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
    totals = cohort_totals(view, name)
    return {
        "clusterQueues": [queue.name for queue in members(view, name)],
        "nominalQuota": _flavors(totals, totals.nominal),
        "flavorsReservation": _flavors(totals, totals.reservation, promised=totals.promised),
        "flavorsUsage": _flavors(totals, totals.usage),
    }


def _flavors(
    totals: QuotaTotals,
    amounts: Amounts,
    *,
    borrowing: bool = False,
    promised: Mapping[FlavorResource, int] = MappingProxyType({}),
) -> list[Status]:
    """Group amounts by flavor; flavors with quota first, in their order, then those that only have usage.

    *promised*: what of the amounts is only promised, and neither used nor borrowed yet.
    """
    flavors: dict[str, list[Status]] = {}
    for fr in (*totals.nominal, *sorted(fr for fr in amounts if fr not in totals.nominal)):
        flavor, resource = fr
        amount, waits = amounts.get(fr, 0), promised.get(fr, 0)
        entry: Status = {"name": resource, "total": format_value(resource, amount)}
        if borrowing:
            entry["borrowed"] = format_value(resource, borrowed(amount - waits, totals.nominal.get(fr, 0)))
        if waits:
            entry["promised"] = format_value(resource, waits)
        flavors.setdefault(flavor, []).append(entry)
    return [{"name": name, "resources": resources} for name, resources in flavors.items()]


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
