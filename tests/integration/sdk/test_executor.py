"""Users' own executors: the protocol, with work that is no process."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from sluice.api.labels import ELASTIC_JOB
from sluice.log.nats.kv import Bucket
from sluice.protocol.dispatch import DispatchEntry
from sluice.protocol.heartbeats import AnyHeartbeat
from sluice.sdk import AsyncClient, Executor, ExecutorSettings, JobFailedError, Outcome, Work
from sluice.sdk._questions import Questions
from sluice.sdk.execution.actions import Absent, GetHeartbeat, HasHeartbeat
from tests.integration.jobs.conftest import client, scheduler, system
from tests.integration.jobs.quick_scheduler import RunningScheduler
from tests.support.slices_world import manifest
from tests.support.system import System
from tests.support.waiting import PATIENCE_S

__all__ = ["client", "scheduler", "system"]
pytestmark = pytest.mark.nats

FAST = ExecutorSettings(heartbeat_s=0.3, ttl_s=1, takeover_s=2, check_s=1)


class Running:
    """An executor at work in this process."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor

    async def __aenter__(self) -> Executor:
        self.task = asyncio.create_task(self.executor.serve())
        return self.executor

    async def __aexit__(self, *_: object) -> None:
        self.executor.stop()
        await self.task


async def test_work_is_run_and_reported(client: AsyncClient, scheduler: RunningScheduler) -> None:
    """`run` gets the manifest and the assignment; what it returns is the job's end."""
    assert scheduler.runner.role != "stopped"
    seen: list[tuple[str, str, int]] = []

    async def run(work: Work) -> Outcome:
        seen.append((work.entry.job, work.entry.pod_sets[0].flavors["cpu"], len(await work.manifest())))
        await work.ready()
        bad = work.entry.job.endswith("bad")
        return Outcome(success=not bad, message="no luck" if bad else "")

    async with Running(Executor(client, "mine", run, FAST)):
        await client.submit(manifest("good"))
        await client.submit(manifest("bad"))
        assert (await client.wait("good", timeout_s=PATIENCE_S)).success
        with pytest.raises(JobFailedError, match="no luck"):
            await client.wait("bad", timeout_s=PATIENCE_S)
    assert sorted(job for job, _, _ in seen) == ["default/bad", "default/good"]
    assert all(flavor == "default" and size > 100 for _, flavor, size in seen)


async def test_work_is_cancelled_when_it_must_stop(client: AsyncClient, scheduler: RunningScheduler) -> None:
    """Eviction cancels `run`; when the cancellation has gone through, the job counts as stopped."""
    attempts: list[int] = []
    began, ended = asyncio.Event(), asyncio.Event()

    async def run(work: Work) -> Outcome:
        attempts.append(work.entry.attempt)
        began.set()
        try:
            await work.ready()
            if work.entry.attempt == 1:
                await asyncio.Event().wait()
        finally:
            ended.set()
        return Outcome()

    async with Running(Executor(client, "mine", run, FAST)):
        await client.submit(manifest("a"))
        await began.wait()
        scheduler.evict("a")
        assert (await client.wait("a", timeout_s=PATIENCE_S)).attempt == 2
    assert attempts == [1, 2]
    assert ended.is_set()


async def test_manifest_waits_for_the_server(
    client: AsyncClient, scheduler: RunningScheduler, system: System
) -> None:
    """That the server is away when the manifest is needed is not the job's fault."""
    assert scheduler.runner.role != "stopped"

    async def run(work: Work) -> Outcome:
        system.server.kill()
        reading = asyncio.create_task(work.manifest())
        await asyncio.sleep(0.5)
        await asyncio.to_thread(system.server.start)
        return Outcome(success=len(await reading) > 100)

    async with Running(Executor(client, "mine", run, FAST)):
        await client.submit(manifest("a"))
        assert (await client.wait("a", timeout_s=PATIENCE_S)).success


