"""The order in which workloads may be preempted, kept up to date per cluster queue (SC5).

Among the workloads of one cluster queue, the first to go is the one that is evicted already, then the one of
lower priority, then the one whose quota was reserved last, then by uid. The order does not depend on who
asks, so each queue keeps its reservations sorted, and a search looks only at those that it may take. How much
those of a priority hold is kept, too, to see what no search could find.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping
from itertools import islice

from sluice.core.quota.node import FlavorResource
from sluice.events.base import WorkloadKey

from .workload import Workload

Rank = tuple[int, int, str, WorkloadKey]
"""(priority, minus the reservation's time, uid, key): the lowest is preempted first."""

Entry = tuple[Rank, Workload]


_Place = tuple[bool, Rank, Mapping[FlavorResource, int]]
"""Whether it is evicted, its rank, and what it holds."""


def rank(workload: Workload) -> Rank:
    """Return the workload's place among those that are as evicted as itself."""
    return (workload.priority, -(workload.reserved_at or 0), workload.uid, workload.key)


class CandidateIndex:
    """The reservations of one cluster queue in order of preemption. `put` again what has changed."""

    __slots__ = ("_held", "_places", "evicted", "running")

    def __init__(self) -> None:
        self.evicted: list[Entry] = []
        self.running: list[Entry] = []
        self._places: dict[WorkloadKey, _Place] = {}
        self._held: dict[FlavorResource, dict[int, int]] = {}
        """What is held, by priority; without zeros."""

    def __len__(self) -> int:
        return len(self._places)

    def clear(self) -> None:
        self.evicted.clear()
        self.running.clear()
        self._places.clear()
        self._held.clear()

    def put(self, workload: Workload) -> None:
        """Add the workload, or move it to where it belongs now."""
        key = workload.key
        place = (workload.evicted_at is not None, rank(workload), workload.usage)
        before = self._places.get(key)
        if before is None:
            self._hold(place, 1)
        else:
            if before == place and self._entry(before)[1] is workload:
                return
            self._take_out(before)
            if before[1][0] != place[1][0] or before[2] != place[2]:
                self._hold(before, -1)
                self._hold(place, 1)
        self._places[key] = place
        # Ranks are unique, so comparing entries never comes to comparing workloads.
        insort(self.evicted if place[0] else self.running, (place[1], workload))

    def discard(self, key: WorkloadKey) -> None:
        """Take the workload out, if it is there."""
        place = self._places.pop(key, None)
        if place is not None:
            self._hold(place, -1)
            self._take_out(place)

    def _take_out(self, place: "_Place") -> None:
        entries = self.evicted if place[0] else self.running
        del entries[bisect_left(entries, (place[1],))]

    def held_below(self, priority: int, fr: FlavorResource) -> int:
        """Return how much of *fr* those of at most *priority* hold, evicted or not."""
        held = self._held.get(fr)
        if held is None:
            return 0
        total = 0
        for level, amount in held.items():
            if level <= priority:
                total += amount
        return total

    def _hold(self, place: "_Place", sign: int) -> None:
        level = place[1][0]
        for fr, amount in place[2].items():
            held = self._held.get(fr)
            if held is None:
                held = self._held[fr] = {}
            now = held.get(level, 0) + sign * amount
            if now:
                held[level] = now
            else:
                held.pop(level, None)

    def below(self, priority: int | None, *, evicted: bool) -> Iterator[Entry]:
        """Yield those of at most *priority* (None: all), evicted or not, the first to go first."""
        entries = self.evicted if evicted else self.running
        if priority is None or not entries or entries[-1][0][0] <= priority:
            return iter(entries)
        if entries[0][0][0] > priority:
            return iter(())
        return islice(entries, bisect_right(entries, priority, key=lambda entry: entry[0][0]))

    def _entry(self, place: "_Place") -> Entry:
        entries = self.evicted if place[0] else self.running
        return entries[bisect_left(entries, (place[1],))]


__all__ = ["Entry", "Rank"]
