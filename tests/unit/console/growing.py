"""A cell whose log goes on when the test says so."""

import asyncio
from collections.abc import Callable
from typing import Any

from sluice.console.log_view import Density
from sluice.console.past import Past
from sluice.log.contract import Entry
from sluice.readmodel.world import World
from sluice.replay.source.source import ListSource, Source


class Growing:
    """As `LiveCell`, over entries at hand of which the first ones have come."""

    kind, live, name, cell, lag = "cell", True, "cell main", "main", 0

    def __init__(self, entries: list[Entry]) -> None:
        self._all = entries
        self._log = ListSource(entries[:1])
        self.source: Source = self._log
        self.world = World()
        self.density, self._past = Density(self.source), Past(self.source)
        self._came = asyncio.Condition()
        self.world.fold(self._log.entries)

    async def go_on(self, count: int = 1) -> None:
        """Let the next messages come."""
        here = len(self._log.entries)
        more = self._all[here : here + count]
        self._log.entries += more
        self.world.fold(more)
        async with self._came:
            self._came.notify_all()

    async def ask[T](self, seq: int, question: Callable[[World], T]) -> T:
        return self._past.ask(seq, question) if seq else question(self.world)

    async def read[T](self, work: Callable[[], T]) -> T:
        return work()

    async def wait(self, seq: int, timeout_s: float) -> bool:
        try:
            async with asyncio.timeout(timeout_s), self._came:
                await self._came.wait_for(lambda: self.world.seq > seq)
        except TimeoutError:
            return False
        return True

    async def replicas(self) -> list[dict[str, Any]]:
        return []

    async def log_bytes(self) -> int:
        return 0
