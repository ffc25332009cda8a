"""A running cell, as retention needs it: its log, its bases, and the cut."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from sluice.events.base import Micros
from sluice.events.codec import encode_message
from sluice.log.decider import Decider
from sluice.log.errors import EventLogError
from sluice.log.fold import Fold
from sluice.log.nats import jetstream_api as api
from sluice.log.nats.jetstream import JetStreamLog
from sluice.log.nats.objects import ObjectBucket
from sluice.log.runtime.bases import API_VIEW, Base, Bases, record
from sluice.log.runtime.snapshot import Snapshots
from sluice.log.runtime.snapshot_info import SnapshotInfo
from sluice.protocol.subjects import BASE, COMMITS
from sluice.replay.source.live import LiveSource

from .base_making import Made, Stored
from .errors import NotVerifiedError

__all__ = ["ArchivedCell", "base_finder", "log_source", "opened"]

OPEN_S = 10.0
KNOWN = frozenset({*COMMITS, "api", "view"})
"""Who saves states that a base has."""
API = "api"
"""Whose snapshots nobody else can fold."""


@asynccontextmanager
async def opened(url: str, cell: str, name: str = "sluice-archivist") -> AsyncIterator["ArchivedCell"]:
    """Connect to a cell's log.

    Raises:
        EventLogError: there is none.
    """
    log = JetStreamLog(url, cell, name=name)
    await log.open(OPEN_S)
    try:
        yield ArchivedCell(log)
    finally:
        await log.close()


def base_finder(url: str, cell: str) -> Callable[[Decider[Any], int, int], Fold[Any]]:
    """Return what finds a decider's state at the beginning of a log of a first and a last sequence.

    For threads without an event loop.
    """

    def find(decider: Decider[Any], first: int, end: int) -> Fold[Any]:
        async def ask() -> Fold[Any]:
            async with opened(url, cell, "sluice-bases") as found:
                return await found.bases.fold(decider, first, end)

        return asyncio.run(ask())

    return find


def log_source(url: str, cell: str) -> LiveSource:
    """Return a cell's log, to look into from the newest snapshot before a sequence, or from its base.

    For threads without an event loop.

    Raises:
        EventLogError: there is none.
    """

    def newest(decider: Decider[Any], upto: int) -> Fold[Any] | None:
        async def find() -> Fold[Any] | None:
            async with opened(url, cell, "sluice-snapshots") as found:
                # Newer ones do not help to look into the past.
                return await found.snapshots.newest(decider, upto)

        with suppress(EventLogError):
            return asyncio.run(find())
        return None

    return LiveSource(url, cell, newest, base_finder(url, cell))


class ArchivedCell:
    """One cell on a server."""

    def __init__(self, log: JetStreamLog) -> None:
        self.log, self.name = log, log.cell.name
        self.bases = Bases(ObjectBucket(log, "bases"))
        self.snapshots = Snapshots(ObjectBucket(log))

    async def source(self) -> LiveSource:
        """Return the log as it is now, to be read in threads."""
        return await asyncio.to_thread(
            LiveSource, self.log.url, self.name, bases=base_finder(self.log.url, self.name)
        )

    async def size(self) -> int:
        """Return how many bytes the stream takes."""
        found = await api.info(await self.log.connection(OPEN_S), self.log.cell.stream)
        return int(found["state"]["bytes"])

    async def stamp(self, seq: int) -> Micros:
        """Return when the server took a message, 0 if it is not there."""
        found = await api.message(await self.log.connection(OPEN_S), self.log.cell.stream, seq=seq)
        return 0 if found is None else found.at

    async def beside(self, wanted: int, end: int) -> list[Stored]:
        """Return what the api service has saved nearest behind *wanted*, else the newest before it.

        Both parts of it, of one place; [] if it has saved nothing.
        """
        rest = [(info, name) for info, name in await self.snapshots.stored(API) if info.upto <= end]
        views = {info.upto: (info, name) for info, name in await self.snapshots.stored("view")}
        rest = [(info, name) for info, name in rest if info.upto in views]
        behind = [each for each in rest if each[0].upto >= wanted]
        for info, name in behind[-1:] or rest[:1]:
            view, its_name = views[info.upto]
            pair = ((info, name), (msgspec.structs.replace(view, writer=API_VIEW), its_name))
            return [Stored(each, await self.snapshots.compressed(where)) for each, where in pair]
        return []

    async def needs(self) -> list[tuple[int, str]]:
        """Return what services beside the deciders and the api need of the log, by what they have saved."""
        return [(info.upto + 1, info.writer) for info in await self.snapshots.newest_of_others(KNOWN)]

    async def compare(self, base: Base) -> None:
        """Compare a base with what services have saved at the same places.

        Raises:
            NotVerifiedError: a service was in another state there.
        """
        for part in base.parts:
            for info, _ in await self.snapshots.stored(part.writer):
                same = part.writer in COMMITS and _place(info) == _place(part)
                if same and info.digest != part.digest:
                    raise NotVerifiedError(
                        f"{part.writer} was in another state at {part.upto} than the log leads to: "
                        "nothing is cut"
                    )

    async def put(self, made: Made) -> None:
        """Store a base, read it back, and let the log say so.

        Raises:
            NotVerifiedError: what was read back is damaged.
        """
        await self.bases.put(made.base, made.parts)
        await self.check(made.base)
        with suppress(EventLogError):  # it only says so
            payload = encode_message(
                message_id=secrets.token_hex(12),
                source=f"/sluice/{self.name}/archivist",
                event_type="BaseMade",
                subject=BASE,
                at=time.time_ns() // 1000,
                data=record(made.base),
            )
            await self.log.append(BASE, payload)

    async def check(self, base: Base) -> None:
        """Read all parts of a stored base.

        Raises:
            NotVerifiedError: one is damaged.
        """
        for part in base.parts:
            try:
                await self.bases.state(base, part)
            except (ValueError, LookupError) as error:
                raise NotVerifiedError(f"the base of seq {base.seq}, read back: {error}") from error

    async def keep_from(self, seq: int) -> None:
        """Cut the log off before *seq*."""
        await api.keep_from(await self.log.connection(OPEN_S), self.log.cell.stream, seq)


def _place(info: SnapshotInfo) -> tuple[int, int, int]:
    return info.upto, info.own, info.state_version
