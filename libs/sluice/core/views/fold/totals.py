"""Fold of what is counted for operators (`totals`): each looks at the view as it is before its event."""

from collections.abc import Callable
from typing import Any

from sluice.api.labels import WORKLOAD_SLICE_NAME
from sluice.core.slices.responses import SLICE_REPLACED
from sluice.core.views.records import LocalQueueView, WorkloadView
from sluice.core.views.state import State
from sluice.core.views.totals import (
    CONSTRAINED,
    SLICES_CREATED,
    SLICES_DELETED,
    SLICES_REPLACED,
    SLICES_RESIZED,
    SLICES_WAITED,
    count,
)
from sluice.core.world.inadmissible import constraints_in
from sluice.events.base import Event, Micros
from sluice.events.scheduler import PendingReasonChanged, WorkloadSliceReplaced, WorkloadsParked
from sluice.events.slices import WorkloadCreated, WorkloadDeleted, WorkloadUpdated

from .variant_totals import VARIANT_TOTAL_FOLDS


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


def queue_name(workload: WorkloadView) -> str:
    """Return the cluster queue whose quota the workload has, or that it waits for; '' if there is none."""
    held = workload.cluster_queue
    return held.name if held is not None else _cluster_queue_of(workload.local_queue)


def _cluster_queue_of(local: LocalQueueView | None) -> str:
    return local.cluster_queue.name if local is not None and local.cluster_queue is not None else ""


TOTAL_FOLDS: dict[type[Event], Callable[[State, Any, Micros], None]] = {
    PendingReasonChanged: _verdict,
    WorkloadCreated: _created,
    WorkloadDeleted: _deleted,
    WorkloadSliceReplaced: _replaced,
    WorkloadUpdated: _updated,
    WorkloadsParked: _verdict,
    **VARIANT_TOTAL_FOLDS,
}
