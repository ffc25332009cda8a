"""The directory that `sluice auth` keeps. Each folder in it is for somebody, who needs no other one.

auth/public/            for the server and the gate: roles.yaml, the one file that says who may do what, with
                        public keys, and users.conf, which is made of it for the server. For everybody:
                        ca.pem. No secrets
auth/server/            for the server: its certificate, server.pem, and server.key
auth/keys/NAME/         for that user: its key, key.nk, and ca.pem, by which it knows the server; of a team
                        or a pool namespace, the first one, which `sluice` takes where none is named
auth/ca/                for nobody: ca.key makes certificates of servers

They are mounted as folders: files in them are replaced, and a mounted file would stay the old one.
"""

import contextlib
import hashlib
import os
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from sluice.cli.kit.errors import CliError
from sluice.local.private_files import write_private
from sluice.log.nats.nkeys import new_seed, public_of
from sluice.rights.roles import Roles, RolesError, User, check, config_of, dumped, read

LOCAL = ("localhost", "127.0.0.1")
LOOK_S = 1.0
RELOADS, RELOAD_S = 2, 0.5
"""A server takes an account that is new into all imports at the second reload only (nats-server 2.15)."""


class AuthPlace:
    """One such directory. *server_dir*: where the server sees it, for the paths in its configuration."""

    def __init__(self, directory: Path, server_dir: str = "") -> None:
        self.directory = directory
        self.public, self.server, self.ca = directory / "public", directory / "server", directory / "ca"
        self.roles_file, self.config_file = self.public / "roles.yaml", self.public / "users.conf"
        self.authority = self.public / "ca.pem"
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
        self.public.mkdir(parents=True, exist_ok=True)
        _replace(self.roles_file, dumped(roles))
        _replace(self.config_file, config_of(roles, self._tls_files()))
        if self._server_dir:
            _replace(self._server_file, f"{self._server_dir}\n")

    def _tls_files(self) -> dict[str, str]:
        if not (self.server / "server.pem").exists():
            return {}
        where = f"{self.server_dir}/server"
        return {"cert_file": f"{where}/server.pem", "key_file": f"{where}/server.key"}

    def certify(self, cell: str, hosts: Sequence[str]) -> None:
        """Give the server another certificate, for *hosts*, of the authority that is there or of a new one.

        Without *hosts*, for those of the certificate that it has.

        Raises:
            CliError: the authority's key is somewhere else.
        """
        from sluice.local.certificates import hosts_of, new_authority, new_server

        self.public.mkdir(parents=True, exist_ok=True)
        for folder in (self.ca, self.server):
            folder.mkdir(mode=0o700, exist_ok=True)
        ca = self.authority, self.ca / "ca.key"
        certificate = self.server / "server.pem"
        if not self.authority.exists():
            new_authority(*ca, f"Sluice cell {cell}")
        elif not ca[1].exists():
            raise CliError(f"{ca[1]} is not here", hint="Put it there for as long as this takes.")
        known = hosts_of(certificate) if not hosts and certificate.exists() else ()
        wanted = tuple(dict.fromkeys((*hosts, *known, *LOCAL)))
        new_server(certificate, self.server / "server.key", *ca, wanted)

    def folder(self, name: str) -> Path:
        """Return what a user is given: its key, and by what it knows the server."""
        return self.directory / "keys" / name

    def new_key(self, name: str) -> str:
        """Make a key of a user, in the place of an earlier one, and return its public half."""
        self.folder(name).mkdir(mode=0o700, parents=True, exist_ok=True)
        seed = new_seed()
        write_private(self.folder(name) / "key.nk", f"{seed}\n".encode())
        if self.authority.exists():
            _replace(self.folder(name) / "ca.pem", self.authority.read_text())
        return public_of(seed)

    def with_key(self, user: User, *, keep: Sequence[str] = ()) -> User:
        """Return *user* with a new key, in front of those that are kept."""
        key = self.new_key(user.name)
        if user.namespaces:
            _replace(self.folder(user.name) / "namespace", f"{user.namespaces[0]}\n")
        return msgspec.structs.replace(user, keys=[key, *keep])

    def forget(self, name: str) -> None:
        """Remove what a user was given."""
        shutil.rmtree(self.folder(name), ignore_errors=True)

    def read_by_the_server(self) -> bytes:
        """Return a digest of what the server loads; what cannot be read now is as if it were not there."""
        found = hashlib.sha256()
        for path in sorted((*self.public.glob("*.conf"), *self.server.glob("server.*"))):
            with contextlib.suppress(OSError):
                found.update(path.read_bytes())
        return found.digest()


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
        yield "The server does not know yet: `nats-server --signal reload`, twice if there is a new user."
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


def reload_whenever_changed(place: AuthPlace, pid_file: str) -> Iterator[str]:
    """Tell the server of each change of what it reads, for ever; yields as `reload` does.

    A server that is not there yet, or not any more, loads everything when it starts.
    """
    told = place.read_by_the_server()
    yield f"watching {place.directory}"
    while True:
        time.sleep(LOOK_S)
        found = place.read_by_the_server()
        if found != told:
            try:
                yield from reload(pid_file)
            except CliError as error:
                yield str(error)
            else:
                told = found
