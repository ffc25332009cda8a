"""A console over a log at hand, asked over HTTP."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from sluice.console.access import Access
from sluice.console.cell import RecordedCell
from sluice.console.server import application
from sluice.replay.source.source import FileSource, Source
from tests.unit.replay.incident import EXAMPLE

Ask = Callable[..., Awaitable[Any]]
Serve = Callable[..., Awaitable[TestClient]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    opened: list[tuple[TestClient, RecordedCell]] = []

    async def start(source: Source | None = None, access: Access | None = None) -> TestClient:
        cell = RecordedCell(source or FileSource(EXAMPLE))
        client = TestClient(TestServer(application(cell, access or Access())))
        await client.start_server()
        opened.append((client, cell))
        return client

    yield start
    for client, cell in opened:
        await client.close()
        await cell.close()


@pytest.fixture
async def ask(serve: Serve) -> Ask:
    """GET a question of the example log's console; the answer, whatever its status."""
    client = await serve()

    async def get(path: str, **query: Any) -> Any:
        async with client.get(f"/api/v1/{path}", params=query) as response:
            return await response.json()

    return get
