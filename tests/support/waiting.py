"""Waiting for what real processes do: until it is so, and long enough for a machine that is slow today."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

PATIENCE_S = 150.0
"""After so many seconds a test says that something does not come. Waiting ends as soon as it does come, so
this costs nothing but in failures; shared machines have minutes in which they do next to nothing."""


async def eventually(condition: Callable[[], Any], timeout_s: float = PATIENCE_S) -> Any:
    """Return what *condition* (maybe a coroutine function) says, once that is true."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = condition()
        if isinstance(found, Awaitable):
            found = await found
        if found:
            return found
        assert time.monotonic() < deadline, f"still {found!r} after {timeout_s:.0f} s"
        await asyncio.sleep(0.01)


def wait_until(condition: Callable[[], Any], timeout_s: float = PATIENCE_S) -> Any:
    """Return what *condition* says, once that is true, without an event loop."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"still {found!r} after {timeout_s:.0f} s"
        time.sleep(0.03)


async def stays(condition: Callable[[], Any], seconds: float) -> None:
    """Look on for so long while *condition* (maybe a coroutine function) holds: for what must not happen.

    What does not happen cannot be waited for. A fault that shows is told at once; on a slow machine it may
    show too late, but nothing fails that is right.
    """
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if isinstance(found, Awaitable):
            found = await found
        assert found, f"no longer: {found!r}"
        if time.monotonic() >= deadline:
            return
        await asyncio.sleep(min(0.02, seconds))


def stays_so(condition: Callable[[], Any], seconds: float) -> None:
    """As `stays`, without an event loop."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        assert found, f"no longer: {found!r}"
        if time.monotonic() >= deadline:
            return
        time.sleep(min(0.03, seconds))
