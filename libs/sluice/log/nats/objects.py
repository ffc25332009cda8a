"""Snapshots in JetStream's object store: buckets `sluice_<cell>_snapshots`, and `sluice_<cell>_bases`.

The layout is that of the clients' object stores, so their tools list and fetch the snapshots. Read and
written over the log's own connections: a store that hangs while the server restarts would hold up the
start of a service.
"""

import asyncio
import base64
import hashlib
import secrets
from collections.abc import Awaitable
from typing import Any

import msgspec
import structlog

from sluice.api.errors import UNREADABLE
from sluice.events.base import Micros
from sluice.log.errors import (
    AppendRefusedError,
    EventLogError,
    LogUnavailableError,
    NoStreamError,
    UnansweredError,
)

from . import jetstream_api as api
from .jetstream import JetStreamLog, read_ack, read_stream
from .streams import ensure

__all__ = ["ObjectBucket"]

CHUNK_BYTES = 1 << 20
PUT_TIMEOUT_S, GET_TIMEOUT_S, ASK_TIMEOUT_S = 120.0, 120.0, 15.0

SWEPT = 100
"""Descriptions of deleted objects that go with one deletion."""

_DIGEST = "SHA-256="

log = structlog.get_logger("sluice.log.objects")


class ObjectInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An object's description, as clients write it."""

    name: str
    bucket: str
    nuid: str
    size: int = 0
    chunks: int = 0
    digest: str = ""
    deleted: bool = False
    description: str | None = None
    options: dict[str, Any] | None = None


def _config(bucket: str, replicas: int) -> dict[str, Any]:
    return {
        "name": f"OBJ_{bucket}",
        "subjects": [f"$O.{bucket}.C.>", f"$O.{bucket}.M.>"],
        "retention": "limits",
        "storage": "file",
        "discard": "new",
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
        "max_msgs_per_subject": -1,
        "max_msg_size": -1,
        "num_replicas": replicas,
        "allow_direct": True,
        "allow_rollup_hdrs": True,
    }


class ObjectBucket:
    """A `Store` on the server; every operation has a deadline."""

    def __init__(self, target: JetStreamLog, bucket: str = "snapshots") -> None:
        self._log = target
        self._bucket = target.cell.bucket(bucket)
        self._stream = f"OBJ_{self._bucket}"
        self._prefix = f"$O.{self._bucket}."

    async def _in_time[T](self, what: Awaitable[T], timeout_s: float) -> T:
        try:
            async with asyncio.timeout(timeout_s):
                return await what
        except (TimeoutError, ConnectionError, AppendRefusedError, UnansweredError) as error:
            raise LogUnavailableError(f"{self._bucket}: {str(error) or 'timeout'}") from error

    async def put(self, name: str, data: bytes, description: bytes) -> None:
        await self._in_time(self._put(name, data, description.decode()), PUT_TIMEOUT_S)

    async def get(self, name: str) -> bytes:
        return await self._in_time(self._get(name), GET_TIMEOUT_S)

    async def listing(self) -> dict[str, bytes]:
        infos = await self._in_time(self._infos(), ASK_TIMEOUT_S)
        return {name: (info.description or "").encode() for name, info in infos.items()}

    async def delete(self, name: str) -> None:
        await self._in_time(self._delete(name), ASK_TIMEOUT_S)

    async def stamp(self, seq: int) -> Micros:
        try:
            connection = await self._log.connection(api.ANSWER_S)
            found = await api.message(connection, self._log.cell.stream, seq=seq)
        except (EventLogError, ConnectionError, TimeoutError):
            return 0
        return 0 if found is None else found.at

    async def _put(self, name: str, data: bytes, description: str) -> None:
        await ensure(await self._log.connection(), _config(self._bucket, self._log.replicas))
        info = ObjectInfo(
            name=name,
            bucket=self._bucket,
            nuid=secrets.token_hex(11),
            size=len(data),
            chunks=-(-len(data) // CHUNK_BYTES),
            digest=_digest(data),
            description=description,
            options={"max_chunk_size": CHUNK_BYTES},
        )
        for begin in range(0, len(data), CHUNK_BYTES):
            await self._publish(f"C.{info.nuid}", data[begin : begin + CHUNK_BYTES], {})
        await self._describe(info)

    async def _describe(self, info: ObjectInfo) -> None:
        await self._publish(_description(info.name), msgspec.json.encode(info), {"Nats-Rollup": "sub"})

    async def _publish(self, suffix: str, payload: bytes, headers: dict[str, str]) -> None:
        connection = await self._log.connection()
        frame = await connection.request(self._prefix + suffix, payload, headers, ASK_TIMEOUT_S)
        read_ack(self._prefix + suffix, None, frame.payload)

    async def _end(self) -> int:
        """Return the last sequence of the bucket's stream, 0 if there is none."""
        try:
            found = await api.info(await self._log.connection(), self._stream)
        except NoStreamError:
            return 0
        return int(found["state"]["last_seq"])

    async def _infos(self) -> dict[str, ObjectInfo]:
        return {name: info for name, info in (await self._all()).items() if not info.deleted}

    async def _all(self) -> dict[str, ObjectInfo]:
        """Return all descriptions, also of what is deleted."""
        found: dict[str, ObjectInfo] = {}
        if end := await self._end():
            async for entries in read_stream(self._log, self._stream, self._prefix, end, ["M.>"]):
                for entry in entries:
                    if (info := _info(entry.payload)) is not None:
                        found[info.name] = info
        return found

    async def _get(self, name: str) -> bytes:
        info = (await self._infos())[name]
        chunks: list[bytes] = []
        async for entries in read_stream(
            self._log, self._stream, self._prefix, await self._end(), [f"C.{info.nuid}"]
        ):
            chunks += [entry.payload for entry in entries]
        data = b"".join(chunks)
        if _digest(data) != info.digest:
            raise ValueError(f"object {name}: digest differs: it is damaged")
        return data

    async def _delete(self, name: str) -> None:
        found = await self._all()
        info = found.get(name)
        if info is None or info.deleted:
            return
        connection = await self._log.connection()
        await self._describe(ObjectInfo(name=name, bucket=self._bucket, nuid=info.nuid, deleted=True))
        await api.purge(connection, self._stream, f"{self._prefix}C.{info.nuid}")
        # Names never come again: what says that one is deleted would stay for ever, and be read each time.
        # With those whose deletion was cut off here, and those of releases that left them.
        left = [name, *(other.name for other in found.values() if other.deleted)]
        for gone in left[:SWEPT]:
            await api.purge(connection, self._stream, self._prefix + _description(gone))


def _description(name: str) -> str:
    """Return the end of the subject of an object's description."""
    return f"M.{base64.urlsafe_b64encode(name.encode()).decode()}"


def _info(payload: bytes) -> ObjectInfo | None:
    """Return an object's description; None for what is none, which anybody may have put there."""
    try:
        return msgspec.json.decode(payload, type=ObjectInfo)
    except UNREADABLE as error:
        log.warning("not an object's description", error=str(error))
        return None


def _digest(data: bytes) -> str:
    return _DIGEST + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()
