"""States of a workload's admission checks: which, since when, in which attempt (AC1-AC6)."""

from dataclasses import dataclass

from sluice.core.checks.state import State
from sluice.core.checks.timeouts import timeout_s
from sluice.core.workload.admission_checks import READY
from sluice.events.base import Micros
from sluice.events.codec import rfc3339


@dataclass
class CheckNote:
    """One check of one workload that has quota."""

    name: str
    controller: str
    state: str
    since: str
    attempt: int
    """Counts the workload's reservations from 1."""
    message: str = ""
    retries: int = 0
    timeout_s: int = 0
    """Its controller has not answered, and what follows after so long is Retry; 0: it waits for ever."""
    absent: str = ""
    """Why nobody performs it: its controller is not there."""


def checks_of(state: State, key: str) -> list[CheckNote]:
    """Return the checks that count for the workload's reservation; [] without one, or without checks."""
    tracked = state.workloads.get(key)  # type: ignore[call-overload]
    if tracked is None or tracked.reservation is None or tracked.reservation.requested is None:
        return []
    held = tracked.reservation
    found = []
    for name, basis in held.requested.items():
        said = tracked.states.get(name)
        check = state.checks.get(name)
        absent = ""
        if check is None:
            absent = "there is no such AdmissionCheck"
        elif check.status is not None and not check.status[0] and (said is None or said.state != READY):
            absent = f"{check.status[1]}: {check.status[2]}".rstrip(": ")
        since: Micros = held.at if said is None or said.at is None else said.at
        found.append(
            CheckNote(
                name=name,
                controller=basis.controller,
                state="Pending" if said is None else said.state,
                since=rfc3339(since),
                attempt=held.attempt,
                message="" if said is None else said.message,
                retries=0 if said is None else said.retry_count,
                timeout_s=timeout_s(state, name) if name in held.unanswered else 0,
                absent=absent,
            )
        )
    return found
