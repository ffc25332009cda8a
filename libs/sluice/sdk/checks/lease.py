"""Which of several replicas is the active one: who holds the controller's heartbeat.

The heartbeat is a key with a time to live; it is created only where there is none, and renewed only at the
revision that its holder wrote. A holder believes itself active no longer than that time after it began its
last successful renewal, and a stand-by creates the key not before that time after the last renewal that it
has seen: also a server that restarts, and forgets the key, makes no two of them.
"""

import asyncio
import contextlib
import os
import socket
from typing import NamedTuple

import msgspec
import structlog

from sluice.log.errors import EventLogError, StaleSequenceError
from sluice.log.nats.jetstream import JetStreamLog
from sluice.log.nats.kv import Bucket
from sluice.protocol.checks import CONTROLLER, ControllerHeartbeat
from sluice.protocol.dispatch import key_token

log = structlog.get_logger("sluice.sdk.checks")

LATE_S = 0.5
"""A turn of the event loop that takes longer is worth a warning: it may cost the heartbeat."""

Unavailable = (EventLogError, ConnectionError, TimeoutError)
_BEATS = msgspec.json.Decoder(ControllerHeartbeat)


class Seen(NamedTuple):
    """The newest heartbeat of another replica. `at`: when this one first saw it, in the loop's time."""

    instance: str
    revision: int
    at: float


class HeartbeatLease:
    """The heartbeat of one controller. *ttl_s*: whole seconds."""

    def __init__(
        self, target: JetStreamLog, controller: str, instance: str, ttl_s: int, version: str = ""
    ) -> None:
        self.bucket = Bucket(target, "heartbeats", memory=True)
        self.key = f"{CONTROLLER}.{key_token(controller)}"
        self.controller, self.instance, self.ttl_s = controller, instance, ttl_s
        self._value = ControllerHeartbeat(
            name=controller, instance=instance, host=socket.gethostname(), pid=os.getpid(), version=version
        )
        self._revision = 0
        self._until = 0.0
        self._seen = Seen("", 0, 0.0)
        self.holder = ""
        """Instance of the active replica, as far as this one knows."""

    @property
    def valid(self) -> bool:
        """Whether this replica is certainly the only active one."""
        return asyncio.get_running_loop().time() < self._until

    @property
    def left_s(self) -> float:
        """How long it will be, without a renewal."""
        return self._until - asyncio.get_running_loop().time()

    async def acquire(self) -> None:
        """Wait, as a stand-by, until the heartbeat is this replica's."""
        ensured = False
        while True:
            try:
                if not ensured:
                    await self.bucket.ensure()
                    ensured = True
                if await self._try():
                    return
            except Unavailable as error:
                ensured = False
                log.info("heartbeat not answered", error=str(error) or type(error).__name__)
            await asyncio.sleep(self.ttl_s / 10)

    async def _try(self) -> bool:
        loop = asyncio.get_running_loop()
        found = await self.bucket.get(self.key)
        expected = 0
        if found is not None:
            other = _instance(found.value)
            self.holder = other
            if found.revision != self._seen.revision:
                self._seen = Seen(other, found.revision, loop.time())
            if other not in ("", self.instance):
                return False
            expected = found.revision
        elif self._seen.instance and loop.time() - self._seen.at < self.ttl_s:
            # Expired, or forgotten by a server restarted; then its holder believes in it for as long as this.
            return False
        return await self._put(expected)

    async def _put(self, expected: int) -> bool:
        """Write the heartbeat; False if another did so meanwhile."""
        began = asyncio.get_running_loop().time()
        try:
            self._revision = await self.bucket.put(
                self.key, msgspec.json.encode(self._value), revision=expected, ttl_s=self.ttl_s
            )
        except StaleSequenceError:
            return False
        self._until, self.holder = began + self.ttl_s, self.instance
        return True

    async def keep(self) -> None:
        """Renew the heartbeat until it is lost."""
        loop = asyncio.get_running_loop()
        while self.valid:
            wait_s, began = min(self.ttl_s / 4, max(0.0, self.left_s)), loop.time()
            await asyncio.sleep(wait_s)
            if (late_s := loop.time() - began - wait_s) > LATE_S:
                log.warning("event loop was blocked; call what blocks in a thread", seconds=round(late_s, 1))
            try:
                async with asyncio.timeout(max(0.05, self.left_s)):
                    if self.valid and not await self._renew():
                        break
            except Unavailable as error:
                log.info("heartbeat not renewed", error=str(error) or type(error).__name__)
                await asyncio.sleep(min(self.ttl_s / 20, max(0.0, self.left_s)))
        self._until = 0.0

    async def _renew(self) -> bool:
        if await self._put(self._revision):
            return True
        found = await self.bucket.get(self.key)
        if found is None:
            # A server restarted has forgotten it, within its time: nobody else can have it yet.
            return self.valid and await self._put(0)
        if _instance(found.value) == self.instance:
            # This process's own, stored by a request that was not answered.
            return await self._put(found.revision)
        self.holder = _instance(found.value)
        return False

    async def release(self) -> None:
        """Give the heartbeat up, so that a stand-by need not wait for its end."""
        if not self.valid:
            return
        self._until = 0.0
        value = msgspec.json.encode(msgspec.structs.replace(self._value, instance=""))
        with contextlib.suppress(*Unavailable):
            await self.bucket.put(self.key, value, revision=self._revision, ttl_s=1)


def _instance(value: bytes) -> str:
    try:
        return _BEATS.decode(value).instance
    except msgspec.DecodeError:
        return "?"
