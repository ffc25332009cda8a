"""A NATS server of a cell whose users have keys, as `sluice auth` makes them."""

from dataclasses import dataclass
from pathlib import Path

from tests.support.command import Said, sluice
from tests.support.waiting import wait_until

from .secured import SERVICES, SecuredCell


@dataclass
class KeyedCell(SecuredCell):
    """As `SecuredCell`, with keys and certificates that `sluice auth init` made."""

    @property
    def auth(self) -> Path:
        return self.directory / "auth"

    def url(self, user: str) -> str:
        seed, ca = self.auth / "keys" / f"{user}.nk", self.auth / "tls" / "ca.pem"
        return f"tls://127.0.0.1:{self.port}?credentials={seed}&ca={ca}"

    def _write_users(self) -> dict[str, str]:
        config = self.directory / "nats-server.conf"
        config.write_text(config.read_text().replace('include "users.conf"', 'include "auth/users.conf"'))
        said = sluice("auth", "init", "--dir", str(self.auth))
        assert said.code == 0, said.err
        return {}

    def change(self, *words: str) -> Said:
        """Run `sluice auth`; the server hears of it."""
        server = self.processes[0]
        said = sluice("auth", *words, "--dir", str(self.auth), "--server-pid", str(server.pid))
        assert said.code == 0, said.err
        return said

    def start_services(self) -> None:
        """Start one replica of each service, and wait until all are ready."""
        for name in SERVICES:
            self.service(name, GATE_ROLES=str(self.auth / "roles.yaml"))
        wait_until(lambda: all(self.probe(name, "--ready").returncode == 0 for name in SERVICES))
