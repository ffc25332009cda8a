"""A whole cell whose log is cut under it, and one that is moved to another server while its jobs run."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from sluice.replay.lint.lint import lint
from sluice.replay.source.live import LiveSource
from sluice.replay.source.time_travel import deciders
from sluice.replay.verify.whole_log import check_all
from sluice.retention.archive import Archive, ArchiveSource
from sluice.retention.live import base_finder
from sluice.retention.stores import Directory
from sluice.sdk import AsyncClient
from tests.integration.jobs.test_lost_buckets import Executors, delete, reports
from tests.support.command import sluice
from tests.support.family_world import cluster_queue, flavor, local_queue
from tests.support.slices_world import manifest
from tests.support.system import System
from tests.support.waiting import eventually

pytestmark = pytest.mark.nats

SERVICES = ("api", "slice_aggregator", "variant_controller", "scheduler", "admission_check")


def start(system: System) -> None:
    for name in SERVICES:
        system.start(name)


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    with System(tmp_path) as system:
        system.env |= {
            "SLICE_AGGREGATOR_LOST_AFTER_S": "30",
            "API_SNAPSHOT_ENTRIES": "20",
            "SLUICE_MARK_INPUTS": "5",
        }
        start(system)
        yield system


@pytest.fixture
async def client(system: System) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(system.url, source="test") as client:
        yield client


@pytest.fixture
async def executors(client: AsyncClient) -> AsyncIterator[Executors]:
    executors = Executors(client)
    yield executors
    executors.open.set()
    await executors.stop()


async def asked(system: System, *arguments: str) -> str:
    """Run the command beside the executors of this process, and return what it says."""

    def run() -> str:
        said = sluice("--server", system.url, *arguments)
        return said.ok().out + said.err

    return await asyncio.to_thread(run)


async def configure(system: System, directory: Path) -> None:
    objects = [flavor("default"), cluster_queue({"default": 10}, policy={}), local_queue()]
    path = directory / "queues.yaml"
    path.write_text(yaml.safe_dump_all(objects))

    def apply() -> bool:
        return sluice("--server", system.url, "apply", "-f", str(path)).code == 0

    await eventually(lambda: asyncio.to_thread(apply))


async def jobs_done(client: AsyncClient, executors: Executors, *names: str) -> None:
    executors.open.set()
    for name in names:
        await client.submit(manifest(name))
        await client.wait(name)
    executors.open.clear()


def log_is_right(system: System, directory: Path) -> None:
    """What is left of the log, and the whole with the archive, decide themselves again and keep the rules."""
    live = LiveSource(system.url, "main", bases=base_finder(system.url, "main"))
    for source in (live, ArchiveSource(Archive(Directory(directory), "main"), live)):
        wrong = [c.divergence for c in check_all(source, [(d, None) for d in deciders()]) if c.divergence]
        assert not wrong, wrong[0]
        assert lint(source)[0] == []


async def test_cut_under_a_running_cell(
    client: AsyncClient, executors: Executors, system: System, tmp_path: Path
) -> None:
    """What runs goes on; services that lose their snapshots begin with the base; people see their jobs."""
    directory = tmp_path / "archive"
    await configure(system, tmp_path)
    executors.start("x")
    await jobs_done(client, executors, *(f"done-{n}" for n in range(8)))
    await client.submit(manifest("long"))
    await eventually(lambda: ("long", 1) in executors.begun)

    async def cut() -> bool:
        # Not before the api service has saved something, and everybody has said how far it has come.
        limits = ("--max-size", "20k", "--keep", "0s")
        said = await asyncio.to_thread(
            sluice, "--server", system.url, "log", "archive", str(directory), *limits
        )
        return "cut; the log begins at" in said.out

    await eventually(cut)
    assert LiveSource(system.url, "main").first > 1
    for service in system.live():
        service.kill()
    await delete(client, "snapshots", f"OBJ_{client.log.cell.bucket('snapshots')}")
    start(system)
    await jobs_done(client, executors, "after")

    assert await client.wait("long")
    assert (await reports(client, "long")).count("JobFinished") == 1
    assert not executors.double

    async def listed() -> bool:
        """Once the api service has started anew."""
        said = await asyncio.to_thread(sluice, "--server", system.url, "get", "jobs")
        return all(name in said.out for name in ("long", "after", "done-0"))

    await eventually(listed)
    await asyncio.to_thread(log_is_right, system, directory)
    early = await asyncio.to_thread(sluice, "--server", system.url, "replay", "state", "--at", "2")
    assert "there is no sequence 2" in early.err
    assert "--archive" in early.err
    assert await asked(system, "replay", "state", "--at", "2", "--archive", str(directory))


@pytest.mark.parametrize("whole", [False, True], ids=["from its base", "whole"])
async def test_moved_under_running_executors(
    client: AsyncClient, executors: Executors, system: System, tmp_path: Path, whole: bool
) -> None:
    """Archived, the store lost, restored on a fresh server: jobs that ran go on, once, and new ones come."""
    directory = tmp_path / "archive"
    await configure(system, tmp_path)
    executors.start("x")
    await jobs_done(client, executors, *(f"done-{n}" for n in range(4)))
    await client.submit(manifest("long"))
    await eventually(lambda: ("long", 1) in executors.begun)
    await asked(system, "log", "base", "--archive", str(directory), "--without-api")
    for service in system.live():
        service.stop()
    said = await asked(system, "log", "archive", str(directory))
    assert "archived up to" in said
    end = await client.log.end()

    await asyncio.to_thread(system.server.kill)
    shutil.rmtree(system.server.directory / "jetstream")
    await asyncio.to_thread(system.server.start)
    said = await asked(system, "log", "restore", str(directory), *(["--whole"] if whole else []))

    assert f"to {end} into cell main" in said
    assert ("with everything" in said) == whole
    start(system)
    executors.open.set()

    async def ended() -> bool:
        return "JobFinished" in await reports(client, "long")

    await eventually(ended)
    await jobs_done(client, executors, "after")
    assert not executors.double
    assert [job for job, _ in executors.begun].count("long") == 1
    await asyncio.to_thread(log_is_right, system, directory)
