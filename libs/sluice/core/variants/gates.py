"""Preemption gates: one of a family is open at a time, each in its turn (CA11, decision 0017)."""

from collections.abc import Sequence

from sluice.api.labels import GATE_CONCURRENT_ADMISSION
from sluice.events.base import Event, Micros
from sluice.events.variants import PreemptionGateClosed, PreemptionGateOpened

from .state import Family, Variant


def gates(family: Family, at: Micros, timeout: Micros) -> list[Event]:
    """Open the gate of the first variant that is blocked, one at a time (CA11)."""
    if family.close_gates:
        return [_close(family, v) for v in family.variants.values() if v.gate_at is not None]
    events: list[Event] = []
    holder = _gate_holder(family)
    if holder is not None and holder.gate_at is not None:
        if not holder.active:
            return [_close(family, holder)]
        if at < holder.gate_at + timeout:
            return []
        if keeps_its_turn(family, holder):
            return []
        events.append(_close(family, holder, spent=True))
        if first_candidate(_without_turn(family)) is None and _leaves_it_to(family, holder, unspent=True):
            return events  # before the next round those are looked at that need nobody to go
    candidate = _next_gate(family)
    if candidate is not None and candidate.spent and at < _next_round(family, timeout):
        return events
    if candidate is None or not family.active:
        return events if holder is not None and _leaves_it_to(family, holder) else []
    message = f'Opened preemption gate for variant workload "{candidate.key}"'
    events.append(
        PreemptionGateOpened(
            cause=family.cause,
            workload=candidate.key,
            parent=family.key,
            gate=GATE_CONCURRENT_ADMISSION,
            message=message,
        )
    )
    return events


def _close(family: Family, variant: Variant, *, spent: bool = False) -> PreemptionGateClosed:
    return PreemptionGateClosed(
        cause=family.cause,
        workload=variant.key,
        parent=family.key,
        gate=GATE_CONCURRENT_ADMISSION,
        spent=spent,
    )


def _gate_holder(family: Family) -> Variant | None:
    return next((variant for variant in family.variants.values() if variant.gate_at is not None), None)


def keeps_its_turn(family: Family, holder: Variant) -> bool:
    """May the gate stay open, though its time is over (CA11)?

    It does when nobody else needs the turn. With quota that is only promised, it does when the others have
    had theirs: a gate that closes takes the promise back, and variants whose checks take longer than a turn
    would be asked for one after the other, without end (AC6).
    """
    if holder.assignment is None:
        return False
    return _next_gate(family) is None or (holder.promised and first_candidate(_without_turn(family)) is None)


def _leaves_it_to(family: Family, holder: Variant, *, unspent: bool = False) -> bool:
    """Does a less preferred variant wait for what becomes of the one whose gate is open (decision 0017)?

    It may start when that one has had its turn. `unspent`: one that has had none in this round.
    """
    if holder.assignment is not None:
        return False
    running = family.variants.get(family.running) if family.running is not None else None
    most = running.record.preference if running is not None else len(family.variants)
    return any(
        _is_queued(v) and holder.record.preference < v.record.preference < most
        for v in family.variants.values()
        if not (unspent and v.spent)
    )


def _next_gate(family: Family) -> Variant | None:
    """Return whose gate is to be opened next: who has not had a turn in this round before who has."""
    waiting = _waiting(family)
    if any(gate != GATE_CONCURRENT_ADMISSION for v in waiting for gate in v.record.preemption_gates):
        return None  # a gate that the job was born with keeps all of them from preempting
    return first_candidate(_without_turn(family)) or first_candidate([v for v in waiting if v.spent])


def _waiting(family: Family) -> list[Variant]:
    return [v for v in family.variants.values() if _is_queued(v) and v.gate_at is None]


def _is_queued(variant: Variant) -> bool:
    """Is the scheduler to look at it? Nobody waits for the turn of one that backs off."""
    return variant.active and variant.assignment is None and not variant.backs_off


def _without_turn(family: Family) -> list[Variant]:
    """Return those that wait, and have had no turn in this round."""
    return [v for v in _waiting(family) if not v.spent]


def _next_round(family: Family, timeout: Micros) -> Micros:
    """Return when those that have had their turn may have another one, if only they need to preempt.

    The others may take what is free before that: at once, when the scheduler has looked at them, or when
    they have had as long for it as each of those.
    """
    if family.closed_at is None or all(v.evaluated for v in _without_turn(family)):
        return 0
    return family.closed_at + timeout


def first_candidate(variants: Sequence[Variant]) -> Variant | None:
    """Return the first blocked variant, if all that come before it have been evaluated."""
    for variant in variants:
        if variant.blocked:
            return variant
        if not variant.evaluated:
            return None
    return None


def gate_deadline(family: Family, timeout: Micros) -> Micros | None:
    """Return when a gate of a settled family is closed, or opened, of its own accord."""
    holder, candidate = _gate_holder(family), _next_gate(family)
    if holder is None:
        due = _next_round(family, timeout) if candidate is not None and candidate.spent else 0
        return due or None
    if keeps_its_turn(family, holder):
        return None
    if holder.gate_at is not None and (candidate is not None or _leaves_it_to(family, holder)):
        return holder.gate_at + timeout
    return None


__all__ = ["keeps_its_turn"]
