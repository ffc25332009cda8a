"""A NATS server with the users of `deploy/nats`, and services that log in as themselves."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from sluice.local.processes import service_command
from sluice.local.server import find_binary
from tests.support import system
from tests.support.command import Said, sluice
from tests.support.waiting import PATIENCE_S, wait_until

ROOT = Path(__file__).resolve().parents[3]
NATS = ROOT / "deploy" / "nats"
SERVICES = ("scheduler", "slice_aggregator", "variant_controller", "admission_check", "api", "gate")
USERS = (*SERVICES, "keeper", "agent", "upstream", "admin", "viewer")


SPY = """
      {user: spy, password: $SLUICE_SPY_PASSWORD, permissions: {publish: [], allow_responses: true}}"""


@dataclass
class SecuredCell:
    """As in production, but on loopback and in *directory*. A context manager; ends what it started."""

    directory: Path
    port: int = 0
    processes: list[system.Process] = field(default_factory=list)
    last: dict[str, system.Process] = field(default_factory=dict)
    """The latest process of each service."""
    controllers: Sequence[str] = ()
    """Of admission checks: they get users, too, `check_<name>`."""
    spied: bool = False
    """A user `spy` hears what is said in the services' account, and may answer."""

    def url(self, user: str) -> str:
        return f"nats://{user}:secret-{user}@127.0.0.1:{self.port}"

    @property
    def server_log(self) -> Path:
        return self.directory / "nats.log"

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        text = (NATS / "nats-server.conf").read_text()
        for key, value in (
            ("listen", '"127.0.0.1:-1"'),
            ("http", '"127.0.0.1:-1"'),
            ("store_dir", f'"{self.directory / "jetstream"}"'),
        ):
            text, changed = re.subn(rf"(?m)^( *){key}: .*$", rf"\g<1>{key}: {value}", text)
            assert changed == 1, f"deploy/nats/nats-server.conf has no {key}"
        (self.directory / "nats-server.conf").write_text(text)
        passwords = self._write_users()
        command = [str(find_binary(os.environ)), "-c", str(self.directory / "nats-server.conf")]
        self._start(command, {**os.environ, **passwords}, self.server_log)
        self._await_ready()
        return self

    def _write_users(self) -> dict[str, str]:
        """Write `users.conf`, and return the passwords in it as the server's environment."""
        shutil.copy(NATS / "users.conf", self.directory)
        users = list(USERS)
        if self.controllers:
            given = [word for name in self.controllers for word in ("--controller", name)]
            made = subprocess.run(
                [sys.executable, "deploy/nats/make_users.py", *given],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            (self.directory / "users.conf").write_text(made)
            users = re.findall(r"user: (\w+)", made)
        if self.spied:
            file = self.directory / "users.conf"
            file.write_text(file.read_text().replace("users: [", f"users: [{SPY}", 1))
            users.append("spy")
        return {f"SLUICE_{user.upper()}_PASSWORD": f"secret-{user}" for user in users}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, command: list[str], env: dict[str, str], log: Path) -> system.Process:
        process = system.spawn(command, env, log)
        self.processes.append(process)
        return process

    def _await_ready(self) -> None:
        wait_until(lambda: "Server is ready" in self.server_log.read_text())
        text = self.server_log.read_text()
        found = re.search(r"Listening for client connections on 127\.0\.0\.1:(\d+)", text)
        assert found is not None, text
        self.port = int(found[1])

    def service(self, name: str, user: str = "", **env: str) -> system.Process:
        """Start one replica of a service as *user*, that of its name by default; its instance is its name."""
        more = {"SLUICE_NATS_URL": self.url(user or name), **env}
        if name == "gate":
            more["GATE_CONTROLLERS"] = ",".join(self.controllers)
        log = self.directory / f"{name}.log"
        self.last[name] = self._start(service_command(name), self.env(name, **more), log)
        return self.last[name]

    def env(self, name: str, **more: str) -> dict[str, str]:
        """Return the environment of a service's container."""
        return {
            **os.environ,
            "SLUICE_NATS_URL": self.url(name),
            "SLUICE_INSTANCE": f"{name}-0",
            "SLUICE_DATA_DIR": str(self.directory / "data"),
            **more,
        }

    def probe(self, name: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run the health check of a service's container."""
        return subprocess.run(
            [sys.executable, "-m", "sluice.log.runtime.healthcheck", *arguments],
            cwd=ROOT,
            env=self.env(name, **env),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )

    def sluice(self, user: str, *arguments: str) -> Said:
        """Run the `sluice` command as a user."""
        return sluice("--server", self.url(user), *arguments, env={"COLUMNS": "200"})

    def violations(self) -> list[str]:
        """Return what the server refused, as `user: verb subject`."""
        pattern = re.compile(r'user:(\w+)" - (Publish|Subscription) Violation - Subject "([^"]*)"')
        return [f"{m[1]}: {m[2]} {m[3]}" for m in pattern.finditer(self.server_log.read_text())]
