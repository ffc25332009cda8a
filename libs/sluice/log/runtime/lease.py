"""A lease: one key of a bucket, renewed by the one of several replicas that works.

Nobody trusts another's clock. A stand-by takes the key over when it has not changed for the lease's time
since the stand-by saw it, by writing at the revision that it saw: that fails if the holder has renewed it
meanwhile.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable
from typing import NamedTuple

import msgspec
import structlog

from sluice.api.errors import UNREADABLE
from sluice.log.errors import EventLogError, StaleSequenceError
from sluice.log.nats.jetstream import JetStreamLog
from sluice.log.nats.kv import Bucket
from sluice.protocol.subjects import token

__all__ = ["Lease", "LeasePolicy", "Unavailable"]

log = structlog.get_logger("sluice.log.lease")

LOOK_S = 1.0
"""A lease that was given back is found at latest after so long, however long leases last."""

LATE_S = 0.5
"""A turn of the event loop that takes longer is worth a warning where it may cost the lease."""

LEAST_ANSWER_S = 1.0

Unavailable = (EventLogError, ConnectionError, TimeoutError)
"""What is raised when nobody answers, or refuses."""


class LeasePolicy(NamedTuple):
    """How a key says who holds it, and what follows for its holder."""

    encode: Callable[[str], bytes]
    """The value that names a holder; "" gives the lease back."""
    holder: Callable[[bytes], str]
    """Who holds a key with this value, "" when it was given back, "?" when it cannot be read."""
    stored_s: int
    """After so many seconds without a renewal the server drops the key."""
    released_s: int
    """The same for a key that was given back."""
    fenced: bool
    """What a former holder writes is refused: it believes in the lease until it hears of another holder, also
    while nobody answers. Otherwise its belief ends the lease's time after it began its last renewal."""


class Lease:
    """One replica's part in a lease: `acquire`, then `keep`, in the end `release`."""

    def __init__(self, bucket: Bucket, key: str, instance: str, ttl_s: float, policy: LeasePolicy) -> None:
        self.bucket, self.key, self.instance, self.ttl_s, self.policy = bucket, key, instance, ttl_s, policy
        self.holder = ""
        """Instance of the holder, as far as this one knows."""
        self._mine = False
        self._until = 0.0
        self._revision = 0
        self._seen_at = 0.0
        """When this replica first saw the revision, in the loop's time."""
        self._ready = asyncio.Event()
        self._ready.set()

    @property
    def held(self) -> bool:
        """Whether this replica holds it: for certain, unless others are fenced."""
        return self._mine and (self.policy.fenced or self._left_s > 0)

    @property
    def _left_s(self) -> float:
        """How long it will be held without a renewal."""
        return self._until - _now()

    async def acquire(self) -> None:
        """Wait, as a stand-by, until the lease is this replica's."""
        while True:
            await self._ready.wait()
            try:
                async with self._answer():
                    if await self._try():
                        return
                # Not beyond the moment at which it will be free.
                left_s = self._seen_at + self.ttl_s - _now()
                await asyncio.sleep(min(self.ttl_s / 4, LOOK_S, max(left_s, self.ttl_s / 50)))
            except Unavailable as error:
                log.info("lease not answered", lease=self.key, error=str(error) or type(error).__name__)
                await asyncio.sleep(self.ttl_s / 10)

    async def keep(self) -> None:
        """Renew the lease until it is lost."""
        while self.held:
            await self._pause(self.ttl_s / 4)
            try:
                async with self._answer():
                    if self.held:
                        await self._renew()
            except Unavailable as error:
                log.info("lease not renewed", lease=self.key, error=str(error) or type(error).__name__)
                await self._pause(self.ttl_s / 20)
        self._set(mine=False)

    async def release(self) -> None:
        """Give the lease up, so that a stand-by need not wait for its end."""
        if self.held:
            self._mine = False
            with contextlib.suppress(*Unavailable):
                async with self._answer():
                    value = self.policy.encode("")
                    await self.bucket.put(
                        self.key, value, revision=self._revision, ttl_s=self.policy.released_s
                    )

    def _answer(self) -> asyncio.Timeout:
        if self._mine and not self.policy.fenced:
            return asyncio.timeout(max(0.05, self._left_s))
        return asyncio.timeout(max(self.ttl_s, LEAST_ANSWER_S))

    async def _pause(self, wait_s: float) -> None:
        if self.policy.fenced:
            await asyncio.sleep(wait_s)
            return
        wait_s, began = min(wait_s, max(0.0, self._left_s)), _now()
        await asyncio.sleep(wait_s)
        if (late_s := _now() - began - wait_s) > LATE_S:
            log.warning("event loop was blocked; call what blocks in a thread", seconds=round(late_s, 1))

    async def _try(self) -> bool:
        """Take the lease if it is free, or was not renewed in time."""
        found = await self.bucket.get(self.key)
        if found is not None:
            self.holder = self.policy.holder(found.value)
        revision = found.revision if found is not None else 0
        # A key that is gone has expired, or was forgotten by a server restarted, if there was one. A fenced
        # holder is about to renew it; another one believes in it for as long as it would have lasted.
        if revision != self._revision and (revision or self.policy.fenced):
            self._revision, self._seen_at = revision, _now()
        if self.holder not in ("", self.instance) and _now() - self._seen_at < self.ttl_s:
            return False
        return await self._put(revision)

    async def _renew(self) -> bool:
        if await self._put(self._revision):
            return True
        found = await self.bucket.get(self.key)
        if found is None:
            # Expired while we were slow, or forgotten by a server restarted.
            self.holder = "?"
            free = self.held
        else:
            # Perhaps our own, stored by a request that was not answered.
            self.holder = self.policy.holder(found.value)
            free = self.holder in ("", self.instance)
        if free and await self._put(found.revision if found is not None else 0):
            return True
        self._revision, self._seen_at = found.revision if found is not None else 0, _now()
        self._set(mine=False)
        return False

    async def _put(self, expected: int) -> bool:
        """Write the key; False if another did so meanwhile."""
        began, value = _now(), self.policy.encode(self.instance)
        try:
            revision = await self.bucket.put(self.key, value, revision=expected, ttl_s=self.policy.stored_s)
        except StaleSequenceError:
            return False
        self._revision, self._until, self.holder = revision, began + self.ttl_s, self.instance
        self._set(mine=True)
        return True

    def _set(self, *, mine: bool) -> None:
        if mine != self._mine:
            self._mine = mine
            self._changed()

    def _changed(self) -> None:
        """Say that it was taken, or lost."""


