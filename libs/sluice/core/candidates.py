"""The order in which workloads may be preempted, kept up to date per cluster queue (SC5).

Among the workloads of one cluster queue, the first to go is the one that is evicted already, then the one of
lower priority, then the one whose quota was reserved last, then by uid. The order does not depend on who
asks, so each queue keeps its reservations sorted, and a search looks only at those that it may take.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from sluice.events.base import WorkloadKey

if TYPE_CHECKING:
    from .model import Workload

Rank = tuple[int, int, str, WorkloadKey]
"""(priority, minus the reservation's time, uid, key): the lowest is preempted first."""

Entry = tuple[Rank, "Workload"]


def rank(workload: "Workload") -> Rank:
    """Return the workload's place among those that are as evicted as itself."""
    return (workload.priority, -(workload.reserved_at or 0), workload.uid, workload.key)


class CandidateIndex:
    """The reservations of one cluster queue in order of preemption. `put` again what has changed."""

    __slots__ = ("_places", "evicted", "running")

    def __init__(self) -> None:
        self.evicted: list[Entry] = []
        self.running: list[Entry] = []
        self._places: dict[WorkloadKey, tuple[bool, Rank]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def clear(self) -> None:
        self.evicted.clear()
        self.running.clear()
        self._places.clear()

    def put(self, workload: "Workload") -> None:
        """Add the workload, or move it to where it belongs now."""
        place = (workload.evicted_at is not None, rank(workload))
        before = self._places.get(workload.key)
        if before is not None:
            if before == place and self._entry(before)[1] is workload:
                return
            self.discard(workload.key)
        self._places[workload.key] = place
        # Ranks are unique, so comparing entries never comes to comparing workloads.
        insort(self.evicted if place[0] else self.running, (place[1], workload))

    def discard(self, key: WorkloadKey) -> None:
        """Take the workload out, if it is there."""
        place = self._places.pop(key, None)
        if place is not None:
            entries = self.evicted if place[0] else self.running
            del entries[bisect_left(entries, (place[1],))]

    def below(self, priority: int | None, *, evicted: bool) -> Iterator[Entry]:
        """Yield those of at most *priority* (None: all), evicted or not, the first to go first."""
        entries = self.evicted if evicted else self.running
        if priority is None or not entries or entries[-1][0][0] <= priority:
            return iter(entries)
        if entries[0][0][0] > priority:
            return iter(())
        return islice(entries, bisect_right(entries, priority, key=_priority))

    def _entry(self, place: tuple[bool, Rank]) -> Entry:
        entries = self.evicted if place[0] else self.running
        return entries[bisect_left(entries, (place[1],))]


def _priority(entry: Entry) -> int:
    return entry[0][0]


__all__ = ["CandidateIndex", "Entry", "Rank", "rank"]
