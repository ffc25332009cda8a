"""Timing of services' decisions, as a log has it: a free run sees what they saw, when they saw it.

A service hears what others publish a little later, and in heaps. Who is preempted by whom can depend on that,
so a run that decides at once, and with everything at hand, differs from the record without any change.

    index = tempo.answer((time, sequence), patience_us)    # the recorded step that had heard of the message
    tempo.at[index], tempo.limits[index], tempo.out[index]
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

from sluice.events.base import Micros
from sluice.log.contract import Entry

Position = tuple[Micros, int]
"""Where a message stands: when the log took it, and its recorded sequence; 0 if it came otherwise there."""

PACE_US = 50_000
"""A recorded decision that came later than this after a message was no answer to it ..."""

LAG_US = 500_000
"""... unless the message came exactly as it had: a busy cell takes its time ..."""

STALL_US = 2_000_000
"""... or stands still, and then answers what it had heard of last ..."""

AWAY_US = 10_000_000
"""... or nobody was there until another process took over."""


@dataclass
class Tempo:
    """One service's steps, in order."""

    at: list[Micros] = field(default_factory=list)
    upto: list[int] = field(default_factory=list)
    out: list[Position] = field(default_factory=list)
    """Where the commits stand that hold them."""
    limits: list[Position] = field(default_factory=list)
    """The last message that each had heard of."""
    begins: set[int] = field(default_factory=set)
    """The first step of each process that wrote them."""
    _process: bytes = b""
    _near: int = 0
    """Where the last answer was found: the next one is most often there, too."""

    def note(self, at: Micros, upto: int, out: Position) -> None:
        self.at.append(at)
        self.upto.append(upto)
        self.out.append(out)

    def written_by(self, process: bytes) -> None:
        """Note which process the following steps are of."""
        if process != self._process:
            self._process = process
            self.begins.add(len(self.at))

    def answer(self, position: Position) -> int:
        """Return the index of the first step that had heard of a message there; -1: none soon after."""
        limits, index = self.limits, self._near
        if index >= len(limits) or position > limits[index] or (index and position <= limits[index - 1]):
            index = bisect_left(limits, position)
            if index == len(limits):
                return -1
            self._near = index
        wait, recorded = self.at[index] - position[0], position[1]
        if wait <= (LAG_US if recorded else PACE_US):
            return index
        stalled = wait <= STALL_US and limits[index][0] - position[0] <= PACE_US
        away = wait <= AWAY_US and index in self.begins
        return index if recorded and (stalled or away) else -1

    def deaf_until(self, position: Position) -> Micros:
        """Return when it last decided without having heard of a message there; 0 if it never did."""
        index = bisect_left(self.limits, position)
        return self.at[index - 1] if index else 0

    def soon(self, at: Micros, patience_us: int = PACE_US) -> int:
        """Return the index of the first step at or soon after a time; -1: there is none."""
        index = bisect_left(self.at, at)
        return index if index < len(self.at) and self.at[index] - at <= patience_us else -1

    def goes_on(self, index: int) -> bool:
        """Is the next step decided on the same messages, so that it came of the same turn?"""
        after = index + 1
        return (
            after < len(self.at)
            and self.upto[after] == self.upto[index]
            and self.at[after] - self.at[index] <= LAG_US
        )


class Clock:
    """When each message of a log was taken."""

    def __init__(self) -> None:
        self._seqs, self._ats = array("Q"), array("q")
        self.end: Micros = 0
        """When the last one was."""

    def note(self, entries: Iterable[Entry]) -> None:
        self._seqs.extend(entry.seq for entry in entries)
        ats = array("q", [entry.at for entry in entries])
        self._ats.extend(ats)
        self.end = max(self.end, max(ats, default=0))

    def set_limits(self, tempos: Iterable[Tempo]) -> None:
        """Work out the limits of steps, when the whole log is known."""
        seqs, ats = self._seqs, self._ats
        for tempo in tempos:
            latest: Position = (0, 0)
            known = -1
            for upto in tempo.upto:
                if upto != known:
                    index = bisect_left(seqs, upto + 1) - 1
                    latest = max(latest, (ats[index], upto) if index >= 0 else (0, 0))
                    known = upto
                tempo.limits.append(latest)
