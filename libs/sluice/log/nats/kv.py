"""Buckets of a cell (JetStream key-value), with what executors need: conditional writes and time to live."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

import structlog

from sluice.log.errors import LogUnavailableError, NoStreamError, StaleSequenceError

from . import jetstream_api as api
from .connection import Connection
from .consumer import StreamReplacedError
from .jetstream import JetStreamLog, JetStreamTail, read_ack, read_stream
from .protocol import Frame, headers_of
from .streams import WHOLE, copies, ensure_bucket, look_at

__all__ = ["Bucket", "is_deletion"]

log = structlog.get_logger("sluice.sdk.bucket")


class Entry(NamedTuple):
    """A key's present value; `revision` grows with every write to the bucket."""

    key: str
    value: bytes
    revision: int


class Bucket:
    """One bucket, `sluice_<cell>_<what>`. *memory*: lost with the server, for what is told again anyway."""

    def __init__(self, target: JetStreamLog, what: str, *, memory: bool = False) -> None:
        self.log, self.memory = target, memory
        self.name = target.cell.bucket(what)
        self.stream = f"KV_{self.name}"
        self.prefix = f"$KV.{self.name}."

    async def ensure(self) -> None:
        """Create the bucket if it is not there, with no fewer copies than the log has.

        Whoever comes first makes a bucket that was lost, maybe an executor that nobody has told of replicas;
        with one copy, the next death of a server would stop the cell.
        """
        connection = await self.log.connection()
        replicas = max(self.log.replicas, await copies(connection, self.log.cell))
        await ensure_bucket(connection, self.name, replicas, memory=self.memory)

    async def _connection(self) -> Connection:
        async with asyncio.timeout(ANSWER_S):
            return await self.log.connection()

    async def get(self, key: str) -> Entry | None:
        """Return the newest value, None when there is none.

        Raises:
            LogUnavailableError, ConnectionError, TimeoutError: no answer.
        """
        return self._entry(key, await self._last(key))

    async def certainly(self, key: str) -> Entry | None:
        """Return the newest value as `get` does, but None only if that is certain.

        A projection's bucket that was lost is written anew after a moment: until it is whole, nothing
        follows from a key that is not there.

        Raises:
            LogUnavailableError, ConnectionError, TimeoutError: no answer, or nobody can say.
        """
        message = await self._last(key)
        if message is None:
            connection = await self._connection()
            before = await look_at(connection, self.name)
            message = await self._last(key)
            if message is None:
                after = await look_at(connection, self.name)
                if before is None or after is None or not before.whole or before.created != after.created:
                    raise LogUnavailableError(f"{self.name}: is being written anew")
        return self._entry(key, message)

    async def _last(self, key: str) -> api.Stored | None:
        """Return the newest message of a key, None if there is none, or no bucket."""
        try:
            return await api.message(await self._connection(), self.stream, last_of=self.prefix + key)
        except NoStreamError:
            return None

    def _entry(self, key: str, message: api.Stored | None) -> Entry | None:
        if message is None or is_deletion(message.header):
            return None
        return Entry(key, message.payload, message.seq)

    async def put(
        self, key: str, value: bytes, *, revision: int | None = None, ttl_s: float | None = None
    ) -> int:
        """Write a value and return its revision; makes the bucket if it is not there (any more).

        *revision*: that the key must have, 0 if it has no value. *ttl_s*: whole seconds until it is gone.

        Raises:
            StaleSequenceError: the key has another revision.
            AppendRefusedError, LogUnavailableError, UnansweredError, ConnectionError, TimeoutError: not
                written, or no answer.
        """
        headers = {}
        if revision is not None:
            headers["Nats-Expected-Last-Subject-Sequence"] = str(revision)
        if ttl_s is not None:
            headers["Nats-TTL"] = f"{max(1, round(ttl_s))}s"
        try:
            return await self._put(key, value, headers, revision)
        except StaleSequenceError:
            deletion = None if revision != 0 else await self._last(key)
            if deletion is None or not is_deletion(deletion.header):
                raise
            # What is left of a key that was deleted has a revision, too.
            headers["Nats-Expected-Last-Subject-Sequence"] = str(deletion.seq)
            return await self._put(key, value, headers, deletion.seq)

    async def _put(self, key: str, value: bytes, headers: dict[str, str], revision: int | None) -> int:
        try:
            frame = await self._write(key, value, headers)
        except LogUnavailableError:
            frame = await self._write_again(key, value, headers)
        return read_ack(self.prefix + key, revision, frame.payload).seq

    async def _write_again(self, key: str, value: bytes, headers: dict[str, str]) -> Frame:
        """Write where nobody takes it: the bucket was deleted, or a server has died that led it.

        In the second case it is there, and nobody says so before there is another leader.
        """
        making = asyncio.create_task(self.ensure())
        try:
            while True:
                await asyncio.wait([making], timeout=WRITE_AGAIN_S)
                made = making.done()
                if made:
                    await making
                try:
                    return await self._write(key, value, headers)
                except LogUnavailableError:
                    if made:
                        raise
        finally:
            making.cancel()
            await asyncio.wait([making])

    async def _write(self, key: str, value: bytes, headers: dict[str, str]) -> Frame:
        connection = await self._connection()
        answer_s = SHORT_ANSWER_S if self.memory or connection.replaceable else ANSWER_S
        return await connection.request(self.prefix + key, value, headers, answer_s)

    async def remove(self, key: str) -> None:
        """Remove a key without a trace; those who follow do not hear of it. Raises as `get`."""
        await api.purge(await self._connection(), self.stream, self.prefix + key)

    async def keys(self, under: str = "") -> list[str]:
        """Return the keys under the tokens *under*; those deleted lately (not removed) are among them."""
        pattern = f"{self.prefix}{under}.>" if under else f"{self.prefix}>"
        try:
            found = await api.info(await self._connection(), self.stream, subjects=pattern)
        except NoStreamError:
            return []
        subjects = found["state"].get("subjects") or {}
        return sorted(subject.removeprefix(self.prefix) for subject in subjects)

    async def everything(self, pattern: str = ">") -> dict[str, bytes]:
        """Return what the bucket holds now, {} if there is none; raises as `get`."""
        try:
            found = await api.info(await self._connection(), self.stream)
        except NoStreamError:
            return {}
        values: dict[str, bytes] = {}
        end = int(found["state"]["last_seq"])
        async for entries in read_stream(self.log, self.stream, self.prefix, end, [pattern]):
            for entry in entries:
                if is_deletion(entry.header):
                    values.pop(entry.suffix, None)
                else:
                    values[entry.suffix] = entry.payload
        return values

    async def follow(self, *patterns: str) -> AsyncIterator[list[tuple[str, bytes | None]]]:
        """Yield batches of (key, value or None for deleted): first all that there is, then what changes.

        Goes on for ever, over restarts of the server, and over the end of the bucket: of one that was made
        in its place it tells all that there is. What is not in that one any more it does not tell.
        """
        while True:
            try:
                async for batch in self._follow(patterns or (">",)):
                    yield batch
            except StreamReplacedError as error:
                log.warning("following anew", bucket=self.name, error=str(error))

    async def _follow(self, patterns: Sequence[str]) -> AsyncIterator[list[tuple[str, bytes | None]]]:
        arrived = asyncio.Event()
        tail = JetStreamTail(
            self.log.url, self.log.name, self.stream, self.prefix, 1, patterns, arrived.set, whole=False
        )
        try:
            while True:
                arrived.clear()
                if entries := tail.take():
                    yield [
                        (e.suffix, None if is_deletion(e.header) else e.payload)
                        for e in entries
                        if e.suffix != WHOLE
                    ]
                else:
                    await arrived.wait()
        finally:
            await tail.close()


ANSWER_S = 5.0
SHORT_ANSWER_S = 2.0
"""The same for a write to what is lost with the server (leases and heartbeats are worth nothing late), and
where there are several servers: what comes to a bucket that is just being deleted, or that a server leads
which dies, gets no answer at all."""
WRITE_AGAIN_S = 0.1


def is_deletion(header: bytes) -> bool:
    """Tell whether an entry with this header block says that its key is gone."""
    if not header:
        return False
    fields = headers_of(header)
    return "KV-Operation" in fields or "Nats-Marker-Reason" in fields
