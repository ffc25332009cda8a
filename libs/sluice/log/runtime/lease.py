"""The lease: one key that the leader renews. It saves work; what keeps the log right is the chain.

A stand-by trusts its own clock only: when the key has not changed for the lease's time, it overwrites
the version that it saw, which fails if the leader has renewed it meanwhile. The server drops the key
somewhat later, for those who were not there to watch.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable

import msgspec
import structlog

from sluice.log.errors import EventLogError, LogUnavailableError, StaleSequenceError, UnansweredError
from sluice.log.nats import jetstream_api as api
from sluice.log.nats.jetstream import JetStreamLog, read_ack
from sluice.log.nats.streams import ensure_bucket
from sluice.protocol.subjects import token

log = structlog.get_logger("sluice.log.lease")

LOOK_S = 1.0
"""A lease that was given back is found at latest after so long, however long leases last."""


class LeaseValue(msgspec.Struct, frozen=True):
    """Who leads. `released`: gave it up, anybody may have it."""

    holder: str
    released: bool = False


class KvLease:
    """A `Leadership` by a key in the bucket `sluice_<cell>_leases`.

    Take-over after a crash takes about *ttl_s*: up to a third less, or a quarter more.
    """

    def __init__(self, target: JetStreamLog, name: str, holder: str, ttl_s: float = 1.0) -> None:
        self.log, self.name, self.holder, self.ttl_s = target, name, holder, ttl_s
        self.held = False
        self._bucket = target.cell.bucket("leases")
        self._subject = f"$KV.{self._bucket}.{token(name)}"
        self._changed: Callable[[], None] = lambda: None
        self._ready = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._seq = 0
        self._seen_at = 0.0
        self._holder_seen = ""

    def start(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._task = asyncio.create_task(self._run(), name=f"{self.name}-lease")

    def candidate(self, ready: bool) -> None:
        if ready:
            self._ready.set()
        else:
            self._ready.clear()

    async def release(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if self.held:
            self.held = False
            with contextlib.suppress(EventLogError):
                await self._put(LeaseValue(self.holder, released=True), self._seq)

    async def confirm(self) -> bool:
        """Renew now; tell whether this replica still leads. False also when nobody can say."""
        if not self.held:
            return False
        try:
            await self._renew()
        except EventLogError:
            return False
        return self.held

    async def _run(self) -> None:
        await self._prepare()
        while True:
            try:
                if self.held:
                    await asyncio.sleep(self.ttl_s / 3)
                    await self._renew()
                else:
                    await self._ready.wait()
                    if not await self._try():
                        await asyncio.sleep(self._until_next_try())
            except EventLogError as error:
                log.info("lease not answered", lease=self.name, error=str(error))
                await asyncio.sleep(self.ttl_s / 10)
                await self._prepare()

    def _until_next_try(self) -> float:
        """Return how long to sleep: not beyond the moment at which the lease will be free."""
        left_s = self._seen_at + self.ttl_s - asyncio.get_running_loop().time()
        return min(self.ttl_s / 4, LOOK_S, max(left_s, self.ttl_s / 50))

    async def _prepare(self) -> None:
        while True:
            try:
                connection = await self.log.connection()
                # In memory: a lease need not outlive the server, and costs no disk when idle. A server
                # that restarts forgets the whole bucket.
                await ensure_bucket(connection, self._bucket, self.log.replicas, memory=True)
                return
            except (EventLogError, ConnectionError, TimeoutError) as error:
                log.info("leases not ready", error=str(error) or "timeout")
                await asyncio.sleep(0.2)

    async def _renew(self) -> None:
        try:
            self._seq = await self._put(LeaseValue(self.holder), self._seq)
        except StaleSequenceError:
            seq, value = await self._look()
            if value is None or value.released or value.holder == self.holder:
                # Expired while we were slow, or forgotten by a server restarted, or our unanswered renewal.
                with contextlib.suppress(StaleSequenceError):
                    self._seq = await self._put(LeaseValue(self.holder), seq)
                    return
            self._set(held=False)

    async def _try(self) -> bool:
        """Take the lease if it is free, or was not renewed in time."""
        seq, value = await self._look()
        now = asyncio.get_running_loop().time()
        if seq != self._seq:
            self._seq, self._seen_at = seq, now
        if value is None:
            # Forgotten by a server restarted, if there was one: its holder is about to renew it.
            free = self._holder_seen == ""
        else:
            self._holder_seen = value.holder
            free = value.released or value.holder == self.holder
        if not free and now - self._seen_at < self.ttl_s:
            return False
        try:
            self._seq = await self._put(LeaseValue(self.holder), seq)
        except StaleSequenceError:
            return False
        self._set(held=True)
        return True

    def _set(self, *, held: bool) -> None:
        self.held = held
        self._holder_seen = self.holder if held else "another"
        self._seen_at = asyncio.get_running_loop().time()
        log.info("lease taken" if held else "lease lost", lease=self.name, holder=self.holder)
        self._changed()

    async def _look(self) -> tuple[int, LeaseValue | None]:
        """Return the key's sequence and value; (0, None) when there is none."""
        try:
            connection = await self.log.connection(self.ttl_s)
            found = await api.message(
                connection, f"KV_{self._bucket}", last_of=self._subject, timeout_s=self.ttl_s
            )
        except (ConnectionError, LogUnavailableError, TimeoutError) as error:
            raise UnansweredError(self._subject, str(error) or "timeout") from error
        if found is None:
            return 0, None
        try:
            value = msgspec.json.decode(found.payload, type=LeaseValue)
        except msgspec.DecodeError:
            value = None
        return found.seq, value

    async def _put(self, value: LeaseValue, expected: int) -> int:
        headers = {
            "Nats-Expected-Last-Subject-Sequence": str(expected),
            # Not the bucket's TTL: an update through a client's key-value API would lose it.
            "Nats-TTL": f"{math.ceil(self.ttl_s * 2)}s",
        }
        try:
            connection = await self.log.connection(self.ttl_s)
            frame = await connection.request(
                self._subject, msgspec.json.encode(value), headers, max(self.ttl_s, 0.5)
            )
        except (ConnectionError, TimeoutError) as error:
            raise UnansweredError(self._subject, str(error) or "timeout") from error
        return read_ack(self._subject, expected, frame.payload).seq
