"""Fold of families: parents show what their variants are given, and count once (CA7, CA8, CA14).

What is said of variants means what is said of other workloads, so only the rest is here.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from sluice.api.labels import CONCURRENT_ADMISSION_PARENT
from sluice.core.views.holding import give_back
from sluice.core.views.records import PendingReason
from sluice.core.views.state import State
from sluice.core.workload import reasons as ev
from sluice.core.world.preemption_turns import gate_moved
from sluice.events import variants
from sluice.events.base import Event, Micros

from .common import condition, dequeue, enqueue, goes_on, got_quota_again, remember, stops, told
from .waits import ran
from .workloads import deactivated, remove


def _marked(
    state: State, event: variants.ParentMarked | variants.ParentUnmarked, seq: int, at: Micros
) -> None:
    workload = told(state, event, seq, at)
    if workload is None:
        return
    dequeue(workload)
    labels = {k: v for k, v in workload.record.labels.items() if k != CONCURRENT_ADMISSION_PARENT}
    workload.parent = isinstance(event, variants.ParentMarked)
    if workload.parent:
        labels[CONCURRENT_ADMISSION_PARENT] = "true"
        state.parents[workload.key] = None
    else:
        state.parents.pop(workload.key, None)
    workload.record = msgspec.structs.replace(workload.record, labels=labels)
    enqueue(workload)


# What becomes of a parent is what becomes of the places of its variants, so it is a new version of the queue.


def _admitted(state: State, event: variants.ParentAdmitted, seq: int, at: Micros) -> None:
    workload = told(state, event, seq, at)
    if workload is None:
        return
    workload.local_queue.version += 1
    # In logs of old, a parent could still have quota of its own.
    give_back(state, workload)
    dequeue(workload)
    workload.charge = {}
    workload.cluster_queue = state.named_queue(event.cluster_queue)
    workload.assignment = event.pod_sets
    workload.reserved_at = workload.admitted_at = workload.started_at = at
    workload.reserved_generation = workload.generation
    workload.admitted_message = event.message
    workload.local_queue.running_parents[workload.key] = None
    workload.evicted = False
    got_quota_again(workload, at)
    if moved := goes_on(workload, event.pod_sets, at, event.variant):
        workload.migrations = (*workload.migrations[:-1], moved)


def _evicted(state: State, event: variants.ParentEvicted, seq: int, at: Micros) -> None:
    workload = told(state, event, seq, at)
    if workload is None:
        return
    workload.local_queue.version += 1
    workload.evicted = True
    why = f"{event.message}: {event.cause_message}" if event.cause_message else event.message
    condition(workload, "Evicted", True, event.reason, why, at)
    counted = (event.reason, event.cause_reason)
    workload.evictions = {**workload.evictions, counted: workload.evictions.get(counted, 0) + 1}
    stops(workload, event.cause_reason or event.reason, seq, at)


def _released(state: State, event: variants.ParentReleased, seq: int, at: Micros) -> None:
    workload = told(state, event, seq, at)
    if workload is None:
        return
    ran(state, workload, at)
    workload.local_queue.version += 1
    give_back(state, workload)
    workload.cluster_queue = workload.assignment = workload.reserved_at = workload.admitted_at = None
    workload.released_at = workload.unadmitted_at = at
    workload.evicted = False
    enqueue(workload)
    if "PodsReady" in workload.conditions:
        condition(workload, "PodsReady", False, ev.WAIT_FOR_START, ev.WAIT_FOR_START_MESSAGE, at)


# Variants, beside what holds for every workload


def _created(state: State, event: variants.VariantCreated, seq: int, at: Micros) -> None:
    parent = state.live(event.workload.parent) if event.workload.parent is not None else None
    variant = state.workloads.get(event.workload.key)
    if parent is not None and variant is not None:
        variant.variant = event.variant
        parent.variants = {**parent.variants, variant.key: variant}
        remember(parent, event, seq, at)


def _deleted(state: State, event: variants.VariantDeleted, seq: int, at: Micros) -> None:
    parent = state.workloads.get(event.parent)
    remove(state, event.workload)
    if parent is not None:
        remember(parent, event, seq, at)


def _switched(
    state: State, event: variants.VariantActivated | variants.VariantDeactivated, seq: int, at: Micros
) -> None:
    parent, variant = state.workloads.get(event.parent), state.workloads.get(event.workload)
    if parent is not None:
        remember(parent, event, seq, at)
    if variant is not None:
        remember(variant, event, seq, at)
        if isinstance(event, variants.VariantDeactivated):
            blocked = variant.conditions.get("BlockedOnPreemptionGates")
            if blocked is not None and blocked.status:
                condition(variant, "BlockedOnPreemptionGates", False, ev.DEACTIVATED, event.message, at)
            # The fold of the update that this is has forgotten any older reason.
            variant.pending = PendingReason(ev.DEACTIVATED, event.message, seq, at)


def _updated(state: State, event: variants.VariantUpdated, _seq: int, _at: Micros) -> None:
    variant = state.live(event.workload)
    if variant is not None and event.preference is not None:
        dequeue(variant)
        variant.record = msgspec.structs.replace(variant.record, preference=event.preference)
        enqueue(variant)
    if variant is not None and event.allowed_flavors is not None:
        variant.record = msgspec.structs.replace(variant.record, allowed_flavors=event.allowed_flavors)


def _gate(
    state: State, event: variants.PreemptionGateOpened | variants.PreemptionGateClosed, seq: int, at: Micros
) -> None:
    variant = told(state, event, seq, at)
    if variant is None:
        return
    parent = state.workloads.get(event.parent)
    if parent is not None:
        remember(parent, event, seq, at)
    opened = isinstance(event, variants.PreemptionGateOpened)
    gate_moved(variant, parent.variants.values() if parent is not None else (), event)
    variant.turn = seq if opened and variant.assignment is None else 0
    variant.gates = {**variant.gates, event.gate: (opened, at)}
    if opened and "BlockedOnPreemptionGates" in variant.conditions:
        message = "The preemption gate is open"
        condition(variant, "BlockedOnPreemptionGates", False, "PreemptionUngated", message, at)


VARIANT_FOLDS: dict[type[Event], Callable[[State, Any, int, Micros], None]] = {
    variants.ParentAdmitted: _admitted,
    variants.ParentDeactivated: deactivated,
    variants.ParentEvicted: _evicted,
    variants.ParentMarked: _marked,
    variants.ParentReleased: _released,
    variants.ParentUnmarked: _marked,
    variants.PreemptionGateClosed: _gate,
    variants.PreemptionGateOpened: _gate,
    variants.VariantActivated: _switched,
    variants.VariantCreated: _created,
    variants.VariantDeactivated: _switched,
    variants.VariantDeleted: _deleted,
    variants.VariantUpdated: _updated,
}
