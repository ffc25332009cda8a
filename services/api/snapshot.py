"""The world as bytes and back: a start folds what came since, not the whole log.

Only speed depends on it. What cannot be read, by another version or for any other reason, is left alone, and
the log is folded from its beginning.
"""

import zlib
from collections import deque

import msgspec
import structlog

from sluice.core.config import Objects
from sluice.core.status import snapshot as views
from sluice.events.base import JobKey, Micros
from sluice.log.errors import EventLogError
from sluice.log.snapshot import Snapshots

from .changes import Changes, Gone
from .jobs import Jobs, Offer, Submitted
from .world import Presence, World

WRITER = "api"
"""Name of the snapshots; the service itself is no decider."""

_FOLD = 1
"""Raise it when the same entries are folded to another world."""

log = structlog.get_logger("sluice.api.snapshot")


class _Snapshot(msgspec.Struct, frozen=True, array_like=True):
    objects: list[tuple[str, int, msgspec.Raw]]
    terminating: list[tuple[str, str, int]]
    view: bytes
    histories: views.Rows
    changed: dict[str, dict[str, int]]
    gone: list[Gone]
    forgotten: int
    jobs: list[Submitted]
    offers: dict[int, tuple[JobKey, Offer]]
    refused: list[JobKey]
    rejected: int
    presence: list[Presence]
    heads: dict[str, tuple[int, Micros]]


_DECODER = msgspec.msgpack.Decoder(_Snapshot)

VERSION = zlib.crc32(
    repr([_Snapshot.__annotations__, Submitted.__annotations__, Presence.__annotations__]).encode(),
    views.VERSION + _FOLD,
)


def dump(world: World) -> bytes:
    """Return the world as bytes that `load` of the same VERSION reads."""
    changes, jobs = world.changes, world.jobs
    return msgspec.msgpack.encode(
        _Snapshot(
            objects=world.objects.rows(),
            terminating=[(kind, key, seq) for (kind, key), seq in world.objects.terminating.items()],
            view=views.dump(world.view),
            histories=views.dump_histories(world.view),
            changed=changes.changed,
            gone=list(changes.gone),
            forgotten=changes.forgotten,
            jobs=list(jobs.by_key.values()),
            offers=jobs.offers,
            refused=list(jobs.refused),
            rejected=jobs.rejected,
            presence=list(world.presence.values()),
            heads=world.heads,
        )
    )


def load(data: bytes, seq: int, at: Micros) -> World:
    """Return the world as of *seq*.

    Raises:
        msgspec.DecodeError, LookupError: the bytes are of another version, or damaged.
    """
    found = _DECODER.decode(data)
    objects = Objects.of_rows(found.objects, found.terminating)
    return World(
        objects=objects,
        view=views.load(found.view, found.histories),
        changes=Changes(found.changed, found.gone, found.forgotten),
        jobs=Jobs({job.key: job for job in found.jobs}, found.rejected, found.offers, deque(found.refused)),
        presence={(each.kind, each.name): each for each in found.presence},
        heads=found.heads,
        seq=seq,
        at=at,
    )


async def newest(snapshots: Snapshots, end: int) -> World:
    """Return the world of the newest snapshot that can be read, else an empty one. *end*: of the log."""
    found = await snapshots.newest_as(WRITER, VERSION, end, lambda info, data: load(data, info.upto, info.at))
    return World() if found is None else found


async def store(snapshots: Snapshots, world: World) -> None:
    """Save the world; that it could not be is logged, and tried again with the next."""
    seq, at, data = world.seq, world.at, dump(world)
    try:
        await snapshots.store(WRITER, VERSION, data, seq, at, 0)
    except (EventLogError, OSError, TimeoutError) as error:
        log.warning("snapshot not stored", seq=seq, error=str(error) or type(error).__name__)
