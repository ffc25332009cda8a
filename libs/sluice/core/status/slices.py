"""The workload slices of a job: which live, which one speaks for it, how they follow (WS9)."""

from typing import Any

from .records import JobView, WorkloadView


def lineage(job: JobView) -> list[WorkloadView]:
    """Return all slices that are kept, oldest first; at equal times the replaced one first."""
    found = sorted(job.workloads.values(), key=_age)
    for i in range(len(found) - 1):
        first, second = found[i], found[i + 1]
        if first.record.created_at == second.record.created_at and first.record.replaces == second.key:
            found[i], found[i + 1] = second, first
    return found


def live(job: JobView) -> list[WorkloadView]:
    """Return the slices that are not finished, oldest first: one, or one with quota and its replacement."""
    return [workload for workload in lineage(job) if workload.finished_at is None]


def active(job: JobView) -> WorkloadView | None:
    """Return the newest slice that holds quota and is not being evicted."""
    found = [workload for workload in live(job) if workload.holds_quota and not workload.evicted]
    return found[-1] if found else None


def described(job: JobView) -> list[dict[str, Any]]:
    """Return the lineage as the job's `status.slices` shows it."""
    return [
        {
            "name": workload.record.name,
            "replaces": (workload.record.replaces or "").partition("/")[2],
            "pods": {pods.name: pods.count for pods in workload.record.pod_sets},
            "state": _state(workload),
        }
        for workload in lineage(job)
    ]


def _age(workload: WorkloadView) -> tuple[int, str]:
    return (workload.record.created_at, workload.record.uid)


def _state(workload: WorkloadView) -> str:
    if workload.finished_at is not None:
        finished = workload.conditions.get("Finished")
        return (
            "Replaced" if finished is not None and finished.reason == "WorkloadSliceReplaced" else "Finished"
        )
    if workload.evicted:
        return "Evicted"
    if workload.admitted_at is not None:
        return "Admitted"
    return "QuotaReserved" if workload.assignment is not None else "Pending"


__all__ = ["active", "described", "lineage", "live"]
