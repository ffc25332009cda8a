"""Buckets deleted while a cell works: services and executors go on, and nothing runs twice."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sluice.events.codec import CloudEvent, decode_commit, decode_message
from sluice.events.slices import ExecutorLost, JobResumed
from sluice.log.nats.kv import Bucket
from sluice.log.nats.streams import look_at
from sluice.protocol.dispatch import Claim, dispatch_key
from sluice.sdk import AsyncClient, Executor, ExecutorSettings, Outcome, Work
from tests.integration.jobs.quick_scheduler import RunningScheduler
from tests.support.slices_world import manifest
from tests.support.system import System
from tests.support.waiting import PATIENCE_S, eventually, stays

from .conftest import client, scheduler

__all__ = ["client", "scheduler"]
pytestmark = pytest.mark.nats

FAST = ExecutorSettings(heartbeat_s=0.3, ttl_s=1, takeover_s=2, check_s=1)


@pytest.fixture
def system(tmp_path: Path) -> Any:
    with System(tmp_path) as system:
        # Who does not beat any more is lost in the end; who only has no turn on a full machine is not.
        system.env["SLICE_AGGREGATOR_LOST_AFTER_S"] = "20"
        system.env["SLICE_AGGREGATOR_POLL_S"] = "0.2"
        system.env["SLUICE_SNAPSHOT_EVENTS"] = "10"
        system.start("slice_aggregator")
        yield system


class Executors:
    """Executors in this process; their work goes on until the test lets it."""

    def __init__(self, client: AsyncClient) -> None:
        self.client = client
        self.begun: list[tuple[str, int]] = []
        self.now: Counter[str] = Counter()
        self.double: list[str] = []
        self.open = asyncio.Event()
        self._running: list[tuple[Executor, asyncio.Task[None]]] = []

    def start(self, name: str) -> Executor:
        executor = Executor(self.client, name, self._run, FAST)
        self._running.append((executor, asyncio.create_task(executor.serve())))
        return executor

    async def _run(self, work: Work) -> Outcome:
        job = str(work.entry.job).partition("/")[2]
        self.begun.append((job, work.entry.attempt))
        self.now[job] += 1
        if self.now[job] > 1:
            self.double.append(job)
        try:
            await work.ready()
            await self.open.wait()
        finally:
            self.now[job] -= 1
        return Outcome()

    async def stop(self) -> None:
        for executor, _ in self._running:
            executor.stop()
        await asyncio.gather(*(task for _, task in self._running))


@pytest.fixture
async def executors(client: AsyncClient, scheduler: RunningScheduler) -> AsyncIterator[Executors]:
    assert scheduler.runner.role != "stopped"
    executors = Executors(client)
    yield executors
    executors.open.set()
    await executors.stop()


async def delete(client: AsyncClient, what: str, stream: str = "") -> None:
    """Delete a bucket as `nats kv del` does, once there is one."""
    connection = await client.log.connection()
    name = stream or f"KV_{client.log.cell.bucket(what)}"

    async def deleted() -> bool:
        answer = await connection.ask(f"$JS.API.STREAM.DELETE.{name}")
        return bool(answer.get("success"))

    await eventually(deleted)


async def events(client: AsyncClient, kind: type) -> list[Any]:
    return [
        event
        async for entries in client.log.read(1, ["slices"])
        for entry in entries
        for step in decode_commit(entry.payload).steps
        for event in step.events
        if isinstance(event, kind)
    ]


async def reports(client: AsyncClient, job: str) -> list[str]:
    """Return the types of all messages about a job."""
    found = []
    async for entries in client.log.read(1, [f"job.default.{job}"]):
        for entry in entries:
            message = decode_message(entry.payload)
            assert isinstance(message, CloudEvent)
            found.append(message.type)
    return found


async def works(client: AsyncClient, executors: Executors, job: str) -> None:
    """A new job gets through, and nothing that ran was disturbed."""
    await client.submit(manifest(job))
    await eventually(lambda: (job, 1) in executors.begun)


async def test_dispatch(client: AsyncClient, executors: Executors) -> None:
    """What runs goes on, the bucket is whole again, and executors hear of new jobs and of ends."""
    executors.start("x")
    await works(client, executors, "a")
    for number in range(3):
        await delete(client, "dispatch")
        await works(client, executors, f"b{number}")
    bucket = Bucket(client.log, "dispatch")
    await eventually(lambda: bucket.get(dispatch_key("default/a")))  # type: ignore[arg-type]
    await stays(lambda: executors.now["a"] == 1, 2 * FAST.check_s)
    await client.delete("a")
    await eventually(lambda: executors.now["a"] == 0)
    executors.open.set()
    await client.wait_all([f"b{number}" for number in range(3)], timeout_s=PATIENCE_S)
    assert executors.begun == [("a", 1), ("b0", 1), ("b1", 1), ("b2", 1)]


async def test_dispatch_while_nothing_happens(client: AsyncClient, executors: Executors) -> None:
    """The leader misses the bucket by itself."""
    executors.start("x")
    await works(client, executors, "a")
    await delete(client, "dispatch")
    name = client.log.cell.bucket("dispatch")

    async def whole() -> bool:
        found = await look_at(await client.log.connection(), name)
        return found is not None and found.whole

    await eventually(whole)
    found = await Bucket(client.log, "dispatch").get(dispatch_key("default/a"))  # type: ignore[arg-type]
    assert found is not None


async def test_claims(client: AsyncClient, executors: Executors) -> None:
    """Claims of what runs are put back by who runs it; executors that come later start none of it again."""
    executors.start("x")
    jobs = [f"j{number}" for number in range(5)]
    for job in jobs:
        await works(client, executors, job)
    await delete(client, "claims")
    executors.start("y")
    await works(client, executors, "new")
    claims = Bucket(client.log, "claims")

    async def owners() -> list[str]:
        found = [await claims.get(key) for key in await claims.keys()]
        held = [msgspec.json.decode(entry.value, type=Claim) for entry in found if entry is not None]
        return sorted(claim.executor for claim in held if claim.state == "Active")

    async def back() -> bool:
        return (await owners()).count("x") >= len(jobs) and len(await owners()) == len(jobs) + 1

    await eventually(back)
    once = sorted((job, 1) for job in [*jobs, "new"])
    await stays(lambda: sorted(executors.begun) == once, FAST.takeover_s + 1)
    assert not executors.double
    executors.open.set()
    await client.wait_all([*jobs, "new"], timeout_s=PATIENCE_S)
    assert [(await reports(client, job)).count("JobFinished") for job in jobs] == [1] * len(jobs)


async def test_claims_of_a_job_of_which_much_was_said(client: AsyncClient, executors: Executors) -> None:
    """However long a job's history is, it is found in it whose the attempt is."""
    executors.start("x")
    await works(client, executors, "a")
    for _ in range(30):
        await client.pods_ready("a", ready=False, attempt=1)
        await client.pods_ready("a", attempt=1)
    await delete(client, "claims")
    executors.start("y")
    claims = Bucket(client.log, "claims")
    await eventually(claims.keys)
    await stays(lambda: executors.begun == [("a", 1)], 1)


