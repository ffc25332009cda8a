"""The client against a real cell."""

import asyncio
from pathlib import Path

import pytest
import yaml

from sluice.events.job import JobStopped
from sluice.sdk import (
    AsyncClient,
    Client,
    JobDeletedError,
    JobFailedError,
    ManifestError,
    RejectedError,
    UnknownJobError,
    WaitTimeoutError,
)
from tests.integration.jobs.conftest import client, scheduler, system
from tests.support.slices_world import manifest
from tests.support.system import System
from tests.support.waiting import PATIENCE_S

__all__ = ["client", "scheduler", "system"]
pytestmark = [pytest.mark.nats, pytest.mark.usefixtures("scheduler")]


async def test_submit_run_finish(client: AsyncClient) -> None:
    """A job submitted runs when it is admitted, and is waited for until it finishes."""
    job = await client.submit(manifest("a"))
    running = await client.wait(job, "Running", timeout_s=PATIENCE_S)
    assert (running.phase, running.attempt) == ("Running", 1)
    await client.finish(job, attempt=1, message="all done")
    finished = await client.wait("a", timeout_s=PATIENCE_S)
    assert (finished.phase, finished.success, finished.message) == ("Finished", True, "all done")


async def test_wait_says_what_went_wrong(client: AsyncClient) -> None:
    """Failure, deletion, rejection, silence and ignorance are told apart."""
    failed = await client.submit(manifest("failed"))
    await client.finish(failed, success=False, message="exit code 3")
    with pytest.raises(JobFailedError, match="exit code 3"):
        await client.wait(failed, timeout_s=PATIENCE_S)

    deleted = await client.submit(manifest("deleted"))
    await client.wait(deleted, "Running", timeout_s=PATIENCE_S)
    await client.delete(deleted)
    await client.publish(deleted, JobStopped(attempt=1))
    with pytest.raises(JobDeletedError):
        await client.wait(deleted, timeout_s=PATIENCE_S)

    refused = await client.submit(manifest("refused", priority_class="nobody-knows"))
    with pytest.raises(RejectedError, match=r"metadata.labels\[kueue.x-k8s.io/priority-class\]: Not found"):
        await client.wait(refused, timeout_s=PATIENCE_S)

    slow = await client.submit(manifest("slow"))
    with pytest.raises(WaitTimeoutError, match="is Running, not Finished"):
        await client.wait(slow, timeout_s=2)
    with pytest.raises(UnknownJobError):
        await client.wait("nobody", timeout_s=5)


async def test_message_ids_make_submissions_repeatable(client: AsyncClient) -> None:
    """The same id again is the same submission; another id of a finished job runs it again."""
    first = await client.submit(manifest("a"), message_id="upstream-1")
    again = await client.submit(manifest("a"), message_id="upstream-1")
    assert (again.seq, again.duplicate) == (first.seq, True)
    await client.wait(first, "Running", timeout_s=PATIENCE_S)
    await client.finish("a", attempt=1)
    await client.wait(first, timeout_s=PATIENCE_S)
    second = await client.submit(manifest("a"))
    state = await client.wait(second, "Running", timeout_s=PATIENCE_S)
    assert state.phase == "Running"


async def test_submit_many(client: AsyncClient) -> None:
    """Many jobs go out together, in order, and can be waited for together."""
    jobs = await client.submit_many([manifest(f"j{n}") for n in range(1200)])
    assert [job.name for job in jobs] == [f"j{n}" for n in range(1200)]
    assert [job.seq for job in jobs] == sorted(job.seq for job in jobs)
    states = await client.wait_all(jobs, "Running", timeout_s=PATIENCE_S)
    assert {state.phase for state in states} == {"Running"}


async def test_dispatch_shows_present_and_changes(client: AsyncClient) -> None:
    """Who begins to follow sees what is, then what changes, down to the end of the job."""
    await client.submit(manifest("a"))
    await client.wait("a", "Running", timeout_s=PATIENCE_S)
    seen: list[tuple[str, str | None]] = []
    async with asyncio.timeout(PATIENCE_S):
        async for change in client.dispatch():
            seen.append((change.job, change.entry.state if change.entry else None))
            if len(seen) == 1:
                await client.finish("a", attempt=1)
            if change.entry is None:
                break
    assert seen == [("default/a", "Running"), ("default/a", None)]


async def test_synchronous_client(system: System, tmp_path: Path) -> None:
    """Three lines in a program without asyncio, from a file."""
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(manifest("from-file")))

    def program() -> str:
        with Client(system.url) as sluice:
            job = sluice.submit(path)
            sluice.wait(job, "Running", timeout_s=PATIENCE_S)
            sluice.finish(job, attempt=1)
            return sluice.wait(job, timeout_s=PATIENCE_S).phase

    assert await asyncio.to_thread(program) == "Finished"


async def test_bad_manifests_are_not_published(client: AsyncClient, tmp_path: Path) -> None:
    """What the cell would refuse is refused before, with the field and the place."""
    broken = manifest("a")
    broken["spec"]["paralelism"] = 3
    with pytest.raises(ManifestError, match=r"spec.paralelism: Unknown field"):
        await client.submit(broken)
    with pytest.raises(ManifestError, match=r"spec.parallelism: Invalid value: -1"):
        await client.submit(manifest("a", parallelism=-1))
    with pytest.raises(ManifestError, match=r"no-such-file.yaml: .*No such file"):
        await client.submit(tmp_path / "no-such-file.yaml")
    with pytest.raises(ManifestError, match="Unsupported value"):
        await client.submit({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}})
