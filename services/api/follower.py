"""Follows the log: folds what arrives, and wakes whoever waits for a sequence."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog

from sluice.log.contract import Log, Tail
from sluice.log.subjects import COMMITS, OUTSIDE

from .world import World

SLICE_S = 0.02
"""Longest fold before others get their turn."""
CHUNK = 64

log = structlog.get_logger("sluice.api.follower")


class Follower:
    """`world` is the state at `world.seq`; `ready` is set once the log was caught up with."""

    def __init__(self, source: Log) -> None:
        self.world = World()
        self.ready = asyncio.Event()
        self._log = source
        self._wake = asyncio.Event()
        self._advanced = asyncio.Condition()
        self._tail: Tail | None = None

    @property
    def lag(self) -> int:
        """Entries that the log has and the world does not, as far as is known."""
        return self._tail.lag if self._tail is not None else 0

    async def run(self, on_advance: Callable[[], Awaitable[None]]) -> None:
        """Follow for ever; *on_advance* is called after each batch, once caught up."""
        end = await self._log.end()
        started = time.monotonic()
        self._tail = self._log.tail(1, (*OUTSIDE, *COMMITS), self._wake.set)
        try:
            if end == 0:
                self.ready.set()
            while True:
                self._wake.clear()
                entries = self._tail.take()
                if not entries:
                    await self._wake.wait()
                    continue
                deadline = time.monotonic() + SLICE_S
                for begin in range(0, len(entries), CHUNK):
                    self.world.fold(entries[begin : begin + CHUNK])
                    if time.monotonic() > deadline:
                        await asyncio.sleep(0)
                        deadline = time.monotonic() + SLICE_S
                async with self._advanced:
                    self._advanced.notify_all()
                if not self.ready.is_set() and self.world.seq >= end:
                    log.info("caught up", seq=self.world.seq, seconds=round(time.monotonic() - started, 3))
                    self.ready.set()
                if self.ready.is_set():
                    await on_advance()
        finally:
            await self._tail.close()

    async def at_least(self, seq: int, timeout_s: float | None = None) -> bool:
        """Wait until *seq* is folded; False when that took longer than *timeout_s*."""
        if self.world.seq >= seq:
            return True
        try:
            async with asyncio.timeout(timeout_s), self._advanced:
                await self._advanced.wait_for(lambda: self.world.seq >= seq)
        except TimeoutError:
            return False
        return True
