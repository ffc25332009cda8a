"""A NATS server with keys and certificates of `sluice auth`, and services that log in as themselves."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from sluice.cli.commands.auth.place import AuthPlace
from sluice.local.processes import service_command
from sluice.local.server import find_binary
from sluice.rights.roles import User
from tests.support import system
from tests.support.command import Said, sluice
from tests.support.waiting import PATIENCE_S, wait_until

ROOT = Path(__file__).resolve().parents[3]
NATS = ROOT / "deploy" / "nats"
SERVICES = ("scheduler", "slice_aggregator", "variant_controller", "admission_check", "api", "gate")
USERS_FILE = "../auth/public/users.conf"
"""What the deployed server includes."""
USERS = (*SERVICES, "keeper", "agent", "admin", "upstream", "viewer")
"""Those of `sluice auth init`, and the two that are added."""

SPY = """
      {user: spy, password: spy, permissions: {publish: [], allow_responses: true}}"""


@dataclass
class SecuredCell:
    """As in production, but on loopback and in *directory*. A context manager; ends what it started."""

    directory: Path
    port: int = 0
    processes: list[system.Process] = field(default_factory=list)
    last: dict[str, system.Process] = field(default_factory=dict)
    """The latest process of each service."""
    users: Sequence[User] = ()
    """Who is there beside the `USERS`."""
    spied: bool = False
    """A user `spy` hears what is said in the services' account, and may answer."""

    @property
    def auth(self) -> Path:
        return self.directory / "auth"

    def url(self, user: str) -> str:
        folder, server = self.auth / "keys" / user, f"127.0.0.1:{self.port}"
        if user == "spy":
            return f"tls://spy:spy@{server}?ca={self.auth / 'public' / 'ca.pem'}"
        return f"tls://{server}?credentials={folder / 'key.nk'}&ca={folder / 'ca.pem'}"

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
        assert USERS_FILE in text
        text = text.replace(USERS_FILE, "auth/public/users.conf")
        (self.directory / "nats-server.conf").write_text(self.configured(text))
        self._make_users()
        command = [str(find_binary(os.environ)), "-c", str(self.directory / "nats-server.conf")]
        self.start(command, dict(os.environ), self.server_log)
        self._await_ready()
        return self

    def configured(self, text: str) -> str:
        """Return the server's configuration as it is to be."""
        return text

    def _make_users(self) -> None:
        sluice("auth", "init", "--dir", str(self.auth)).ok()
        place = AuthPlace(self.auth)
        roles = place.load()
        standing = User(name="upstream", role="publisher"), User(name="viewer", role="viewer")
        for user in (*standing, *self.users):
            roles = roles.put(place.with_key(user))
        place.save(roles)
        if self.spied:
            text = place.config_file.read_text()
            place.config_file.write_text(text.replace("users: [", f"users: [{SPY}", 1))

    def change(self, *words: str) -> Said:
        """Run `sluice auth`; the server hears of it."""
        server = self.processes[0]
        return sluice("auth", *words, "--dir", str(self.auth), "--server-pid", str(server.pid)).ok()

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

    def start(self, command: list[str], env: dict[str, str], log: Path) -> system.Process:
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
            more["GATE_ROLES"] = str(self.auth / "public" / "roles.yaml")
        log = self.directory / f"{name}.log"
        self.last[name] = self.start(service_command(name), self.env(name, **more), log)
        return self.last[name]

    def start_services(self, **env: str) -> None:
        """Start one replica of each service, and wait until all are ready."""
        for name in SERVICES:
            self.service(name, **env)
        self.await_services()

    def await_services(self) -> None:
        wait_until(lambda: all(self.probe(name, "--ready").returncode == 0 for name in SERVICES))

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
        pattern = re.compile(r'nkey:"?(U\w+)"? - (Publish|Subscription) Violation - Subject "([^"]*)"')
        names = {key: user.name for user in AuthPlace(self.auth).load().users for key in user.keys}
        text = self.server_log.read_text()
        return [f"{names.get(m[1], m[1])}: {m[2]} {m[3]}" for m in pattern.finditer(text)]
