"""The directory that `sluice auth` keeps: roles, the server's configuration made of them, keys, certificates.

auth/roles.yaml        who may do what, with public keys: the one file to look at, and to keep
auth/users.conf        for the server, included in its configuration
auth/keys/NAME.nk      the secret of each user, for whoever it is of
auth/tls/              ca.pem for clients, server.pem and server.key for the server, ca.key for nobody
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from sluice.cli.kit.errors import CliError
from sluice.local.private_files import write_private
from sluice.log.nats.nkeys import new_seed, public_of
from sluice.rights.roles import Roles, RolesError, User, check, config_of, dumped, read

RELOADS, RELOAD_S = 2, 0.5
"""A server takes an account that is new into all imports at the second reload only (nats-server 2.15)."""


class AuthPlace:
    """One such directory. *server_dir*: where the server sees it, for the paths in its configuration."""

    def __init__(self, directory: Path, server_dir: str = "") -> None:
        self.directory = directory
        self.roles_file = directory / "roles.yaml"
        self.config_file = directory / "users.conf"
        self.keys = directory / "keys"
        self.tls = directory / "tls"
        self._server_file = directory / "server-dir"
        self._server_dir = server_dir

    @property
    def server_dir(self) -> str:
        if self._server_dir:
            return self._server_dir
        with contextlib.suppress(FileNotFoundError):
            return self._server_file.read_text().strip()
        return str(self.directory.absolute())

    def load(self) -> Roles:
        """Return the roles.

        Raises:
            CliError: there are none, or they are wrong.
        """
        try:
            return read(self.roles_file)
        except FileNotFoundError:
            raise CliError(f"{self.roles_file} does not exist", hint="`sluice auth init` makes it.") from None
        except (OSError, RolesError) as error:
            raise CliError(str(error)) from None

    def save(self, roles: Roles) -> None:
        """Write roles and configuration.

        Raises:
            CliError: the roles are wrong; nothing was written then.
        """
        try:
            check(roles)
        except RolesError as error:
            raise CliError(str(error)) from None
        _replace(self.roles_file, dumped(roles))
        _replace(self.config_file, config_of(roles, self._tls_files()))
        if self._server_dir:
            _replace(self._server_file, f"{self._server_dir}\n")

    def _tls_files(self) -> dict[str, str]:
        if not (self.tls / "server.pem").exists():
            return {}
        where = f"{self.server_dir}/tls"
        return {"cert_file": f"{where}/server.pem", "key_file": f"{where}/server.key"}

    def new_key(self, name: str) -> str:
        """Make a key of a user, in the place of an earlier one, and return its public half."""
        self.keys.mkdir(mode=0o700, exist_ok=True)
        seed = new_seed()
        write_private(self.seed_file(name), f"{seed}\n".encode())
        return public_of(seed)

    def seed_file(self, name: str) -> Path:
        return self.keys / f"{name}.nk"

    def with_key(self, user: User, *, keep: Sequence[str] = ()) -> User:
        """Return *user* with a new key, in front of those that are kept."""
        return msgspec.structs.replace(user, keys=[self.new_key(user.name), *keep])


def _replace(path: Path, text: str) -> None:
    """Write a file at once, so that no reader sees half of it."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_text(text)
    partial.replace(path)


def reload(pid_file: str | None) -> Iterator[str]:
    """Tell the server to load its configuration again; yields what to say of it.

    Raises:
        CliError: there is no such server.
    """
    if not pid_file:
        yield "Load it: nats-server --signal reload, twice if there is a new user."
        return
    try:
        pid = int(Path(pid_file).read_text() if not pid_file.isdecimal() else pid_file)
        for _ in range(RELOADS):
            os.kill(pid, signal.SIGHUP)
            # It does not say when it has done so; what is asked meanwhile may stay without an answer.
            time.sleep(RELOAD_S)
    except (OSError, ValueError) as error:
        raise CliError(f"the server was not told: {error}") from None
    yield f"The server (pid {pid}) has been told."
