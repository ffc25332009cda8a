"""A whole cell as real processes, started, killed, paused and measured by tests and benchmarks."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import psutil

from sluice.local.processes import service_command
from sluice.local.server import EmbeddedServer

from . import unhandled

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Usage:
    """What a process (or all replicas of a service, ended ones too) has used."""

    cpu_s: float = 0.0
    peak_mb: float = 0.0

    def add(self, other: "Usage") -> None:
        self.cpu_s += other.cpu_s
        self.peak_mb = max(self.peak_mb, other.peak_mb)


def usage_of(pid: int) -> Usage:
    """Return CPU seconds and peak resident memory in MB of a live process; zeros if it is gone."""
    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
        peak = 0.0
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                peak = int(line.split()[1]) / 1024
        return Usage(times.user + times.system, peak)
    except (psutil.Error, OSError):
        return Usage()


class Process(Protocol):
    """What is asked of a service's process, a `subprocess.Popen` or `tests.support.forked.Forked`."""

    pid: int

    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, which: int, /) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


def spawn(command: Sequence[str], env: Mapping[str, str], log_path: Path) -> Process:
    """Start a process that writes what it says to a file."""
    with log_path.open("ab") as log:
        return subprocess.Popen(
            command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=env
        )


@dataclass
class Service:
    """One process of one service. `label` tells replicas apart that are not alike, as agents are."""

    name: str
    process: Process
    log_path: Path
    label: str = ""
    paused: bool = False

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait(10)

    def pause(self) -> None:
        """SIGSTOP: it does nothing, and does not know."""
        self.process.send_signal(signal.SIGSTOP)
        self.paused = True

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.paused = False

    def stop(self, timeout_s: float = 60) -> int:
        """SIGTERM, then SIGKILL; returns the exit code."""
        if self.alive:
            self.process.terminate()
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return self.process.wait(5)


@dataclass
class System:
    """A cell in *directory*. Use as a context manager: everything is ended, by pid, at its end."""

    directory: Path
    cell: str = "main"
    env: dict[str, str] = field(default_factory=dict)
    server: EmbeddedServer = field(init=False)
    services: list[Service] = field(default_factory=list)
    ended: dict[str, Usage] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.server = EmbeddedServer(self.directory / "nats")

    def __enter__(self) -> "System":
        self.server.start()
        return self

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        for service in self.services:
            if service.alive:
                service.kill()
        self.server.kill()
        faults = [fault for service in self.services for fault in unhandled.found(service.log_path)]
        if faults and kind is None:
            raise unhandled.Unhandled("\n".join(faults))

    @property
    def url(self) -> str:
        return self.server.url

    def start(
        self, name: str, env: dict[str, str] | None = None, *, label: str = "", command: Sequence[str] = ()
    ) -> Service:
        """Start one replica of `sluice.services.<name>`; its output goes to `<label or name>-<n>.log`.

        *command*: Python's arguments, `-m sluice.services.<name>` by default.
        """
        label = label or name
        number = sum(1 for service in self.services if service.label == label)
        log_path = self.directory / f"{label}-{number}.log"
        own = {"SLUICE_CELL": self.cell, "SLUICE_NATS_URL": self.url}
        process = spawn(
            [sys.executable, *command] if command else service_command(name),
            {**os.environ, **own, **self.env, **(env or {})},
            log_path,
        )
        service = Service(name, process, log_path, label)
        self.services.append(service)
        return service

    def live(self, name: str = "", label: str = "") -> list[Service]:
        return [
            service
            for service in self.services
            if service.name == (name or service.name)
            and service.label == (label or service.label)
            and service.alive
        ]

    def kill(self, service: Service) -> None:
        """Kill one replica, keeping what it used for `usage`."""
        self.ended.setdefault(service.name, Usage()).add(usage_of(service.process.pid))
        service.kill()

    def usage(self) -> dict[str, Usage]:
        """Return CPU and peak memory per service name, the server as `nats-server`."""
        result = {name: Usage(used.cpu_s, used.peak_mb) for name, used in self.ended.items()}
        for service in self.live():
            result.setdefault(service.name, Usage()).add(usage_of(service.process.pid))
        if self.server.state is not None:
            result["nats-server"] = usage_of(self.server.pid)
        return result

    @contextlib.contextmanager
    def logs_of_failures(self) -> Iterator[None]:
        """Add the last lines of all services to what fails in the block."""
        try:
            yield
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.tail_logs()}") from error

    def tail_logs(self, lines: int = 15) -> str:
        """Return the last lines of every service's log, for failure messages."""
        parts = []
        for service in self.services:
            text = service.log_path.read_text(errors="replace").splitlines()[-lines:]
            parts.append(f"--- {service.log_path.name} ({'alive' if service.alive else 'ended'})")
            parts += text
        return "\n".join(parts)
