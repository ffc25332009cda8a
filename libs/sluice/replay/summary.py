"""A scheduler's state as plain data, for people and for `diff`."""

from collections.abc import Iterator, Mapping
from typing import Any

from sluice.api.quantity import format_value
from sluice.core.model import ClusterQueue, Workload
from sluice.core.pending import Queue
from sluice.core.state import SchedulerState
from sluice.events.codec import rfc3339


def phase_of(workload: Workload) -> str:
    """Return where in its life a workload is, in one word."""
    if workload.finished:
        return "Finished"
    if workload.evicted_at is not None:
        return "Evicted"
    if workload.admitted_at is not None:
        return "Admitted"
    if workload.assignment is not None:
        return "QuotaReserved"
    return "Pending" if workload.active else "Deactivated"


def workload_summary(workload: Workload) -> dict[str, Any]:
    """Return what people want to know of one workload."""
    found: dict[str, Any] = {"phase": phase_of(workload), "clusterQueue": workload.cluster_queue}
    found["priority"] = workload.priority
    if workload.record.job is not None:
        found["job"] = workload.record.job.key
    if workload.usage:
        found["usage"] = amounts(workload.usage)
    if workload.assignment is not None:
        found["flavors"] = {ps.name: dict(ps.flavors) for ps in workload.assignment}
    for name, at in (("reservedAt", workload.reserved_at), ("admittedAt", workload.admitted_at)):
        if at is not None:
            found[name] = rfc3339(at)
    if workload.evicted_reason:
        found["evictedFor"] = workload.evicted_reason
    if workload.peers is not None and workload.peers.reason:
        found["reason"], found["message"] = workload.peers.reason, workload.peers.message
    return found


def amounts(usage: Mapping[tuple[str, str], int]) -> dict[str, str]:
    """Return `{"flavor/resource": quantity}`."""
    return {f"{f}/{r}": format_value(r, amount) for (f, r), amount in sorted(usage.items()) if amount}


def queue_summary(state: SchedulerState, queue: ClusterQueue) -> dict[str, Any]:
    """Return a cluster queue's numbers per flavor and resource."""
    waiting = state.pending.queues.get(queue.name)
    node = queue.node
    rows = {}
    for fr in sorted(node.quotas):
        flavor, resource = fr
        quota = node.quotas[fr]
        used = node.used(fr)
        rows[f"{flavor}/{resource}"] = {
            "nominal": format_value(resource, quota.nominal),
            "used": format_value(resource, used),
            "borrowed": format_value(resource, max(0, used - quota.nominal)),
            "available": format_value(resource, node.available(fr)),
        }
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


def summary(state: SchedulerState, *, workloads: bool = True) -> dict[str, Any]:
    """Return the whole state."""
    world = state.world
    found: dict[str, Any] = {
        "clusterQueues": {n: queue_summary(state, q) for n, q in sorted(world.cluster_queues.items())},
        "workloads": {},
    }
    if workloads:
        found["workloads"] = {
            key: workload_summary(w) for key, w in sorted(world.workloads.items()) if not w.finished
        }
    return found


def differences(before: SchedulerState, after: SchedulerState) -> dict[str, Any]:
    """Return what changed: workloads that came, went or changed phase, queues whose numbers differ."""
    old, new = summary(before), summary(after)
    found: dict[str, Any] = {"created": [], "gone": [], "changed": {}, "clusterQueues": {}}
    a, b = old["workloads"], new["workloads"]
    found["created"] = [key for key in b if key not in a]
    found["gone"] = [key for key in a if key not in b]
    for key in b:
        if key in a and a[key] != b[key]:
            found["changed"][key] = {"before": a[key], "after": b[key]}
    for name in sorted(old["clusterQueues"].keys() | new["clusterQueues"].keys()):
        x, y = old["clusterQueues"].get(name), new["clusterQueues"].get(name)
        if x != y:
            found["clusterQueues"][name] = dict(_changed("", x, y))
    return found


def _changed(path: str, before: Any, after: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(k for k in after if k not in before)]:
            if before.get(key) != after.get(key):
                yield from _changed(f"{path}.{key}" if path else key, before.get(key), after.get(key))
    else:
        yield path or "queue", {"before": before, "after": after}


def order_of(queue: Queue) -> list[str]:
    """Return the keys of the pending workloads, in the order of the queue."""
    return [workload.key for workload in queue.in_order()]
