"""Queues and their quota, as only the scheduler's state has them: plain data for people."""

from collections.abc import Mapping
from typing import Any

from sluice.api.quantity import format_value
from sluice.core.quota.tree import Node, borrowed
from sluice.core.scheduler.state import SchedulerState
from sluice.core.views.present.phase import phase_by
from sluice.core.world.inadmissible import GATED_BY_ANNOTATION
from sluice.core.world.model import ClusterQueue
from sluice.core.world.queue_order import queue_rank
from sluice.core.world.variants import is_parent, parent_holds, queue_identity
from sluice.core.world.workload import Workload

from .pending_preemptions import used as in_use

__all__ = ["phase_of", "queue_of", "waiting_in"]


def phase_of(workload: Workload) -> str:
    """Return where in its life a workload is; that it failed is not known to the scheduler."""
    phase = phase_by(
        finished=workload.finished,
        evicted=workload.evicted_at is not None,
        admitted=workload.admitted_at is not None,
        ready=workload.pods_ready_at is not None,
        reserved=workload.assignment is not None,
        active=workload.active,
    )
    return str(phase)


def amounts(usage: Mapping[tuple[str, str], int]) -> dict[str, str]:
    """Return `{"flavor/resource": quantity}`."""
    return {f"{f}/{r}": format_value(r, amount) for (f, r), amount in sorted(usage.items()) if amount}


def queue_summary(state: SchedulerState, queue: ClusterQueue) -> dict[str, Any]:
    """Return a cluster queue's numbers per flavor and resource."""
    waiting = state.pending.queues.get(queue.name)
    node = queue.node
    preemptors = list(state.world.pending_preemptions.by_queue.get(queue.name, {}).values())
    rows = {}
    # Also what is used of flavors that were taken out of the queue.
    for fr in sorted({*node.quotas, *node.usage}):
        flavor, resource = fr
        nominal = node.quotas[fr].nominal if fr in node.quotas else 0
        used = in_use(queue, preemptors, fr)
        rows[f"{flavor}/{resource}"] = {
            "nominal": format_value(resource, nominal),
            "used": format_value(resource, used),
            "borrowed": format_value(resource, borrowed(used, nominal)),
            "available": format_value(resource, node.available(fr)),
        }
        if promised := node.used(fr) - used:
            rows[f"{flavor}/{resource}"]["promised"] = format_value(resource, promised)
    admitted = sum(1 for workload in queue.workloads.values() if workload.admitted_at is not None)
    found = {
        "path": node.path(),
        "pending": 0 if waiting is None else waiting.size,
        "reserving": len(queue.workloads),
        "admitted": admitted,
        "quota": rows,
    }
    if not queue.active:
        status = state.statuses.get(queue.name)
        found["inactive"] = "" if status is None else status[1]
    return found


def node_quota(node: Node) -> dict[str, Any]:
    """Return, per flavor and resource, what a cohort's subtree has, uses, and could still have."""
    return {
        f"{flavor}/{resource}": {
            "subtree": format_value(resource, total),
            "used": format_value(resource, node.used((flavor, resource))),
            "available": format_value(resource, node.available((flavor, resource))),
        }
        for (flavor, resource), total in sorted(node.subtree.items())
    }


def order_of(state: SchedulerState, cluster_queue: str) -> list[str]:
    """Return the keys of the pending workloads, in the order of the queue."""
    return [workload.key for workload in waiting_in(state, cluster_queue)]


def queue_of(state: SchedulerState, workload: Workload) -> str:
    """Return the cluster queue that it is charged in, or that its local queue leads to; '' if none."""
    local = state.world.local_queues.get(f"{workload.record.namespace}/{workload.record.queue_name}")
    return workload.cluster_queue or ("" if local is None else local.cluster_queue)


def waiting_in(state: SchedulerState, cluster_queue: str) -> list[Workload]:
    """Return all that wait for quota of a cluster queue, in its order (SC1), as `sluice.core.views` has it.

    Whoever is held back after an eviction, or by a local queue that is stopped, is in no queue, and has its
    place all the same. A preemptor that waits for its victims has that of its rank: what it waits for is kept
    for it wherever it stands.
    """
    queue = state.pending.queues.get(cluster_queue)
    queued = [] if queue is None else list(queue.in_order())
    held = [w for w in state.world.workloads.values() if _is_held(state, w, cluster_queue)]
    if not held and (queue is None or queue.strict or not queue.waiting):
        return queued
    return sorted(
        [*queued, *held], key=lambda w: queue_rank(w, w.priority, queue_identity(w), state.world.config)
    )


def _is_held(state: SchedulerState, workload: Workload, cluster_queue: str) -> bool:
    """Does it wait for quota of this cluster queue, without being queued?"""
    if workload.peers is not None or workload.assignment is not None:
        return False
    if workload.finished or not workload.active or queue_of(state, workload) != cluster_queue:
        return False
    if GATED_BY_ANNOTATION in workload.record.annotations:
        return False
    world, cq = state.world, state.world.cluster_queues.get(cluster_queue)
    if workload.record.parent is not None:
        return not parent_holds(world, workload)
    return workload.key not in world.families and (cq is None or not is_parent(world.config, workload, cq))
