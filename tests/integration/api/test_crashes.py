"""The api service is killed in the middle of things."""

import asyncio

import pytest

from sluice.cli.kit.errors import CliError
from sluice.protocol.query import ApplyRequest, ListRequest
from tests.support.system import System
from tests.support.waiting import PATIENCE_S

from .conftest import connected, ready
from .test_requests import config_events, flavor

pytestmark = pytest.mark.nats


async def test_killed_replicas_lose_nothing_and_do_nothing_twice(tmp_path):
    """Replicas are killed and started while requests come: what was answered is in the log exactly once,
    what was not answered is there once or not at all."""
    with System(tmp_path) as system:
        system.start("api")
        system.start("api")
        await ready(system, replicas=2)
        answered: list[str] = []
        ticks: asyncio.Queue[None] = asyncio.Queue()
        done = asyncio.Event()

        async def more(count: int) -> None:
            """Wait until so many more requests were answered."""
            for _ in range(ticks.qsize() + count):
                await ticks.get()

        async def kill() -> None:
            for _ in range(3):
                await more(10)
                victim = system.live("api")[0]
                await asyncio.to_thread(victim.kill)
                system.start("api")
            await more(10)
            done.set()

        async def apply(worker: int) -> None:
            number = 0
            async with connected(system) as api:
                while not done.is_set():
                    name = f"crash-{worker}-{number}"
                    number += 1
                    try:
                        request = ApplyRequest(objects=[flavor(name)])
                        async with asyncio.timeout(3):
                            await api.apply(request)
                        answered.append(name)
                        ticks.put_nowait(None)
                    except (CliError, TimeoutError):
                        await asyncio.sleep(0.02)

        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(kill(), *(apply(worker) for worker in range(3)))
        await ready(system, replicas=1)

        created = [event.name for event in await config_events(system) if event.type_name == "ObjectApplied"]
        assert len(created) == len(set(created)), "something was created twice"
        assert set(answered) <= set(created), "something that was answered is not in the log"
        async with connected(system) as api:
            found = await api.list(ListRequest(kind="ResourceFlavor"))
        assert {obj["metadata"]["name"] for obj in found.items} == set(created)