async def test_claims_of_an_executor_that_is_away(client: AsyncClient, executors: Executors) -> None:
    """It crashed, its claims are deleted, it comes back: the attempt is reported, and the job runs again."""
    held = await _begun_by_a_process_that_died(client)
    await delete(client, "claims")
    executors.start("x")
    await eventually(lambda: ("a", 2) in executors.begun)
    assert held == 1
    assert "JobStopped" in await reports(client, "a")
    executors.open.set()
    assert (await client.wait("a", timeout_s=PATIENCE_S)).attempt == 2


async def _begun_by_a_process_that_died(client: AsyncClient) -> int:
    """Let an executor begin the job `a`, and then nothing more."""
    begun: list[int] = []

    async def run(work: Work) -> Outcome:
        begun.append(work.entry.attempt)
        await asyncio.Event().wait()
        return Outcome()

    other = AsyncClient(client.url, source="died")
    task = asyncio.create_task(Executor(other, "x", run, FAST).serve())
    await client.submit(manifest("a"))
    await eventually(lambda: begun)
    # As a crash: the connection is gone before anything can be said.
    await other.close()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return len(begun)


async def test_heartbeats(client: AsyncClient, executors: Executors) -> None:
    """Executors beat on in a new bucket, before anybody takes them for lost."""
    executors.start("x")
    await works(client, executors, "a")
    for number in range(3):
        await delete(client, "heartbeats")
        await works(client, executors, f"b{number}")
        await _beats_on(Bucket(client.log, "heartbeats"), "agent.x")
        assert executors.now["a"] == 1
    assert await events(client, ExecutorLost) == []
    assert [event.attempt for event in await events(client, JobResumed)] == [1] * 4


async def _beats_on(heartbeats: Bucket, key: str) -> None:
    """Wait for a first beat in this bucket, and two more."""

    async def beat(after: int) -> int:
        found = await heartbeats.get(key)
        return found.revision if found is not None and found.revision > after else 0

    revision = 0
    for _ in range(3):
        revision = await eventually(partial(beat, revision))


async def test_leases(client: AsyncClient, executors: Executors, system: System) -> None:
    """The leader renews in a new bucket, or a stand-by takes over; one of them goes on."""
    system.start("slice_aggregator")
    executors.start("x")
    for number in range(3):
        await works(client, executors, f"a{number}")
        await delete(client, "leases")
        await works(client, executors, f"b{number}")
    leases = Bucket(client.log, "leases")
    await eventually(lambda: leases.get("slice_aggregator"))
    assert all(service.alive for service in system.live("slice_aggregator"))
    assert not executors.double


async def test_snapshots(client: AsyncClient, executors: Executors, system: System) -> None:
    """A service goes on without them, saves others, and starts from what there is."""
    executors.start("x")
    stream = f"OBJ_{client.log.cell.bucket('snapshots')}"

    async def saved() -> bool:
        info = await (await client.log.connection()).ask(f"$JS.API.STREAM.INFO.{stream}")
        return "error" not in info and info["state"]["messages"] > 1

    for number in range(6):
        await works(client, executors, f"a{number}")
    await eventually(saved)
    await delete(client, "", stream)
    (service,) = system.live("slice_aggregator")
    for number in range(8):
        await works(client, executors, f"b{number}")
    await eventually(saved)
    await delete(client, "", stream)
    system.kill(service)
    system.start("slice_aggregator")
    await works(client, executors, "last")
    assert service.log_path.read_text().count("Traceback") == 0