def _now() -> float:
    return asyncio.get_running_loop().time()


class LeaseValue(msgspec.Struct, frozen=True):
    """Who leads. `released`: gave it up, anybody may have it."""

    holder: str
    released: bool = False


def _leader(value: bytes) -> str:
    try:
        found = msgspec.json.decode(value, type=LeaseValue)
    except UNREADABLE:
        return "?"
    return "" if found.released else found.holder


class KvLease(Lease):
    """A `Leadership` by a key in the bucket `sluice_<cell>_leases`.

    The chain of commits fences former leaders: the lease only saves work. Take-over after a crash takes
    about *ttl_s*, up to a quarter less or more, long before the server drops the key. The bucket is in
    memory: a lease need not outlive the server, and costs no disk when idle.
    """

    def __init__(self, target: JetStreamLog, name: str, holder: str, ttl_s: float = 1.0) -> None:
        def encode(holder: str) -> bytes:
            return msgspec.json.encode(LeaseValue(holder, released=not holder))

        stored_s = math.ceil(ttl_s * 2)
        policy = LeasePolicy(encode, _leader, stored_s, stored_s, fenced=True)
        super().__init__(Bucket(target, "leases", memory=True), token(name), holder, ttl_s, policy)
        self._tell: Callable[[], None] = lambda: None
        self._ready.clear()
        self._task: asyncio.Task[None] | None = None

    def start(self, changed: Callable[[], None]) -> None:
        self._tell = changed
        self._task = asyncio.create_task(self._run(), name=f"{self.key}-lease")

    def candidate(self, ready: bool) -> None:
        if ready:
            self._ready.set()
        else:
            self._ready.clear()

    async def confirm(self) -> bool:
        """Renew now; tell whether this replica still leads. False also when nobody can say."""
        try:
            async with self._answer():
                return self.held and await self._renew()
        except Unavailable:
            return False

    async def release(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await super().release()

    async def _run(self) -> None:
        while True:
            await self.acquire()
            await self.keep()

    def _changed(self) -> None:
        log.info("lease taken" if self._mine else "lease lost", lease=self.key, holder=self.instance)
        self._tell()
