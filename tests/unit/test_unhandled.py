"""`tests/support/unhandled.py`: what an event loop only logs fails a test all the same."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.support import unhandled


@pytest.fixture(autouse=True)
def _nothing_unhandled() -> None:
    """Not asked of these tests, who make such faults."""


def _fault() -> None:
    raise BlockingIOError(11, "nothing to read")


async def _callback() -> None:
    asyncio.get_running_loop().call_soon(_fault)
    await asyncio.sleep(0)


async def _task() -> None:
    async def fails() -> None:
        _fault()

    task = asyncio.create_task(fails())
    await asyncio.wait({task})
    del task
    gc.collect()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("body", [_callback, _task])
def test_a_fault_in_the_loop_is_told(run: Callable[[Any], None], body: Callable[[], Any]) -> None:
    with pytest.raises(unhandled.Unhandled, match="nothing to read"), unhandled.none_in_loop():
        run(body())


SERVICE = """
import asyncio, sys, uvloop
from sluice.telemetry.logs import configure_logs

configure_logs("api", "api-0", {})

async def main():
    asyncio.get_running_loop().call_soon(int, "nothing to read")
    await asyncio.sleep(0)

uvloop.run(main())
"""


def test_a_fault_of_a_service_is_told(tmp_path: Path) -> None:
    """By what it has logged, with the settings of services."""
    log = tmp_path / "api-0.log"
    with log.open("wb") as out:
        subprocess.run([sys.executable, "-c", SERVICE], stderr=out, check=True)
    (told,) = unhandled.found(log)
    assert "nothing to read" in told


def test_nothing_is_found_where_nothing_was() -> None:
    with unhandled.none_in_loop():
        asyncio.run(asyncio.sleep(0))
    assert unhandled.found(Path("no/such/file")) == []
