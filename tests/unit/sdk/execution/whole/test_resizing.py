"""What becomes of `on_resize` when the attempt ends."""

import asyncio
import inspect
from collections.abc import Coroutine
from typing import Any

import pytest

from sluice.protocol.dispatch import DispatchEntry
from sluice.sdk import AsyncClient, Executor, Outcome, Work


@pytest.mark.parametrize("turns", [0, 1, 3])
@pytest.mark.parametrize("end", ["cancelled", "over"])
async def test_every_on_resize_is_closed_with_its_attempt(end: str, turns: int) -> None:
    """Whether it had its first turn or not: after a pause, resizes and the end are heard of at once.

    One that is not would be a warning, "coroutine ... was never awaited".
    """

    async def run(_: Work) -> Outcome:
        raise NotImplementedError

    async def long(_: DispatchEntry) -> None:
        await asyncio.Event().wait()

    begun: list[Coroutine[Any, Any, None]] = []

    def resized(entry: DispatchEntry) -> Coroutine[Any, Any, None]:
        begun.append(long(entry))
        return begun[-1]

    entry: Any = object()
    executor = Executor(AsyncClient(), "e0", run)
    work = Work(entry, executor, on_resize=resized)
    attempt = asyncio.create_task(_attempt())
    executor._works[1] = (attempt, work)
    for _ in range(2):
        executor._resize(1, entry, resized=True)
    for _ in range(turns):
        await asyncio.sleep(0)
    going = [*work.resizing]
    if end == "cancelled":
        executor._cancel(attempt, work)
    else:
        for resizing in going:
            resizing.cancel()
    await asyncio.wait([attempt, *going])
    await asyncio.sleep(0)
    assert [inspect.getcoroutinestate(each) for each in begun] == [inspect.CORO_CLOSED] * 2
    assert not work.resizing


async def _attempt() -> Outcome:
    return Outcome(success=True)
