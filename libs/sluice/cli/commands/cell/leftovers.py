"""Processes left running by a `sluice up` that was killed, by its `up.json`; they end before anything starts.

Only a process that began when `up.json` says is one of ours. The server is known by the lock that it holds on
its directory.
"""

from collections.abc import Iterable

import psutil

from sluice.local.cell_directory import Place, ProcessState
from sluice.local.process_start import end_all, same_process
from sluice.local.server import stop_running

END_S = 8.0


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
    same = (same_process(each.pid, each.started) for each in known)
    found = [process for process in same if process is not None and not _is_zombie(process)]
    end_all(found, END_S)
    return len(found)


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
