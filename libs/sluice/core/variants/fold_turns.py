"""Fold of turns to preempt: variants looked at, blocked or held back, and the open gate (CA11)."""

from collections.abc import Callable
from typing import Any

from sluice.core.world.preemption_turns import gate_moved
from sluice.events import scheduler, variants
from sluice.events.base import Event, Micros, WorkloadKey

from .state import Family, State, Variant


def _looked_at(state: State, key: WorkloadKey, seq: int, *, blocked: bool = False) -> None:
    found = state.find(key)
    if found is not None and not (found[1].evaluated and found[1].blocked >= blocked):
        family, variant = found
        variant.evaluated = True
        variant.blocked = variant.blocked or blocked
        state.touch(family, seq)


def _parked(state: State, event: scheduler.WorkloadsParked, seq: int, _at: Micros) -> None:
    for key in event.workloads:
        _looked_at(state, key, seq)


def _blocked(state: State, event: scheduler.BlockedOnPreemptionGates, seq: int, _at: Micros) -> None:
    for key in event.after:
        _looked_at(state, key, seq)
    _looked_at(state, event.workload, seq, blocked=True)


def _verdict(
    state: State, event: scheduler.PreemptionIssued | scheduler.FlavorScanAdvanced, seq: int, _at: Micros
) -> None:
    _looked_at(state, event.workload, seq)


def _backs_off(state: State, event: scheduler.RequeueBackoffStarted, seq: int, _at: Micros) -> None:
    found = state.find(event.workload)
    if found is not None:
        found[1].promised, found[1].backs_off = False, True
        state.touch(found[0], seq)


def _preempts_now(state: State, event: scheduler.PendingPreemptionsIssued, seq: int, _at: Micros) -> None:
    """Its checks let it preempt: what was promised to it is on its way."""
    found = state.find(event.workload)
    if found is not None:
        found[1].promised = False
        state.touch(found[0], seq)


def _requeued(state: State, event: scheduler.Requeued, seq: int, _at: Micros) -> None:
    found = state.find(event.workload)
    if found is not None and found[1].backs_off:
        found[1].backs_off = False
        joins_queue(*found)
        state.touch(found[0], seq)


def joins_queue(family: Family, variant: Variant) -> None:
    """It stands before others, of which the scheduler will say again that they are blocked (CA11)."""
    if variant.active:
        for other in family.variants.values():
            if other.record.preference > variant.record.preference:
                other.blocked = False


def _gate(
    state: State, event: variants.PreemptionGateOpened | variants.PreemptionGateClosed, _seq: int, at: Micros
) -> None:
    found = state.find(event.workload)
    if found is None:
        return
    family, variant = found
    gate_moved(variant, family.variants.values(), event)
    if isinstance(event, variants.PreemptionGateOpened):
        variant.gate_at = at
        variant.blocked = False
    else:
        variant.gate_at = None
        family.close_gates = family.close_gates and any_gate(family)
        if event.spent:
            _leave_it_to_others(family, variant, at)
    state.touch(family, event.cause)


def _leave_it_to_others(family: Family, variant: Variant, at: Micros) -> None:
    """Its turn is over: those behind it stand back no more, and are looked at again (CA11)."""
    family.closed_at = at
    for other in family.variants.values():
        if other.record.preference > variant.record.preference and not (other.spent or other.blocked):
            other.evaluated = False


def any_gate(family: Family) -> bool:
    return any(variant.gate_at is not None for variant in family.variants.values())


TURN_HANDLERS: dict[type[Event], Callable[[State, Any, int, Micros], None]] = {
    scheduler.BlockedOnPreemptionGates: _blocked,
    scheduler.FlavorScanAdvanced: _verdict,
    scheduler.PendingPreemptionsIssued: _preempts_now,
    variants.PreemptionGateClosed: _gate,
    variants.PreemptionGateOpened: _gate,
    scheduler.PreemptionIssued: _verdict,
    scheduler.RequeueBackoffStarted: _backs_off,
    scheduler.Requeued: _requeued,
    scheduler.WorkloadsParked: _parked,
}
