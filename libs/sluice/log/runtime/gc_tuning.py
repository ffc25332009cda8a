"""The garbage collector of a process that holds a large state."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["anything_left_out", "put_off", "tune"]

YOUNG = 50_000
"""Allocations between two collections of the youngest generation."""


_left_out = False
"""Is anything left out of collections? The collector itself would count it all to tell how much."""


def _leave_out() -> None:
    global _left_out
    gc.freeze()
    _left_out = True


def tune() -> None:
    """Let the collector run seldom: a state of many small objects without cycles is walked for nothing.

    Measured on 50,000 workloads: full collections more than doubled the cost of folding their creation.
    Cycles (tasks, exceptions) are still found, only later.
    """
    _leave_out()
    gc.set_threshold(YOUNG, 20, 100)


@contextmanager
def put_off() -> Iterator[None]:
    """Collect nothing meanwhile, and leave what was made out of all later collections.

    For rebuilding a state from the log: all of it stays, and there are next to no cycles to find.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        _leave_out()
        if was_enabled:
            gc.enable()


def anything_left_out() -> bool:
    """Is anything left out of collections, by this module? Costs nothing, however much that is."""
    return _left_out


def look_through() -> None:
    """Collect everything, what was left out included: a large state has been dropped."""
    global _left_out
    gc.unfreeze()
    _left_out = False
    gc.collect()
