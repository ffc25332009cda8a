"""The stream of changes: what a client folds of it is what it would load, whenever it was cut."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from typing import Any

import msgspec
import pytest
from aiohttp import ClientError
from aiohttp.test_utils import TestClient, TestServer

from sluice.console import stream
from sluice.console.access import Access
from sluice.console.answers import Delta
from sluice.console.problems import UnavailableError
from sluice.console.quota import QuotaTree
from sluice.console.rows import job_row, queue_row
from sluice.console.server import application
from sluice.log.contract import Entry
from sluice.log.errors import EventLogError
from sluice.readmodel.objects import keys
from sluice.readmodel.world import World
from tests.unit.console.growing import Growing
from tests.unit.replay.views.whole.test_cell import STORIES

Frame = tuple[str, str, Any]
"""(event, id, data)."""


@pytest.fixture(params=STORIES, ids=lambda story: story.__name__)
def entries(request: pytest.FixtureRequest) -> list[Entry]:
    found: list[Entry] = request.param()
    return found


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames come as fast as they can."""
    monkeypatch.setattr(stream, "EVERY_S", 0.001)
    monkeypatch.setattr(stream, "IDLE_S", 0.0)


async def frames(client: TestClient, **query: Any) -> AsyncGenerator[Frame]:
    async with client.get("/api/v1/stream", params=query) as response:
        event = number = ""
        async for line in response.content:
            name, _, rest = line.decode().rstrip("\n").partition(": ")
            if name == "event":
                event = rest
            elif name == "id":
                number = rest
            elif name == "data":
                yield event, number, msgspec.json.decode(rest)


class Client:
    """Folds frames as a page does."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {"Job": {}, "ClusterQueue": {}}
        self.upto = 0

    def fold(self, frame: Frame) -> None:
        event, number, data = frame
        if event == "delta":
            assert data["since"] == self.upto, "a frame goes on where the one before has ended"
            for kind, known in self.rows.items():
                for row in data["changed"].get(kind, ()):
                    known[row["key"] if kind == "Job" else row["name"]] = row
                for key in data["gone"].get(kind, ()):
                    known.pop(key, None)
        self.upto = data["upto"]
        assert number == str(self.upto)


def loaded(world: World) -> dict[str, dict[str, Any]]:
    """What a fresh load says."""
    tree = QuotaTree(world)
    jobs = {key: msgspec.to_builtins(job_row(world, key)) for key in keys(world, "Job")}
    queues = {n: msgspec.to_builtins(queue_row(world, tree, q)) for n, q in world.view.cluster_queues.items()}
    return {"Job": jobs, "ClusterQueue": queues}


def own(rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Leave out what others change without a change of the object itself: places, and what waits for what."""
    jobs = {
        key: {name: value for name, value in row.items() if name not in ("position", "reason", "message")}
        for key, row in rows["Job"].items()
    }
    queues = {
        name: {
            **{field: row[field] for field in ("cohort", "pending", "reserving", "admitted")},
            "used": [(q["flavor"], q["resource"], q["used"]["value"]) for q in row["quota"]],
        }
        for name, row in rows["ClusterQueue"].items()
    }
    return {"Job": jobs, "ClusterQueue": queues}


async def test_folded_frames_are_a_fresh_load(entries: list[Entry]) -> None:
    """However many messages come at once, and wherever the connection breaks off."""
    cell, client = Growing(entries), Client()
    client.upto = cell.world.seq
    client.rows = loaded(cell.world)
    async with TestClient(TestServer(application(cell, Access()))) as http:
        while cell.world.seq < entries[-1].seq:
            # A new connection each time, which goes on from what was folded last.
            told = frames(http, since=client.upto)
            assert (await anext(told))[0] == "hello"
            for _ in range(random.randrange(1, 4)):
                await cell.go_on(random.randrange(1, 6))
                while client.upto < cell.world.seq:
                    client.fold(await asyncio.wait_for(anext(told), 10))
                assert own(client.rows) == own(loaded(cell.world)), cell.world.seq
            await told.aclose()


