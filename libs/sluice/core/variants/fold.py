"""Fold of the variant-controller: parents here, the rest beside. No choices here."""

from collections.abc import Callable
from typing import Any

import msgspec

from sluice.api.labels import CONCURRENT_ADMISSION_PARENT
from sluice.core.workload.reasons import JOB_DELETED, NO_MATCHING_WORKLOAD
from sluice.events import scheduler, slices, variants
from sluice.events.base import Event, Micros

from .fold_config import CONFIG_HANDLERS
from .fold_quota import QUOTA_HANDLERS
from .fold_turns import TURN_HANDLERS
from .fold_variants import VARIANT_HANDLERS
from .state import Family, State


def _created(state: State, event: slices.WorkloadCreated, seq: int, _at: Micros) -> None:
    record = event.workload
    key = record.key
    if record.parent is not None or key in state.families:
        return
    family = Family(record, key, record.created_at, active=record.active)
    state.families[key] = family
    _join(state, family)
    state.touch(family, seq)


def _join(state: State, family: Family) -> None:
    record = family.record
    state.by_queue.setdefault(f"{record.namespace}/{record.queue_name}", {})[family.key] = None


def _leave(state: State, family: Family) -> None:
    record = family.record
    local = f"{record.namespace}/{record.queue_name}"
    members = state.by_queue.get(local)
    if members is not None:
        members.pop(family.key, None)
        if not members:
            del state.by_queue[local]


def _updated(state: State, event: slices.WorkloadUpdated, seq: int, _at: Micros) -> None:
    family = state.families.get(event.workload)
    if family is None:
        return
    changes = event.changes
    _leave(state, family)
    family.record = msgspec.structs.replace(family.record, **changes)
    family.changes += event.pod_sets is not None
    _join(state, family)
    if event.active is not None:
        family.switched_by = event.cause
        if event.active and not family.active:
            # Whoever starts it again means it.
            for variant in family.variants.values():
                variant.rejected = False
                variant.failed = variant.failed_message = ""
        family.active = event.active
    state.touch(family, seq)


def _gone(
    state: State,
    event: slices.WorkloadFinished | slices.WorkloadDeleted | scheduler.WorkloadSliceReplaced,
    _seq: int,
    _at: Micros,
) -> None:
    """Its variants go with it."""
    family = state.families.pop(event.workload, None)
    if family is None:
        return
    _leave(state, family)
    for key in family.variants:
        state.of_variant.pop(key, None)
    state.altered(family)
    state.todo.pop(family.key, None)
    state.deadlines.set(family.key, None)


def _stopped(state: State, event: slices.WorkloadStopped, seq: int, _at: Micros) -> None:
    family = state.families.get(event.workload)
    if family is None:
        return
    if family.running is not None:
        family.stopped = True
        family.stopped_reason, family.stopped_message = event.reason, event.message
        state.touch(family, seq)
    elif family.runs_alone:
        family.runs_alone = False
        state.touch(family, seq)


def _suspended(state: State, event: slices.JobSuspended, seq: int, _at: Micros) -> None:
    family = state.families.get(event.workload)
    if family is not None and event.reason in (JOB_DELETED, NO_MATCHING_WORKLOAD):
        family.ending = True
        state.touch(family, seq)


def _pods_ready(state: State, event: slices.WorkloadPodsReady, seq: int, _at: Micros) -> None:
    family = state.families.get(event.workload)
    if family is not None and family.running is not None:
        family.ready = event.ready
        state.touch(family, seq)


def _reclaimable(state: State, event: slices.ReclaimablePodsUpdated, seq: int, _at: Micros) -> None:
    family = state.families.get(event.workload)
    if family is not None and family.running is not None:
        family.reclaimed = dict(event.pods)
        state.touch(family, seq)


def _marked(
    state: State, event: variants.ParentMarked | variants.ParentUnmarked, _seq: int, _at: Micros
) -> None:
    family = state.families.get(event.workload)
    if family is None:
        return
    family.marked = isinstance(event, variants.ParentMarked)
    labels = {k: v for k, v in family.record.labels.items() if k != CONCURRENT_ADMISSION_PARENT}
    if family.marked:
        labels[CONCURRENT_ADMISSION_PARENT] = "true"
    family.record = msgspec.structs.replace(family.record, labels=labels)
    state.touch(family, event.cause)


def _parent_admitted(state: State, event: variants.ParentAdmitted, _seq: int, at: Micros) -> None:
    family = state.families.get(event.workload)
    if family is None:
        return
    family.running = event.variant
    family.leaving = family.stopped = family.ready = False
    family.reclaimed = {}
    if family.admitted_at is None:
        family.admitted_at = at
    state.touch(family, event.cause)


def _parent_evicted(state: State, event: variants.ParentEvicted, _seq: int, _at: Micros) -> None:
    family = state.families.get(event.workload)
    if family is not None:
        family.leaving = True
        family.leaving_reason, family.leaving_message = event.reason, event.message
        state.touch(family, event.cause)


def _parent_released(state: State, event: variants.ParentReleased, _seq: int, at: Micros) -> None:
    family = state.families.get(event.workload)
    if family is None:
        return
    family.running = None
    family.leaving = family.stopped = family.ready = False
    family.stopped_reason = family.stopped_message = ""
    family.leaving_reason = family.leaving_message = ""
    if event.reset:
        family.since = at
        family.admitted_at = None
    state.touch(family, event.cause)


def _parent_deactivated(state: State, event: variants.ParentDeactivated, _seq: int, _at: Micros) -> None:
    family = state.families.get(event.workload)
    if family is not None:
        family.active = False
        state.touch(family, event.cause)


HANDLERS: dict[type[Event], Callable[[State, Any, int, Micros], None]] = {
    **CONFIG_HANDLERS,
    **QUOTA_HANDLERS,
    **TURN_HANDLERS,
    **VARIANT_HANDLERS,
    slices.JobSuspended: _suspended,
    variants.ParentAdmitted: _parent_admitted,
    variants.ParentDeactivated: _parent_deactivated,
    variants.ParentEvicted: _parent_evicted,
    variants.ParentMarked: _marked,
    variants.ParentReleased: _parent_released,
    variants.ParentUnmarked: _marked,
    slices.ReclaimablePodsUpdated: _reclaimable,
    slices.WorkloadCreated: _created,
    slices.WorkloadDeleted: _gone,
    slices.WorkloadFinished: _gone,
    slices.WorkloadPodsReady: _pods_ready,
    scheduler.WorkloadSliceReplaced: _gone,
    slices.WorkloadStopped: _stopped,
    slices.WorkloadUpdated: _updated,
}
