"""A cell for tests of jobs: the real server and slice-aggregator, and a scheduler that does as it is told."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from sluice.events.codec import encode_commit
from sluice.events.commit import Step
from sluice.sdk import AsyncClient
from tests.integration.jobs.quick_scheduler import RunningScheduler
from tests.support.objects import applied
from tests.support.system import System


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    with System(tmp_path) as system:
        system.env["SLICE_AGGREGATOR_LOST_AFTER_S"] = "0.5"
        system.env["SLICE_AGGREGATOR_POLL_S"] = "0.2"
        system.start("slice_aggregator")
        yield system


@pytest.fixture
async def scheduler(system: System) -> AsyncIterator[RunningScheduler]:
    async with RunningScheduler(system.url) as running:
        yield running


@pytest.fixture
async def client(system: System) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(system.url, source="test") as client:
        yield client


async def apply_objects(client: AsyncClient, *objects: dict[str, Any]) -> None:
    """Write configuration to the log, as the api service would."""
    events = tuple(map(applied, objects))
    step = Step(upto=0, at=1, events=events)
    await client.log.append("config", encode_commit("main", "config", "test", [step]))
