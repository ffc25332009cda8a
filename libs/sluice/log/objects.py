"""Snapshots in JetStream's object store, bucket `sluice_<cell>_snapshots`."""

import asyncio
import contextlib
from typing import Any

import nats.errors
import nats.js.errors
from nats.aio.client import Client as Nats
from nats.js.api import ObjectMeta, ObjectStoreConfig
from nats.js.object_store import ObjectStore

from .errors import LogUnavailableError
from .subjects import Cell

PUT_TIMEOUT_S, GET_TIMEOUT_S = 120.0, 120.0
ASK_TIMEOUT_S = 10.0


class ObjectBucket:
    """A `Store` on the server; every wait has a deadline."""

    def __init__(self, client: Nats, cell: Cell, replicas: int = 1) -> None:
        self._client, self._replicas = client, replicas
        self._bucket = cell.bucket("snapshots")
        self._store: ObjectStore | None = None

    async def _open(self) -> ObjectStore:
        if self._store is None:
            stream = self._client.jetstream(timeout=ASK_TIMEOUT_S)
            try:
                self._store = await stream.object_store(self._bucket)
            except nats.js.errors.NotFoundError:
                self._store = await stream.create_object_store(
                    self._bucket, config=ObjectStoreConfig(bucket=self._bucket, replicas=self._replicas)
                )
        return self._store

    async def _in_time(self, what: Any, timeout_s: float) -> Any:
        try:
            async with asyncio.timeout(timeout_s):
                return await what
        except (nats.errors.Error, TimeoutError, ConnectionError) as error:
            raise LogUnavailableError(f"{self._bucket}: {error or type(error).__name__}") from error

    async def put(self, name: str, data: bytes, description: bytes) -> None:
        async def put() -> None:
            store = await self._open()
            await store.put(name, data, ObjectMeta(name=name, description=description.decode()))

        await self._in_time(put(), PUT_TIMEOUT_S)

    async def get(self, name: str) -> bytes:
        async def get() -> bytes:
            store = await self._open()
            result = await store.get(name)
            return bytes(result.data or b"")

        found: bytes = await self._in_time(get(), GET_TIMEOUT_S)
        return found

    async def listing(self) -> dict[str, bytes]:
        async def listing() -> dict[str, bytes]:
            store = await self._open()
            try:
                infos = await store.list()
            except nats.js.errors.NotFoundError:
                return {}
            return {
                info.name: (info.description or "").encode()
                for info in infos
                if info.name and not info.deleted
            }

        found: dict[str, bytes] = await self._in_time(listing(), ASK_TIMEOUT_S)
        return found

    async def delete(self, name: str) -> None:
        async def delete() -> None:
            store = await self._open()
            with contextlib.suppress(nats.js.errors.NotFoundError):
                await store.delete(name)

        await self._in_time(delete(), ASK_TIMEOUT_S)
