"""A controller as a process: stand-by, active, stopping; settings from the environment.

SLUICE_NATS_URL, SLUICE_CELL, SLUICE_LOG_LEVEL, SLUICE_LOG_FORMAT and SLUICE_OTEL as everywhere;
SLUICE_CHECK_HTTP (`host:port`, `:port`) serves /healthz and /metrics.
"""

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog
import uvloop

from sluice.events.codec import CommitDecodeError
from sluice.log.errors import LogUnavailableError
from sluice.log.nats import jetstream_api as api
from sluice.log.runtime.lease import Unavailable
from sluice.protocol.checks import CheckRequest
from sluice.protocol.dispatch import key_token
from sluice.protocol.subjects import verdict_suffix
from sluice.sdk._client import AsyncClient
from sluice.telemetry import start
from sluice.telemetry.http import Pages, serving

from ._check import call
from ._clock import LoopClock
from ._engine import Engine
from ._health import Health
from ._history import Answers, History
from ._lease import heartbeat_lease
from ._metrics import Numbers, instrument
from ._outbox import Outbox
from ._registry import Registry
from ._request import Request
from ._source import Source
from ._verdict_messages import Said

log = structlog.get_logger("sluice.sdk.checks")

RETRY_S = 0.2
READ_S = 10.0
"""For finding out what the service has said against a verdict."""


