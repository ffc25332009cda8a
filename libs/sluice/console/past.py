"""States of the past: a few folded worlds that step forward, and copies of them to go on from.

A world cannot be folded backwards, and folding from the beginning takes a while. So worlds that were asked
for are kept, the nearest one before a sequence goes on to it, and on the way a copy is put down, as bytes,
every so many messages. A log that was cut begins with the world of its base.
"""

import threading
from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable
from itertools import groupby

from sluice.log.cell import CellFold
from sluice.log.contract import Entry
from sluice.readmodel import snapshot
from sluice.readmodel.world import World
from sluice.replay.source.source import Source
from sluice.replay.source.time_travel import RangeError, beginning, check_range, unhurried

KEPT = 8
"""Worlds that are kept folded."""
BASES = 48
SPACING = 5_000
"""Messages between two bases, to begin with; when there are too many, each second one is dropped."""


def first_world(source: Source) -> World:
    """Return the world that a log begins with: of its base if it was cut, without histories, else none.

    Raises:
        NoBaseError, BaseMismatchError: it was cut, and there is no such state for this code.
    """
    fold = beginning(source, CellFold())
    return World(cell=fold.state, seq=fold.upto, at=fold.at)


class Past:
    """Worlds of one log. Only one thread asks at a time."""

    def __init__(
        self,
        source: Source,
        begin: Callable[[], World] | None = None,
        *,
        kept: int = KEPT,
        spacing: int = SPACING,
    ) -> None:
        """*begin*: returns the world that the log begins with."""
        self._source = source
        self._begin = begin or (lambda: first_world(source))
        self._begun = (0, 0)
        """What the log began with when it was asked last, and the sequence of that world."""
        self._worlds: OrderedDict[int, World] = OrderedDict()
        """By sequence, the one asked for last at the end."""
        self._kept, self._spacing = kept, spacing
        self._bases: dict[int, tuple[snapshot.Parts, int]] = {}
        self._places: list[int] = []
        self._ended: dict[tuple[str, str], tuple[int, str]] = {}
        self._lock = threading.Lock()

    def ask[T](self, seq: int, question: Callable[[World], T]) -> T:
        """Return what *question* makes of the world at *seq*.

        Raises:
            RangeError: the log has no such sequence, or not what tells of it.
        """
        check_range(self._source, seq)
        with self._lock:
            return question(self._world(seq))

    def _world(self, seq: int) -> World:
        found = self._worlds.pop(seq, None)
        if found is None:
            found = self._before(seq)
            # Phases of ended jobs are the same in all worlds, as long as the jobs are.
            found.ended = self._ended
            with unhurried():
                self._go_on(found, seq)
        self._worlds[seq] = found
        while len(self._worlds) > self._kept:
            self._worlds.popitem(last=False)
        return found

    def _before(self, seq: int) -> World:
        """Return the best world to go on from, out of those kept; a base keeps what is kept where it is."""
        # From what is older the log does not go on any more: it was cut meanwhile.
        oldest = self._source.first - 1
        place = bisect_right(self._places, seq)
        base = self._places[place - 1] if place and self._places[place - 1] >= oldest else 0
        near = max((at for at in self._worlds if oldest <= at < seq), default=0)
        # A world that goes on is lost where it was: of two that are as near, the base is taken.
        if near and near >= base and (seq - near <= self._spacing or not base):
            return self._worlds.pop(near)
        if base:
            parts, at = self._bases[base]
            return snapshot.load(parts, base, at)
        if self._begun[0] != oldest or seq >= self._begun[1]:
            world = self._begin()
            self._begun = (oldest, world.seq)
            if world.seq <= seq:
                self._put_down(world)
                return world
        raise RangeError(
            f"the state at {seq} cannot be told: {self._source.name} was cut, and what was before "
            f"{self._begun[1]} is a base; {self._source.earlier}"
        )

    def _go_on(self, world: World, seq: int) -> None:
        start = world.seq + 1
        if start > seq:
            return
        for entries in self._source.read(start, seq):
            self._fold(world, entries)
        # A log may have no message of exactly that sequence.
        world.seq = max(world.seq, seq)

    def _fold(self, world: World, entries: list[Entry]) -> None:
        """Fold entries, and put down a base before each stretch that begins among them."""
        for stretch, part in groupby(entries, key=lambda entry: entry.seq // self._spacing):
            if world.seq and stretch != world.seq // self._spacing:
                self._put_down(world)
            world.fold(list(part))

    def _put_down(self, world: World) -> None:
        if world.seq in self._bases or not world.seq:
            return
        self._bases[world.seq] = (snapshot.dump(world), world.at)
        insort(self._places, world.seq)
        if len(self._places) > BASES:
            self._spacing *= 2
            for place in self._places[::2]:
                del self._bases[place]
            self._places = sorted(self._bases)
