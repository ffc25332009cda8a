"""Fold of how long workloads wait, for quota and for their admission checks, and how long they run."""

from sluice.core.views.records import WorkloadView
from sluice.core.views.state import State
from sluice.core.views.totals import (
    ADMISSION_WAIT,
    CHECKS_WAIT,
    QUOTA_RESERVED,
    QUOTA_WAIT,
    Exemplar,
    count,
    waited,
)
from sluice.events.base import Micros
from sluice.events.scheduler import Admitted, QuotaReserved


def observe(state: State, metric: str, cluster_queue: str, micros: int, at: Micros) -> None:
    """Count a time that has ended with the event that is folded, decided at *at*."""
    waited(state.totals, state.exemplars, metric, cluster_queue, Exemplar(micros, state.seq, at))


def reserved(state: State, event: QuotaReserved, at: Micros) -> None:
    """Count the wait for quota. Variants have none of their own: their parent waits for one of them."""
    workload = state.workloads.get(event.workload)
    if workload is None or workload.record.parent is not None:
        return
    count(state.totals, QUOTA_RESERVED, event.cluster_queue)
    observe(state, QUOTA_WAIT, event.cluster_queue, at - waiting_since(workload), at)


def waiting_since(workload: WorkloadView) -> Micros:
    """Return since when a workload without quota has waited: its creation, or when it was requeued."""
    requeued = workload.conditions.get("Requeued")
    since = requeued.since if requeued is not None and requeued.status else workload.record.created_at
    # What has run through variants was not requeued itself.
    return max(since, workload.unadmitted_at or 0)


def admitted(state: State, event: Admitted, at: Micros) -> None:
    """Count the wait for checks, which is none where there are none, and the wait in all."""
    workload = state.workloads.get(event.workload)
    if workload is None or workload.cluster_queue is None or workload.reserved_at is None:
        return
    if workload.check_attempt:
        observe(state, CHECKS_WAIT, workload.cluster_queue.name, at - workload.reserved_at, at)
    if workload.record.parent is None:
        observe(state, ADMISSION_WAIT, workload.cluster_queue.name, at - waiting_since(workload), at)


def ran(state: State, workload: WorkloadView, at: Micros) -> None:
    """Add to the time that the workload, and its job, was admitted: an admission ends at *at*."""
    if workload.admitted_at is None:
        return
    took = max(0, at - workload.admitted_at)
    workload.past_execution_us += took
    workload.ran_us += took
    job = state.jobs.get(workload.record.job.key) if workload.record.job is not None else None
    if job is not None:
        job.ran_us += took
