"""Real HTTP servers of this test's own, on free ports."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from aiohttp import web

Serve = Callable[[web.Application], Awaitable[str]]


@asynccontextmanager
async def serving(app: web.Application) -> AsyncIterator[str]:
    """Serve on a free port; yields the URL."""
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Return what serves an application until the test's end, and says where."""
    async with AsyncExitStack() as stack:

        async def start(app: web.Application) -> str:
            return await stack.enter_async_context(serving(app))

        yield start
