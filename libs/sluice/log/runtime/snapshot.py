"""Snapshots: a state saved with its place in the log, so that a start need not fold everything."""

import asyncio
import hashlib
import zlib
from collections.abc import Callable, Container, Sequence
from typing import NamedTuple, Protocol

import msgspec
import structlog

from sluice.api.errors import UNREADABLE
from sluice.events.base import Micros
from sluice.log.decider import Decider
from sluice.log.errors import EventLogError
from sluice.log.fold import Fold
from sluice.log.inflating import inflated

from .snapshot_info import SnapshotInfo

__all__ = ["MISSHAPEN", "Packed", "Snapshots", "pack"]

KEEP = 3
"""Snapshots kept per writer."""
MISSHAPEN = (TypeError, LookupError, AttributeError, RecursionError)
"""What loading a state raises that is one of another shape."""
FAR_BACK = 3
"""Of what is looked at in the past, too, no older one lies further from the next than its age by this."""

log = structlog.get_logger("sluice.log.snapshot")


class Store(Protocol):
    """Keeps blobs by name, with a description each."""

    async def put(self, name: str, data: bytes, description: bytes) -> None: ...

    async def get(self, name: str) -> bytes: ...

    async def listing(self) -> dict[str, bytes]:
        """Return name -> description of all that is kept."""
        ...

    async def delete(self, name: str) -> None: ...

    async def stamp(self, seq: int) -> Micros:
        """Return when the log took its message *seq*, 0 if there is none, or nobody can say."""
        ...


class Packed(NamedTuple):
    """A state ready to be stored."""

    compressed: bytes
    digest: str
    """SHA-256 of the state."""
    size: int
    """Of the state, in bytes."""


class Snapshots:
    """Saves and finds the states of deciders in a store."""

    def __init__(self, store: Store, keep: int = KEEP) -> None:
        self._store, self._keep = store, keep

    async def store(
        self, writer: str, state_version: int, data: bytes, upto: int, at: Micros, own: int
    ) -> SnapshotInfo:
        """Save one state, then drop old ones."""
        packed = await asyncio.to_thread(pack, data)
        return await self.store_packed(writer, state_version, packed, upto, at, own)

    async def store_packed(
        self,
        writer: str,
        state_version: int,
        packed: Packed,
        upto: int,
        at: Micros,
        own: int,
        *,
        far_back: bool = False,
    ) -> SnapshotInfo:
        """Save one state, then drop old ones: all but the newest, or, *far_back*, some of them."""
        info = SnapshotInfo(
            writer=writer,
            state_version=state_version,
            upto=upto,
            at=at,
            own=own,
            digest=packed.digest,
            size=packed.size,
            stamp=await self._store.stamp(max(upto, own)),
        )
        await self._store.put(
            f"{writer}-{upto:020d}-{own:020d}", packed.compressed, msgspec.json.encode(info)
        )
        log.info("snapshot stored", writer=writer, upto=upto, own=own, bytes=len(packed.compressed))
        known = await self._all(writer)
        kept = spread([info.upto for _, info in known], self._keep) if far_back else [*range(self._keep)]
        for number, (old, _) in enumerate(known):
            if number not in kept:
                await self._store.delete(old)
        return info

    async def _all(self, writer: str) -> list[tuple[str, SnapshotInfo]]:
        """Return the snapshots of *writer*, newest first."""
        found = []
        for name, description in (await self._store.listing()).items():
            try:
                info = msgspec.json.decode(description, type=SnapshotInfo)
            except UNREADABLE:
                continue
            if info.writer == writer:
                found.append((name, info))
        return sorted(found, key=lambda item: (item[1].upto, item[1].own, item[0]), reverse=True)

    async def stored(self, writer: str) -> list[tuple[SnapshotInfo, str]]:
        """Return what there is of *writer*, newest first, each with its name for `compressed`."""
        return [(info, name) for name, info in await self._all(writer)]

    async def newest_of_others(self, known: Container[str]) -> list[SnapshotInfo]:
        """Return the newest of each writer that is not *known*."""
        writers: dict[str, None] = {}
        for description in (await self._store.listing()).values():
            try:
                writers[msgspec.json.decode(description, type=SnapshotInfo).writer] = None
            except UNREADABLE:
                continue
        found = [await self._all(writer) for writer in writers if writer not in known]
        return [snapshots[0][1] for snapshots in found]

    async def compressed(self, name: str) -> bytes:
        """Return a state as it is stored."""
        return await self._store.get(name)

    async def newest[S](self, decider: Decider[S], end: int) -> Fold[S] | None:
        """Return the newest usable state, None for a replay from the start; says why one is not usable.

        *end*: of the log; a snapshot of what it no longer has is not used.
        """

        def fold(info: SnapshotInfo, data: bytes) -> Fold[S]:
            found = Fold(decider, decider.load(data), info.upto)
            found.at, found.own = info.at, info.own
            return found

        return await self.newest_as(decider.writer, decider.state_version, end, fold)

    async def newest_as[T](
        self, writer: str, state_version: int, end: int, load: Callable[[SnapshotInfo, bytes], T]
    ) -> T | None:
        """Return what *load* makes of the newest state that is usable, as `newest` does for a decider's."""
        try:
            found = await self._all(writer)
        except (EventLogError, OSError, TimeoutError) as error:
            log.warning("no snapshots, replaying all", writer=writer, error=str(error))
            return None
        for name, info in found:
            try:
                return load(info, await self._data(name, info, state_version, end))
            except (EventLogError, OSError, ValueError, *MISSHAPEN) as error:
                log.warning("snapshot not usable", writer=writer, snapshot=name, reason=str(error))
        if found:
            log.warning("no snapshot is usable, replaying all", writer=writer, snapshots=len(found))
        return None

    async def _data(self, name: str, info: SnapshotInfo, state_version: int, end: int) -> bytes:
        if info.state_version != state_version:
            raise ValueError(f"state version {info.state_version}, this code has {state_version}")
        if max(info.upto, info.own) > end:
            raise ValueError(f"is of seq {max(info.upto, info.own)}, the log ends at {end}")
        if info.stamp and await self._store.stamp(max(info.upto, info.own)) not in (0, info.stamp):
            raise ValueError("is of a log that was replaced")
        data, digest = await asyncio.to_thread(_unpack, await self._store.get(name), info.size)
        if digest != info.digest:
            raise ValueError("digest differs: it is damaged")
        return data


def spread(uptos: Sequence[int], newest: int) -> list[int]:
    """Return which of the snapshots, newest first, are to be kept: few, and the fewer the older they are.

    Between two of them lies a part of the older one's age at most, as far as they come close enough.
    """
    kept = [*range(min(newest, len(uptos)))]
    for number in range(len(kept), len(uptos)):
        last = number + 1 == len(uptos)
        if last or (uptos[kept[-1]] - uptos[number + 1]) * FAR_BACK > uptos[0] - uptos[number + 1]:
            kept.append(number)
    return kept


def pack(data: bytes) -> Packed:
    """Return a state as it is stored; takes a while."""
    return Packed(zlib.compress(data, 1), hashlib.sha256(data).hexdigest(), len(data))


def _unpack(compressed: bytes, size: int) -> tuple[bytes, str]:
    data = inflated(compressed, size)
    return data, hashlib.sha256(data).hexdigest()