class Process:
    """One replica of a controller. `serve` until `stop`."""

    def __init__(self, app: Registry, client: AsyncClient, *, instance: str = "", http: str = "") -> None:
        self.app, self.client, self.http = app, client, http
        self.instance = instance or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self.numbers = Numbers(app.name)
        self.lease = heartbeat_lease(client.log, app.name, self.instance, app.settings.ttl_s, app.version)
        self.engine: Engine | None = None
        self.health_port = 0
        """Where /healthz is, once it is served."""
        self._suffix = verdict_suffix(app.name)
        self._answers = Answers(
            lambda first: client.log.read(first, ("checks",)), client.log.end, time.monotonic
        )
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """End in order: what is at work may finish, then a stand-by takes over."""
        self._stopping.set()

    def recheck(self, select: Callable[[Request[Any]], bool]) -> int:
        return self.engine.recheck(select) if self.engine is not None else 0

    async def serve(self) -> None:
        """Work until `stop`: as a stand-by, then as the active replica, then perhaps as a stand-by again."""
        self.app.running = self
        async with contextlib.AsyncExitStack() as stack:
            health = Health(self.app.name, self.instance, self.numbers, self.lease, self.client.log)
            pages: Pages = {"/healthz": health.healthz, "/metrics": health.metrics}
            self.health_port = await stack.enter_async_context(serving(self.http, "SLUICE_CHECK_HTTP", pages))
            for lifespan in self.app.lifespans:
                await stack.enter_async_context(lifespan(self.app))
            log.info("controller started", controller=self.app.name, replica=self.instance)
            stopping = asyncio.create_task(self._stopping.wait())
            try:
                while not self._stopping.is_set():
                    acquiring = asyncio.create_task(self.lease.acquire())
                    await asyncio.wait({acquiring, stopping}, return_when=asyncio.FIRST_COMPLETED)
                    if not acquiring.done():
                        acquiring.cancel()
                        await asyncio.wait({acquiring})
                        break
                    acquiring.result()
                    await self._lead(stopping)
            finally:
                stopping.cancel()
                self.app.running = None

    async def _lead(self, stopping: asyncio.Task[Any]) -> None:
        """Be the active replica until the heartbeat is lost, or `stop`."""
        log.info("active", controller=self.app.name, replica=self.instance)
        self.numbers.active, self.numbers.takeovers = 1, self.numbers.takeovers + 1
        clock, lease = LoopClock(), self.lease
        outbox = Outbox(self.client.log, self.app.name, clock, lambda: lease.held)
        self.engine = Engine(
            self.app, clock, outbox.send, self._unheard, self.numbers, may=lambda: lease.held
        )
        source = Source(self.client.log, self.app.name, self.numbers)
        keeping = asyncio.create_task(self.lease.keep(), name="heartbeat")
        following = asyncio.create_task(self._follow(self.engine, source), name="requests")
        try:
            done, _ = await asyncio.wait({keeping, following, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if following in done:
                following.result()
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            lost = not self.lease.held
            if stopping.done():
                log.info(
                    "stopping", controller=self.app.name, replica=self.instance, at_work=self.numbers.running
                )
            if lost:
                log.warning("not active any more", controller=self.app.name, holder=self.lease.holder)
            await self.engine.stop(0.0 if lost else self.app.settings.drain_s)
            await source.close()
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            await self.lease.release()
            self.engine = None
            self.numbers.active = self.numbers.requests = self.numbers.running = self.numbers.queued = 0

    async def _follow(self, engine: Engine, source: Source) -> None:
        """Tell the engine all that there is, then what changes.

        1. Read the bucket; 2. read what was answered already; 3. let the author tidy up; 4. begin.
        """
        requests = await source.everything()
        history = await self._history(requests)
        log.info("requests read", requests=len(requests))
        await self._activated(engine, requests)
        await engine.replace(requests, history.of)
        while True:
            async for batch in source.changes():
                for key, request in batch:
                    engine.update(key, request)
            await engine.replace(await source.everything())

    async def _activated(self, engine: Engine, requests: dict[str, CheckRequest]) -> None:
        if not self.app.activated:
            return
        given: Sequence[Request[Any]] = engine.preview(requests)
        for hook in self.app.activated:
            try:
                await call(hook, given)
            except Exception:
                log.exception("on_active failed")

    # the log

    async def _history(self, requests: dict[str, CheckRequest]) -> History:
        history = History(requests)
        while requests:
            try:
                first = await self._seq_at(history.since)
                async for entries in self.client.log.read(first, [self._suffix]):
                    history.add(entries)
                break
            except Unavailable as error:
                log.info("log not read", error=str(error) or type(error).__name__)
                history = History(requests)
                await asyncio.sleep(RETRY_S)
        return history

    async def _seq_at(self, wall: int) -> int:
        """Return a sequence before which the log took nothing later than *wall* (microseconds)."""
        stream = self.client.log.cell.stream
        connection = await self.client.log.connection(5.0)
        state = (await api.info(connection, stream))["state"]
        low, high = max(1, int(state["first_seq"])), int(state["last_seq"])
        while low < high:
            middle = (low + high) // 2
            found = await api.message(connection, stream, seq=middle)
            if found is None:
                raise LogUnavailableError(f"{stream}: no message at {middle}")
            if found.at < wall:
                low = middle + 1
            else:
                high = middle
        return low

    async def _unheard(self, key: str, said: Said) -> bool | str:
        """Tell whether the service has seen the verdict, and what it said against it: see `Engine`."""
        if said.seq <= 0:
            return False
        try:
            async with asyncio.timeout(READ_S):
                return await self._answers.to(said.seq)
        except (*Unavailable, CommitDecodeError) as error:
            log.info("not known what became of a verdict", request=key, error=str(error))
            return False


async def _serve(process: Process) -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(min(process.app.settings.concurrency, 64) or 64))
    for which in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(which, process.stop)
    try:
        await process.serve()
    finally:
        await process.client.close()


def main(app: Registry) -> None:
    """Run *app* until SIGTERM or SIGINT, and exit."""

    async def run() -> None:
        client = AsyncClient(source=f"controller/{app.name}")
        process = Process(app, client, instance=instance, http=os.environ.get("SLUICE_CHECK_HTTP", ""))
        _observe(process.numbers)
        await _serve(process)

    instance = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    try:
        key_token(app.name)
        telemetry = start(f"check/{app.name}", instance, os.environ)
    except ValueError as error:
        print(f"{app.name}: configuration: {error}", file=sys.stderr)
        sys.exit(2)
    uvloop.run(run())
    telemetry.close()


def _observe(numbers: Numbers) -> None:
    from opentelemetry import metrics

    instrument(metrics.get_meter("sluice"), numbers)
