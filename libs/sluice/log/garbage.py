"""The garbage collector of a process that holds a large state."""

import gc

YOUNG = 50_000
"""Allocations between two collections of the youngest generation."""


def tune() -> None:
    """Let the collector run seldom: a state of many small objects without cycles is walked for nothing.

    Measured on 50,000 workloads: full collections more than doubled the cost of folding their creation.
    Cycles (tasks, exceptions) are still found, only later.
    """
    gc.freeze()
    gc.set_threshold(YOUNG, 20, 100)
