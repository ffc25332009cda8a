"""The requests of one controller, from the cell's bucket: all that there are, then every change.

Read in bulk by one consumer: ten thousand requests are a few messages' work.
"""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import structlog

from sluice.api.errors import UNREADABLE
from sluice.log.errors import EventLogError
from sluice.log.nats.consumer import StreamReplacedError
from sluice.log.nats.jetstream import JetStreamLog, JetStreamTail
from sluice.log.nats.kv import is_deletion
from sluice.log.nats.streams import Standing, look_at
from sluice.protocol.checks import CheckRequest
from sluice.protocol.dispatch import key_token

from ._metrics import Numbers

log = structlog.get_logger("sluice.sdk.checks")

LOOK_S = 0.2
AGAIN_S = 1.0
WHOLE_S = 10.0
"""How long to wait for a bucket that is not whole: a service of an older version does not say it."""

_REQUESTS = msgspec.json.Decoder(CheckRequest)
Batch = list[tuple[str, CheckRequest | None]]


class Source:
    """Requests of one controller."""

    def __init__(self, target: JetStreamLog, controller: str, numbers: Numbers) -> None:
        self.log, self.controller, self.numbers = target, controller, numbers
        self.bucket = name = target.cell.bucket("checks")
        self.stream, self.prefix = f"KV_{name}", f"$KV.{name}."
        self._arrived = asyncio.Event()
        self._tail: JetStreamTail | None = None

    async def everything(self) -> dict[str, CheckRequest]:
        """Begin to read, and return all requests as they are now; waits for the bucket.

        One that is being written anew lacks requests that nobody has withdrawn: it waits for that too.
        """
        while True:
            await self.close()
            try:
                return await self._everything(await self._whole())
            except StreamReplacedError as error:
                log.warning("reading the requests anew", error=str(error))
            except EventLogError as error:
                # Rights that are being changed, say: who cannot read now may read in a moment.
                log.warning("requests not read", error=str(error))
                await asyncio.sleep(AGAIN_S)

    async def _whole(self) -> int:
        """Return the end of the bucket, once that holds everything."""
        loop = asyncio.get_running_loop()
        patience = loop.time() + WHOLE_S
        while True:
            found = await self._look()
            if found is not None and (found.whole or loop.time() > patience):
                return found.last
            await asyncio.sleep(LOOK_S)

    async def _everything(self, end: int) -> dict[str, CheckRequest]:
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
        tail = self._tail
        assert tail is not None
        while True:
            self._arrived.clear()
            try:
                batch = self._decoded(tail)
            except EventLogError as error:
                log.warning("reading the requests anew", error=str(error))
                return
            if batch:
                yield batch
            else:
                await self._arrived.wait()

    def _decoded(self, tail: JetStreamTail) -> Batch:
        batch: Batch = []
        for entry in tail.take():
            if is_deletion(entry.header):
                batch.append((entry.suffix, None))
                continue
            try:
                batch.append((entry.suffix, _REQUESTS.decode(entry.payload)))
            except UNREADABLE as error:
                # It stays in the bucket, for a controller that can read it.
                self.numbers.unreadable += 1
                log.error("unreadable request", key=entry.suffix, error=str(error))
        return batch

    async def _look(self) -> Standing | None:
        try:
            return await look_at(await self.log.connection(5.0), self.bucket)
        except (EventLogError, ConnectionError, TimeoutError):
            return None

    async def close(self) -> None:
        tail, self._tail = self._tail, None
        if tail is not None:
            await tail.close()
