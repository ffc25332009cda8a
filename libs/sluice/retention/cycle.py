"""One round of retention: archive, base, cut. At whatever moment it ends, nothing is lost.

1. Archive the log up to the base that is to be made; read back what was written.
2. Make the base from the log. Fold the archive up to it, too: the bytes must be the same.
3. Store the base in the archive and in the cell; read it back. Let the log say that it was made.
4. Look at the files of all that is to go once more. Cut the log: only what is archived, and behind the base.

Each step adds something that the next one looks for. What a round that was broken off has done, the next one
finds, and goes on from there.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import msgspec
import structlog

from sluice import __version__
from sluice.events.base import Micros
from sluice.log.runtime.bases import Base, Bases
from sluice.replay.source.live import LiveSource

from .archive import Archive
from .base_making import Made, make, verify
from .errors import ArchiveError, RetentionError
from .live import ArchivedCell
from .policy import RetentionPolicy, wanted_cut

__all__ = ["Report", "archive_all", "make_base", "round_of"]

Done = Callable[[str], None]
"""Told of each step when it is done."""

log = structlog.get_logger("sluice.retention")


class Report(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a round has found and done."""

    first: int
    """The log begins here now."""
    end: int
    archived: int
    """Last sequence in the archive."""
    base: int = 0
    """Sequence of the newest base, 0 if there is none."""
    cut: int = 0
    """How many sequences this round took away."""
    wanted: int = 0
    """Last sequence that the policy wants to go."""
    limit: str = ""
    """What keeps the cut from going as far as the policy wants."""


async def archive_all(
    cell: ArchivedCell, archive: Archive, until: int | None = None, done: Done = lambda _: None
) -> Report:
    """Archive the log up to where it ends now, or to *until*; nothing is cut.

    Raises:
        ArchiveError: it is not the archive of this log.
    """
    source = await cell.source()
    await asyncio.to_thread(archive.add, source, min(until or source.end, source.end), done)
    return Report(first=source.first, end=source.end, archived=archive.end)


async def make_base(
    cell: ArchivedCell,
    archive: Archive,
    wanted: int | None = None,
    *,
    without_api: bool = False,
    whole: bool = False,
    done: Done = lambda _: None,
) -> Base:
    """Make a base of *wanted* (the end: None), archive the log up to it, verify it, store it.

    *without_api*: also where the api service has saved nothing, which then forgets histories. *whole*: fold
    the archive from its beginning, whatever bases there are: for a release that has other states.

    Raises:
        RetentionError: it cannot be made, or is not what the archive leads to.
    """
    source = await cell.source()
    place = source.end if wanted is None else wanted
    beside, needs = await cell.beside(place, source.end), await cell.needs()
    if not beside and not without_api:
        raise RetentionError(
            "the api service has saved nothing yet, and only it knows the histories of jobs: it does so "
            "after API_SNAPSHOT_ENTRIES messages, and when it is stopped"
        )
    if whole:
        # The log itself may begin with states of another release.
        await asyncio.to_thread(archive.add, source, source.end, done)
        made = await asyncio.to_thread(make, archive.source(), min(place, archive.end), beside, needs)
    else:
        made = await asyncio.to_thread(make, source, place, beside, needs)
        await asyncio.to_thread(archive.add, source, made.base.seq, done)
    done("archived")
    await asyncio.to_thread(partial(verify, archive.source(), made, whole=whole))
    await cell.compare(made.base)
    base = msgspec.structs.replace(
        made.base, verified=True, at=await cell.stamp(made.base.seq), release=__version__
    )
    made = replace(made, base=base)
    done("verified")
    await store(cell, archive, made, done)
    log.info("base made", seq=base.seq, begin=base.begin, archived=archive.end, limit=made.limit)
    return base


async def store(cell: ArchivedCell, archive: Archive, made: Made, done: Done) -> None:
    await asyncio.to_thread(archive.put_base, made.base, made.parts)
    done("base archived")
    await cell.put(made)
    done("base stored")


async def round_of(
    cell: ArchivedCell,
    archive: Archive,
    policy: RetentionPolicy,
    now: Micros,
    *,
    without_api: bool = False,
    done: Done = lambda _: None,
) -> Report:
    """Do what the policy asks for.

    Raises:
        RetentionError: something does not fit; nothing was cut.
    """
    source = await cell.source()
    await asyncio.to_thread(archive.follows, source)
    size = await cell.size()
    wanted = await asyncio.to_thread(wanted_cut, source, policy, now, size)
    report = Report(first=source.first, end=source.end, archived=archive.end, wanted=wanted)
    if not wanted:
        return msgspec.structs.replace(report, base=await _newest(cell.bases))
    base = await _verified(cell, archive, source, wanted)
    if base is None:
        base = await make_base(cell, archive, wanted, without_api=without_api, done=done)
    keep = min(base.begin, base.seq, wanted + 1)
    limit = "" if keep > wanted else f"what follows on {keep - 1} is not in the base of {base.seq} yet"
    if keep > source.first:
        await _cut(cell, archive, base, source, keep, done)
    source = await cell.source()
    return Report(
        first=source.first,
        end=source.end,
        archived=archive.end,
        base=base.seq,
        cut=source.first - report.first,
        wanted=wanted,
        limit=limit,
    )


async def _cut(
    cell: ArchivedCell, archive: Archive, base: Base, source: LiveSource, keep: int, done: Done
) -> None:
    """Cut the log off before *keep*, when everything that goes can be read in the archive."""
    if not base.verified or keep > min(base.begin, base.seq) or keep - 1 > archive.end:
        raise RetentionError(f"seq {keep}: the log is cut behind a verified base and what is archived only")
    await asyncio.to_thread(_look_again, archive, source.first, keep)
    await cell.check(base)
    done("looked at again")
    log.info("cutting the log", first=source.first, keep_from=keep, base=base.seq)
    await cell.keep_from(keep)
    done("cut")
    await cell.bases.drop_old()
    done("old bases dropped")


def _look_again(archive: Archive, first: int, keep: int) -> None:
    """Read the files of what goes: they may lie there since long."""
    archive.store.forget()
    fresh = Archive(archive.store, archive.cell)
    covered = first
    for segment in fresh.segments:
        if segment.last < first or segment.first >= keep:
            continue
        if segment.first > covered:
            break
        fresh.open(segment)
        covered = segment.last + 1
    if covered < keep:
        raise ArchiveError(f"{archive.store.where}: has nothing of {covered}, which is to go")


async def _verified(cell: ArchivedCell, archive: Archive, source: LiveSource, wanted: int) -> Base | None:
    """Return a base that a round before has made and not come to use."""
    for base in await cell.bases.usable(source.first, source.end):
        if base.verified and base.begin > wanted and base.seq <= archive.end:
            return base
    return None


async def _newest(bases: Bases) -> int:
    return max((base.seq for base in await bases.all()), default=0)
