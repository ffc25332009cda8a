"""Putting an archive back: a cell's log on a new server, every message at its own sequence.

Messages are stored in batches of which the last one alone is acknowledged. Their own times stand in a
header; the stream says up to where that is so, and everybody who reads goes by it. While it is under way the
stream says so, too: what was broken off goes on where it has come to.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from sluice.core.deciders import DECIDERS
from sluice.log.contract import IMPORTED_AT, MAX_PAYLOAD
from sluice.log.errors import NoStreamError
from sluice.log.nats import jetstream_api as api
from sluice.log.nats.connection import Connection, Link
from sluice.log.nats.jetstream import JetStreamLog, read_ack
from sluice.log.nats.objects import ObjectBucket
from sluice.log.nats.protocol import publish_frame
from sluice.log.nats.streams import IMPORTED_TO, RESTORING, stream_config
from sluice.log.runtime.bases import Base, Bases, checked
from sluice.protocol.subjects import GAP, Cell

from .archive import Archive
from .errors import ArchiveError, RetentionError

__all__ = ["Batch", "DisturbedError", "Restored", "restore"]

BATCH = 256
BATCH_BYTES = 1 << 20
TIMEOUT_S = 60.0
OPEN_S = 10.0


class DisturbedError(RetentionError):
    """Somebody else writes to the log that is being filled."""

    def __init__(self, found: int, wanted: int) -> None:
        super().__init__(f"the cell's log ends at {found}, not {wanted}: somebody else writes to it")


class Restored(NamedTuple):
    """What there is now."""

    first: int
    end: int
    base: int
    """Sequence of the base with which it begins, 0 if it is the whole log."""


class Batch:
    """Messages on their way. `seq`: that of the last one added."""

    def __init__(self, connection: Connection, prefix: str, seq: int = 0) -> None:
        self.seq = seq
        self._connection, self._prefix = connection, prefix
        self._waiting: list[tuple[str, bytes, Mapping[str, str]]] = []
        self._size = 0

    async def add(self, seq: int, suffix: str, at: int, payload: bytes) -> None:
        """Add the message that is to stand at *seq*, and something in the place of those before that are
        missing.

        Raises:
            DisturbedError: somebody else writes to the log.
        """
        while self.seq < seq - 1:
            await self._add(GAP, b"{}", {})
        await self._add(suffix, payload, {IMPORTED_AT.decode(): str(at)})

    async def _add(self, suffix: str, payload: bytes, headers: Mapping[str, str]) -> None:
        self.seq += 1
        self._waiting.append((self._prefix + suffix, payload, headers))
        self._size += len(payload)
        if len(self._waiting) >= BATCH or self._size >= BATCH_BYTES:
            await self.send()

    async def send(self) -> None:
        """Send what waits; its last message's sequence tells whether all of it was stored."""
        if not self._waiting:
            return
        *others, last = self._waiting
        reply, future = self._connection.expect(last[0])
        frames = [publish_frame(subject, payload, "", headers) for subject, payload, headers in others]
        frames.append(publish_frame(last[0], last[1], reply, last[2]))
        self._connection.write(b"".join(frames))
        self._waiting.clear()
        self._size = 0
        frame = await self._connection.answer(reply, future, TIMEOUT_S)
        stored = read_ack(last[0], None, frame.payload).seq
        if stored != self.seq:
            raise DisturbedError(stored, self.seq)


