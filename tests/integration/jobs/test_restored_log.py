"""An older log is put back under running services and executors: all go by it, and say so."""

import asyncio
import hashlib
import os
import shutil
import signal
from pathlib import Path

import msgspec
import pytest

from sluice.core.slices.decider import SliceAggregator
from sluice.log.errors import EventLogError
from sluice.log.fold import replay
from sluice.log.nats.kv import Bucket
from sluice.log.runtime.service import Digest
from sluice.sdk import AsyncClient
from tests.support.system import Service, System
from tests.support.waiting import eventually

from .conftest import client, scheduler
from .test_lost_buckets import Executors, executors, system, works

__all__ = ["client", "executors", "scheduler", "system"]
pytestmark = pytest.mark.nats


def store(system: System) -> Path:
    return system.server.directory / "jetstream"


def streams(directory: Path) -> Path:
    (found,) = directory.rglob("streams")
    return found


async def stopped(system: System) -> None:
    await asyncio.to_thread(system.server.stop)


async def begun(system: System) -> None:
    await asyncio.to_thread(system.server.start)


async def answering(client: AsyncClient) -> int:
    async def end() -> int:
        try:
            return await client.log.end()
        except EventLogError:
            return 0

    return int(await eventually(end))


async def agrees(client: AsyncClient, system: System) -> None:
    """The service's state is what the log makes, and the dispatch bucket what the state says."""
    decider = SliceAggregator()
    filters = [*sorted(decider.reads), decider.writer]

    async def same() -> bool:
        entries = [entry async for batch in client.log.read(1, filters) for entry in batch]
        fold = replay(decider, entries)
        connection = await client.log.connection()
        frame = await connection.request(client.log.cell.control("slice_aggregator", "digest"), b"")
        said = msgspec.json.decode(frame.payload, type=Digest)
        return said.digest == hashlib.sha256(decider.dump(fold.state)).hexdigest()

    with system.logs_of_failures():
        await eventually(same, 30)


@pytest.mark.parametrize("what", ["the store", "the stream alone"])
@pytest.mark.parametrize("grown", [False, True], ids=["at once", "grown again meanwhile"])
async def test_older_log(
    client: AsyncClient, executors: Executors, system: System, tmp_path: Path, what: str, grown: bool
) -> None:
    """By the log's end where it is shorter, by the message that was read last where it has grown again.

    Snapshots and entries of buckets that are of what the log was count for nothing.
    """
    executors.start("x")
    for job in ("a", "b"):
        await works(client, executors, job)
    await stopped(system)
    backup = tmp_path / "backup"
    shutil.copytree(store(system), backup)
    await begun(system)
    later = [f"later{number}" for number in range(6)]
    for job in later:
        await works(client, executors, job)
    end = await client.log.end()
    await asyncio.sleep(1.0)  # a snapshot is stored, and its bucket
    (service,) = system.live("slice_aggregator")
    os.kill(service.pid, signal.SIGSTOP)
    await stopped(system)
    old, new = store(system), backup
    if what != "the store":
        old, new = streams(old) / "SLUICE_main", streams(new) / "SLUICE_main"
    shutil.rmtree(old)
    shutil.copytree(new, old)
    await begun(system)
    assert await answering(client) < end
    if grown:
        while await client.log.end() <= end + 5:
            await client.pods_ready("a", attempt=1)
    os.kill(service.pid, signal.SIGCONT)
    for job in ("new", "another"):
        await works(client, executors, job)
    await eventually(lambda: not any(executors.now[job] for job in later))
    assert executors.now["a"] == executors.now["b"] == 1
    assert executors.begun.count(("a", 1)) == 1
    await agrees(client, system)

    async def shown() -> bool:
        return set(await Bucket(client.log, "dispatch").everything()) == {
            f"default.{job}" for job in ("a", "b", "new", "another")
        }

    await eventually(shown, 20)
    assert _said(service, "log replaced, beginning anew")
    await _starts_from_what_is_of_this_log(client, executors, system, service)


async def _starts_from_what_is_of_this_log(
    client: AsyncClient, executors: Executors, system: System, service: Service
) -> None:
    system.kill(service)
    service = system.start("slice_aggregator")
    await works(client, executors, "last")
    await agrees(client, system)
    assert service.alive


def _said(service: Service, what: str) -> bool:
    return what in service.log_path.read_text()
