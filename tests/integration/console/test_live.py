"""A console beside a real server: it follows the log, and a client that comes back has missed nothing."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from sluice.local.processes import free_port
from sluice.protocol.query import ApplyRequest
from tests.integration.api.conftest import connected, ready
from tests.integration.api.test_requests import flavor
from tests.support.system import System
from tests.support.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.nats


class Page:
    """What a page of the console knows: flavors by name, and up to which sequence."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}/api/v1"
        self.flavors: dict[str, int] = {}
        self.upto = 0

    async def frames(self, http: aiohttp.ClientSession) -> AsyncGenerator[tuple[str, Any]]:
        headers = {"Last-Event-ID": str(self.upto)}
        async with http.get(f"{self.address}/stream", headers=headers) as response:
            # A console that has just been started says so, until it has caught up with the log.
            response.raise_for_status()
            event = ""
            async for line in response.content:
                name, _, rest = line.decode().rstrip("\n").partition(": ")
                if name == "event":
                    event = rest
                elif name == "data":
                    yield event, msgspec.json.decode(rest)

    async def follow(self, until: int) -> None:
        """Fold frames until *until*, connecting anew whenever the stream breaks off."""
        async with aiohttp.ClientSession() as http:
            while self.upto < until:
                told = self.frames(http)
                try:
                    async for event, data in told:
                        if event == "delta":
                            assert data["since"] == self.upto, "nothing between two frames is lost"
                            for row in data["changed"].get("ResourceFlavor", ()):
                                self.flavors[row["key"]] = row["version"]
                        else:
                            assert event == "hello"
                        self.upto = data["upto"]
                        if self.upto >= until:
                            break
                except (aiohttp.ClientError, ConnectionError):
                    await asyncio.sleep(0.05)
                finally:
                    await told.aclose()

    async def answers(self) -> bool:
        try:
            async with (
                aiohttp.ClientSession() as http,
                http.get(f"{self.address}/objects/ResourceFlavor") as response,
            ):
                return response.status == 200
        except (aiohttp.ClientError, ConnectionError):
            return False


async def apply(system: System, *names: str) -> int:
    async with connected(system) as api:
        return (await api.apply(ApplyRequest(objects=[flavor(name) for name in names]))).seq


async def test_a_page_misses_nothing_while_console_and_server_are_killed(tmp_path: Path) -> None:
    """Every flavor that was applied is folded once, also what came while console or server were away."""
    page = Page(free_port(0))
    with System(tmp_path) as system:
        system.start("api")
        await ready(system, replicas=1)
        page.upto = await apply(system, "first")
        environment = {"CONSOLE_PORT": str(page.address.rpartition(":")[2].partition("/")[0])}
        console = system.start("console", environment)
        async with asyncio.timeout(PATIENCE_S):
            await eventually(page.answers)
            await page.follow(await apply(system, "second"))
            await asyncio.to_thread(console.kill)
            away = await apply(system, "third", "fourth")
            system.start("console", environment)
            await page.follow(away)
            await asyncio.to_thread(system.server.kill)
            await asyncio.to_thread(system.server.start)
            await ready(system, replicas=1)
            await page.follow(await apply(system, "fifth"))
        assert list(page.flavors) == ["second", "third", "fourth", "fifth"]
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"{page.address}/objects/ResourceFlavor") as response,
        ):
            found = await response.json()
        assert {one["metadata"]["name"] for one in found["items"]} == {"first", *page.flavors}
        assert found["live"] is True
