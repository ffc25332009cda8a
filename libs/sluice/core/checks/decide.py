"""The rules of the admission-check service: what follows from verdicts, quota and presence (AC1-AC8)."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from sluice.core.timing import MICROS_PER_S, backoff_s
from sluice.core.workload.admission_checks import (
    PENDING,
    PREEMPTION_REQUIRED,
    READY,
    REJECTED,
    RETRY,
    CheckState,
    max_retry_at,
)
from sluice.core.workload.inputs import short
from sluice.events import checks
from sluice.events.base import Event, Micros, WorkloadKey
from sluice.protocol.checks import CheckVerdict

from .pod_set_updates import INVALID, refusal
from .state import Presence, Reservation, State, Tracked, Verdict
from .timeouts import ANSWER_TIMEOUT, silent

type AllowedFor = Literal["ChecksReady", "PreemptionRequired"]

ACTIVE = "Active"
NOT_SEEN = "ControllerNotSeen"
LOST = "ControllerLost"
BY_PEOPLE = "The admission check is active: people answer it"

# One workload


def workload_events(state: State, key: WorkloadKey, at: Micros) -> list[Event]:
    """Return the next events of one workload, [] when it is settled.

    1. Take back the requests of an attempt that is over.
    2. Say which checks count.
    3. Answer the verdicts; who has said nothing for too long has said Retry.
    4. Say what they come to together.
    """
    tracked = state.workloads.get(key)
    withdrawal = state.gone.get(key) or (tracked.withdrawal if tracked is not None else None)
    if withdrawal is not None:
        return [
            checks.ChecksWithdrawn(
                cause=withdrawal.cause, workload=key, attempt=withdrawal.attempt, reason=withdrawal.why
            )
        ]
    if tracked is None:
        return [_unknown(key, verdict) for verdict in state.verdicts.get(key, {}).values()]
    reservation = tracked.reservation
    live = reservation if reservation is not None and not reservation.over else None
    if live is not None:
        requested = _request(state, tracked, live)
        if requested:
            return requested
    states = dict(tracked.states)
    events: list[Event] = []
    outcome = live.outcome if live is not None else ""
    for verdict in state.verdicts.get(key, {}).values():
        event, outcome = _answer(state, tracked, live, states, outcome, verdict, at)
        events.append(event)
        if isinstance(event, checks.ChecksRetry):
            return events  # late, and the next one's delay is compared with it
    if live is not None and live.requested is not None:
        events += _silences(state, tracked, live, states, at)
        cause = events[-1].cause if events else tracked.cause
        events += _together(state, tracked, live, states, cause)
    return events


def _request(state: State, tracked: Tracked, live: Reservation) -> list[Event]:
    """Say which checks count, when that is not what was said (AC1)."""
    before = live.requested
    if before is None and live.admitted:
        # There were none when it was admitted; one added since then does not evict it.
        return []
    names = state.relevant(live)
    if live.admitted and before is not None:
        names = [name for name in names if name in before]
    now = {name: state.basis(name) for name in names}
    if before == now:
        return []
    return [
        checks.ChecksRequested(
            cause=tracked.cause, workload=tracked.record.key, attempt=live.attempt, checks=tuple(now)
        )
    ]


def _together(
    state: State, tracked: Tracked, live: Reservation, states: Mapping[str, CheckState], cause: int
) -> list[Event]:
    """Return what the states of all checks come to, when that is not what was said."""
    key, attempt = tracked.record.key, live.attempt
    assert live.requested is not None
    ordered = [states[name] for name in live.requested]
    events: list[Event] = []
    rejected = [found for found in ordered if found.state == REJECTED]
    retried = [found for found in ordered if found.state == RETRY]
    if rejected:
        if live.outcome != REJECTED:
            events.append(
                checks.ChecksRejected(
                    cause=cause,
                    workload=key,
                    checks=[found.name for found in rejected],
                    message=rejected[-1].message,
                    attempt=attempt,
                    messages=[found.message for found in rejected],
                )
            )
        return events + _told(live, key, cause)
    if retried:
        requeue_at = max_retry_at(retried) or 0
        names = [found.name for found in retried]
        # One more is told of when the wait stays as it is, too: the eviction that is to come names them all.
        unnamed = any(name not in live.retried for name in names)
        if live.outcome != RETRY or requeue_at > live.requeue_at or unnamed:
            events.append(
                checks.ChecksRetry(
                    cause=cause,
                    workload=key,
                    checks=names,
                    requeue_at=requeue_at,
                    message=retried[-1].message,
                    attempt=attempt,
                    messages=[found.message for found in retried],
                )
            )
        return events + _told(live, key, cause)
    reason = _why_allowed(state, live, ordered)
    if reason is not None:
        events.append(checks.PreemptionsAllowed(cause=cause, workload=key, attempt=attempt, reason=reason))
    is_ready = all(found.state == READY for found in ordered)
    if is_ready and live.outcome != READY:
        events.append(checks.ChecksReady(cause=cause, workload=key, attempt=attempt))
    elif not is_ready and live.outcome:
        events.append(checks.ChecksPending(cause=cause, workload=key, attempt=attempt))
    return events + _told(live, key, cause)


def _told(live: Reservation, key: WorkloadKey, cause: int) -> list[Event]:
    """Return what controllers have to be told of the reservation, beside what is asked of them."""
    told = (live.told_admitted, live.told_pending, False)
    if (live.admitted, live.preemptions_pending, live.edited) == told:
        return []
    return [
        checks.CheckRequestsUpdated(
            cause=cause,
            workload=key,
            attempt=live.attempt,
            admitted=live.admitted,
            preemptions_pending=live.preemptions_pending,
        )
    ]


def _why_allowed(state: State, live: Reservation, states: Sequence[CheckState]) -> AllowedFor | None:
    """Return why pending preemptions may be issued now, None if they may not yet (AC6)."""
    if not live.preemptions_pending or live.allowed:
        return None
    guards = [found for found in states if (check := state.checks.get(found.name)) is None or check.guards]
    if all(found.state == READY for found in guards):
        return "ChecksReady"
    asked = any(found.state == PENDING and found.reason == PREEMPTION_REQUIRED for found in states)
    return "PreemptionRequired" if asked else None


# One verdict


def _unknown(key: WorkloadKey, verdict: Verdict) -> Event:
    if verdict.data is None:
        return checks.CheckInputRejected(
            cause=verdict.seq,
            subject=verdict.subject,
            event_type=verdict.event_type,
            errors=tuple(verdict.errors),
        )
    return _ignored(verdict, "UnknownWorkload", f"there is no workload {short(key)}, or it is over")


def _ignored(verdict: Verdict, reason: str, message: str = "") -> checks.VerdictIgnored:
    data = verdict.data
    assert data is not None
    return checks.VerdictIgnored(
        cause=verdict.seq,
        workload=WorkloadKey(short(data.workload)),
        check=short(data.check),
        controller=verdict.controller,
        attempt=data.attempt,
        state=data.state,
        reason=reason,
        message=message,
    )


def _of_no_concern(state: State, tracked: Tracked, verdict: Verdict) -> checks.VerdictIgnored | None:
    """Return why a verdict is of no concern, whatever the reservation: workload, check and controller."""
    data = verdict.data
    assert data is not None
    if data.uid and data.uid != tracked.record.uid:
        text = f"the workload of this name has uid {tracked.record.uid}"
        return _ignored(verdict, "UnknownWorkload", text)
    check = state.checks.get(data.check)
    if check is None:
        return _ignored(verdict, "UnknownCheck", f"there is no AdmissionCheck {short(data.check)}")
    if check.spec.controller_name != verdict.controller:
        text = f"the check is performed by {check.spec.controller_name}"
        return _ignored(verdict, "WrongController", text)
    return None


def _answer(
    state: State,
    tracked: Tracked,
    live: Reservation | None,
    states: dict[str, CheckState],
    outcome: str,
    verdict: Verdict,
    at: Micros,
) -> tuple[Event, str]:
    """Return what becomes of a verdict, and the outcome after it; *states* are brought up to date."""
    data = verdict.data
    assert data is not None
    ignored = _of_no_concern(state, tracked, verdict)
    if ignored is not None:
        return ignored, outcome
    if live is None or data.attempt != live.attempt:
        late = _late_retry(state, tracked, verdict, at)
        if late is not None:
            return late, outcome
        began = tracked.attempts
        begun = "has not begun" if data.attempt > began else "is over"
        text = f"attempt {data.attempt} {begun}, the latest is {began}"
        return _ignored(verdict, "StaleAttempt", text), outcome
    if live.requested is None or data.check not in live.requested:
        return _ignored(verdict, "UnknownCheck", "the check does not concern the workload"), outcome
    before = states[data.check]
    failed_before = outcome == REJECTED or (outcome == RETRY and data.state in (PENDING, READY))
    if failed_before or before.state == REJECTED:
        return _ignored(verdict, "Final", f"the attempt has ended with {outcome or REJECTED}"), outcome
    complete = outcome == READY or all(states[name].state == READY for name in live.requested)
    if (complete or live.admitted) and before.state == data.state == READY and not _adds(data, before):
        text = "podSetUpdates stay as they were when all checks were Ready"
        wrong = _wrong(state, tracked, live, states, data)
        return _ignored(verdict, "Immutable", short(f"{text}; {wrong}" if wrong else text)), outcome
    after = _said(state, tracked, live, states, verdict, at)
    if _same(after._replace(at=before.at), before):
        return _ignored(verdict, "Duplicate"), outcome
    states[data.check] = after
    if after.state == REJECTED or (after.state == RETRY and outcome != REJECTED):
        outcome = after.state
    event = checks.CheckStateChanged(
        cause=verdict.seq,
        workload=tracked.record.key,
        check=data.check,
        state=after.state,
        attempt=live.attempt,
        message=after.message,
        requeue_after_s=after.requeue_after_s,
        retry_count=after.retry_count,
        # A snapshot has a list: what is not said must stay unsaid after a restart, too.
        pod_set_updates=tuple(after.pod_set_updates),
        reason=after.reason,
    )
    return event, outcome


def _late_retry(state: State, tracked: Tracked, verdict: Verdict, at: Micros) -> checks.ChecksRetry | None:
    """AC3: of several checks that say Retry the longest delay counts, also when the first had its effect.

    Which of them is heard of before the eviction is chance. None: it does not make the wait any longer.
    """
    data, ended = verdict.data, tracked.retried
    assert data is not None
    if (
        ended is None
        or data.state != RETRY
        or data.attempt != ended.attempt
        or data.check not in ended.checks
    ):
        return None
    before = tracked.states.get(data.check)
    requeue_at = at + _delay_s(state, data, before.retry_count if before is not None else 0) * MICROS_PER_S
    if requeue_at <= ended.requeue_at:
        return None
    return checks.ChecksRetry(
        cause=verdict.seq,
        workload=tracked.record.key,
        checks=[data.check],
        requeue_at=requeue_at,
        message=data.message,
        attempt=ended.attempt,
        messages=[data.message],
    )


def _delay_s(state: State, data: CheckVerdict, count: int) -> int:
    """Return the delay that a Retry asks for, by default the backoff after *count* earlier ones.

    Over and over it is no less than 1, 2, 4 ... s, up to the backoff's base: each attempt stays in the log.
    """
    settings = state.config.admission_checks
    if data.requeue_after_seconds is None:
        return backoff_s(count + 1, settings.backoff_base_seconds, settings.backoff_max_seconds)
    least_s = backoff_s(count, 1, max(1, settings.backoff_base_seconds)) if count else 0
    return max(data.requeue_after_seconds, least_s)


def _rest_s(before: CheckState, at: Micros) -> int:
    """Return what is left of the delay of a Retry that is said again: the longest one counts (AC3).

    Whether the first had its effect by then is chance.
    """
    if before.state != RETRY or before.at is None or before.requeue_after_s is None:
        return 0
    return max(0, -((at - before.at) // MICROS_PER_S) + before.requeue_after_s)


def _silences(
    state: State, tracked: Tracked, live: Reservation, states: dict[str, CheckState], at: Micros
) -> list[Event]:
    """Return what becomes of checks that nobody has answered in time; *states* are brought up to date."""
    events: list[Event] = []
    settings = state.config.admission_checks
    for name, limit in silent(state, live, at):
        before = states[name]
        if before is not tracked.states[name]:
            continue  # answered in the last moment
        count = before.retry_count
        delay = backoff_s(count + 1, settings.backoff_base_seconds, settings.backoff_max_seconds)
        text = f"check {name} was not answered within {limit} s"
        states[name] = CheckState(name, RETRY, at, text, delay, count, (), ANSWER_TIMEOUT)
        events.append(
            checks.CheckStateChanged(
                cause=live.added.get(name, live.seq),
                workload=tracked.record.key,
                check=name,
                state=RETRY,
                attempt=live.attempt,
                message=text,
                requeue_after_s=delay,
                retry_count=count,
                reason=ANSWER_TIMEOUT,
            )
        )
    return events


def _said(
    state: State,
    tracked: Tracked,
    live: Reservation,
    states: Mapping[str, CheckState],
    verdict: Verdict,
    at: Micros,
) -> CheckState:
    """Return the state that the verdict means."""
    data = verdict.data
    assert data is not None
    before = states[data.check]
    count = before.retry_count
    if data.state == RETRY:
        delay_s = max(_delay_s(state, data, count), _rest_s(before, at))
        return CheckState(data.check, RETRY, at, data.message, delay_s, count)
    if data.state == READY:
        # What was approved, or runs with what it has, is not judged once more: only Retry and Rejected take
        # an approval back (AC5), not labels that a flavor has got since.
        if live.admitted or (before.state == READY and _adds(data, before)):
            return CheckState(data.check, READY, at, data.message, None, count, before.pod_set_updates)
        if why := _wrong(state, tracked, live, states, data):
            return CheckState(data.check, REJECTED, at, short(why), None, count, (), INVALID)
        return CheckState(data.check, READY, at, data.message, None, count, tuple(data.pod_set_updates))
    if data.state == REJECTED:
        return CheckState(data.check, REJECTED, at, data.message, None, count)
    kept = before.pod_set_updates if live.admitted else ()
    return CheckState(data.check, PENDING, at, data.message, before.requeue_after_s, count, kept, data.reason)


def _adds(data: CheckVerdict, before: CheckState) -> bool:
    """Tell whether a Ready adds to the pods what the check adds already."""
    return _same(before.pod_set_updates, data.pod_set_updates)


def _wrong(
    state: State, tracked: Tracked, live: Reservation, states: Mapping[str, CheckState], data: CheckVerdict
) -> str:
    """Return why what a Ready adds cannot be added, '' if it can (AC2)."""
    others = [found for name, found in states.items() if name != data.check]
    return refusal(data.pod_set_updates, tracked.record.pod_sets, live.assignment, state.flavors, others)


def _same(one: object, other: object) -> bool:
    # What was read from the log has lists where what was made here has tuples.
    return msgspec.json.encode(one) == msgspec.json.encode(other)


# Controllers


def presence_events(waiting: Presence) -> list[Event]:
    """Return what a record of a controller's presence means."""
    if waiting.errors:
        return [
            checks.CheckInputRejected(
                cause=waiting.seq,
                subject=waiting.subject,
                event_type=waiting.event_type,
                errors=tuple(waiting.errors),
            )
        ]
    kind = checks.ControllerSeen if waiting.present else checks.ControllerLost
    return [kind(cause=waiting.seq, controller=waiting.controller)]


