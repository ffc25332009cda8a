"""Configuration of the console, from the environment and its command line."""

import os
import socket
from collections.abc import Mapping
from pathlib import Path

import msgspec

from sluice.console.access import Access, AccessError
from sluice.console.actions.actor import Actor
from sluice.console.redaction import LEVELS, Cover, everything
from sluice.log.nats.protocol import with_files
from sluice.log.runtime.config import convert

PREFIX = "CONSOLE_"


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`CONSOLE_<FIELD>` each, next to what all services share: `SLUICE_CELL`, `_NATS_URL`, `_INSTANCE`."""

    cell: str = "main"
    nats_url: str = "nats://127.0.0.1:4222"
    instance: str = ""
    """Name of this replica; host and pid by default."""
    log: str = ""
    """An exported log to look into, instead of a cell."""
    host: str = "127.0.0.1"
    port: int = 8400
    """0 for a free one."""
    auth: str = "none"
    """none (loopback only), token or proxy."""
    token_file: str = ""
    proxies: str = ""
    """With auth proxy: addresses or networks that are believed, with commas between."""
    user_header: str = "X-Forwarded-User"
    groups_header: str = "X-Forwarded-Groups"
    admins: str = ""
    """With auth proxy: groups whose members are admins, with commas between."""
    redact: str = "env"
    """What is not shown: none, env (values of variables), all (as `sluice log export --redact`)."""
    actions: bool = False
    """Whether admins may act: stop queues, change quota, delete jobs ..."""
    actions_credentials: str = ""
    """The key that the console acts with, of a role that may; the one that it reads with by default."""
    hosts: str = ""
    """Names by which it may be called beside loopback's, with commas between."""
    address_file: str = ""
    """Where the address is written to once it serves."""
    nice: int = 5
    """Added to the process's niceness."""


def load(env: Mapping[str, str]) -> Config:
    """Return the configuration in *env*.

    Raises:
        SettingError: an unknown `CONSOLE_*` variable, or one with a wrong value; names it.
    """
    own = {key.removeprefix(PREFIX).lower(): value for key, value in env.items() if key.startswith(PREFIX)}
    shared = {
        "cell": env.get("SLUICE_CELL"),
        "nats_url": with_files(
            env.get("SLUICE_NATS_URL") or env.get("NATS_URL") or Config().nats_url,
            env.get("SLUICE_CREDENTIALS"),
            env.get("SLUICE_CA"),
        ),
        "instance": env.get("SLUICE_INSTANCE") or f"{socket.gethostname()}-{os.getpid()}",
    }
    return convert({key: value for key, value in shared.items() if value} | own, PREFIX, Config)


def cover_of(config: Config) -> Cover | None:
    """Return what leaves out of all messages what is not to be seen."""
    return everything() if config.redact == "all" else None


def actor_of(config: Config, env: Mapping[str, str]) -> Actor | None:
    """Return who does what admins ask for; None: nobody does."""
    if not config.actions:
        return None
    if not config.actions_credentials:
        return Actor(config.nats_url, config.cell)
    url = env.get("SLUICE_NATS_URL") or env.get("NATS_URL") or Config().nats_url
    return Actor(with_files(url, config.actions_credentials, env.get("SLUICE_CA")), config.cell)


def access_of(config: Config) -> Access:
    """Return who may ask.

    Raises:
        AccessError: the settings would let in whom they should not, or a file cannot be read.
    """
    token = ""
    if config.token_file:
        try:
            token = Path(config.token_file).read_text().strip()
        except OSError as error:
            raise AccessError(
                f"CONSOLE_TOKEN_FILE {config.token_file}: {os.strerror(error.errno or 0)}"
            ) from None
    found = Access(
        auth=config.auth,
        host=config.host,
        token=token,
        proxies=_words(config.proxies),
        user_header=config.user_header,
        groups_header=config.groups_header,
        admins=frozenset(_words(config.admins)),
        hides_environment=config.redact == "env",
        acts=config.actions,
        hosts=frozenset(word.lower() for word in _words(config.hosts)),
    )
    if config.redact not in LEVELS:
        raise AccessError(f"CONSOLE_REDACT {config.redact!r}: want one of {', '.join(LEVELS)}")
    if config.redact == "all" and config.actions:
        raise AccessError(
            "a console that leaves out commands cannot act: CONSOLE_REDACT=all, CONSOLE_ACTIONS=1"
        )
    found.check_settings()
    return found


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
