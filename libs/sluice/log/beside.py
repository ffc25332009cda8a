"""Work in a forked child while an event loop goes on; `forking` itself does without asyncio."""

import asyncio
import os
import signal
from collections.abc import Callable

from .forking import AVAILABLE, Child, Progress

BEHIND = 5
"""Added to the niceness of a child that works beside an event loop."""


async def in_copy_beside[T](work: Callable[[], T]) -> T:
    """As `in_copy`, of what is known now; the event loop goes on, and the child gives way to it.

    Raises:
        ChildLostError: the child was killed.
    """
    if not AVAILABLE:
        return work()

    def apart(_: Progress) -> T:
        # What the parent does with signals is no business of its child's.
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.nice(BEHIND)
        return work()

    loop = asyncio.get_running_loop()
    child = Child(apart)
    ended = loop.create_future()

    def listen() -> None:
        child.listen()
        if child.ended and not ended.done():
            ended.set_result(None)

    loop.add_reader(child.pipe, listen)
    try:
        await ended
        return child.result()
    finally:
        loop.remove_reader(child.pipe)
        child.close()


__all__ = ["in_copy_beside"]
