"""A console of a log that was cut: it begins with the base, as the services do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from sluice.console.access import Access
from sluice.console.cell import Looked, RecordedCell
from sluice.console.live import LiveCell
from sluice.console.server import application
from sluice.local.server import EmbeddedServer
from sluice.readmodel.snapshot import store
from sluice.readmodel.world import World
from sluice.retention.archive import Archive
from sluice.retention.cycle import Report, round_of
from sluice.retention.live import opened
from sluice.retention.policy import RetentionPolicy
from sluice.retention.stores import Directory
from tests.integration.retention.played import Played
from tests.support.nats import nats_server
from tests.support.waiting import PATIENCE_S, eventually

__all__ = ["nats_server"]
pytestmark = pytest.mark.nats

LATER = 4_000_000_000_000_000
NUMBERS = ("quota", "pending", "jobs")
HISTORIES = ("objects/ClusterQueue", "objects/Workload")


@pytest.fixture
def played(nats_server: EmbeddedServer, tmp_path: Path) -> Played:
    return Played(nats_server.url, tmp_path)


async def cut(played: Played, share: float, *, api: bool = False) -> Report:
    """Let at most so great a share of the log stay; *api*: with what the api service has saved."""
    async with opened(played.url, "main") as cell:
        policy = RetentionPolicy(max_bytes=int(await cell.size() * share), keep_s=0)
        archive = Archive(Directory(played.archive), "main")
        return await asyncio.to_thread(asyncio.run, _round(played.url, archive, policy, api=api))


async def _round(url: str, archive: Archive, policy: RetentionPolicy, *, api: bool) -> Report:
    async with opened(url, "main") as cell:
        return await round_of(cell, archive, policy, LATER, without_api=not api)


async def save_api(played: Played, upto: int) -> None:
    """Save what the api service would have at *upto*."""
    world = World()
    world.fold(entry for entry in played.entries if entry.seq <= upto)
    async with opened(played.url, "main") as cell:
        await store(cell.snapshots, world)


@asynccontextmanager
async def served(cell: Looked) -> AsyncIterator[TestClient]:
    client = TestClient(TestServer(application(cell, Access())))
    await client.start_server()
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def console(url: str) -> AsyncIterator[TestClient]:
    """Serve the running cell, once its console has caught up."""
    cell = LiveCell(url, "main")
    following = asyncio.create_task(cell.run())
    try:
        async with served(cell) as client, asyncio.timeout(PATIENCE_S):

            async def ready() -> bool:
                if following.done():
                    following.result()
                return cell.ready

            await eventually(ready)
            yield client
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        await cell.close()


async def get(client: TestClient, path: str, **query: Any) -> tuple[int, Any]:
    async with client.get(f"/api/v1/{path}", params=query) as response:
        return response.status, await response.json()


async def numbers(client: TestClient, at: int, *, bare: bool = True) -> list[Any]:
    """Return what lists say at a sequence; *bare*: without what of before only the api service knows."""
    found = []
    for path in NUMBERS if bare else (*NUMBERS, *HISTORIES):
        status, answer = await get(client, path, at=at, limit=1000)
        assert status == 200, answer
        for row in answer.get("items", ()) if bare else ():
            row.pop("labels", None)
            row.pop("version", None)
        found.append({key: value for key, value in answer.items() if key not in ("live", "lag")})
    return found


async def test_numbers_are_those_of_the_whole_log(played: Played) -> None:
    """Live and past, behind the base; cut a second time while the console runs, it goes on."""
    whole = RecordedCell(played.whole)
    first = await cut(played, 0.6)
    async with served(whole) as expected, console(played.url) as client:
        for seq in (played.end, (first.base + played.end) // 2, first.base):
            assert await numbers(client, seq) == await numbers(expected, seq)
        second = await cut(played, 0.5)
        assert second.first > first.first

        async def noticed() -> bool:
            return bool((await get(client, "whoami"))[1]["source"]["first"] == second.first)

        await eventually(noticed)
        for seq in (second.base, (second.base + played.end) // 2, played.end):
            assert await numbers(client, seq) == await numbers(expected, seq)
    await whole.close()


async def test_what_the_api_service_has_saved_is_in_the_base(played: Played) -> None:
    """Labels of jobs that were submitted before the cut, and which message changed them last."""
    place = played.end // 2
    await save_api(played, place)
    assert (await cut(played, 0.6, api=True)).first > 1
    whole = RecordedCell(played.whole)
    async with served(whole) as expected, console(played.url) as client:
        for seq in (place, played.end):
            assert await numbers(client, seq, bare=False) == await numbers(expected, seq, bare=False)
    await whole.close()


async def test_before_the_beginning_says_where_it_is(played: Played) -> None:
    report = await cut(played, 0.5)
    async with console(played.url) as client:
        for path, at in (("jobs", 3), ("log", 3), ("state", 3), ("jobs", "2001-01-01T00:00:00Z")):
            status, answer = await get(client, path, at=at)
            assert status == 400, answer
            assert "sluice console -l ARCHIVE" in answer["error"]["message"]
        status, answer = await get(client, "log/3")
        assert status == 404
        if report.first < report.base:
            status, answer = await get(client, "jobs", at=report.first)
            assert status == 400
            assert f"what was before {report.base} is a base" in answer["error"]["message"]
        status, answer = await get(client, "density")
        assert status == 200
        assert answer["buckets"][0]["from"] == report.first
        assert sum(bucket["counts"]["messages"] for bucket in answer["buckets"]) == (
            report.end - report.first + 1
        )


async def test_archive_shows_what_was_cut(played: Played) -> None:
    """What is in the archive can be asked without a server, from its first message on."""
    report = await cut(played, 0.5)
    archived = RecordedCell(Archive(Directory(played.archive), "main").source())
    whole = RecordedCell(played.whole)
    async with served(archived) as client, served(whole) as expected:
        for seq in (3, report.first, report.first - 1):
            assert await numbers(client, seq) == await numbers(expected, seq)
    await archived.close()
    await whole.close()


async def test_every_page_has_its_answer(played: Played) -> None:
    """Of the end, and right behind the base: what pages ask is answered, though what was before is gone."""
    report = await cut(played, 0.5)
    async with console(played.url) as client:
        names = [row["name"] for row in (await get(client, "queues"))[1]["queues"]]
        asked = (
            "overview",
            "quota",
            "checks",
            "budgets",
            "preemptions",
            "log",
            "system",
            f"queues/{names[0]}",
        )
        for path in asked:
            for query in ({}, {"at": report.base}):
                status, answer = await get(client, path, **query)
                assert status == 200, (path, query, answer)