def check_events(state: State, name: str, at: Micros) -> list[Event]:
    """Return AdmissionCheckStatusChanged when the check's Active condition has changed (AC8)."""
    check = state.checks.get(name)
    if check is None:
        return []
    controller = check.spec.controller_name
    found = state.controllers.get(controller)
    cause = max(check.version, found.seq) if found is not None else check.version
    if check.by_people:
        status = (True, ACTIVE, BY_PEOPLE)
    elif found is None:
        status = (False, NOT_SEEN, f"No controller {controller} has been seen")
    elif (
        found.present
        or at < found.since + state.config.admission_checks.controller_grace_seconds * MICROS_PER_S
    ):
        status = (True, ACTIVE, "The admission check is active")
    else:
        status = (False, LOST, f"The heartbeat of controller {controller} has stopped")
    if status == check.status:
        return []
    active, reason, message = status
    return [
        checks.AdmissionCheckStatusChanged(
            cause=cause, check=name, active=active, reason=reason, message=message
        )
    ]


def grace_ends(state: State) -> dict[str, Micros]:
    """Return the active checks whose controller is away -> when they become inactive."""
    grace = state.config.admission_checks.controller_grace_seconds * MICROS_PER_S
    found = {}
    for name, check in state.checks.items():
        controller = state.controllers.get(check.spec.controller_name)
        if check.by_people:
            continue
        if controller is not None and not controller.present and check.status is not None and check.status[0]:
            found[name] = controller.since + grace
    return found
