"""Record of one request in the machine, and what is to be done about it now."""

from collections import deque
from dataclasses import dataclass
from typing import Literal

from sluice.protocol.checks import CheckRequest, CheckVerdict

from ._alarms import Alarm
from ._check import Check
from ._verdict_messages import FINAL, Said

Next = Literal["check", "watch", "settle", ""]
"""Call the check function; call the watch; find out what became of the last verdict; nothing."""


@dataclass(slots=True, eq=False)
class Calling:
    """A call that has not ended."""

    number: int
    held: "Held"
    lane: "Lane"
    watching: bool
    cancelled: bool = False
    timed_out: bool = False
    alarm: Alarm | None = None


@dataclass(slots=True, eq=False)
class Sending:
    """A verdict on its way to the log. `before`: what had been said until then."""

    number: int
    held: "Held"
    ident: str
    verdict: CheckVerdict
    after_s: float | None
    before: Said | None
    of_failure: bool


@dataclass(slots=True, eq=False)
class Held:
    """One attempt's request. `due`: machine time of the next call; None: none by itself."""

    number: int
    key: str
    request: CheckRequest
    check: Check | None
    verdicts: int = 0
    """Number of the last verdict of this attempt."""
    said: Said | None = None
    due: float | None = None
    work: Calling | Sending | None = None
    alarm: Alarm | None = None
    lane: "Lane | None" = None
    """Where it waits for a free place."""
    changed: bool = False
    """While its function ran."""
    failures: int = 0
    settling: Said | None = None
    """The final verdict whose effect is waited for."""
    asked: int = 0
    """How often it was asked what became of that."""
    overdue: float = 0.0
    """Machine time from which on no effect means that it has none."""

    def next(self) -> Next:
        """Return what is to be done next, at `due` if that is a call."""
        state, said = self.request.state, self.said.state if self.said is not None else ""
        if said in FINAL and (state == "Pending" or said != "Ready"):
            # Answered; the admission-check service has not looked at it yet.
            return "settle"
        if state == "Pending":
            return "check"
        if self.check is not None and self.check.watcher is not None:
            return "watch"
        return "check" if self.due is not None else ""


class Lane:
    """A number of places, and who waits for one, in order. *places* 0: as many as wanted."""

    __slots__ = ("_queue", "places", "taken", "waiting")

    def __init__(self, places: int) -> None:
        self.places, self.taken, self.waiting = places, 0, 0
        self._queue: deque[Held] = deque()

    def enter(self, held: Held) -> None:
        held.lane = self
        self.waiting += 1
        self._queue.append(held)

    def leave(self, held: Held) -> None:
        # Left in the queue, and passed over by `next`: taking it out would cost a search.
        held.lane = None
        self.waiting -= 1

    def next(self) -> Held | None:
        """Give the next place to who has waited longest, None if there is no place or nobody waits."""
        while self._queue and (not self.places or self.taken < self.places):
            held = self._queue.popleft()
            if held.lane is not self:
                continue
            self.leave(held)
            self.taken += 1
            return held
        return None

    def done(self) -> None:
        self.taken -= 1
