"""The file of roles: who takes part in a cell, with which keys. `sluice auth` writes it, the gate reads it.

It holds public keys only.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from sluice.api.errors import InvalidError
from sluice.api.yaml import plain_documents

from .names import Names
from .parties import (
    Bounds,
    Party,
    Service,
    controllers_of_checks,
    executors,
    managers,
    operators,
    pools,
    publishers,
    services,
    teams,
    viewers,
)
from .server_config import render

__all__ = ["Roles", "RolesError", "User", "check", "config_of", "dumped", "parties_of", "read", "services_of"]

Role = Literal["service", "operator", "team", "publisher", "executor", "controller", "manager", "viewer"]

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_CELL = re.compile(r"[A-Za-z0-9_-]{1,63}")
_KEY = re.compile(r"U[A-Z2-7]{55}")


class RolesError(ValueError):
    """The file of roles is wrong; the message says where."""


class User(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    """One that may log in."""

    name: str
    role: Role
    keys: list[str] = []
    """Public NKeys; several while one replaces another."""
    namespaces: list[str] = []
    """Of a team: of its jobs, at least one. Of executors and managers: of their jobs; none are all."""
    controller: str = ""
    """Of a controller of admission checks: its name, as AdmissionChecks have it."""
    manager: str = ""
    """Of the link of a manager, another cell that places jobs here: the name of that cell."""
    follows: bool = False
    """Of a team: whether it may read the log and dispatch, of everybody."""
    queues: list[str] = []
    """Of a team: local queues that its jobs may name, `name` or `namespace/name`; none are all."""
    rate: Annotated[float, msgspec.Meta(ge=0)] = 0
    """Of a team: messages a second, in the long run; 0: as many as come."""
    burst: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Of a team with a rate: messages at once; 0: those of a second."""
    max_payload: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Of a team: most bytes of a message; 0: as the cell takes them."""

    @property
    def bounds(self) -> Bounds:
        """What its messages are held to."""
        return Bounds(
            queues=tuple(self.queues), per_s=self.rate, burst=self.burst, max_bytes=self.max_payload
        )


class Roles(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    """The whole file."""

    cell: str = "main"
    users: list[User] = []

    def user(self, name: str) -> User | None:
        return next((user for user in self.users if user.name == name), None)

    def put(self, user: User) -> "Roles":
        """Return the roles with *user* in the place of the one of its name, or at the end."""
        if self.user(user.name) is None:
            return msgspec.structs.replace(self, users=[*self.users, user])
        users = [user if one.name == user.name else one for one in self.users]
        return msgspec.structs.replace(self, users=users)

    def without(self, name: str) -> "Roles":
        return msgspec.structs.replace(self, users=[user for user in self.users if user.name != name])


def read(path: Path) -> Roles:
    """Return the roles in a file.

    Raises:
        RolesError: it is no file of roles.
        OSError: it cannot be read.
    """
    try:
        (document,) = plain_documents(path.read_text())
        roles = msgspec.convert(document, Roles)
        check(roles)
    except (msgspec.ValidationError, InvalidError, RolesError, ValueError) as error:
        raise RolesError(f"{path}: {error}") from None
    return roles


def check(roles: Roles) -> None:
    """Check what the types do not.

    Raises:
        RolesError: a name, a key or a combination is wrong.
    """
    inside = {service.user for service in services(roles.cell)}
    seen: set[str] = set()
    for user in roles.users:
        where = f"user {user.name!r}"
        if not _NAME.fullmatch(user.name):
            raise RolesError(f"{where}: a name has small letters, digits and _, and begins with a letter")
        if user.name in seen:
            raise RolesError(f"{where}: is there twice")
        seen.add(user.name)
        if (user.role == "service") != (user.name in inside) or user.name == "sluice":
            raise RolesError(f"{where}: the names of services are theirs: {', '.join(sorted(inside))}")
        if user.role == "team" and not user.namespaces:
            raise RolesError(f"{where}: a team has namespaces")
        if user.role != "team" and (user.bounds != Bounds() or user.follows):
            raise RolesError(f"{where}: queues, rate, burst, maxPayload and follows are a team's")
        for queue in user.queues:
            namespace, slash, name = queue.rpartition("/")
            if not name or (slash and namespace not in user.namespaces):
                raise RolesError(f"{where}: the queue {queue!r} is in none of its namespaces")
        if user.burst and not user.rate:
            raise RolesError(f"{where}: a burst belongs to a rate")
        if (user.role == "controller") != bool(user.controller):
            raise RolesError(f"{where}: a controller of checks, and nobody else, names a controller")
        if (user.role == "manager") != bool(user.manager):
            raise RolesError(f"{where}: the link of a manager, and nobody else, names the manager's cell")
        if user.manager and not _CELL.fullmatch(user.manager):
            raise RolesError(f"{where}: {user.manager!r} is no name of a cell")
        if bad := [key for key in user.keys if not _KEY.fullmatch(key)]:
            raise RolesError(f"{where}: {bad[0][:60]!r} is no public key of a user")


def services_of(roles: Roles) -> list[Service]:
    """Return the services that have keys."""
    named = {user.name for user in roles.users if user.role == "service"}
    return [service for service in services(roles.cell) if service.user in named]


def parties_of(roles: Roles) -> list[Party]:
    """Return everybody else."""
    names = Names(roles.cell)
    return [_party(names, user) for user in roles.users if user.role != "service"]


def _party(names: Names, user: User) -> Party:
    match user.role:
        case "operator":
            return operators(names, user.name, "Runs the cell: the whole `sluice` command")
        case "team":
            what = f"A team: jobs of {', '.join(user.namespaces)}"
            return teams(names, user.name, what, user.namespaces, user.bounds, follows=user.follows)
        case "publisher":
            return publishers(names, user.name, "Submits jobs of all namespaces, and follows them")
        case "executor":
            if not user.namespaces:
                return executors(names, user.name, "Executors: jobs of all namespaces")
            what = f"A pool of executors: jobs of {', '.join(user.namespaces)}"
            return pools(names, user.name, what, user.namespaces)
        case "controller":
            return controllers_of_checks(names, user.name, user.controller)
        case "manager":
            what = f"The cell {user.manager}, which places jobs here: its link"
            return managers(names, user.name, what, user.manager, user.namespaces)
        case _:
            return viewers(names, user.name, "Looks: `sluice get`, `describe`, `log`, `status`")


def config_of(roles: Roles, tls: Mapping[str, str] | None = None) -> str:
    """Return the part of the server's configuration. *tls*: its files, as the server sees them."""
    keys = {user.name: user.keys for user in roles.users}
    text = render(roles.cell, services_of(roles), parties_of(roles), keys)
    if tls:
        text += "\ntls {\n" + "".join(f'  {key}: "{path}"\n' for key, path in tls.items()) + "}\n"
    return text


def dumped(roles: Roles) -> str:
    """Return the file."""
    import yaml

    head = "# Who takes part in this cell. `sluice auth` writes it; keys are the public halves.\n"
    return head + yaml.safe_dump(msgspec.to_builtins(roles), sort_keys=False, width=100)
