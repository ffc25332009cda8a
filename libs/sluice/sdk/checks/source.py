"""The requests of one controller, from the cell's bucket: all that there are, then every change.

Read in bulk by one consumer: ten thousand requests are a few messages' work.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import structlog

from sluice.events.check_protocol import CheckRequest
from sluice.events.dispatch import key_token
from sluice.log.errors import LogUnavailableError
from sluice.log.frames import headers_of
from sluice.log.jetstream import JetStreamLog, JetStreamTail

from .numbers import Numbers

log = structlog.get_logger("sluice.sdk.checks")

COMPARE_S = 10.0
"""How often to make sure that the bucket is still the one that is read."""

_REQUESTS = msgspec.json.Decoder(CheckRequest)
Batch = list[tuple[str, CheckRequest | None]]


class Source:
    """Requests of one controller."""

    def __init__(self, target: JetStreamLog, controller: str, numbers: Numbers) -> None:
        self.log, self.controller, self.numbers = target, controller, numbers
        name = target.cell.bucket("checks")
        self.stream, self.prefix = f"KV_{name}", f"$KV.{name}."
        self._arrived = asyncio.Event()
        self._tail: JetStreamTail | None = None
        self._created = ""

    async def everything(self) -> dict[str, CheckRequest]:
        """Begin to read, and return all requests as they are now; waits for the bucket."""
        await self.close()
        info = await self._info()
        while info is None:
            await asyncio.sleep(0.2)
            info = await self._info()
        end, self._created = int(info["state"]["last_seq"]), info.get("created", "")
        pattern = f"{key_token(self.controller)}.>"
        self._tail = tail = JetStreamTail(
            self.log.url,
            self.log.name,
            self.stream,
            self.prefix,
            1,
            [pattern],
            self._arrived.set,
            whole=False,
        )
        found: dict[str, CheckRequest] = {}
        while True:
            self._arrived.clear()
            for key, request in self._decoded(tail):
                if request is None:
                    found.pop(key, None)
                else:
                    found[key] = request
            if tail.reached(end):
                return found
            await self._arrived.wait()

    async def changes(self) -> AsyncIterator[Batch]:
        """Yield what changes from then on; ends when the bucket was replaced: then read everything again."""
        tail, loop = self._tail, asyncio.get_running_loop()
        assert tail is not None
        compare_at = loop.time() + COMPARE_S
        while True:
            self._arrived.clear()
            if batch := self._decoded(tail):
                yield batch
                continue
            try:
                async with asyncio.timeout_at(compare_at):
                    await self._arrived.wait()
            except TimeoutError:
                compare_at = loop.time() + COMPARE_S
                if await self._replaced(tail):
                    log.warning("the bucket of requests was replaced, reading it anew", stream=self.stream)
                    return

    def _decoded(self, tail: JetStreamTail) -> Batch:
        batch: Batch = []
        for entry in tail.take():
            if entry.header and _deleted(entry.header):
                batch.append((entry.suffix, None))
                continue
            try:
                batch.append((entry.suffix, _REQUESTS.decode(entry.payload)))
            except msgspec.DecodeError as error:
                # It stays in the bucket, for a controller that can read it.
                self.numbers.unreadable += 1
                log.error("unreadable request", key=entry.suffix, error=str(error))
        return batch

    async def _info(self) -> dict[str, Any] | None:
        try:
            connection = await self.log.connection(5.0)
            answer = await connection.ask(f"$JS.API.STREAM.INFO.{self.stream}")
        except (LogUnavailableError, ConnectionError, TimeoutError):
            return None
        return None if "error" in answer else answer

    async def _replaced(self, tail: JetStreamTail) -> bool:
        info = await self._info()
        if info is None:
            return False
        return info.get("created", "") != self._created or int(info["state"]["last_seq"]) < tail.position

    async def close(self) -> None:
        tail, self._tail = self._tail, None
        if tail is not None:
            await tail.close()


def _deleted(header: bytes) -> bool:
    fields = headers_of(header)
    return "KV-Operation" in fields or "Nats-Marker-Reason" in fields
