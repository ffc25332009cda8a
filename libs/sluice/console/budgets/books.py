"""Consumption up to any moment of a log: a fold that goes on, with states put down on the way.

It is begun when somebody asks of a log that has budgets. Beside the state, the totals of all accounts are
noted every so often, for how the consumption came about.
"""

import threading
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import NamedTuple

from sluice.core.budgets import consumption
from sluice.core.budgets.consumption import Account, Consumption
from sluice.events.base import Micros
from sluice.events.codec import CommitDecodeError, decode_commit
from sluice.log.contract import Entry
from sluice.replay.source.source import Source

READS = ("config", "slices", "variants", "scheduler")
SPACING = 20_000
"""Messages between two states that are put down; when there are too many, each second one is dropped."""
STATES, NOTES = 16, 400
EVERY_US = 5_000_000
"""Between two notes of the totals, to begin with."""


class Note(NamedTuple):
    """What each account had consumed by then."""

    at: Micros
    totals: Mapping[Account, int]


class Books:
    """What was consumed in one log. For threads: one at a time gets an answer."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._spacing, self._every = SPACING, EVERY_US
        self._states: dict[int, tuple[bytes, int]] = {}
        """Sequence -> state as bytes, and since when it is told."""
        self._notes: list[Note] = []
        self._begin()

    def _begin(self) -> None:
        self._notes.clear()
        self._state, self._seq = Consumption(), self._source.first - 1
        self._first = self._source.first
        """What the log began with when this was begun."""

    @property
    def cut_at(self) -> int:
        """Return with which sequence the books begin, if what was before was cut off; else 0."""
        return self._first if self._first > 1 else 0

    def ask[T](self, seq: int, question: Callable[[Consumption, list[Note]], T]) -> T:
        """Return what *question* makes of the consumption at *seq* and of the notes up to then."""
        with self._lock:
            if seq < self._seq:
                self._go_back(seq)
            if self._seq + 1 < self._source.first:
                # It was cut, behind where these books stand: what happened in between is not in it.
                self._states.clear()
                self._begin()
            for entries in self._source.read(self._seq + 1, seq, READS):
                for entry in entries:
                    self._fold(entry)
            self._seq = max(self._seq, seq)
            upto = bisect_right(self._notes, self._state.at, key=lambda note: note.at)
            return question(self._state, self._notes[:upto])

    def _go_back(self, seq: int) -> None:
        place = max((at for at in self._states if at <= seq), default=0)
        if place:
            data, self._first = self._states[place]
            self._state, self._seq = consumption.load(data), place
        else:
            self._begin()

    def _fold(self, entry: Entry) -> None:
        if entry.seq // self._spacing != self._seq // self._spacing and self._seq >= self._first:
            self._put_down()
        try:
            for step in decode_commit(entry.payload, entry.suffix, entry.seq).steps:
                self._note(step.at)
                for event in step.events:
                    self._state.apply(event, step.at)
        except CommitDecodeError:
            # Of a newer version: what it says of consumption is not known here.
            pass
        self._seq = entry.seq

    def _put_down(self) -> None:
        self._states[self._seq] = (consumption.dump(self._state), self._first)
        if len(self._states) > STATES:
            self._spacing *= 2
            for place in sorted(self._states)[::2]:
                del self._states[place]

    def _note(self, at: Micros) -> None:
        if self._notes and at < self._notes[-1].at + self._every:
            return
        # As nothing has changed since the last event, the totals of this moment are known.
        totals = {account: one.total(at) for account, one in self._state.series.items()}
        self._notes.append(Note(at, totals))
        if len(self._notes) > NOTES:
            del self._notes[1::2]
            self._every *= 2
