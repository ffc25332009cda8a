"""The workload slices of a job: which live, which one speaks for it, how they follow (WS9)."""

from typing import Any

from sluice.api.labels import WORKLOAD_SLICE_NAME
from sluice.core.views.records import JobView, WorkloadView
from sluice.core.workload.charges import counts


def lineage(job: JobView) -> list[WorkloadView]:
    """Return all slices that are kept, oldest first; at equal times the replaced one first."""
    found = sorted(job.workloads.values(), key=lambda w: (w.record.created_at, w.record.uid))
    for i in range(len(found) - 1):
        first, second = found[i], found[i + 1]
        if first.record.created_at == second.record.created_at and first.record.replaces == second.key:
            found[i], found[i + 1] = second, first
    return found


def live(job: JobView) -> list[WorkloadView]:
    """Return the slices that are not finished, oldest first: one, or one with quota and its replacement."""
    return [workload for workload in lineage(job) if workload.finished_at is None]


def described(job: JobView) -> list[dict[str, Any]]:
    """Return the lineage as the job's `status.slices` shows it."""
    return [
        {
            "name": workload.record.name,
            "replaces": (workload.record.replaces or "").partition("/")[2],
            "pods": counts(workload.record.pod_sets),
            "state": _state(workload),
        }
        for workload in lineage(job)
    ]


def waiting(job: JobView) -> WorkloadView | None:
    """Return the slice that a job is to grow into, not admitted yet while its older one holds quota."""
    found = live(job)
    if len(found) < 2 or found[-1].admitted_at is not None or not found[0].holds_quota:
        return None
    return found[-1]


def place(job: JobView, workload: WorkloadView) -> dict[str, Any]:
    """Return what one slice is among those of its job: `gated` pods wait for its admission (WS7)."""
    record = workload.record
    pods = counts(record.pod_sets)
    found: dict[str, Any] = {
        "name": record.annotations.get(WORKLOAD_SLICE_NAME, ""),
        "state": _state(workload),
        "pods": pods,
    }
    if record.replaces is not None:
        found["replaces"] = record.replaces.partition("/")[2]
    after = next((other for other in job.workloads.values() if other.record.replaces == workload.key), None)
    if after is not None:
        found["replacedBy" if workload.finished_at is not None else "toBeReplacedBy"] = after.record.name
    old = job.workloads.get(record.replaces) if record.replaces is not None else None
    if workload.admitted_at is None and old is not None and old.holds_quota:
        had = counts(old.assignment or ())
        found["gated"] = {name: n - had.get(name, 0) for name, n in pods.items() if n > had.get(name, 0)}
    return found


def is_slice(workload: WorkloadView) -> bool:
    """Tell whether it is a slice of an elastic job (WS1)."""
    return WORKLOAD_SLICE_NAME in workload.record.annotations


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


__all__ = ["described", "is_slice", "place", "waiting"]
