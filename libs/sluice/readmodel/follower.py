"""Follows the log: folds what arrives, and wakes whoever waits for a sequence."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

import structlog

from sluice.log.contract import Log, Tail
from sluice.log.runtime import gc_tuning
from sluice.log.runtime.bases import Bases, NoBaseError
from sluice.log.runtime.snapshot import Snapshots
from sluice.protocol.subjects import COMMITS, OUTSIDE

from .snapshot import from_base, newest, store
from .world import World

SLICE_S = 0.02
"""Longest fold before others get their turn."""
CHUNK = 64

log = structlog.get_logger("sluice.readmodel.follower")


class Follower:
    """`world` is the state at `world.seq`; `ready` is set once the log was caught up with."""

    def __init__(
        self, source: Log, snapshots: Snapshots | None = None, every: int = 0, bases: Bases | None = None
    ) -> None:
        """*every*: after so many sequences the world is saved among *snapshots*; 0 for never."""
        self.world = World()
        self.ready = asyncio.Event()
        self._log = source
        self._wake = asyncio.Event()
        self._advanced = asyncio.Condition()
        self._tail: Tail | None = None
        self._snapshots, self._every, self._bases = snapshots, every, bases
        self._saved = 0
        self._saving: asyncio.Task[None] | None = None

    @property
    def lag(self) -> int:
        """Entries that the log has and the world does not, as far as is known."""
        return self._tail.lag if self._tail is not None else 0

    async def run(self, on_advance: Callable[[], Awaitable[None]]) -> None:
        """Follow for ever; *on_advance* is called after each batch, once caught up."""
        first, end = await self._log.first(), await self._log.end()
        started = time.monotonic()
        if self._snapshots is not None and end:
            self.world = await newest(self._snapshots, end)
            self._saved = self.world.seq
        if self.world.seq + 1 < first:
            if self._bases is None:
                raise NoBaseError("api", first)
            self.world = await from_base(self._bases, first, end)
        self._tail = self._log.tail(self.world.seq + 1, (*OUTSIDE, *COMMITS), self._wake.set)
        catching_up = contextlib.ExitStack()
        catching_up.enter_context(gc_tuning.put_off())
        try:
            if self.world.seq >= end:
                log.info("caught up", seq=end, seconds=round(time.monotonic() - started, 3))
                catching_up.close()
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
                    catching_up.close()
                    self.ready.set()
                if self.ready.is_set():
                    await on_advance()
                if self._every and self.world.seq - self._saved >= self._every:
                    self._save()
        finally:
            catching_up.close()
            await self._tail.close()

    def _save(self) -> None:
        """Save the world, unless it is being saved."""
        if self._snapshots is not None and (self._saving is None or self._saving.done()):
            self._saving = asyncio.create_task(self._keep_saved(self._snapshots))

    async def _keep_saved(self, snapshots: Snapshots) -> None:
        """Save the world, and again when much came meanwhile: it may be the last for long."""
        while self.world.seq - self._saved >= self._every:
            self._saved = self.world.seq
            await store(snapshots, self.world)

    async def save_last(self, timeout_s: float) -> None:
        """Save where following has ended, when that spares the next start a good part."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                if self._saving is not None:
                    await asyncio.shield(self._saving)
                if (
                    self._snapshots is not None
                    and self._every
                    and self.world.seq > self._saved + self._every // 10
                ):
                    await store(self._snapshots, self.world)

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
