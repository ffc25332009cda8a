"""Work in a forked child while an event loop goes on; `process_pool` does without asyncio."""

import asyncio
import os
import signal
from collections.abc import Callable

from .process_pool import AVAILABLE, Child, Progress

BEHIND = 5
"""Added to the niceness of a child that works beside an event loop."""


def in_copy_beside[T](work: Callable[[], T]) -> asyncio.Future[T]:
    """As `in_copy`, while the event loop goes on; the child gives way to it.

    The copy is made by the call: what comes is the result for the state as it is then. Cancelling ends the
    child. The result may be a `ChildLostError`: the child was killed.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()
    if not AVAILABLE:
        result.set_result(work())
        return result

    def apart(_: Progress) -> T:
        # What the parent does with signals is no business of its child's.
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.nice(BEHIND)
        return work()

    child = Child(apart)

    def listen() -> None:
        child.listen()
        if child.ended and not result.done():
            try:
                result.set_result(child.result())
            except Exception as error:
                result.set_exception(error)

    def leave(_: asyncio.Future[T]) -> None:
        loop.remove_reader(child.pipe)
        child.close()

    loop.add_reader(child.pipe, listen)
    result.add_done_callback(leave)
    return result


__all__ = ["in_copy_beside"]
