"""Identity of processes by pid and start time, and how those that are meant are ended.

Beside `processes`, as psutil takes 50 ms to import.
"""

import contextlib
import signal
from collections.abc import Collection

import psutil

__all__ = ["ENDED", "KILL_S", "STOPPED", "end_all", "same_process", "start_time", "state_of"]

SAME_START_S = 0.5
"""Start times of one process, read twice, differ by rounding only."""

KILL_S = 5.0
"""How long a killed process may take to be gone."""


def start_time(pid: int) -> float:
    """Return when a process has begun, seconds since the epoch; 0 when it has ended."""
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return 0.0


RUNNING, STOPPED, ENDED = "running", "stopped", "ended"


def state_of(pid: int) -> str:
    """Return `running`, `stopped` (by SIGSTOP or a debugger, so that it does nothing) or `ended`."""
    try:
        found = psutil.Process(pid).status() if pid else psutil.STATUS_DEAD
    except psutil.Error:
        return ENDED
    if found in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP):
        return STOPPED
    return ENDED if found in (psutil.STATUS_DEAD, psutil.STATUS_ZOMBIE) else RUNNING


def same_process(pid: int, started: float) -> psutil.Process | None:
    """Return the process *pid* if it is there and has begun at *started*, None otherwise.

    A pid alone proves nothing: it may be somebody else's by now.
    """
    try:
        found = psutil.Process(pid) if pid and started else None
        return found if found is not None and abs(found.create_time() - started) < SAME_START_S else None
    except psutil.Error:
        return None


def end_all(processes: Collection[psutil.Process], grace_s: float) -> None:
    """TERM to each, KILL to those that are there after *grace_s*; returns when none is left."""
    for process in processes:
        _signal(process, signal.SIGTERM)
        _signal(process, signal.SIGCONT)  # a stopped one would not hear
    _, alive = psutil.wait_procs(processes, grace_s)
    for process in alive:
        _signal(process, signal.SIGKILL)
    psutil.wait_procs(alive, KILL_S)


def _signal(process: psutil.Process, what: signal.Signals) -> None:
    # psutil looks again whether it is still the same process.
    with contextlib.suppress(psutil.Error):
        process.send_signal(what)
