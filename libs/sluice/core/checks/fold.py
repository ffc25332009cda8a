"""Fold of the admission-check service: each event's change of its state. No choices are left here.

`HANDLERS` says which events are folded; all others are of no concern.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from sluice.core.workload.admission_checks import (
    READY,
    REJECTED,
    RETRY,
    CheckState,
    asked_for,
    reset_on_eviction,
    retried_late,
)
from sluice.core.workload.charges import counts, shrunk
from sluice.events import checks, scheduler, slices, variants
from sluice.events.base import Event, Micros, WorkloadKey
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.events.envelope import Message

from .fold_config import applied, deleted
from .intake import presence as read_presence
from .intake import verdict as read_verdict
from .requests import SHOWN
from .state import Controller, Reservation, Retried, State, Tracked, Withdrawal
from .timeouts import asked, heard, heard_all

MAX_LOST = 4096
"""How many controllers are remembered after they were lost."""

# What comes from outside


def _message(state: State, event: Message, seq: int, _at: Micros) -> None:
    if event.subject.startswith("presence."):
        state.presence.append(read_presence(event, seq))
        return
    key, verdict = read_verdict(event, seq)
    state.receive(key, verdict)


# Configuration


# Workloads


def _created(
    state: State, event: slices.WorkloadCreated | variants.VariantCreated, _seq: int, _at: Micros
) -> None:
    record = event.workload
    if record.key in state.workloads:
        return
    state.workloads[record.key] = Tracked(record)
    if record.parent is not None:
        state.families.setdefault(record.parent, {})[record.key] = None


def _updated(
    state: State, event: slices.WorkloadUpdated | variants.VariantUpdated, seq: int, _at: Micros
) -> None:
    tracked = state.workloads.get(event.workload)
    if tracked is None:
        return
    changes = event.changes
    tracked.record = msgspec.structs.replace(tracked.record, **changes)
    reservation = tracked.reservation
    if reservation is None or reservation.over or not SHOWN.intersection(changes):
        return
    if "pod_sets" in changes:
        # WS3: what was reserved shrinks with it, as the scheduler does; what was asked of checks too.
        reservation.assignment = shrunk(reservation.assignment, counts(tracked.record.pod_sets))
    reservation.edited = reservation.requested is not None
    state.touch(tracked, seq)


def _finished(
    state: State, event: slices.WorkloadFinished | scheduler.WorkloadSliceReplaced, seq: int, _at: Micros
) -> None:
    _end(state, event.workload, "Finished", seq)


def _deleted(
    state: State, event: slices.WorkloadDeleted | variants.VariantDeleted, seq: int, _at: Micros
) -> None:
    _end(state, event.workload, "Deleted", seq)


def _end(state: State, key: WorkloadKey, why: str, seq: int) -> None:
    """The workload is gone, and its variants go with it."""
    tracked = state.workloads.get(key)
    if tracked is None:
        return
    for variant in state.families.pop(key, ()):
        _end(state, variant, why, seq)
    record, reservation = tracked.record, tracked.reservation
    siblings = state.families.get(record.parent) if record.parent is not None else None
    if siblings is not None and record.parent is not None:
        siblings.pop(key, None)
        if not siblings:
            del state.families[record.parent]
    if reservation is not None:
        _give_up(state, tracked, why, seq)
    if tracked.withdrawal is not None:
        state.gone[key] = tracked.withdrawal
    if reservation is not None:
        _leave(state, tracked, reservation)
    del state.workloads[key]
    state.todo.pop(key, None)
    if key in state.gone or key in state.verdicts:
        state.todo[key] = None


def _leave(state: State, tracked: Tracked, reservation: Reservation) -> None:
    members = state.by_queue[reservation.cluster_queue]
    del members[tracked.record.key]
    if not members:
        del state.by_queue[reservation.cluster_queue]


# Quota


def _reserved(state: State, event: scheduler.QuotaReserved, seq: int, at: Micros) -> None:
    tracked = state.workloads.get(event.workload)
    if tracked is None:
        return
    if tracked.reservation is not None:
        _give_up(state, tracked, "QuotaReleased", seq)
        _leave(state, tracked, tracked.reservation)
    tracked.attempts += 1
    tracked.retried = None
    tracked.reservation = Reservation(
        attempt=tracked.attempts,
        cluster_queue=event.cluster_queue,
        assignment=tuple(event.pod_sets),
        at=at,
        seq=seq,
        preemptions_pending=event.preemptions_pending,
    )
    state.by_queue.setdefault(event.cluster_queue, {})[event.workload] = None
    state.touch(tracked, seq)


def _admitted(state: State, event: scheduler.Admitted, seq: int, _at: Micros) -> None:
    tracked = state.workloads.get(event.workload)
    if tracked is not None and tracked.reservation is not None:
        tracked.reservation.admitted = True
        heard_all(state, tracked, tracked.reservation)
        state.touch(tracked, seq)


def _issued(state: State, event: scheduler.PendingPreemptionsIssued, seq: int, _at: Micros) -> None:
    tracked = state.workloads.get(event.workload)
    if tracked is not None and tracked.reservation is not None:
        tracked.reservation.preemptions_pending = False
        state.touch(tracked, seq)


def _evicted(state: State, event: scheduler.Evicted, seq: int, _at: Micros) -> None:
    tracked = state.workloads.get(event.workload)
    if tracked is not None:
        _give_up(state, tracked, "Evicted", seq)


def _released(state: State, event: scheduler.QuotaReleased, seq: int, _at: Micros) -> None:
    tracked = state.workloads.get(event.workload)
    if tracked is None or tracked.reservation is None:
        return
    _give_up(state, tracked, "QuotaReleased", seq)
    _leave(state, tracked, tracked.reservation)
    tracked.reservation = None


def _give_up(state: State, tracked: Tracked, why: str, seq: int) -> None:
    """The attempt is over, whoever has ended it (AC4)."""
    reservation = tracked.reservation
    if reservation is None or reservation.over:
        return
    reservation.over = why
    heard_all(state, tracked, reservation)
    if reservation.outcome == RETRY:
        tracked.retried = Retried(
            reservation.attempt, tuple(reservation.requested or ()), reservation.requeue_at
        )
    if reservation.requested is not None:
        tracked.withdrawal = Withdrawal(reservation.attempt, why, reservation.requested, seq)
    state.touch(tracked, seq)


# Its own


def _requested(state: State, event: checks.ChecksRequested, _seq: int, at: Micros) -> None:
    tracked = state.workloads.get(event.workload)
    if tracked is None or tracked.reservation is None:
        return
    reservation = tracked.reservation
    before = reservation.requested or {}
    now = {name: state.basis(name) for name in event.checks}
    # What another controller has said of a check is void.
    moved = {name for name in before if name in now and before[name].controller != now[name].controller}
    if not reservation.admitted:
        for name in sorted(moved):
            tracked.states.pop(name, None)
    new = [] if reservation.admitted else [name for name in now if name in moved or name not in before]
    tracked.states = asked_for(tracked.states, now, new, at)
    if reservation.requested is not None:
        reservation.added.update(dict.fromkeys(new, event.cause))
    reservation.requested = now
    for name in before:
        if name not in now:
            heard(state, tracked, reservation, name)
    asked(state, tracked, reservation, new, at)
    reservation.told_pending = reservation.preemptions_pending
    reservation.told_admitted = reservation.admitted
    changed = [name for name in before if before[name] != now.get(name)]
    state.restate(event.workload, before, changed)
    state.restate(event.workload, now, now)
    state.touch(tracked, event.cause)


def _requests_updated(state: State, event: checks.CheckRequestsUpdated, _seq: int, _at: Micros) -> None:
    tracked = state.workloads.get(event.workload)
    reservation = tracked.reservation if tracked is not None else None
    if reservation is not None and reservation.requested is not None:
        reservation.told_admitted = event.admitted
        reservation.told_pending = event.preemptions_pending
        reservation.edited = False
        state.restate(event.workload, reservation.requested, reservation.requested)


def _withdrawn(state: State, event: checks.ChecksWithdrawn, _seq: int, at: Micros) -> None:
    tracked = state.workloads.get(event.workload)
    withdrawal = state.gone.pop(event.workload, None)
    if withdrawal is None and tracked is not None:
        withdrawal, tracked.withdrawal = tracked.withdrawal, None
        tracked.states = {found.name: found for found in reset_on_eviction(tracked.states.values(), at)}
        state.touch(tracked, event.cause)
    if withdrawal is not None:
        state.restate(event.workload, withdrawal.requests, withdrawal.requests)


def _state_changed(state: State, event: checks.CheckStateChanged, _seq: int, at: Micros) -> None:
    state.answered(event.cause)
    tracked = state.workloads.get(event.workload)
    if tracked is None:
        return
    before = tracked.states.get(event.check)
    tracked.states[event.check] = CheckState(
        event.check,
        event.state,
        # A Retry that is said again counts its delay anew.
        before.at if before is not None and before.state == event.state != RETRY else at,
        event.message,
        event.requeue_after_s,
        event.retry_count,
        event.pod_set_updates,
        event.reason,
    )
    reservation = tracked.reservation
    if reservation is not None and reservation.requested is not None:
        heard(state, tracked, reservation, event.check)
        state.restate(event.workload, reservation.requested, (event.check,))
    state.touch(tracked, event.cause)


def _outcome(
    state: State,
    event: checks.ChecksReady | checks.ChecksPending | checks.ChecksRetry | checks.ChecksRejected,
    _seq: int,
    at: Micros,
) -> None:
    tracked = state.workloads.get(event.workload)
    if tracked is None:
        return
    if isinstance(event, checks.ChecksRetry) and tracked.retried is not None:
        state.answered(event.cause)
        tracked.retried = msgspec.structs.replace(tracked.retried, requeue_at=event.requeue_at)
        tracked.states = retried_late(tracked.states, event.checks, at)
        return
    reservation = tracked.reservation
    if reservation is None:
        return
    match event:
        case checks.ChecksReady():
            reservation.outcome = READY
        case checks.ChecksPending():
            reservation.outcome = ""
        case checks.ChecksRejected():
            reservation.outcome = REJECTED
        case checks.ChecksRetry():
            reservation.outcome = RETRY
            reservation.requeue_at = event.requeue_at
            reservation.retried = tuple(event.checks)
    state.touch(tracked, event.cause)


def _allowed(state: State, event: checks.PreemptionsAllowed, _seq: int, _at: Micros) -> None:
    tracked = state.workloads.get(event.workload)
    if tracked is not None and tracked.reservation is not None:
        tracked.reservation.allowed = True


def _ignored(state: State, event: checks.VerdictIgnored, _seq: int, _at: Micros) -> None:
    state.answered(event.cause)
    tracked = state.workloads.get(event.workload)
    reservation = tracked.reservation if tracked is not None else None
    if tracked is None or reservation is None or event.attempt != reservation.attempt:
        return
    if event.reason == "Duplicate":
        # Pending without a word changes nothing, but somebody is there.
        heard(state, tracked, reservation, event.check)


def _rejected(state: State, event: checks.CheckInputRejected, _seq: int, _at: Micros) -> None:
    if not state.answered(event.cause):
        _presence_answered(state, event.cause)


def _presence_answered(state: State, seq: int) -> None:
    if state.presence and state.presence[0].seq == seq:
        state.presence.popleft()


def _seen(state: State, event: checks.ControllerSeen, _seq: int, at: Micros) -> None:
    _presence_answered(state, event.cause)
    state.controllers.pop(event.controller, None)
    state.controllers[event.controller] = Controller(True, at, event.cause)
    _watch(state, event.controller)


def _lost(state: State, event: checks.ControllerLost, _seq: int, at: Micros) -> None:
    _presence_answered(state, event.cause)
    controllers = state.controllers
    before = controllers.pop(event.controller, None)
    # Lost once more is lost since the first time.
    since = before.since if before is not None and not before.present else at
    controllers[event.controller] = Controller(False, since, event.cause)
    _watch(state, event.controller)
    if len(controllers) > MAX_LOST:
        oldest = next((name for name, found in controllers.items() if not found.present), None)
        if oldest is not None:
            del controllers[oldest]


def _watch(state: State, controller: str) -> None:
    for name, check in state.checks.items():
        if check.spec.controller_name == controller:
            state.watched[name] = None


def _status(state: State, event: checks.AdmissionCheckStatusChanged, _seq: int, _at: Micros) -> None:
    check = state.checks.get(event.check)
    if check is not None:
        check.status = (event.active, event.reason, event.message)


HANDLERS: dict[type[Event], Callable[[State, Any, int, Micros], None]] = {
    Message: _message,
    ObjectApplied: applied,
    ObjectDeleted: deleted,
    slices.WorkloadCreated: _created,
    slices.WorkloadUpdated: _updated,
    slices.WorkloadFinished: _finished,
    scheduler.WorkloadSliceReplaced: _finished,
    slices.WorkloadDeleted: _deleted,
    variants.VariantCreated: _created,
    variants.VariantUpdated: _updated,
    variants.VariantDeleted: _deleted,
    scheduler.QuotaReserved: _reserved,
    scheduler.Admitted: _admitted,
    scheduler.PendingPreemptionsIssued: _issued,
    scheduler.Evicted: _evicted,
    scheduler.QuotaReleased: _released,
    checks.ChecksRequested: _requested,
    checks.CheckRequestsUpdated: _requests_updated,
    checks.ChecksWithdrawn: _withdrawn,
    checks.CheckStateChanged: _state_changed,
    checks.ChecksReady: _outcome,
    checks.ChecksPending: _outcome,
    checks.ChecksRetry: _outcome,
    checks.ChecksRejected: _outcome,
    checks.PreemptionsAllowed: _allowed,
    checks.VerdictIgnored: _ignored,
    checks.CheckInputRejected: _rejected,
    checks.ControllerSeen: _seen,
    checks.ControllerLost: _lost,
    checks.AdmissionCheckStatusChanged: _status,
}
