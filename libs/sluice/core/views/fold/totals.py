"""Fold of what is counted for operators (`totals`): each looks at the view as it is before its event."""

from collections.abc import Callable
from typing import Any

from sluice.api.labels import WORKLOAD_SLICE_NAME
from sluice.core.slices.responses import SLICE_REPLACED
from sluice.core.views.records import LocalQueueView, WorkloadView
from sluice.core.views.state import State
from sluice.core.views.totals import (
    CONSTRAINED,
    EXECUTION,
    FINISHED,
    PREEMPTED,
    SLICES_CREATED,
    SLICES_DELETED,
    SLICES_REPLACED,
    SLICES_RESIZED,
    SLICES_WAITED,
    count,
)
from sluice.core.world.inadmissible import constraints_in
from sluice.events.base import Event, Micros
from sluice.events.scheduler import PendingReasonChanged, Preempted, WorkloadSliceReplaced, WorkloadsParked
from sluice.events.slices import WorkloadCreated, WorkloadDeleted, WorkloadFinished, WorkloadUpdated

from .variant_totals import VARIANT_TOTAL_FOLDS
from .waits import observe


def _created(state: State, event: WorkloadCreated, _at: Micros) -> None:
    record = event.workload
    if record.replaces is not None:
        local = state.local_queues.get(f"{record.namespace}/{record.queue_name}")
        count(state.totals, SLICES_CREATED, _cluster_queue_of(local))


def _updated(state: State, event: WorkloadUpdated, _at: Micros) -> None:
    workload = state.workloads.get(event.workload)
    if workload is None or event.pod_sets is None or WORKLOAD_SLICE_NAME not in workload.record.annotations:
        return
    had = "admitted" if workload.admitted_at is not None else "pending"
    count(state.totals, SLICES_RESIZED, queue_name(workload), had)


def _replaced(state: State, event: WorkloadSliceReplaced, at: Micros) -> None:
    old, new = state.workloads.get(event.workload), state.workloads.get(event.by)
    if old is None or new is None or old.finished_at is not None:
        return
    count(state.totals, SLICES_REPLACED, queue_name(old))
    count(state.totals, SLICES_WAITED, queue_name(old), n=max(0, at - new.record.created_at))


def _deleted(state: State, event: WorkloadDeleted, _at: Micros) -> None:
    workload = state.workloads.get(event.workload)
    finished = workload.conditions.get("Finished") if workload is not None else None
    if workload is not None and finished is not None and finished.reason == SLICE_REPLACED:
        count(state.totals, SLICES_DELETED, queue_name(workload))


def _verdict(state: State, event: PendingReasonChanged | WorkloadsParked, _at: Micros) -> None:
    """AX4: what names a workload's own constraint is told apart from what waits for others."""
    for constraint in constraints_in(event.message):
        for key in event.workloads:
            workload = state.workloads.get(key)
            if workload is not None:
                count(state.totals, CONSTRAINED, queue_name(workload), constraint)


def _preempted(state: State, event: Preempted, _at: Micros) -> None:
    count(state.totals, PREEMPTED, event.preemptor_path.rpartition("/")[2], event.rule)


def _finished(state: State, event: WorkloadFinished, at: Micros) -> None:
    """Count a job that is over, once: not its slices that were replaced, and variants with their parent."""
    workload = state.workloads.get(event.workload)
    if workload is None or workload.finished_at is not None or event.reason == SLICE_REPLACED:
        return
    count(state.totals, FINISHED, queue_name(workload), event.reason or "Succeeded")
    job = state.jobs.get(workload.record.job.key) if workload.record.job is not None else None
    before = workload.ran_us if job is None else job.ran_us
    now = 0 if workload.admitted_at is None else max(0, at - workload.admitted_at)
    observe(state, EXECUTION, queue_name(workload), before + now, at)


def queue_name(workload: WorkloadView) -> str:
    """Return the cluster queue whose quota the workload has, or that it waits for; '' if there is none."""
    held = workload.cluster_queue
    return held.name if held is not None else _cluster_queue_of(workload.local_queue)


def _cluster_queue_of(local: LocalQueueView | None) -> str:
    return local.cluster_queue.name if local is not None and local.cluster_queue is not None else ""


TOTAL_FOLDS: dict[type[Event], Callable[[State, Any, Micros], None]] = {
    PendingReasonChanged: _verdict,
    WorkloadCreated: _created,
    Preempted: _preempted,
    WorkloadDeleted: _deleted,
    WorkloadFinished: _finished,
    WorkloadSliceReplaced: _replaced,
    WorkloadUpdated: _updated,
    WorkloadsParked: _verdict,
    **VARIANT_TOTAL_FOLDS,
}
