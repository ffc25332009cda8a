"""Which process a pid is: with its start time it is known from a later one that has the same."""

import psutil

__all__ = ["same_process", "start_time"]

SAME_START_S = 0.5
"""Start times of one process, read twice, differ by rounding only."""


def start_time(pid: int) -> float:
    """Return when a process has begun, seconds since the epoch; 0 when it has ended."""
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return 0.0


def same_process(pid: int, started: float) -> psutil.Process | None:
    """Return the process *pid* if it is there and has begun at *started*, None otherwise.

    A pid alone proves nothing: it may be somebody else's by now.
    """
    found = start_time(pid) if pid and started else 0.0
    if not found or abs(found - started) >= SAME_START_S:
        return None
    try:
        return psutil.Process(pid)
    except psutil.Error:
        return None
