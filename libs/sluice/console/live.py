"""A running cell to look into: its world follows the log, its past is read from it. It writes nothing."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import structlog

from sluice.log.decider import Decider
from sluice.log.errors import EventLogError
from sluice.log.fold import Fold
from sluice.log.nats import jetstream_api
from sluice.log.nats.connection import Connection
from sluice.log.nats.consumer import HistoryLostError
from sluice.log.nats.jetstream import JetStreamLog
from sluice.log.nats.objects import ObjectBucket
from sluice.log.nats.protocol import Frame, addresses
from sluice.log.runtime.bases import Bases
from sluice.log.runtime.snapshot import Snapshots
from sluice.readmodel import replicas, snapshot
from sluice.readmodel.follower import Follower
from sluice.readmodel.objects import keys
from sluice.readmodel.world import World
from sluice.replay.source.live import LiveSource
from sluice.replay.source.source import Source
from sluice.retention.live import base_finder

from . import job_list
from .cell import Hands, Replica
from .log_view import Density
from .past import Past
from .problems import UnavailableError
from .redaction import Cover, Covered, CoveredLog

OPEN_S = 5.0
FIRST_ANSWER_S, SILENCE_S = 1.0, 0.15
FIRST_S = 2.0
"""So often it is asked where the log begins: it may be cut."""
OPENED = 20
"""Jobs that are looked at before others get their turn."""
REPLICAS_S = 2.0
"""So long what replicas have said of themselves is passed on."""

log = structlog.get_logger("sluice.console.live")


class _Log(LiveSource):
    @property
    def earlier(self) -> str:
        return "" if self.first == 1 else "what was before is in the archive: sluice console -l ARCHIVE"


class LiveCell:
    """A cell as its log has it up to now. `start` it, `run` it beside the server, `close` it."""

    kind, live = "cell", True

    def __init__(self, url: str, cell: str, cover: Cover | None = None) -> None:
        """*cover*: leaves out of all messages what nobody is to see; stored states are not read then."""
        self._url, self.cell, self.name = url, cell, f"cell {cell}"
        self._log = JetStreamLog(url, cell, name="console")
        followed: Any = self._log if cover is None else CoveredLog(self._log, cover)
        self._follower = Follower(
            followed,
            Snapshots(ObjectBucket(self._log)) if cover is None else None,
            bases=Bases(ObjectBucket(self._log, "bases")),
        )
        self._first = 1
        self.source: Source = _Log(
            url,
            cell,
            lambda decider, upto: _snapshot(url, cell, decider, upto),
            base_finder(url, cell),
            first=lambda: self._first,
            end=lambda: self._follower.world.seq,
        )
        if cover is not None:
            self.source = Covered(self.source, cover)
        self._hands, self._past = Hands(), Past(self.source, self._begin)
        self.density = Density(self.source, 1)
        self._replicas: tuple[float, list[Replica]] = (0.0, [])

    @property
    def lag(self) -> int:
        return self._follower.lag

    @property
    def ready(self) -> bool:
        return self._follower.ready.is_set()

    async def run(self) -> None:
        """Follow the log for ever.

        Raises:
            EventLogError: it cannot be followed any more.
        """
        # Without a time limit: the console may be started before the server is.
        await self._log.open(None)
        self._first = await self._log.first()
        beside = [asyncio.create_task(self._look()), asyncio.create_task(self._remember())]
        try:
            await self._follower.run(_nothing)
        finally:
            for task in beside:
                task.cancel()

    async def _remember(self) -> None:
        """Look at all jobs once, so that the first who asks does not wait until all are opened."""
        await self._follower.ready.wait()
        world = self._follower.world
        for number, key in enumerate(list(keys(world, "Job"))):
            job_list.phase_now(world, key)
            if not number % OPENED:
                await asyncio.sleep(0)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(FIRST_S)
            with suppress(EventLogError, OSError):
                self._first = await self._log.first()

    def _begin(self) -> World:
        """Return the world that the log begins with; for a thread without an event loop."""
        first, end = self.source.first, self.source.end
        if first == 1:
            return World()

        async def find() -> World:
            log = JetStreamLog(self._url, self.cell, name="console")
            await log.open(OPEN_S)
            try:
                return await snapshot.from_base(Bases(ObjectBucket(log, "bases")), first, end)
            finally:
                await log.close()

        return asyncio.run(find())

    async def ask[T](self, seq: int, question: Callable[[World], T]) -> T:
        if not self.ready:
            raise UnavailableError("the console has not caught up with the log yet")
        if not seq:
            return question(self._follower.world)
        return await self._kept(lambda: self._hands.fold(lambda: self._past.ask(seq, question)))

    async def read[T](self, work: Callable[[], T]) -> T:
        return await self._kept(lambda: self._hands.read(work))

    async def _kept[T](self, work: Callable[[], Awaitable[T]]) -> T:
        """Return what *work* returns, which is tried again when the log was cut before it could read it."""
        try:
            return await work()
        except HistoryLostError:
            self._first = await self._log.first()
            return await work()

    async def wait(self, seq: int, timeout_s: float) -> bool:
        return await self._follower.at_least(seq + 1, timeout_s)

    async def replicas(self) -> list[Replica]:
        now = asyncio.get_running_loop().time()
        if not self._replicas[1] or now - self._replicas[0] > REPLICAS_S:
            with suppress(EventLogError, OSError, TimeoutError):
                self._replicas = (now, replicas.told(await _answers(self._url), self.cell))
        return self._replicas[1]

    async def log_bytes(self) -> int:
        try:
            connection = await self._log.connection(OPEN_S)
            found = await jetstream_api.info(connection, self._log.cell.stream)
        except (EventLogError, OSError, TimeoutError):
            return 0
        return int(found["state"].get("bytes", 0))

    async def close(self) -> None:
        self._hands.close()
        await self._log.close()


async def _nothing() -> None:
    pass


def _snapshot(url: str, cell: str, decider: Decider[Any], upto: int) -> Fold[Any] | None:
    async def find() -> Fold[Any] | None:
        source = JetStreamLog(url, cell, name="console")
        await source.open(OPEN_S)
        try:
            return await Snapshots(ObjectBucket(source)).newest(decider, upto)
        finally:
            await source.close()

    # Whoever may not read them folds from the beginning.
    with suppress(EventLogError):
        return asyncio.run(find())
    return None


async def _answers(url: str) -> list[bytes]:
    """Return what all replicas say that answer within a moment of each other."""
    heard = asyncio.Queue[Frame]()

    def sink(frames: list[Frame]) -> None:
        for frame in frames:
            heard.put_nowait(frame)

    address = addresses(url)[0]
    inbox = f"_INBOX.{secrets.token_hex(8)}"
    connection = await Connection.open(address, "sluice-console", inbox, sink, lambda: None)
    try:
        return await connection.gather("$SRV.STATS", heard, FIRST_ANSWER_S, SILENCE_S)
    finally:
        await connection.shut()
