"""Checks that nobody answers: how long each may take, and which have taken too long (AC3).

A check is answered by any verdict of its controller in this attempt, also by Pending: who has said that it is
at work may take its time. `State.unanswered` is an index of `Reservation.unanswered`, check by check, the
longest wait first, so that nobody has to look at all that waits to know what comes next.
"""

from collections import OrderedDict
from collections.abc import Iterable

from sluice.api.kueue import AdmissionCheck
from sluice.api.labels import ANSWER_TIMEOUT_SECONDS
from sluice.api.validation.small import MAX_ANSWER_TIMEOUT_S
from sluice.core.timing import MICROS_PER_S
from sluice.events.base import Micros, WorkloadKey

from .state import Reservation, State, Tracked

ANSWER_TIMEOUT = "AnswerTimeout"
"""Reason of a check that is Retry because its controller has said nothing."""


def answer_timeout(check: AdmissionCheck) -> int | None:
    """Return the seconds that the check's annotation gives it, None when it says nothing of use."""
    said = check.metadata.annotations.get(ANSWER_TIMEOUT_SECONDS, "")
    return min(int(said[:20]), MAX_ANSWER_TIMEOUT_S) if said.isascii() and said.isdecimal() else None


def timeout_s(state: State, check: str) -> int:
    """Return how long the check may go unanswered; 0: for ever."""
    found = state.checks.get(check)
    if found is not None and found.answer_timeout_s is not None:
        return found.answer_timeout_s
    if found is not None and found.by_people:
        return 0  # the cell's is for programs: people have as long as their check's annotation says
    return state.config.admission_checks.answer_timeout_seconds or 0


def asked(state: State, tracked: Tracked, reservation: Reservation, names: Iterable[str], at: Micros) -> None:
    """Note that these checks wait for their controllers since *at*."""
    for name in names:
        heard(state, tracked, reservation, name)
        reservation.unanswered[name] = at
        state.unanswered.setdefault(name, OrderedDict())[tracked.record.key] = at


def heard(state: State, tracked: Tracked, reservation: Reservation, check: str) -> None:
    """Note that the check's controller has answered, or that nobody waits for it any more."""
    if reservation.unanswered.pop(check, None) is not None:
        waiting = state.unanswered[check]
        del waiting[tracked.record.key]
        if not waiting:
            del state.unanswered[check]


def heard_all(state: State, tracked: Tracked, reservation: Reservation) -> None:
    """Note that nobody waits for the checks of this reservation any more."""
    for name in list(reservation.unanswered):
        heard(state, tracked, reservation, name)


def ends(state: State) -> list[Micros]:
    """Return, for each check that may time out, when the first of those who wait for it has waited enough."""
    return [
        next(iter(waiting.values())) + limit * MICROS_PER_S
        for name, waiting in state.unanswered.items()
        if (limit := timeout_s(state, name))
    ]


def overdue(state: State, at: Micros) -> dict[WorkloadKey, None]:
    """Return the workloads with a check that has gone unanswered for too long."""
    found: dict[WorkloadKey, None] = {}
    for name in sorted(state.unanswered):
        limit = timeout_s(state, name)
        if not limit:
            continue
        for key, since in state.unanswered[name].items():
            if since + limit * MICROS_PER_S > at:
                break
            found[key] = None
    return found


def silent(state: State, reservation: Reservation, at: Micros) -> list[tuple[str, int]]:
    """Return the reservation's checks that are overdue, each with the seconds it was given."""
    return [
        (name, limit)
        for name, since in sorted(reservation.unanswered.items())
        if (limit := timeout_s(state, name)) and since + limit * MICROS_PER_S <= at
    ]


def rebuilt(workloads: Iterable[Tracked]) -> dict[str, OrderedDict[WorkloadKey, Micros]]:
    """Return the index of what these workloads wait for."""
    entries = sorted(
        (since, tracked.record.uid, tracked.record.key, name)
        for tracked in workloads
        if tracked.reservation is not None
        for name, since in tracked.reservation.unanswered.items()
    )
    found: dict[str, OrderedDict[WorkloadKey, Micros]] = {}
    for since, _, key, name in entries:
        found.setdefault(name, OrderedDict())[key] = since
    return found


__all__ = ["timeout_s"]
