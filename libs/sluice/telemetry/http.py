"""Pages over HTTP, for orchestrators, Prometheus and people. GET only."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

__all__ = ["Page", "Pages", "Scrape", "prometheus", "serving"]

STOP_S = 1.0
"""How long an answer under way may take when the server ends."""


class Page(NamedTuple):
    """An answer. `kind`: its content type."""

    body: bytes
    kind: str = "application/json"
    status: int = 200


class Scrape(NamedTuple):
    """An answer to Prometheus, in the format that it asks for."""

    numbers: "Collector"


Pages = Mapping[str, Callable[[], Awaitable[Page | Scrape]]]
"""Path -> the answer."""


def prometheus(numbers: "Collector", accept: str = "") -> Page:
    """Return the page that Prometheus reads *numbers* from, in the format that it accepts.

    *accept*: the header of the request. With `application/openmetrics-text` histograms have exemplars.
    """
    # Only here: it takes 50 ms to import, as `aiohttp` does below, and most controllers serve nothing.
    from prometheus_client.exposition import CONTENT_TYPE_LATEST, choose_encoder, generate_latest
    from prometheus_client.openmetrics import exposition as openmetrics

    try:
        encode, kind = choose_encoder(accept)
    except (TypeError, ValueError):  # a version that is none
        encode, kind = generate_latest, CONTENT_TYPE_LATEST
    if kind.startswith("application/openmetrics-text"):
        # Our names have nothing to escape, whatever the scheme: a third of the time went into looking.
        told = openmetrics.generate_latest(numbers, escaping=openmetrics.ALLOWUTF8, version="1.0.0")  # type: ignore[no-untyped-call]
        return Page(told, openmetrics.CONTENT_TYPE_LATEST)
    return Page(encode(numbers), kind)


@asynccontextmanager
async def serving(address: str, variable: str, pages: Pages) -> AsyncIterator[int]:
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

    def handler(
        page: Callable[[], Awaitable[Page | Scrape]],
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            found = await page()
            if isinstance(found, Scrape):
                found = prometheus(found.numbers, request.headers.get("Accept", ""))
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
