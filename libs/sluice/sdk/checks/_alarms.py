"""Alarms: things to be done at a time, in order; nothing here runs by itself."""

import heapq
from collections.abc import Callable

IDLE_MOST = 100
"""So many alarms that were taken back may stay, or half of all if that is more."""


class Alarm:
    """Something to be done; *what* None: it is done, or taken back."""

    __slots__ = ("what",)

    def __init__(self, what: Callable[[], None]) -> None:
        self.what: Callable[[], None] | None = what


class Alarms:
    """Times are seconds of any clock that never goes back."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Alarm]] = []
        self._made = self._idle = 0

    def set(self, when: float, what: Callable[[], None]) -> Alarm:
        self._made += 1
        alarm = Alarm(what)
        heapq.heappush(self._heap, (when, self._made, alarm))
        return alarm

    def cancel(self, alarm: Alarm) -> None:
        """Take an alarm back, if it has not rung."""
        if alarm.what is None:
            return
        alarm.what = None
        self._idle += 1
        if self._idle > IDLE_MOST and 2 * self._idle > len(self._heap):
            self._heap = [each for each in self._heap if each[2].what is not None]
            heapq.heapify(self._heap)
            self._idle = 0

    @property
    def deadline(self) -> float | None:
        """When the next one rings."""
        heap = self._heap
        while heap and heap[0][2].what is None:
            heapq.heappop(heap)
            self._idle -= 1
        return heap[0][0] if heap else None

    def ring(self, now: float) -> None:
        """Do what is due by *now*."""
        while (due := self.deadline) is not None and due <= now:
            alarm = heapq.heappop(self._heap)[2]
            what, alarm.what = alarm.what, None
            assert what is not None
            what()

    def clear(self) -> None:
        self._heap.clear()
        self._idle = 0
