"""A real server with two replicas of the api service, one for a module; every test uses names of its own."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sluice.cli.cell.client import Api, Target, connect
from sluice.cli.kit.errors import CliError
from tests.support.system import System
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    directory: Path = tmp_path_factory.mktemp("api")
    with System(directory) as running:
        running.start("api")
        running.start("api")
        asyncio.run(ready(running, replicas=2))
        yield running


@asynccontextmanager
async def connected(system: System) -> AsyncIterator[Api]:
    async with connect(Target(system.url, system.cell)) as api:
        yield api


async def ready(system: System, *, replicas: int) -> None:
    """Wait until so many replicas answer."""
    from sluice.cli.cell.services import services

    async with connected(system) as api:

        async def enough() -> bool:
            try:
                await api.status()
                return len(await services(api)) >= replicas
            except CliError:
                return False

        await eventually(enough)
