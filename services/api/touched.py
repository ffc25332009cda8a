"""Which objects people see change with an event."""

from collections.abc import Callable
from typing import Any

from sluice.core.config import object_key
from sluice.core.status.slices import is_slice
from sluice.core.status.view import View
from sluice.events import checks, config, scheduler, slices, variants
from sluice.events.base import Event, WorkloadKey

from .jobs import job_of

Touched = tuple[tuple[str, str], ...]
"""(kind, key) of each; one may be named twice."""


def touched(view: View, event: Event) -> Touched:
    """Return what *event* changes, as far as *view* knows it."""
    return _OF.get(type(event), _other)(view, event)


def moves(event: Event) -> bool:
    """Tell whether what *event* changes may be other objects before and after it."""
    return type(event) not in _STAY


def _workload(view: View, key: str, *, queues: bool) -> Touched:
    workload = view.workloads.get(WorkloadKey(key))
    if workload is None:
        return (("Workload", key),)
    found = [("Workload", key)]
    record = workload.record
    if record.parent is not None:
        found += [("Variant", key), ("Workload", record.parent)]
    if is_slice(workload):
        found.append(("Slice", key))
    if record.job is not None:
        found.append(("Job", record.job.key))
    if queues:
        found.append(("LocalQueue", workload.local_queue.key))
        if workload.cluster_queue is not None:
            found.append(("ClusterQueue", workload.cluster_queue.name))
        elif workload.local_queue.spec is not None:
            found.append(("ClusterQueue", workload.local_queue.spec.cluster_queue))
    return tuple(found)


def _whole(view: View, event: Any) -> Touched:
    return _workload(view, event.workload, queues=True)


def _alone(view: View, event: Any) -> Touched:
    return _workload(view, event.workload, queues=False)


def _created(view: View, event: Any) -> Touched:
    return _workload(view, event.workload.key, queues=True)


def _several(view: View, event: Any) -> Touched:
    return tuple(pair for key in event.workloads for pair in _workload(view, key, queues=False))


def _object(view: View, event: Any) -> Touched:  # noqa: ARG001
    return ((event.kind, object_key(event.kind, event.namespace, event.name)),)


def _cluster_queue(view: View, event: Any) -> Touched:  # noqa: ARG001
    return (("ClusterQueue", event.cluster_queue),)


def _local_queue(view: View, event: Any) -> Touched:  # noqa: ARG001
    return (("LocalQueue", event.local_queue),)


def _check(view: View, event: Any) -> Touched:  # noqa: ARG001
    return (("AdmissionCheck", event.check),)


def _rejected(view: View, event: Any) -> Touched:  # noqa: ARG001
    key = job_of(event.subject)
    return (("Job", key),) if key is not None else ()


def _none(view: View, event: Any) -> Touched:  # noqa: ARG001
    return ()


def _other(view: View, event: Any) -> Touched:
    job_key = getattr(event, "job", None)
    if isinstance(job_key, str):
        return (("Job", job_key),)
    return _whole(view, event) if isinstance(getattr(event, "workload", None), str) else ()


_OF: dict[type[Event], Callable[[View, Any], Touched]] = {
    config.ObjectApplied: _object,
    config.ObjectDeleted: _object,
    slices.WorkloadCreated: _created,
    variants.VariantCreated: _created,
    scheduler.PendingReasonChanged: _several,
    scheduler.WorkloadsParked: _several,
    scheduler.ClusterQueueStatusChanged: _cluster_queue,
    scheduler.LocalQueueStatusChanged: _local_queue,
    scheduler.FlavorScanAdvanced: _none,
    scheduler.TreesSettled: _none,
    slices.WorkloadUpdated: _whole,
    slices.WorkloadFinished: _whole,
    slices.WorkloadDeleted: _whole,
    scheduler.QuotaReserved: _whole,
    scheduler.Admitted: _whole,
    scheduler.QuotaReleased: _whole,
    checks.AdmissionCheckStatusChanged: _check,
    checks.CheckStateChanged: _alone,
    checks.ChecksPending: _none,
    checks.ChecksReady: _none,
    checks.ChecksRejected: _none,
    checks.ChecksRequested: _alone,
    checks.ChecksRetry: _none,
    checks.CheckRequestsUpdated: _none,
    checks.ChecksWithdrawn: _alone,
    checks.ControllerLost: _none,
    checks.ControllerSeen: _none,
    checks.PreemptionsAllowed: _none,
    checks.VerdictIgnored: _alone,
    scheduler.Preempted: _alone,
    slices.Rejected: _rejected,
}

_STAY = frozenset(
    {
        config.ObjectApplied,
        slices.WorkloadCreated,
        variants.VariantCreated,
        scheduler.PendingReasonChanged,
        scheduler.WorkloadsParked,
        scheduler.ClusterQueueStatusChanged,
        scheduler.LocalQueueStatusChanged,
        scheduler.FlavorScanAdvanced,
        scheduler.TreesSettled,
        scheduler.Admitted,
        scheduler.Preempted,
        checks.AdmissionCheckStatusChanged,
        checks.CheckStateChanged,
        checks.ChecksPending,
        checks.ChecksReady,
        checks.ChecksRejected,
        checks.ChecksRequested,
        checks.ChecksRetry,
        checks.CheckRequestsUpdated,
        checks.ChecksWithdrawn,
        checks.ControllerLost,
        checks.ControllerSeen,
        checks.PreemptionsAllowed,
        checks.VerdictIgnored,
        slices.JobResumed,
        slices.JobSuspended,
        slices.JobClaimed,
        slices.Rejected,
    }
)