async def test_who_comes_back_misses_nothing(entries: list[Entry]) -> None:
    """What came while nobody listened comes in one frame, which begins where the client says that it was."""
    cell = Growing(entries)
    await cell.go_on(len(entries) // 2)
    client = Client()
    client.rows, client.upto = loaded(cell.world), cell.world.seq
    await cell.go_on(len(entries))
    async with TestClient(TestServer(application(cell, Access()))) as http:
        told = frames(http, since=client.upto, log=1)
        await anext(told)
        frame = await asyncio.wait_for(anext(told), 10)
        client.fold(frame)
        await told.aclose()
    assert client.upto == entries[-1].seq
    assert own(client.rows) == own(loaded(cell.world))
    seen = dict.fromkeys(event["seq"] for event in frame[2]["log"])
    assert list(seen) == [e.seq for e in entries if frame[2]["since"] < e.seq <= client.upto][: len(seen)]


async def test_who_is_too_far_behind_loads_anew(
    entries: list[Entry], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "BEHIND", 3)
    cell = Growing(entries)
    await cell.go_on(len(entries))
    async with TestClient(TestServer(application(cell, Access()))) as http:
        for since in (1, entries[-1].seq + 100):
            told = frames(http, since=since)
            found = [await asyncio.wait_for(anext(told), 10) for _ in range(2)]
            assert ("resync", str(entries[-1].seq)) in [(event, number) for event, number, _ in found]
            await told.aclose()


class _Failing(Growing):
    """A cell that cannot be asked, or whose log cannot be read."""

    caught_up = True

    async def ask[T](self, seq: int, question: Callable[[World], T]) -> T:
        if not self.caught_up:
            raise UnavailableError("the console has not caught up with the log yet")
        return await super().ask(seq, question)

    async def read[T](self, work: Callable[[], T]) -> T:  # noqa: ARG002
        raise EventLogError("the server is away")


async def test_a_stream_is_not_begun_before_the_world_can_be_told(entries: list[Entry]) -> None:
    """A client that came too early is told so, and does not wait for ever in a stream that says nothing."""
    cell = _Failing(entries)
    cell.caught_up = False
    async with (
        TestClient(TestServer(application(cell, Access()))) as http,
        http.get("/api/v1/stream", params={"since": 1}) as response,
    ):
        assert response.status == 503
        assert (await response.json())["error"]["code"] == "Unavailable"


async def test_a_stream_that_cannot_go_on_is_cut_off(entries: list[Entry]) -> None:
    """What goes wrong behind the first frame ends the connection, so that the client comes back."""
    cell = _Failing(entries)
    async with TestClient(TestServer(application(cell, Access()))) as http:
        told = frames(http, since=1, log=1)
        assert (await anext(told))[0] == "hello"
        await cell.go_on()
        with pytest.raises(ClientError):
            await asyncio.wait_for(anext(told), 10)


async def test_only_what_was_asked_for(entries: list[Entry]) -> None:
    cell = Growing(entries)
    async with TestClient(TestServer(application(cell, Access()))) as http:
        told = frames(http, kinds="ClusterQueue")
        await anext(told)
        await cell.go_on(len(entries))
        while True:
            _, _, data = await asyncio.wait_for(anext(told), 10)
            assert set(data["changed"]) <= {"ClusterQueue"}
            if data["upto"] == entries[-1].seq:
                break
        await told.aclose()


def test_clients_that_watch_the_same_share_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made once while it is new; others, and later ones, get their own."""
    monkeypatch.setattr(stream, "EVERY_S", 60.0)
    made = stream.Frames()
    frame = Delta(since=1, upto=2, time="", lag=0, changed={}, gone={}, places={}, log=[], log_cut=False)
    assert made.get((1, "Job")) is None
    assert made.put((1, "Job"), frame) is made.get((1, "Job"))
    assert made.get((2, "Job")) is None
    monkeypatch.setattr(stream, "EVERY_S", 0.0)
    assert made.get((1, "Job")) is None, "it is old"
