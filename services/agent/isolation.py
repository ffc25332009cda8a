"""Isolation of jobs from the agent and from the machine: their environment, their user, their limits.

And what does not: `not_isolated` says so, and the agent's log with it.
"""

import ctypes
import fnmatch
import grp
import os
import pwd
import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

_PRIVATE = ("AGENT_*", "SLUICE_*", "NATS_*")
"""Variables of the agent's own environment that pods never inherit."""

PLAIN = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR")
"""What pods inherit by themselves: how the machine is used, and nothing that could be a secret."""

_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None

_UNITS = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}


class IsolationError(ValueError):
    """A setting cannot be carried out; the message names it."""


@dataclass(frozen=True, slots=True)
class User:
    """Whom pods run as."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    @property
    def env(self) -> dict[str, str]:
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}


def protect() -> None:
    """Let no process of the same user read this one's environment and memory, where its password is."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def inherited(env: Mapping[str, str], passed: Sequence[str] = ()) -> dict[str, str]:
    """Return what pods get of the agent's environment; *passed*: names and patterns beside the plain ones."""
    return {
        name: value
        for name, value in env.items()
        if _matches(name, (*PLAIN, *passed)) and not _matches(name, _PRIVATE)
    }


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def find_user(name: str) -> User | None:
    """Return the user of AGENT_RUN_AS, None if it is empty.

    Raises:
        IsolationError: there is no such user, or this process may not become another one.
    """
    if not name:
        return None
    try:
        found = pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
    except KeyError:
        raise IsolationError(f"AGENT_RUN_AS={name!r}: there is no such user") from None
    if found.pw_uid == 0:
        raise IsolationError(f"AGENT_RUN_AS={name!r}: jobs of root are not isolated from anything")
    if os.geteuid() != 0:
        raise IsolationError(f"AGENT_RUN_AS={name!r}: only an agent of root can run jobs as another user")
    groups = {group.gr_gid for group in grp.getgrall() if found.pw_name in group.gr_mem} | {found.pw_gid}
    return User(found.pw_name, found.pw_uid, found.pw_gid, tuple(sorted(groups)), found.pw_dir)


def parse_limits(text: str) -> dict[int, int]:
    """Return the limits of AGENT_LIMITS by their numbers: `nofile=1024,as=8Gi,core=0`.

    Raises:
        IsolationError: an unknown limit, or no amount.
    """
    limits = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, amount = part.partition("=")
        digits = amount.rstrip("KMGTi")
        known = getattr(resource, f"RLIMIT_{name.upper()}", None) if name.isalpha() else None
        if known is None:
            raise IsolationError(f"AGENT_LIMITS: {name!r} is no limit of this system (man setrlimit)")
        if not digits.isdecimal() or amount[len(digits) :] not in _UNITS:
            raise IsolationError(
                f"AGENT_LIMITS: {part!r}: want a whole number, with Ki, Mi, Gi or Ti if need be"
            )
        limits[known] = int(digits) * _UNITS[amount[len(digits) :]]
    return limits


def restrained(limits: Mapping[int, int], user: User | None) -> Callable[[], None] | None:
    """Return what a pod's process does before its command, None if nothing."""
    if not limits and user is None:
        return None

    def restrain() -> None:
        for which, amount in limits.items():
            most = resource.getrlimit(which)[1]
            allowed = amount if most == resource.RLIM_INFINITY else min(amount, most)
            resource.setrlimit(which, (allowed, allowed))
        if user is not None:
            os.setgroups(user.groups)
            os.setgid(user.gid)
            os.setuid(user.uid)
            if _LIBC is not None:
                # No way back by a program that is another user's, such as sudo.
                _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)

    return restrain


def not_isolated(user: User | None, limits: Mapping[int, int]) -> list[str]:
    """Return what jobs of this agent are not kept from."""
    found = [
        "network",
        "processes of other jobs",
        "files that everybody may read",
        "CPU, memory and disk of all",
    ]
    if user is None:
        found.insert(0, f"files of the agent's user {pwd_name()}, its credentials among them")
    if not limits:
        found.append("any amount of files, memory and processes (AGENT_LIMITS)")
    return found


def pwd_name() -> str:
    """Return the name of the user that this process is of."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
