"""Deadlines: a heap of keys that are due at a time although no event comes."""

from heapq import heapify, heappop, heappush

from sluice.events.base import Micros

_STALE_LIMIT = 64
"""Out-of-date entries that the heap may hold beyond as many as are valid."""


class Deadlines[K]:
    """At most one deadline for each key. Derived from state, so no part of snapshots.

    deadlines.set("a", 30); deadlines.set("a", 20)     # the later word counts
    deadlines.next                                     # 20
    deadlines.due(25)                                  # ["a"], until it is set anew or to None
    """

    __slots__ = ("_heap", "of")

    def __init__(self) -> None:
        self.of: dict[K, Micros] = {}
        """Each key's deadline; whatever else the heap says of it is out of date."""
        self._heap: list[tuple[Micros, K]] = []

    def set(self, key: K, moment: Micros | None) -> None:
        """Give *key* another deadline; None for none."""
        if moment is None:
            self.of.pop(key, None)
        elif self.of.get(key) != moment:
            self.of[key] = moment
            heappush(self._heap, (moment, key))
            if len(self._heap) > 2 * len(self.of) + _STALE_LIMIT:
                self._heap = [(when, whose) for whose, when in self.of.items()]
                heapify(self._heap)

    @property
    def next(self) -> Micros | None:
        """The earliest deadline."""
        heap, of = self._heap, self.of
        while heap and of.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def due(self, at: Micros) -> list[K]:
        """Return whose deadline has come, the earliest first, each once. They keep it."""
        heap, of = self._heap, self.of
        late: dict[K, Micros] = {}
        while heap and heap[0][0] <= at:
            moment, key = heappop(heap)
            if of.get(key) == moment:
                late[key] = moment
        for key, moment in late.items():
            heappush(heap, (moment, key))
        return list(late)
