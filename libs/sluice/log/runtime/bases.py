"""Bases: the states of all services at one sequence, from which a log that was cut begins.

A base says where its states stand, and from which sequence on the log must be there to go on from them
(`begin`). Each service has a part of its own. The description of the whole is stored last: a base that was
not stored to its end is none.
"""

import asyncio
import hashlib
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec
import structlog

from sluice.api.errors import UNREADABLE
from sluice.events.base import Micros
from sluice.log.decider import Decider
from sluice.log.errors import EventLogError
from sluice.log.fold import Fold
from sluice.log.inflating import inflated

from .snapshot import MISSHAPEN, Store
from .snapshot_info import SnapshotInfo

__all__ = [
    "API_VIEW",
    "Base",
    "Bases",
    "NoBaseError",
    "checked",
    "decode",
    "encode",
    "fold_of",
    "packed",
    "record",
]

KEEP = 2
"""Bases kept: the newest, and one more, as a service may be reading it."""

API_VIEW = "api-view"
"""The part that the api service has saved as its `view`, to go with its own; of another place."""

log = structlog.get_logger("sluice.log.bases")


class Base(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a base is; its states are stored beside it."""

    cell: str
    seq: int
    """The states are as of here: what is asked of an earlier time they cannot tell."""
    begin: int
    """The log must be there from here on; before `seq` where a service had not yet answered what it read."""
    at: Micros
    """When the log took its message at `seq`."""
    release: str
    """Which made it. One that has the same versions of states may follow."""
    parts: list[SnapshotInfo]
    verified: bool = False
    """The log was folded a second time, as it stands in the archive, and led to the same bytes."""

    def part(self, writer: str) -> SnapshotInfo | None:
        return next((part for part in self.parts if part.writer == writer), None)

    @property
    def versions(self) -> dict[str, int]:
        """Versions of the states, by service."""
        return {part.writer: part.state_version for part in self.parts}


class NoBaseError(EventLogError):
    """The log was cut, and there is no base to begin from."""

    def __init__(self, where: str, first: int) -> None:
        super().__init__(
            f"{where}: the log begins at seq {first}, and there is no base from which to begin there. "
            "Restore it: `sluice log restore` from the archive"
        )
        self.first = first


class BaseMismatchError(EventLogError):
    """No base has a state that this release can go on from."""

    def __init__(self, writer: str, first: int, base: Base, found: int, wanted: int) -> None:
        from sluice import __version__

        super().__init__(
            f"{writer}: the log begins at seq {first}, and the base of seq {base.seq} has state version "
            f"{found} ({writer}, by release {base.release}); this release, {__version__}, has {wanted}. "
            f"Go on with release {base.release}, or make a base by this release from the archive: "
            "`sluice log base --archive ARCHIVE`"
        )
        self.base, self.found, self.wanted = base, found, wanted


def fold_of[S](decider: Decider[S], base: Base, part: SnapshotInfo, data: bytes) -> Fold[S]:
    """Return the part of a base as something to go on from."""
    fold = Fold(decider, decider.load(data), part.upto)
    fold.at, fold.own, fold.after = part.at, part.own, base.begin - 1
    return fold


def checked(part: SnapshotInfo, compressed: bytes) -> bytes:
    """Return the state in a part.

    Raises:
        ValueError: it is damaged.
    """
    data = inflated(compressed, part.size)
    if hashlib.sha256(data).hexdigest() != part.digest:
        raise ValueError(f"{part.writer}: digest differs: it is damaged")
    return data


class Bases:
    """The bases of a cell, in a store."""

    def __init__(self, store: Store, keep: int = KEEP) -> None:
        self._store, self._keep = store, keep

    async def all(self) -> list[Base]:
        """Return the bases, newest first."""
        found = []
        for name, description in (await self._store.listing()).items():
            if not name.startswith("base-"):
                continue
            try:
                found.append(msgspec.json.decode(description, type=Base))
            except UNREADABLE as error:
                log.warning("not a base", name=name, error=str(error))
        return sorted(found, key=lambda base: (base.seq, base.begin), reverse=True)

    async def put(self, base: Base, parts: Mapping[str, bytes]) -> None:
        """Store a base: *parts*, compressed, by writer."""
        stored = await self._store.listing()
        for part in base.parts:
            name = _name(base, part)
            if name not in stored:
                await self._store.put(name, parts[part.writer], part.digest.encode())
        whole = msgspec.json.encode(base)
        # Some stores take no description without bytes.
        await self._store.put(f"base-{base.seq:020d}-{_mark(base)}", whole, whole)
        log.info("base stored", seq=base.seq, begin=base.begin, release=base.release)

    async def state(self, base: Base, part: SnapshotInfo) -> bytes:
        """Return a part's state.

        Raises:
            ValueError, LookupError: it is damaged, or not there.
        """
        compressed = await self._store.get(_name(base, part))
        return await asyncio.to_thread(checked, part, compressed)

    async def drop_old(self) -> None:
        """Forget all but the newest of each set of state versions, and what belongs to none."""
        counts: dict[str, int] = {}
        kept: set[str] = set()
        for base in await self.all():
            versions = repr(sorted(base.versions.items()))
            counts[versions] = counts.get(versions, 0) + 1
            if counts[versions] <= self._keep:
                kept.add(f"base-{base.seq:020d}-{_mark(base)}")
                kept |= {_name(base, part) for part in base.parts}
        # First what makes a base one.
        for name in sorted(await self._store.listing()):
            if name not in kept:
                await self._store.delete(name)

    async def usable(self, first: int, end: int) -> list[Base]:
        """Return the bases from which a log of *first* to *end* can be gone on with, newest first."""
        found = []
        for base in await self.all():
            if not first <= base.begin or base.seq > end:
                continue
            if await self._store.stamp(base.seq) not in (0, base.at):
                log.warning("base is of a log that was replaced", seq=base.seq)
                continue
            found.append(base)
        return found

    async def fold[S](self, decider: Decider[S], first: int, end: int) -> Fold[S]:
        """Return the newest usable state of a decider.

        Raises:
            NoBaseError, BaseMismatchError: there is none.
        """
        mismatch: BaseMismatchError | None = None
        for base in await self.usable(first, end):
            part = base.part(decider.writer)
            if part is None:
                continue
            if part.state_version != decider.state_version:
                mismatch = mismatch or BaseMismatchError(
                    decider.writer, first, base, part.state_version, decider.state_version
                )
                continue
            try:
                return fold_of(decider, base, part, await self.state(base, part))
            except (OSError, ValueError, *MISSHAPEN) as error:
                log.warning("base not usable", writer=decider.writer, seq=base.seq, reason=str(error))
        raise mismatch or NoBaseError(decider.writer, first)


def packed(data: bytes) -> bytes:
    return zlib.compress(data, 3)


def _mark(base: Base) -> str:
    """Return what tells bases of one sequence apart."""
    return hashlib.sha256(repr(sorted(base.versions.items())).encode()).hexdigest()[:8]


def _name(base: Base, part: SnapshotInfo) -> str:
    return f"part-{part.upto:020d}-{part.own:020d}-{part.digest[:16]}-{base.cell}-{part.writer}"


def encode(base: Base) -> bytes:
    return msgspec.json.format(msgspec.json.encode(base))


def decode(data: bytes) -> Base:
    """Return a base; raises ValueError."""
    try:
        return msgspec.json.decode(data, type=Base)
    except UNREADABLE as error:
        raise ValueError(f"not a base: {error}") from error


def record(base: Base) -> dict[str, Any]:
    """Return what the log says of a base."""
    return dict(msgspec.to_builtins(base))
