"""Fold of what is counted of families and their jobs (CA14): jobs once, variants in series of their own."""

from collections.abc import Callable, Sequence
from typing import Any

from sluice.core.views.records import WorkloadView
from sluice.core.views.state import State
from sluice.core.views.totals import (
    ADMISSION_WAIT,
    ADMITTED,
    EVICTED,
    MIGRATED,
    MIGRATION_LOST,
    READY_WAIT,
    VARIANTS_ADMITTED,
    VARIANTS_EVICTED,
    VARIANTS_SWITCHED,
    VARIANTS_UNGATED,
    count,
)
from sluice.core.workload.reasons import WAIT_FOR_START
from sluice.events import scheduler, slices, variants
from sluice.events.base import Event, Micros, PodSetAssignment

from .common import goes_on
from .waits import observe, waiting_since


def _admitted(state: State, event: scheduler.Admitted, _at: Micros) -> None:
    workload = state.workloads.get(event.workload)
    if workload is None:
        return
    if workload.record.parent is None:
        count(state.totals, ADMITTED, workload.cluster_queue_name)
        _moved(state, workload, workload.assignment, workload.cluster_queue_name)
    else:
        count(state.totals, VARIANTS_ADMITTED, workload.cluster_queue_name, workload.variant)


def _evicted(state: State, event: scheduler.Evicted, _at: Micros) -> None:
    workload = state.workloads.get(event.workload)
    if workload is None:
        return
    if workload.record.parent is None:
        count(state.totals, EVICTED, workload.cluster_queue_name, event.reason)
    else:
        count(state.totals, VARIANTS_EVICTED, workload.cluster_queue_name, workload.variant, event.reason)


def _parent_admitted(state: State, event: variants.ParentAdmitted, at: Micros) -> None:
    count(state.totals, ADMITTED, event.cluster_queue)
    parent = state.workloads.get(event.workload)
    if parent is not None:
        observe(state, ADMISSION_WAIT, event.cluster_queue, at - waiting_since(parent), at)
        _moved(state, parent, event.pod_sets, event.cluster_queue)


def _moved(
    state: State, workload: WorkloadView, assignment: Sequence[PodSetAssignment] | None, queue: str
) -> None:
    """Count the move that ends with this admission, if one does: its queue may race no more meanwhile."""
    moved = goes_on(workload, assignment, 0)
    if moved is not None and moved.is_move:
        count(state.totals, MIGRATED, queue)


def _parent_evicted(state: State, event: variants.ParentEvicted, _at: Micros) -> None:
    parent = state.workloads.get(event.workload)
    if parent is not None:
        count(state.totals, EVICTED, parent.cluster_queue_name, event.cause_reason or event.reason)


def _ready(state: State, event: slices.WorkloadPodsReady, at: Micros) -> None:
    workload = state.workloads.get(event.workload)
    if workload is None or not event.ready:
        return
    ready = workload.conditions.get("PodsReady")
    if workload.admitted_at is not None and (ready is None or ready.reason == WAIT_FOR_START):
        observe(state, READY_WAIT, workload.cluster_queue_name, at - workload.admitted_at, at)
    if not workload.migrations:
        return
    last = workload.migrations[-1]
    if last.ready_at is None and last.is_move:
        count(state.totals, MIGRATION_LOST, workload.cluster_queue_name, n=max(0, at - last.evicted_at))


_SWITCHED = {
    variants.VariantCreated: "created",
    variants.VariantDeleted: "deleted",
    variants.VariantActivated: "activated",
    variants.VariantDeactivated: "deactivated",
}


def _created(state: State, event: variants.VariantCreated, _at: Micros) -> None:
    workload = state.workloads.get(event.workload.key)
    if workload is not None:
        count(state.totals, VARIANTS_SWITCHED, workload.cluster_queue_name, event.variant, "created")


def _switched(
    state: State,
    event: variants.VariantActivated | variants.VariantDeactivated | variants.VariantDeleted,
    _at: Micros,
) -> None:
    parent = state.workloads.get(event.parent)
    variant = parent.variants.get(event.workload) if parent is not None else None
    if variant is not None:
        what = _SWITCHED[type(event)]
        count(state.totals, VARIANTS_SWITCHED, variant.cluster_queue_name, variant.variant, what)


def _ungated(state: State, event: variants.PreemptionGateOpened, _at: Micros) -> None:
    variant = state.workloads.get(event.workload)
    if variant is not None:
        count(state.totals, VARIANTS_UNGATED, variant.cluster_queue_name, variant.variant)


VARIANT_TOTAL_FOLDS: dict[type[Event], Callable[[State, Any, Micros], None]] = {
    scheduler.Admitted: _admitted,
    scheduler.Evicted: _evicted,
    variants.ParentAdmitted: _parent_admitted,
    variants.ParentEvicted: _parent_evicted,
    variants.PreemptionGateOpened: _ungated,
    variants.VariantActivated: _switched,
    variants.VariantCreated: _created,
    variants.VariantDeactivated: _switched,
    variants.VariantDeleted: _switched,
    slices.WorkloadPodsReady: _ready,
}