async def test_a_fault_in_run_fails_the_job(client: AsyncClient, scheduler: RunningScheduler) -> None:
    """The job fails with the exception's text, and the executor goes on."""
    assert scheduler.runner.role != "stopped"

    async def run(work: Work) -> Outcome:
        if work.entry.job.endswith("broken"):
            raise RuntimeError("out of paper")
        return Outcome()

    async with Running(Executor(client, "mine", run, FAST)):
        await client.submit(manifest("broken"))
        with pytest.raises(JobFailedError, match="executor mine: RuntimeError: out of paper"):
            await client.wait("broken", timeout_s=PATIENCE_S)
        await client.submit(manifest("next"))
        assert (await client.wait("next", timeout_s=PATIENCE_S)).success


async def _resized(entry: DispatchEntry) -> None:
    await asyncio.sleep(0)
    raise RuntimeError(f"no room for {entry.pod_sets[0].count}")


def _resized_at_once(_: DispatchEntry) -> None:
    raise RuntimeError("no room for 1")


@pytest.mark.parametrize("resized", [_resized, _resized_at_once], ids=["coroutine", "function"])
async def test_a_fault_in_on_resize_fails_that_job_alone(
    client: AsyncClient,
    scheduler: RunningScheduler,
    resized: Callable[[DispatchEntry], Coroutine[Any, Any, None] | None],
) -> None:
    """Its work is cancelled, so that it ends its pods; all else that the executor runs goes on."""
    assert scheduler.runner.role != "stopped"
    over: list[str] = []
    go_on, began = asyncio.Event(), asyncio.Semaphore(0)

    async def run(work: Work) -> Outcome:
        work.on_resize = resized
        try:
            await work.ready()
            began.release()
            await go_on.wait()
        finally:
            over.append(work.entry.job)
        return Outcome()

    elastic = manifest("elastic", parallelism=2)
    elastic["metadata"]["annotations"] = {ELASTIC_JOB: "true"}
    # Not so fast: printing a traceback takes long on a busy machine.
    async with Running(Executor(client, "mine", run, ExecutorSettings(check_s=1))):
        await client.submit(elastic)
        await client.submit(manifest("other"))
        for _ in range(2):
            await asyncio.wait_for(began.acquire(), PATIENCE_S)
        await client.scale("elastic", 1)
        with pytest.raises(JobFailedError, match="executor mine: RuntimeError: no room for 1"):
            await client.wait("elastic", timeout_s=PATIENCE_S)
        assert over == ["default/elastic"]
        go_on.set()
        assert (await client.wait("other", timeout_s=PATIENCE_S)).attempt == 1


async def test_each_attempt_runs_once(client: AsyncClient, scheduler: RunningScheduler) -> None:
    """Of many executors one has each job, however they race."""
    assert scheduler.runner.role != "stopped"
    runs: list[str] = []

    async def run(work: Work) -> Outcome:
        runs.append(work.entry.job)
        await asyncio.sleep(0.05)
        return Outcome()

    executors = [Executor(client, f"e{n}", run, FAST) for n in range(4)]
    tasks = [asyncio.create_task(executor.serve()) for executor in executors]
    jobs = await client.submit_many([manifest(f"j{n}") for n in range(50)])
    await client.wait_all(jobs, timeout_s=PATIENCE_S)
    for executor in executors:
        executor.stop()
    await asyncio.gather(*tasks)
    assert sorted(runs) == sorted(f"default/j{n}" for n in range(50))


@pytest.mark.parametrize(
    ("value", "there"),
    [
        (b'{"name":"x","instance":"2","pid":"?"}', True),
        (b'{"name":"y","instance":"2"}', False),
        (b"{}", False),
    ],
    ids=["odd", "another's", "none"],
)
async def test_a_heartbeat_is_one_to_executors_if_it_is_one_to_the_services(
    client: AsyncClient, value: bytes, there: bool
) -> None:
    """Whatever else it says: the services would say that somebody of that name is there."""
    heartbeats = Bucket(client.log, "heartbeats", memory=True)
    await heartbeats.put("agent.x", value)
    found = await Questions(client, "x").ask(GetHeartbeat())
    assert found == (HasHeartbeat(AnyHeartbeat(name="x", instance="2")) if there else Absent())
