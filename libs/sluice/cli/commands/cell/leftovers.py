"""What a killed `sluice up` has left running, as its `up.json` says; it is ended before anything else starts.

A pid alone proves nothing: it may be somebody else's by now. Only a process that began when `up.json` says is
one of ours. The server is known by the lock that it holds on its directory.
"""

import contextlib
import signal
from collections.abc import Iterable

import psutil

from sluice.local.cell_directory import Place, ProcessState
from sluice.local.server import stop_running

END_S = 8.0
KILL_S = 5.0
SAME_START_S = 0.5
"""Start times of one process, read twice, differ by rounding only."""


def start_time(pid: int) -> float:
    """Return when a process has begun, seconds since the epoch; 0 when it has ended."""
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return 0.0


def same_process(pid: int, started: float) -> psutil.Process | None:
    """Return the process *pid* if it lives and has begun at *started*; None otherwise."""
    if not pid or not started:
        return None
    try:
        process = psutil.Process(pid)
        is_same = abs(process.create_time() - started) < SAME_START_S
        return process if is_same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.Error:
        return None


def end_leftovers(place: Place) -> int:
    """End agents, services and server of an earlier life; return how many processes that were.

    The caller holds the directory's lock, so that nobody starts them meanwhile.
    """
    state = place.read()
    known = [] if state is None else state.processes
    count = _end(each for each in known if each.service == "agent")
    count += _end(each for each in known if each.service != "agent")
    return count + (stop_running(place.nats) is not None)


def _end(known: Iterable[ProcessState]) -> int:
    """TERM to each, KILL to those that take too long."""
    found = [p for each in known if (p := same_process(each.pid, each.started)) is not None]
    for process in found:
        _signal(process, signal.SIGTERM)
        _signal(process, signal.SIGCONT)  # a stopped one would not hear
    _, alive = psutil.wait_procs(found, END_S)
    for process in alive:
        _signal(process, signal.SIGKILL)
    psutil.wait_procs(alive, KILL_S)
    return len(found)


def _signal(process: psutil.Process, what: signal.Signals) -> None:
    # psutil looks again whether it is still the same process.
    with contextlib.suppress(psutil.Error):
        process.send_signal(what)


__all__ = ["end_leftovers", "same_process", "start_time"]
