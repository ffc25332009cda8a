"""Time as the engine sees it, so that tests can turn it."""

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from typing import Protocol

from sluice.events.base import Micros
from sluice.log.runtime.alarm import Handle


class Clock(Protocol):
    def now(self) -> float:
        """Return seconds that only grow."""
        ...

    def wall(self) -> Micros:
        """Return the time of day, microseconds since the epoch."""
        ...

    def call_at(self, when: float, function: Callable[[], None]) -> Handle:
        """Call *function* once `now` has come to *when*."""
        ...


class LoopClock:
    """The event loop's time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def now(self) -> float:
        return self._loop.time()

    def wall(self) -> Micros:
        return time.time_ns() // 1000

    def call_at(self, when: float, function: Callable[[], None]) -> Handle:
        return self._loop.call_at(when, function)


class _FakeHandle:
    def __init__(self, function: Callable[[], None]) -> None:
        self.function: Callable[[], None] | None = function

    def cancel(self) -> None:
        self.function = None


class FakeClock:
    """A clock that moves when it is told to."""

    def __init__(self, wall: Micros = 1_767_225_600_000_000) -> None:
        self._now, self._wall = 0.0, wall
        self._calls: list[tuple[float, int, _FakeHandle]] = []
        self._numbers = itertools.count()

    def now(self) -> float:
        return self._now

    def wall(self) -> Micros:
        return self._wall + int(self._now * 1_000_000)

    def call_at(self, when: float, function: Callable[[], None]) -> Handle:
        handle = _FakeHandle(function)
        heapq.heappush(self._calls, (when, next(self._numbers), handle))
        return handle

    def next_call(self, until: float) -> bool:
        """Go on to the next call that is due by *until*, and make it; False: there is none, it is *until*."""
        while self._calls and self._calls[0][0] <= until:
            when, _, handle = heapq.heappop(self._calls)
            if handle.function is None:
                continue
            self._now = max(self._now, when)
            handle.function()
            return True
        self._now = max(self._now, until)
        return False
