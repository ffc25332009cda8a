"""Kinds of jobs of teams' own in the browser, on a real cell: the list, one of them, its jobs."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.protocol.query import ApplyRequest
from sluice.sdk import Client
from tests.integration.api.conftest import connected, ready
from tests.support.objects import kueue_object, local_queue, resource_group
from tests.support.own_kinds import job_kind, simulation
from tests.support.system import System
from tests.support.waiting import wait_until

from .looking import Look

pytestmark = pytest.mark.nats

NAME = "simulations.lab.example.org"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[str]:
    """A cell in which a team has described its kind, and has submitted a job of it."""
    directory: Path = tmp_path_factory.mktemp("kinds")
    told = directory / "address"
    with System(directory) as system:
        for name in ("api", "scheduler", "slice_aggregator"):
            system.start(name)
        asyncio.run(filled(system))
        with Client(system.url, system.cell) as client:
            client.wait(client.submit(simulation("weather")), "Pending")
        system.start("console", {"CONSOLE_PORT": "0", "CONSOLE_ADDRESS_FILE": str(told)})
        # Behind the event loop of `filled`: the browser's driver runs one of its own.
        request.getfixturevalue("chromium")
        wait_until(told.is_file)
        yield told.read_text().rstrip("/")


async def filled(system: System) -> None:
    await ready(system, replicas=1)
    spec = {"resourceGroups": [resource_group({"plain": 8})], "namespaceSelector": {}}
    objects = [
        kueue_object("ResourceFlavor", "plain"),
        kueue_object("ClusterQueue", "queue", spec),
        local_queue("queue", "queue"),
        job_kind(),
    ]
    async with connected(system) as api:
        answer = await api.apply(ApplyRequest(objects=objects))
    assert [result.outcome for result in answer.results] == ["created"] * len(objects)


def test_a_kind_is_found_and_shows_how_it_is_read(address, chromium):
    """From the list to the kind to its job; nobody runs it, and that is said."""
    with Look.at(chromium, address) as look:
        look.page.goto(f"{address}/kinds")
        row = look.page.locator(f'tr[data-key="{NAME}"]')
        row.wait_for()
        for text in (
            "lab.example.org/v1",
            "simulations",
            "coordinator; each of spec.grids, by name",
            "nobody",
        ):
            assert text in row.inner_text()
        assert look.page.locator(".command code").last.inner_text() == "sluice get jobkinds"
        assert look.violations() == []

        row.get_by_role("link", name="Simulation").click()
        look.page.get_by_role("heading", level=1, name="Simulation").wait_for()
        look.page.get_by_text("No executor that is there says that it runs this kind").wait_for()
        sets = look.page.get_by_role("table", name="Pod sets").inner_text()
        assert "spec.coordinator" in sets
        assert "its nodes" in sets
        said = look.page.locator("section", has_text="What an object says of itself").inner_text()
        assert "condition Running" in said
        assert "status.phase is Crashed or Lost" in said
        assert look.page.locator(".command code").last.inner_text() == f"sluice describe jobkind/{NAME}"

        look.page.get_by_role("table", name="Jobs of the kind").get_by_text("Admitted").wait_for()
        for theme in ("light", "dark"):
            look.page.emulate_media(color_scheme=theme)
            assert look.violations() == [], theme
        look.page.set_viewport_size({"width": 320, "height": 640})
        assert look.overflow() <= 0
        look.page.get_by_role("table", name="Jobs of the kind").get_by_role("link", name="weather").click()
        look.page.get_by_role("heading", level=1, name="weather").wait_for()


def test_a_kind_that_is_not_there_says_so(address, chromium):
    with Look.at(chromium, address) as look:
        look.expected.append("404")
        look.page.goto(f"{address}/kinds/nothing.example.org")
        assert "nothing.example.org" in look.page.locator("[role=alert]").first.inner_text()
