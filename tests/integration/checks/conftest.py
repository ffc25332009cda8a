"""A real server with the bucket of requests, and what a test does to it in place of the cell's service."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog

from sluice.events.codec import decode_message
from sluice.local.server import EmbeddedServer
from sluice.log.nats.kv import Bucket
from sluice.log.nats.streams import WHOLE
from sluice.protocol.checks import CheckRequest, CheckVerdict, request_key
from sluice.protocol.subjects import verdict_suffix
from sluice.sdk import AsyncClient
from sluice.sdk.checks import Controller
from sluice.sdk.checks._process import Process
from sluice.sdk.checks.testing import make_request
from tests.support.forked import Forked
from tests.support.system import Process as Replica

from .app import make

NAME = "example.com/test"


@dataclass
class Cell:
    """A server with a log and a bucket of requests; the test says what is asked."""

    server: EmbeddedServer
    client: AsyncClient
    directory: Path
    requests: Bucket
    processes: list[Replica] = field(default_factory=list)

    @property
    def record(self) -> Path:
        return self.directory / "record"

    @property
    def gate(self) -> Path:
        return self.directory / "gate"

    def did(self) -> list[tuple[str, str, int]]:
        """Return what the functions did: (what, workload, attempt)."""
        if not self.record.exists():
            return []
        parts = [line.split() for line in self.record.read_text().splitlines()]
        return [(what, name, int(attempt)) for what, name, attempt, _ in parts]

    def pids(self, what: str = "begin") -> list[int]:
        lines = self.record.read_text().splitlines() if self.record.exists() else []
        return [int(line.split()[3]) for line in lines if line.startswith(what)]

    async def ask(self, name: str, do: str = "ready", **more: Any) -> CheckRequest:
        """Put a request into the bucket."""
        controller = more.pop("controller", NAME)
        more.setdefault("uid", f"uid-{name}")
        request = make_request(name=name, labels={"do": do}, controller=controller, **more)
        return await self.put(request)

    async def put(self, request: CheckRequest) -> CheckRequest:
        await self.requests.put(_key(request), msgspec.json.encode(request))
        return request

    async def delete(self, request: CheckRequest) -> None:
        """Delete a request as the service does: with a tombstone."""
        connection = await self.client.log.connection()
        headers = {"KV-Operation": "DEL", "Nats-TTL": "60s"}
        await connection.request(self.requests.prefix + _key(request), b"", headers)

    async def whole(self) -> None:
        """Say that the bucket has everything, as the service does once it has written it."""
        connection = await self.client.log.connection()
        await connection.request(self.requests.prefix + WHOLE, b"", {"KV-Operation": "DEL"})

    async def verdicts(self, name: str = "", controller: str = NAME) -> list[CheckVerdict]:
        """Return the verdicts in the log, of one workload or all."""
        found = []
        async for entries in self.client.log.read(1, [verdict_suffix(controller)]):
            for entry in entries:
                message = decode_message(entry.payload)
                assert not isinstance(message, tuple)
                verdict = msgspec.json.decode(message.data, type=CheckVerdict)
                if name in ("", verdict.workload.partition("/")[2]):
                    found.append(verdict)
        return found

    async def said(self, name: str) -> list[str]:
        """Return the states of the verdicts on a workload."""
        return [verdict.state for verdict in await self.verdicts(name)]

    def controller(self, **settings: Any) -> Controller:
        """Return the test's controller, to be run in this process."""
        from sluice.sdk.checks import Settings

        return make(NAME, self.record, self.gate, Settings(**{"ttl_s": 1, "backoff_s": 0.2, **settings}))

    @contextlib.asynccontextmanager
    async def running(self, app: Controller | None = None, **more: Any) -> AsyncIterator[Process]:
        """Run a replica in this process, and stop it in order."""
        client = AsyncClient(self.server.url)
        process = Process(app or self.controller(), client, **more)
        task = asyncio.create_task(process.serve())
        try:
            yield process
        finally:
            process.stop()
            await task
            await client.close()

    def start(self) -> Replica:
        """Start a replica as a process."""
        own = {
            "SLUICE_NATS_URL": self.server.url,
            "CHECK_NAME": NAME,
            "CHECK_RECORD": str(self.record),
            "CHECK_GATE": str(self.gate),
        }
        process = Forked(
            ["tests.integration.checks.app"], {**os.environ, **own}, self.directory / "replicas.log"
        )
        self.processes.append(process)
        return process


@pytest.fixture
async def cell(nats_server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[Cell]:
    client = AsyncClient(nats_server.url)
    await client.log.open()
    requests = Bucket(client.log, "checks")
    await requests.ensure()
    cell = Cell(nats_server, client, tmp_path, requests)
    await cell.whole()
    try:
        yield cell
    finally:
        for process in cell.processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait(10)
        await client.close()


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """A line per verdict, in colour, takes longer than the verdict."""
    with structlog.testing.capture_logs():
        yield


@pytest.fixture(autouse=True)
def _shown_on_failure(tmp_path: Path) -> Iterator[None]:
    """The replicas' output belongs to a failure's report."""
    yield
    path = tmp_path / "replicas.log"
    if path.exists():
        print(path.read_text()[-8000:])


def _key(request: CheckRequest) -> str:
    workload = request.workload
    return request_key(request.controller, workload.namespace, workload.name, request.check)
