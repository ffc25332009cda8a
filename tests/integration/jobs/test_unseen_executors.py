"""Executors that take a job before anybody has seen a heartbeat of theirs, in a real cell."""

import asyncio
from typing import Any

import msgspec
import pytest

from sluice.events.codec import decode_commit
from sluice.events.job import JobPodsReady
from sluice.events.slices import ExecutorLost, JobClaimed, JobResumed, WorkloadStopped
from sluice.log.nats.kv import Bucket
from sluice.log.nats.streams import look_at
from sluice.protocol.dispatch import Heartbeat, key_text
from sluice.sdk import AsyncClient, Executor, Outcome, Work
from tests.integration.jobs.quick_scheduler import RunningScheduler
from tests.support.slices_world import manifest
from tests.support.system import System
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import PATIENCE_S, eventually, stays

from .conftest import client, scheduler, system

__all__ = ["client", "scheduler", "system"]
pytestmark = pytest.mark.nats


async def events(client: AsyncClient, *kinds: type) -> list[Any]:
    return [
        event
        async for entries in client.log.read(1, ["slices"])
        for entry in entries
        for step in decode_commit(entry.payload).steps
        for event in step.events
        if isinstance(event, kinds)
    ]


async def taken(client: AsyncClient, job: str, executor: str, attempt: int = 1) -> None:
    await client.submit(manifest(job))
    await client.wait(job, "Running")
    await client.publish(job, JobPodsReady(ready=False, attempt=attempt, executor=executor))

    async def claimed() -> bool:
        return any(event.executor == executor for event in await events(client, JobClaimed))

    await eventually(claimed)


async def beats(client: AsyncClient, name: str) -> None:
    bucket = Bucket(client.log, "heartbeats", memory=True)
    await bucket.ensure()
    while True:
        beat = Heartbeat(name=key_text(name), instance="1")
        await bucket.put(f"agent.{name}", msgspec.json.encode(beat), ttl_s=30)
        await asyncio.sleep(1)


async def test_who_takes_a_job_and_never_beats_is_lost(
    client: AsyncClient, scheduler: RunningScheduler, system: System
) -> None:
    """Whoever leads meanwhile, whatever becomes of the bucket; who begins to beat late keeps its job."""
    assert scheduler.runner.role != "stopped"
    await taken(client, "a", "never")
    await taken(client, "b", "late.one >*")
    connection = await client.log.connection()
    await connection.ask(f"$JS.API.STREAM.DELETE.KV_{client.log.cell.bucket('heartbeats')}")
    (service,) = system.live("slice_aggregator")
    system.kill(service)
    system.start("slice_aggregator")
    beating = asyncio.create_task(beats(client, "late=2Eone=20=3E=2A"))

    await eventually(lambda: events(client, ExecutorLost))
    (stopped,) = await events(client, WorkloadStopped)
    assert (stopped.reason, stopped.message) == ("NodeFailures", 'The agent "never" was lost')
    assert [event.executor for event in await events(client, ExecutorLost)] == ["never"]

    async def again() -> list[tuple[str, int]]:
        found = [(str(event.job), event.attempt) for event in await events(client, JobResumed)]
        return found if len(found) > 2 else []

    assert sorted(await eventually(again)) == [("default/a", 1), ("default/a", 2), ("default/b", 1)]
    beating.cancel()
    await asyncio.gather(beating, return_exceptions=True)


async def test_who_is_held_while_the_bucket_is_deleted_is_not_lost(
    client: AsyncClient, scheduler: RunningScheduler, system: System
) -> None:
    """An executor that lives, and whose heartbeat waits for its answer, has time to beat anew."""
    assert scheduler.runner.role != "stopped"
    beats, job = Bucket(client.log, "heartbeats", memory=True), asyncio.Event()

    async def run(work: Work) -> Outcome:
        await work.ready()
        await job.wait()
        return Outcome()

    port = int(system.url.rpartition(":")[2])
    async with TcpProxy(lambda: port) as proxy, AsyncClient(proxy.url, source="held") as held:
        executor = Executor(held, "x", run)
        serving = asyncio.create_task(executor.serve())
        await client.submit(manifest("a"))
        await client.wait("a", "Running")
        await eventually(lambda: events(client, JobClaimed))
        await eventually(lambda: beats.get("agent.x"))
        proxy.hold()
        await (await client.log.connection()).ask(f"$JS.API.STREAM.DELETE.{beats.stream}")
        await eventually(lambda: made(client, beats))

        async def alive() -> bool:
            return not await events(client, ExecutorLost)

        await stays(alive, 3)
        proxy.heal()
        await eventually(lambda: beats.get("agent.x"))
        job.set()
        assert (await client.wait("a", timeout_s=PATIENCE_S)).attempt == 1
        executor.stop()
        await serving


async def made(client: AsyncClient, bucket: Bucket) -> bool:
    return await look_at(await client.log.connection(), bucket.name) is not None