async def restore(
    archive: Archive,
    url: str,
    *,
    whole: bool = False,
    replicas: int = 1,
    show: Callable[[int], None] = lambda _: None,
) -> Restored:
    """Fill the log of the archive's cell on the server at *url*, which must not have one.

    *whole*: from the archive's beginning, and not only what follows on its newest base.

    Raises:
        RetentionError: there is a log, or the archive has no beginning for this release.
    """
    if not archive.segments:
        raise ArchiveError(f"{archive.store.where}: has nothing of cell {archive.cell}")
    base = None if whole else _base_of(archive)
    first = archive.segments[0].first if base is None else min(base.begin, base.seq)
    if base is None and first > 1:
        raise ArchiveError(
            f"{archive.store.where} begins at {first}, and has no base that this release can begin with"
        )
    link = Link(url, "sluice-restore")
    try:
        connection = await link.connection(OPEN_S)
        if connection.info.max_payload < MAX_PAYLOAD:
            raise RetentionError(
                f"the server takes messages of {connection.info.max_payload} bytes, and the log may have "
                f"some of {MAX_PAYLOAD}: set max_payload"
            )
        cell = Cell(archive.cell)
        end = await _begun(connection, cell, first, archive.end, replicas)
        batch = Batch(connection, cell.prefix, end)
        source = archive.source()
        for entries in source.read(end + 1):
            for entry in entries:
                await batch.add(entry.seq, entry.suffix, entry.at, entry.payload)
            show(batch.seq)
        await batch.send()
        if base is not None:
            await _put_base(archive, url, base)
        await _mark(connection, cell, {IMPORTED_TO: str(archive.end)})
    finally:
        await link.close()
    return Restored(first, archive.end, 0 if base is None else base.seq)


def _base_of(archive: Archive) -> Base | None:
    """Return the newest base that lies in the archive, and that services of this release can go on from."""
    wanted = {kind.writer: kind.state_version for kind in DECIDERS}
    for base in archive.bases():
        fits = wanted.items() <= base.versions.items()
        if fits and base.verified and base.seq <= archive.end and base.begin >= archive.segments[0].first:
            return base
    return None


async def _begun(connection: Connection, cell: Cell, first: int, last: int, replicas: int) -> int:
    """Make the stream, or find one that is being restored; return where it ends."""
    metadata = {RESTORING: str(last), IMPORTED_TO: str(last)}
    try:
        found = await api.info(connection, cell.stream)
    except NoStreamError:
        config = {**stream_config(cell, replicas), "first_seq": first, "metadata": metadata}
        await api.create(connection, config)
        return first - 1
    state, said = found["state"], found["config"].get("metadata") or {}
    if RESTORING in said:
        if said[RESTORING] != str(last) or int(state["first_seq"]) != first:
            raise RetentionError(f"{cell.stream}: another archive is being restored there")
        return int(state["last_seq"])
    if int(state["last_seq"]):
        raise RetentionError(
            f"{cell.stream}: there is a log already, which ends at {state['last_seq']}. Restore to another "
            "server, or under services that are stopped, and delete it first"
        )
    await _mark(connection, cell, metadata)
    if first > 1:
        await api.keep_from(connection, cell.stream, first)
    return first - 1


async def _mark(connection: Connection, cell: Cell, metadata: dict[str, str]) -> None:
    config: dict[str, Any] = (await api.info(connection, cell.stream))["config"]
    kept = {
        key: said for key, said in (config.get("metadata") or {}).items() if not key.startswith("sluice_")
    }
    await api.update(connection, {**config, "metadata": {**kept, **metadata}})


async def _put_base(archive: Archive, url: str, base: Base) -> None:
    """Store the base in the cell; the log's messages were taken by this server at other times than before."""
    log = JetStreamLog(url, archive.cell, name="sluice-restore")
    await log.open(OPEN_S)
    try:
        found = await api.message(await log.connection(OPEN_S), log.cell.stream, seq=base.seq)
        parts = {part.writer: archive.compressed(part) for part in base.parts}
        for part in base.parts:
            checked(part, parts[part.writer])
        at = 0 if found is None else found.at
        await Bases(ObjectBucket(log, "bases")).put(msgspec.structs.replace(base, at=at), parts)
    except ValueError as error:
        raise ArchiveError(f"{archive.store.where}: the base of {base.seq}: {error}") from error
    finally:
        await log.close()
