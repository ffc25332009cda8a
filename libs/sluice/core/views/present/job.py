"""A job as its owner sees it: one phase, its workload, its place in the queue."""

from enum import StrEnum
from typing import Any, NamedTuple

from sluice.core.views.records import JobView, WorkloadView
from sluice.core.views.state import State
from sluice.core.world.inadmissible import Reason
from sluice.events.base import JobKey, Micros, WorkloadKey

from .pending import why_pending
from .phase import WorkloadPhase, workload_phase
from .unadmitted import assigned_flavors, told


class Phase(StrEnum):
    """Of a job, in the order in which it usually goes."""

    QUEUED = "Queued"
    SUSPENDED = "Suspended"
    """Deactivated; it will not run until it is activated again."""
    RESERVED = "QuotaReserved"
    """It has quota and waits for its admission checks."""
    ADMITTED = "Admitted"
    RUNNING = "Running"
    STOPPING = "Stopping"
    """Evicted, deleted or to be exchanged for another workload, and not stopped yet."""
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class JobStatus(NamedTuple):
    """`reason` and `message` say why it is in that phase, where there is something to say."""

    key: JobKey
    kind: str
    phase: Phase
    workload: WorkloadKey
    queue_name: str
    cluster_queue: str
    attempt: int
    priority: int
    created_at: Micros
    admitted_at: Micros | None = None
    started_at: Micros | None = None
    """Of the present start; a job that was resized since goes on (WS4)."""
    finished_at: Micros | None = None
    reason: str = ""
    message: str = ""
    evictions: int = 0


def job_status(view: State, job: JobView) -> JobStatus:
    """Return the job's status, from its current workload, but for its place in the queue (`position`)."""
    workload = current(job)
    phase = _phase(workload, job)
    deleted = phase is Phase.STOPPING and not workload.evicted
    reason, message = (job.reason, job.message) if deleted else because(view, workload)
    return JobStatus(
        key=job.key,
        kind=job.reference.kind,
        phase=phase,
        workload=workload.key,
        queue_name=workload.record.queue_name,
        cluster_queue=workload.cluster_queue_name,
        attempt=job.attempt,
        priority=workload.record.priority,
        created_at=workload.record.created_at,
        admitted_at=workload.admitted_at,
        started_at=workload.started_at,
        finished_at=workload.finished_at,
        reason=reason,
        message=message,
        evictions=sum(workload.evictions.values()),
    )


def status_fields(status: JobStatus, job: JobView) -> dict[str, Any]:
    """Return what is shown of a job's status, wherever it is; readers leave out what is empty."""
    workload = current(job)
    return {
        "phase": str(status.phase),
        "queue": status.queue_name,
        "clusterQueue": status.cluster_queue,
        "priority": status.priority,
        "priorityClass": workload.record.priority_class,
        "workload": status.workload.partition("/")[2],
        "attempts": status.attempt,
        "executor": job.executor,
        "evictions": status.evictions,
        "reason": status.reason,
        "message": status.message,
        "flavors": assigned_flavors(workload),
        "podSets": [{"name": pod_set.name, "count": pod_set.count} for pod_set in workload.record.pod_sets],
        "pods": sum(pod_set.count for pod_set in workload.record.pod_sets),
    }


def current(job: JobView) -> WorkloadView:
    """Return the workload that speaks for the job: the admitted one, else the newest, unfinished first."""
    best: WorkloadView | None = None
    for workload in job.workloads.values():
        if best is None or _rank(workload) >= _rank(best):
            best = workload
    assert best is not None, "a job goes with its last workload"
    return best


def is_over(job: JobView) -> bool:
    """Tell whether the job has ended."""
    return current(job).finished_at is not None


def _rank(workload: WorkloadView) -> int:
    if workload.finished_at is not None:
        return 0
    return 1 if workload.admitted_at is None else 2


def phase_of(job: JobView) -> Phase:
    """Return the phase alone, which costs much less than all that is to be said of it."""
    return _phase(current(job), job)


def _phase(workload: WorkloadView, job: JobView) -> Phase:
    phase = workload_phase(workload)
    if phase in (WorkloadPhase.RUNNING, WorkloadPhase.ADMITTED) and not job.running:
        return Phase.STOPPING if _must_stop(workload, job) else Phase.ADMITTED
    return _PHASES[phase]


def _must_stop(workload: WorkloadView, job: JobView) -> bool:
    """Was the job of an admitted workload told to stop, though nobody has evicted that?

    It is deleted, or gets another workload. What it was stopped for before this admission is over.
    """
    admitted_at = workload.admitted_at
    return bool(job.reason) and admitted_at is not None and admitted_at <= job.changed_at


_PHASES = {
    WorkloadPhase.PENDING: Phase.QUEUED,
    WorkloadPhase.INACTIVE: Phase.SUSPENDED,
    WorkloadPhase.RESERVED: Phase.RESERVED,
    WorkloadPhase.ADMITTED: Phase.ADMITTED,
    WorkloadPhase.RUNNING: Phase.RUNNING,
    WorkloadPhase.EVICTED: Phase.STOPPING,
    WorkloadPhase.FINISHED: Phase.SUCCEEDED,
    WorkloadPhase.FAILED: Phase.FAILED,
}


def because(view: State, workload: WorkloadView) -> Reason:
    """Return why a workload is in its phase; ("", "") where there is nothing to say."""
    match workload_phase(workload):
        case WorkloadPhase.FINISHED | WorkloadPhase.FAILED:
            said = workload.conditions["Finished"]
        case WorkloadPhase.EVICTED:
            said = workload.conditions["Evicted"]
        case WorkloadPhase.RUNNING | WorkloadPhase.ADMITTED:
            return "", ""
        case WorkloadPhase.RESERVED:
            return told(view, workload)
        case _:
            return why_pending(view, workload)
    return said.reason, said.message


__all__ = ["Phase", "because", "current", "is_over", "job_status", "phase_of", "status_fields"]
