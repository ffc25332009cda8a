"""A server of several that takes connections and says nothing, as a stopped one does, holds nobody up."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from sluice.log.nats.connection import CONNECT_TIMEOUT_S, Link
from tests.support.waiting import eventually

pytestmark = pytest.mark.nats


class Door:
    """Passes on to a server until it is told to fall silent; counts who has come."""

    def __init__(self, host: str, port: int, *, silent: bool = False) -> None:
        self.host, self.port, self.silent = host, port, silent
        self.came = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.came += 1
        self._writers.append(writer)
        if self.silent:
            return
        there, back = await asyncio.open_connection(self.host, self.port)
        self._writers.append(back)
        await asyncio.gather(_pipe(reader, back), _pipe(there, writer))

    def close(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


@contextlib.asynccontextmanager
async def door(url: str, *, silent: bool = False) -> AsyncIterator[tuple[Door, str]]:
    """Open one before the server at *url*; yields it and its own address."""
    server = urlsplit(url)
    assert server.hostname is not None
    assert server.port is not None
    found = Door(server.hostname, server.port, silent=silent)
    listening = await asyncio.start_server(found.handle, "127.0.0.1", 0)
    try:
        yield found, f"nats://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        found.close()
        listening.close()


async def test_the_next_server_is_asked_before_the_silent_one_is_given_up(nats_server) -> None:
    async with door(nats_server.url, silent=True) as (silent, url):
        link = Link(f"{url},{nats_server.url}", "test")
        try:
            # Alone the first would have taken longer than this.
            connection = await link.connection(timeout_s=CONNECT_TIMEOUT_S * 0.8)
            assert not connection.lost
            assert silent.came == 1
        finally:
            await link.close()


async def test_who_loses_a_server_goes_to_another_one_first(nats_server) -> None:
    async with door(nats_server.url) as (first, url):
        link = Link(f"{url},{nats_server.url}", "test")
        try:
            before = await link.connection(timeout_s=10)
            assert first.came == 1
            first.silent = True
            first.close()
            await eventually(lambda: link.current is not None and link.current is not before)
            assert first.came == 1
        finally:
            await link.close()
