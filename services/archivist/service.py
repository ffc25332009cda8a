"""Rounds of retention, one after the other, and what `sluice status` says of them."""

import asyncio
import contextlib
import os
import time
from typing import Any

import msgspec
import structlog

from sluice import __version__
from sluice.log.errors import EventLogError
from sluice.log.nats.responder import Responder
from sluice.log.runtime.config import CellConfig
from sluice.retention.archive import Archive
from sluice.retention.cycle import Report, archive_all, round_of
from sluice.retention.live import opened
from sluice.retention.stores import held, store_at

from .config import Config

RETRY_S = 60.0
"""What goes wrong is tried again after this long: most of it passes, as a store that is away does."""

log = structlog.get_logger("sluice.archivist")


class Archivist:
    """One per cell: it holds its archive while it works."""

    def __init__(self, cell: CellConfig, config: Config) -> None:
        self.cell, self.config = cell, config
        self.report: Report | None = None
        self.error = ""
        """Why the last round came to nothing."""
        self.rounds = 0
        self._store = store_at(config.archive)
        self._responder = Responder(cell.nats_url, f"archivist-{cell.instance}")

    async def run(self, stop: asyncio.Event) -> None:
        """Work until *stop*; what goes wrong is said, and tried again with the next round."""
        await self._responder.open_in_the_end()
        await self._responder.offer(
            "sluice-archivist",
            __version__,
            f"Archives the log of the Sluice cell {self.cell.cell}",
            {"cell": self.cell.cell, "instance": self.cell.instance, "pid": str(os.getpid())},
            self.stats,
        )
        subject = f"sluice.{self.cell.cell}.control.archivist.health"
        await self._responder.endpoint("health", subject, self._health)
        stopping = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                working = asyncio.create_task(self.round())
                await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
                # At whatever moment it ends, nothing is lost.
                working.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await working
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._pause()):
                        await stop.wait()
        finally:
            stopping.cancel()
            await self._responder.close()

    def _pause(self) -> float:
        """Return how long to wait for the next round: not long, where this one failed."""
        return min(self.config.every_s, RETRY_S) if self.error else self.config.every_s

    async def round(self) -> None:
        """Do one round."""
        started = time.perf_counter()
        try:
            async with held(self._store), opened(self.cell.nats_url, self.cell.cell) as cell:
                archive = Archive(self._store, self.cell.cell)
                self.report = await self._done(cell, archive)
        except (EventLogError, ConnectionError, TimeoutError, OSError, ValueError) as error:
            self.error = str(error) or type(error).__name__
            log.error("nothing cut", error=self.error, kind=type(error).__name__)
            return
        self.error = ""
        self.rounds += 1
        said = msgspec.to_builtins(self.report)
        log.info("round done", seconds=round(time.perf_counter() - started, 3), **said)

    async def _done(self, cell: Any, archive: Archive) -> Report:
        policy = self.config.policy
        if not policy.cuts:
            return await archive_all(cell, archive)
        now = time.time_ns() // 1000
        return await round_of(cell, archive, policy, now, without_api=self.config.without_api)

    def stats(self) -> dict[str, Any]:
        """Return what is said of it: role, and what the last round has found."""
        said = {} if self.report is None else dict(msgspec.to_builtins(self.report))
        return {
            "role": "serving",
            "archive": self._store.where,
            "rounds": self.rounds,
            **said,
            "error": self.error,
        }

    async def _health(self, _: bytes) -> bytes:
        return msgspec.json.encode({"service": "archivist", "instance": self.cell.instance, **self.stats()})
