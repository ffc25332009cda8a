"""The objects, as people see them, that an event changes."""

from collections.abc import Callable, Mapping
from typing import Any

from sluice.core.config.objects import object_key
from sluice.core.views.present.slices import is_slice
from sluice.core.views.records import WorkloadView
from sluice.core.views.view import View
from sluice.events import checks, config, scheduler, slices, variants
from sluice.events.base import Event, WorkloadKey
from sluice.events.catalogue import EVENTS
from sluice.protocol.subjects import job_of

Touched = dict[str, dict[str, None]]
"""Kind -> keys of the objects that have changed, in that order; a `defaultdict(dict)`."""

_Mark = Callable[[View, Any, Touched], None]


def _workload(view: View, key: WorkloadKey, into: Touched, *, queues: bool) -> None:
    workload = view.workloads.get(key)
    if workload is None:
        into["Workload"][key] = None
        return
    key = workload.key  # the view's own text, which lasts as long as this note of it
    into["Workload"][key] = None
    record = workload.record
    if record.parent is not None:
        into["Variant"][key] = into["Workload"][record.parent] = None
    if is_slice(workload):
        into["Slice"][key] = None
    if record.job is not None:
        into["Job"][record.job.key] = None
    if queues:
        for victim in workload.victims:
            # Whom it is to preempt people are told, of each of them.
            _workload(view, victim, into, queues=False)
        local = workload.local_queue
        into["LocalQueue"][local.key] = None
        queue = queue_of(workload)
        if queue:
            into["ClusterQueue"][queue] = None


def queue_of(workload: WorkloadView) -> str:
    """Return the cluster queue whose quota it has, or that its local queue names; "" if there is none."""
    if workload.cluster_queue is not None:
        return workload.cluster_queue.name
    spec = workload.local_queue.spec
    return "" if spec is None else spec.cluster_queue


def _whole(view: View, event: Any, into: Touched) -> None:
    _workload(view, event.workload, into, queues=True)


def _ends(view: View, event: Any, into: Touched) -> None:
    """What becomes of a parent becomes of its variants."""
    _workload(view, event.workload, into, queues=True)
    workload = view.workloads.get(event.workload)
    for key in workload.variants if workload is not None else ():
        _workload(view, key, into, queues=False)


def _alone(view: View, event: Any, into: Touched) -> None:
    _workload(view, event.workload, into, queues=False)


def _created(view: View, event: Any, into: Touched) -> None:
    _workload(view, event.workload.key, into, queues=True)


def _several(view: View, event: Any, into: Touched) -> None:
    for key in event.workloads:
        _workload(view, key, into, queues=False)


def _object(view: View, event: Any, into: Touched) -> None:  # noqa: ARG001
    into[event.kind][object_key(event.kind, event.namespace, event.name)] = None


def _cluster_queue(view: View, event: Any, into: Touched) -> None:  # noqa: ARG001
    into["ClusterQueue"][event.cluster_queue] = None


def _local_queue(view: View, event: Any, into: Touched) -> None:  # noqa: ARG001
    into["LocalQueue"][event.local_queue] = None


def _check(view: View, event: Any, into: Touched) -> None:  # noqa: ARG001
    into["AdmissionCheck"][event.check] = None


def _job(view: View, event: Any, into: Touched) -> None:  # noqa: ARG001
    into["Job"][event.job] = None


def _rejected(view: View, event: Any, into: Touched) -> None:  # noqa: ARG001
    key = job_of(event.subject)
    if key is not None:
        into["Job"][key] = None


def _none(view: View, event: Any, into: Touched) -> None:
    pass


def _usual(kind: type[Event]) -> _Mark:
    """Return what holds for events not in `_SPECIAL`: they are about the job or workload that they name."""
    fields = kind.__struct_fields__
    return _job if "job" in fields else _whole if "workload" in fields else _none


_SPECIAL: dict[type[Event], _Mark] = {
    config.ObjectApplied: _object,
    config.ObjectDeleted: _object,
    slices.WorkloadCreated: _created,
    variants.VariantCreated: _created,
    scheduler.PendingReasonChanged: _several,
    scheduler.WorkloadsParked: _several,
    scheduler.ClusterQueueStatusChanged: _cluster_queue,
    scheduler.LocalQueueStatusChanged: _local_queue,
    scheduler.FlavorScanAdvanced: _none,
    slices.WorkloadFinished: _ends,
    slices.WorkloadDeleted: _ends,
    checks.AdmissionCheckStatusChanged: _check,
    checks.CheckStateChanged: _alone,
    checks.ChecksPending: _none,
    checks.ChecksReady: _none,
    checks.ChecksRejected: _none,
    checks.ChecksRequested: _alone,
    checks.ChecksRetry: _alone,
    checks.CheckRequestsUpdated: _none,
    checks.ChecksWithdrawn: _alone,
    checks.PreemptionsAllowed: _none,
    checks.VerdictIgnored: _alone,
    scheduler.Preempted: _alone,
    slices.Rejected: _rejected,
}

MARKS: Mapping[type[Event], _Mark] = {kind: _usual(kind) for kind in EVENTS.values()} | _SPECIAL
"""What notes the objects that an event changes, as far as the view knows them."""

STAY = frozenset(
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
"""Events that change the same objects before and after they are folded."""
