"""Fold of reservations and checks into a family: of its variants, or of its own."""

from collections.abc import Callable
from typing import Any

from sluice.core.workload.additions import answered, asked
from sluice.core.workload.deactivation import is_overtaken
from sluice.core.workload.reasons import ADMISSION_CHECK, CONCURRENT_ADMISSION, FLAVOR_MIGRATION
from sluice.events import checks, scheduler
from sluice.events.base import Event, Micros, WorkloadKey

from .fold_turns import any_gate
from .state import State, within


def _reserved(state: State, event: scheduler.QuotaReserved, seq: int, _at: Micros) -> None:
    found = state.find(event.workload)
    if found is None:
        _holds(state, event.workload, True, seq)
        return
    family, variant = found
    variant.cluster_queue = event.cluster_queue
    variant.assignment, variant.observed = tuple(event.pod_sets), event.observed_generation
    if not within(variant.assignment, variant.record.allowed_flavors):
        state.altered(family)
    variant.evaluated, variant.blocked, variant.backs_off = True, False, False
    variant.promised = event.preemptions_pending
    variant.evicted = variant.stopped = variant.ready = False
    variant.reclaimed = {}
    state.touch(family, seq)


def _holds(state: State, key: WorkloadKey, holds: bool, seq: int) -> None:
    family = state.families.get(key)
    if family is not None:
        family.holds = holds
        family.runs_alone = family.makes_way = False
        state.touch(family, seq)


def _admitted(state: State, event: scheduler.Admitted, seq: int, at: Micros) -> None:
    found = state.find(event.workload)
    if found is not None:
        family, variant = found
        variant.admitted_at = at
        if variant.gate_at is not None or family.admitted_at is not None:
            # It has got in, or taken over: whatever is better still may try to preempt in its turn (CA11).
            family.close_gates = any_gate(family)
        state.touch(family, seq)
        return
    alone = state.families.get(event.workload)
    if alone is not None:
        alone.runs_alone = True


def _evicted(state: State, event: scheduler.Evicted, seq: int, _at: Micros) -> None:
    found = state.find(event.workload)
    if found is None:
        _makes_way(state, event, seq)
        return
    family, variant = found
    variant.evicted = True
    variant.evicted_reason, variant.evicted_message = event.reason, event.message
    variant.evaluated = variant.blocked = False
    if event.reason != FLAVOR_MIGRATION:
        # Who takes over keeps its gate until it is there, or what it has preempted for would be others'.
        family.close_gates = any_gate(family)
    state.touch(family, seq)


def _makes_way(state: State, event: scheduler.Evicted, seq: int) -> None:
    """A workload is evicted from quota of its own, for its variants' sake or not."""
    family = state.families.get(event.workload)
    if family is not None:
        family.makes_way = event.reason == CONCURRENT_ADMISSION
        state.touch(family, seq)


def _released(state: State, event: scheduler.QuotaReleased, seq: int, _at: Micros) -> None:
    found = state.find(event.workload)
    if found is None:
        _holds(state, event.workload, False, seq)
        return
    family, variant = found
    variant.assignment = variant.admitted_at = None
    variant.promised = False
    variant.evicted = variant.stopped = variant.ready = False
    variant.updates, variant.reclaimed = None, {}
    state.touch(family, seq)


def _failed(state: State, event: scheduler.WorkloadDeactivated, seq: int, _at: Micros) -> None:
    found = state.find(event.workload)
    if found is None:
        _switched_off(state, event, seq)
        return
    family, variant = found
    if variant.active and is_overtaken(event, variant.switched_by):
        return  # The scheduler will switch it on again when it hears of that.
    variant.active = False
    if event.reason == ADMISSION_CHECK:
        variant.rejected = True
    variant.failed, variant.failed_message = event.reason, event.message
    state.touch(family, seq)


def _switched_off(state: State, event: scheduler.WorkloadDeactivated, seq: int) -> None:
    """A workload that is no variant, and may become a parent later."""
    family = state.families.get(event.workload)
    if family is not None and not is_overtaken(event, family.switched_by):
        family.active = False
        state.touch(family, seq)


def _checks_requested(state: State, event: checks.ChecksRequested, _seq: int, _at: Micros) -> None:
    found = state.find(event.workload)
    if found is not None and found[1].admitted_at is None:
        found[1].updates = asked(found[1].updates, event)


def _check(state: State, event: checks.CheckStateChanged, _seq: int, _at: Micros) -> None:
    found = state.find(event.workload)
    if found is not None and found[1].admitted_at is None:
        answered(found[1].updates, event)


QUOTA_HANDLERS: dict[type[Event], Callable[[State, Any, int, Micros], None]] = {
    scheduler.Admitted: _admitted,
    checks.CheckStateChanged: _check,
    checks.ChecksRequested: _checks_requested,
    scheduler.Evicted: _evicted,
    scheduler.QuotaReleased: _released,
    scheduler.QuotaReserved: _reserved,
    scheduler.WorkloadDeactivated: _failed,
}
