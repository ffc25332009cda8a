"""Runs a whole cell on one machine: the embedded server, the services, the agents.

Children are started, watched, restarted when they die, and ended by pid: agents first, so that they can
stop and report their jobs, then the services, then the log that they write to.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sluice.local.cell_directory import CellState, Place, ProcessState
from sluice.local.process_start import start_time
from sluice.local.processes import exists, service_command
from sluice.local.server import EmbeddedServer
from sluice.local.store_watch import StoreWatch

from .leftovers import end_leftovers

SERVICES = ("api", "slice_aggregator", "variant_controller", "scheduler", "admission_check")
"""Started in this order; the order does not matter to them."""

SHIPPED_CHECKS = ("budget", "webhook", "provisioning")
CHECK_PREFIX = "check_"
"""Admission checks that come with Sluice, and what their services are called by."""

ARCHIVIST = "archivist"
"""Archives the log and cuts it; no cell needs it to decide."""
CONSOLE = "console"
"""What people look with; a cell works without it, so nothing waits for it."""

STOP_TIMEOUT_S = 8.0
RESTART_FIRST_S, RESTART_MOST_S = 0.2, 5.0
HEALTHY_AFTER_S = 10.0
"""A service that lived this long is restarted at once the next time."""

_PR_SET_PDEATHSIG = 1


@dataclass(slots=True)
class Child:
    """One supervised process and what is needed to start it again."""

    label: str
    service: str
    env: dict[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    began_at: float = 0.0
    """As the system says, seconds since the epoch; `started` is our own clock."""
    restarts: int = 0
    backoff_s: float = RESTART_FIRST_S
    restart_at: float = 0.0

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None


@dataclass
class Supervisor:
    """A cell in *place*. `start`, then `tend` now and then, then `stop`; also as a context manager."""

    place: Place
    cell: str = "main"
    port: int = 0
    agents: int = 2
    agent_env: Sequence[Mapping[str, str]] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    services: Sequence[str] = SERVICES
    replicas: int = 1
    sync: str = "2m"
    """How often the server's store goes to disk for good: JetStream's sync_interval."""
    console_port: int | None = None
    """Of the console, on loopback; None: there is none."""
    children: list[Child] = field(default_factory=list)
    server: EmbeddedServer | None = None
    store: StoreWatch | None = None
    """Tells when the server has been refused a write."""
    started_at: float = 0.0
    failure: str = ""

    @property
    def url(self) -> str:
        assert self.server is not None
        return self.server.url

    def start(self) -> None:
        """Start the server, then every service and agent; does not wait for them to be healthy.

        Raises:
            sluice.log.errors.ServerError: the server did not come up.
        """
        self.place.logs.mkdir(parents=True, exist_ok=True)
        self.place.logs.chmod(0o700)
        # What outlived a killed `up` holds the store; the lock on the directory is ours already.
        end_leftovers(self.place)
        self.server = EmbeddedServer(
            self.place.nats, port=self.port, sync=self.sync, name=f"sluice-{self.cell}", secured=True
        )
        self.store = StoreWatch(self.place.nats, Path(self.server.start().log_file))
        self.started_at = time.time()
        for service in self.services:
            for number in range(1 if service == ARCHIVIST else self.replicas):
                label = service.replace("_", "-") + (f"-{number + 1}" if self.replicas > 1 else "")
                self._add(label, service, {})
        for number in range(1, self.agents + 1):
            self.add_agent(number)
        if self.console_port is not None:
            self._add(CONSOLE, CONSOLE, {"CONSOLE_PORT": str(self.console_port)})
        self.save()

    def add_agent(self, number: int) -> Child:
        """Start agent *number* (from 1)."""
        name = f"agent-{number}"
        extra = dict(self.agent_env[number - 1]) if number <= len(self.agent_env) else {}
        directory = self.place.agents / name
        directory.mkdir(parents=True, exist_ok=True)
        return self._add(name, "agent", {"AGENT_NAME": name, "SLUICE_DATA_DIR": str(directory), **extra})

    def _add(self, label: str, service: str, extra: dict[str, str]) -> Child:
        env = {
            "SLUICE_CELL": self.cell,
            "SLUICE_NATS_URL": self.url,
            "SLUICE_DATA_DIR": str(self.place.directory),
            **self.env,
            **extra,
        }
        child = Child(label, service, env, self.place.logs / f"{label}.log")
        self.children.append(child)
        self._launch(child)
        return child

    def _launch(self, child: Child) -> None:
        with child.log.open("ab") as log:
            child.process = subprocess.Popen(
                service_command(child.service),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **child.env},
                # A Ctrl-C in the terminal is for us to act on; children are ended in order.
                process_group=0,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
            )
        child.started = time.monotonic()
        child.began_at = start_time(child.process.pid)

    def tend(self) -> list[Child]:
        """Restart what has ended; return the children that were found ended. Call it twice a second or so."""
        now = time.monotonic()
        ended = []
        for child in self.children:
            if child.alive:
                continue
            if child.process is not None:
                ended.append(child)
                lived = now - child.started
                fresh = lived > HEALTHY_AFTER_S
                child.backoff_s = RESTART_FIRST_S if fresh else min(child.backoff_s * 2, RESTART_MOST_S)
                child.restart_at = now + child.backoff_s
                child.process = None
            elif now >= child.restart_at:
                child.restarts += 1
                self._launch(child)
                self.save()
        return ended

    def server_alive(self) -> bool:
        """Tell whether the server still runs."""
        return self.server is not None and is_running(self.server.pid)

    def revive_server(self) -> None:
        """Start the server again at its old address, after it died or could not write any more."""
        assert self.server is not None
        # In order if it still runs: then it has less to look through.
        self.server.stop()
        self.server.start()
        if self.store is not None:
            self.store.begun()
        self.save()

    def state(self, *, ready: bool = False) -> CellState:
        """Return what `up.json` says."""
        return CellState(
            cell=self.cell,
            url=self.url,
            pid=os.getpid(),
            server_pid=self.server.pid if self.server else 0,
            started_at=self.started_at,
            ready=ready,
            failure=self.failure,
            console="" if self.console_port is None else f"http://127.0.0.1:{self.console_port}/",
            processes=[
                ProcessState(
                    label=child.label,
                    service=child.service,
                    pid=child.process.pid if child.process else 0,
                    log=str(child.log),
                    restarts=child.restarts,
                    started=child.began_at if child.process else 0.0,
                )
                for child in self.children
            ],
        )

    def save(self, *, ready: bool | None = None) -> None:
        """Write `up.json`; `ready` None keeps what it said."""
        before = self.place.read()
        was = before is not None and before.pid == os.getpid() and before.ready
        self.place.write(self.state(ready=was if ready is None else ready))

    def stop(self) -> None:
        """End everything that was started: agents, services, server. Safe to call twice."""
        self._end([child for child in self.children if child.service == "agent"])
        self._end([child for child in self.children if child.service != "agent"])
        self.children.clear()
        if self.server is not None:
            self.server.stop()
            self.server = None
        with contextlib.suppress(FileNotFoundError):
            self.place.state_file.unlink()

    def _end(self, children: Sequence[Child]) -> None:
        live = [child.process for child in children if child.process is not None and child.alive]
        for process in live:
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for process in live:
            try:
                process.wait(max(deadline - time.monotonic(), 0.05))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def __enter__(self) -> "Supervisor":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def tail(path: Path, lines: int = 12) -> str:
    """Return the last lines of a log, for messages."""
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


def is_running(pid: int) -> bool:
    """Tell whether a process lives; one that has ended and was not waited for yet does not."""
    if not exists(pid):
        return False
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return True


_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def _die_with_parent() -> None:
    """Ask the kernel for SIGTERM when the supervisor is killed, so that nothing is left running."""
    assert _LIBC is not None
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
