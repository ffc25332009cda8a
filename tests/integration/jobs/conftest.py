"""A cell for tests of jobs: the real server and slice-aggregator, and a scheduler that does as it is told."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from sluice.sdk import AsyncClient
from tests.integration.jobs.quick_scheduler import RunningScheduler
from tests.system import System


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
