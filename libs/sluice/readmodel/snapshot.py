"""The world as bytes and back: a start folds what came since, not the whole log.

It is kept in two parts: the cell, as `sluice replay` reads it from where it looks into the past (writer
`view`), and what only this service knows. Only speed depends on them. What cannot be read, by another
version or for any other reason, is left alone, and the log is folded from its beginning.
"""

import zlib
from collections import deque
from typing import NamedTuple

import msgspec
import structlog

from sluice.core.views import snapshot as views
from sluice.core.views.blocks import Blocks, Kept
from sluice.events.base import JobKey, Micros
from sluice.log.cell import CellFold, CellState
from sluice.log.errors import EventLogError
from sluice.log.runtime.background_fork import in_copy_beside
from sluice.log.runtime.bases import API_VIEW, Bases
from sluice.log.runtime.process_pool import ChildLostError
from sluice.log.runtime.snapshot import MISSHAPEN, Packed, Snapshots, pack

from .changes import Changes, Gone
from .jobs import Jobs, Offer, Submitted
from .world import World

WRITER = "api"
"""Name of the part that only this service reads; the service itself is no decider."""

_FOLD = 4
"""Raise it when the same entries are folded to another world."""

_CELL = CellFold()

log = structlog.get_logger("sluice.readmodel.snapshot")


class Parts(NamedTuple):
    """A world as it is kept."""

    cell: bytes
    rest: bytes


class _Snapshot(msgspec.Struct, frozen=True, array_like=True):
    histories: views.Histories
    changed: dict[str, dict[str, int]]
    gone: list[Gone]
    forgotten: int
    jobs: dict[JobKey, Submitted | int]
    ended: list[JobKey]
    packed: Kept
    offers: dict[int, tuple[JobKey, Offer]]
    refused: list[JobKey]
    rejected: int
    heads: dict[str, tuple[int, Micros]]


_read = msgspec.msgpack.Decoder(_Snapshot).decode

VERSION = zlib.crc32(
    repr([_Snapshot.__annotations__, Submitted.__annotations__]).encode(),
    views.VERSION + _FOLD,
)


def dump(world: World) -> Parts:
    """Return the world as bytes that `load` of the same VERSION reads."""
    changes, jobs = world.changes, world.jobs
    rest = msgspec.msgpack.encode(
        _Snapshot(
            histories=views.dump_histories(world.view),
            changed=changes.changed,
            gone=list(changes.gone),
            forgotten=changes.forgotten,
            jobs=jobs.by_key,
            ended=list(jobs.ended),
            packed=jobs.packed.kept(),
            offers=jobs.offers,
            refused=list(jobs.refused),
            rejected=jobs.rejected,
            heads=world.heads,
        )
    )
    return Parts(_CELL.dump(world.cell), rest)


def load(parts: Parts, seq: int, at: Micros) -> World:
    """Return the world as of *seq*.

    Raises:
        msgspec.DecodeError, LookupError: the bytes are of another version, or damaged.
    """
    return _world(_CELL.load(parts.cell), _read(parts.rest), seq, at)


def _world(cell: CellState, found: _Snapshot, seq: int, at: Micros) -> World:
    views.with_histories(cell.view, found.histories)
    return World(
        cell=cell,
        changes=Changes(found.changed, found.gone, found.forgotten),
        jobs=Jobs(
            found.jobs,
            found.rejected,
            found.offers,
            deque(found.refused),
            dict.fromkeys(found.ended),
            Blocks(found.packed),
        ),
        heads=found.heads,
        seq=seq,
        at=at,
    )


async def newest(snapshots: Snapshots, end: int) -> World:
    """Return the newest world of which both parts can be read, else an empty one. *end*: of the log."""
    while True:
        rest = await snapshots.newest_as(WRITER, VERSION, end, lambda info, data: (info, _read(data)))
        if rest is None:
            return World()
        info, found = rest
        cell = await snapshots.newest(_CELL, info.upto)
        if cell is None:
            return World()
        if cell.upto == info.upto:
            return _world(cell.state, found, info.upto, info.at)
        end = cell.upto


async def from_base(bases: Bases, first: int, end: int) -> World:
    """Return the world of the newest base; what only this service knows is missing where nobody can read it.

    Raises:
        NoBaseError, BaseMismatchError: there is none for this release.
    """
    for base in await bases.usable(first, end):
        rest, view = base.part(WRITER), base.part(API_VIEW)
        if rest is None or view is None or rest.upto != view.upto or rest.upto > end:
            continue
        if (rest.state_version, view.state_version) != (VERSION, _CELL.state_version):
            continue
        try:
            found = _read(await bases.state(base, rest))
            return _world(_CELL.load(await bases.state(base, view)), found, rest.upto, rest.at)
        except (EventLogError, OSError, ValueError, *MISSHAPEN) as error:
            log.warning("base not usable", writer=WRITER, seq=base.seq, reason=str(error))
    cell = await bases.fold(_CELL, first, end)
    log.warning("no histories of what was before", seq=cell.upto)
    return World(cell=cell.state, seq=cell.upto, at=cell.at)


async def store(snapshots: Snapshots, world: World) -> None:
    """Save the world as it is now; that it could not be is logged, and tried again with the next.

    A child process makes the bytes, since requests would wait for them.
    """
    seq, at = world.seq, world.at

    def packed() -> tuple[Packed, Packed]:
        parts = dump(world)
        return pack(parts.cell), pack(parts.rest)

    try:
        cell, rest = await in_copy_beside(packed)
        # In this order: the second one is of use only with the first.
        await snapshots.store_packed(_CELL.writer, _CELL.state_version, cell, seq, at, 0, far_back=True)
        await snapshots.store_packed(WRITER, VERSION, rest, seq, at, 0)
    except (EventLogError, OSError, TimeoutError, ChildLostError) as error:
        log.warning("snapshot not stored", seq=seq, error=str(error) or type(error).__name__)
