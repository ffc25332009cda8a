"""Phase of a workload, in one word: the only place that says so."""

from enum import StrEnum

from sluice.core.views.records import WorkloadView

from .unadmitted import reserving


class WorkloadPhase(StrEnum):
    """In the order in which it usually goes."""

    PENDING = "Pending"
    INACTIVE = "Inactive"
    """Deactivated: it does not queue."""
    RESERVED = "QuotaReserved"
    """It has quota and waits for its admission checks; of a parent, one of its variants does."""
    ADMITTED = "Admitted"
    RUNNING = "Running"
    """Admitted, and its pods are ready."""
    EVICTED = "Evicted"
    """It has been told to stop, and has quota until it has."""
    FINISHED = "Finished"
    FAILED = "Failed"


def workload_phase(workload: WorkloadView) -> WorkloadPhase:
    """Return the phase of a workload, parents and variants among them (CA7)."""
    conditions = workload.conditions
    finished = conditions.get("Finished")
    if finished is not None and finished.reason == "Failed":
        return WorkloadPhase.FAILED
    admitted, ready = workload.admitted_at is not None, conditions.get("PodsReady")
    races = workload.parent and not admitted and reserving(workload)
    return phase_by(
        finished=finished is not None,
        evicted=workload.evicted and "Evicted" in conditions,
        admitted=admitted,
        ready=ready is not None and ready.status,
        reserved=workload.assignment is not None or bool(races),
        active=workload.active,
    )


def phase_by(
    *, finished: bool, evicted: bool, admitted: bool, ready: bool, reserved: bool, active: bool
) -> WorkloadPhase:
    """Return the phase of what is all this at once, but for how it ended."""
    if finished:
        return WorkloadPhase.FINISHED
    if evicted:
        return WorkloadPhase.EVICTED
    if admitted:
        return WorkloadPhase.RUNNING if ready else WorkloadPhase.ADMITTED
    if reserved:
        return WorkloadPhase.RESERVED
    return WorkloadPhase.PENDING if active else WorkloadPhase.INACTIVE
