"""Pages over HTTP, for orchestrators, Prometheus and people. GET only."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

__all__ = ["Page", "prometheus", "serving"]

STOP_S = 1.0
"""How long an answer under way may take when the server ends."""


class Page(NamedTuple):
    """An answer. `kind`: its content type."""

    body: bytes
    kind: str = "application/json"
    status: int = 200


def prometheus(numbers: "Collector") -> Page:
    """Return the page that Prometheus reads *numbers* from."""
    # Only here: it takes 50 ms to import, as `aiohttp` does below, and most controllers serve nothing.
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

    return Page(generate_latest(numbers), CONTENT_TYPE_LATEST)


@asynccontextmanager
async def serving(
    address: str, variable: str, pages: Mapping[str, Callable[[], Awaitable[Page]]]
) -> AsyncIterator[int]:
    """Serve *pages* by path at *address*, `host:port` or `:port` (all hosts), "" for not at all.

    Yields the port. *variable*: of the environment, that has the address.

    Raises:
        ValueError: not an address.
        OSError: the address is in use.
    """
    if not address:
        yield 0
        return
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise ValueError(f"{variable}={address!r}: expected host:port or :port")
    from aiohttp import web

    def handler(page: Callable[[], Awaitable[Page]]) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(_: web.Request) -> web.Response:
            found = await page()
            return web.Response(body=found.body, status=found.status, headers={"Content-Type": found.kind})

        return handle

    app = web.Application()
    app.add_routes([web.get(path, handler(page)) for path, page in pages.items()])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_S)
    await runner.setup()
    try:
        await web.TCPSite(runner, host or None, int(port)).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
