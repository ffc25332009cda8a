"""Where in its life a workload is, in one word: the only place that says so."""

from enum import StrEnum

from sluice.core.views.records import WorkloadView

from .unadmitted import reserving

__all__ = ["WorkloadPhase", "workload_phase"]


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
    if finished is not None:
        return WorkloadPhase.FAILED if finished.reason == "Failed" else WorkloadPhase.FINISHED
    if workload.evicted and "Evicted" in conditions:
        return WorkloadPhase.EVICTED
    if workload.admitted_at is not None:
        ready = conditions.get("PodsReady")
        return WorkloadPhase.RUNNING if ready is not None and ready.status else WorkloadPhase.ADMITTED
    if workload.assignment is not None or (workload.parent and reserving(workload)):
        return WorkloadPhase.RESERVED
    return WorkloadPhase.PENDING if workload.active else WorkloadPhase.INACTIVE
