"""Directory of a cell on this machine, `.sluice/`, and what a running one says about itself.

.sluice/up.lock      held by the process that runs the cell, as long as it lives
.sluice/up.json      what it runs: url, pids, logs
.sluice/nats/        the server: store, log, state
.sluice/logs/        one file per service
.sluice/agents/      one directory per agent
.sluice/demo/        the same again, for `sluice demo`
"""

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import IO

import msgspec

from .private_files import write_private
from .processes import exists

DIRECTORY = ".sluice"
DEMO = "demo"


class ProcessState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One process of a running cell. `label` is the service's name and a number, `agent-1`."""

    label: str
    service: str
    pid: int
    log: str
    restarts: int = 0
    started: float = 0.0
    """When the process has begun, seconds since the epoch, to know it from a later one of the same pid."""


class CellState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`up.json`. `started_at` in seconds since the epoch; `ready` once every service answered."""

    cell: str
    url: str
    pid: int
    server_pid: int
    started_at: float
    ready: bool = False
    processes: list[ProcessState] = []
    failure: str = ""
    console: str = ""
    """Where the console is in a browser; "" where it was not wanted."""


class Place:
    """One cell's directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self.nats = self.directory / "nats"
        self.logs = self.directory / "logs"
        self.agents = self.directory / "agents"
        self.lock_file = self.directory / "up.lock"
        self.state_file = self.directory / "up.json"

    def read(self) -> CellState | None:
        """Return what the last `up` wrote, whether it still runs or not."""
        with contextlib.suppress(FileNotFoundError, msgspec.DecodeError):
            return msgspec.json.decode(self.state_file.read_bytes(), type=CellState)
        return None

    def write(self, state: CellState) -> None:
        """Replace the state file at once, so that no reader sees half of it."""
        partial = self.state_file.with_name(f"up.json.{os.getpid()}")
        # The address has the owner's password.
        write_private(partial, msgspec.json.format(msgspec.json.encode(state), indent=2) + b"\n")
        partial.replace(self.state_file)

    def take(self) -> IO[bytes] | None:
        """Take the directory's lock; None when another process holds it. Closing it gives it back."""
        self.directory.mkdir(parents=True, exist_ok=True)
        lock = self.lock_file.open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return None
        return lock

    def held(self) -> bool:
        """Tell whether a process runs this cell."""
        if not self.lock_file.exists():
            return False
        with self.lock_file.open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def running(self, wait_s: float = 0.0) -> CellState | None:
        """Return the state of the running cell, None if none runs; wait for one that is just starting."""
        deadline = time.monotonic() + wait_s
        while self.held():
            state = self.read()
            if state is not None and exists(state.pid):
                return state
            if time.monotonic() > deadline:
                return None
            time.sleep(0.02)
        return None


def find(start: Path) -> Place | None:
    """Return the cell in the nearest `.sluice/` at or above *start*, as git finds its repository.

    Where none is running, a running demo's; else the one that ran here last.
    """
    start = start.absolute()
    for directory in (start, *start.parents):
        here = [Place(directory / DIRECTORY), Place(directory / DIRECTORY / DEMO)]
        known = [place for place in here if place.lock_file.is_file()]
        if known:
            return next((place for place in known if place.held()), known[0])
    return None


def nearest(start: Path) -> CellState | None:
    """Return the cell that runs in the nearest `.sluice/` at or above *start*, None if there is none."""
    place = find(start)
    return place.running() if place is not None else None
