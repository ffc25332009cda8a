"""Configuration of processes that use the log, from the environment, read once."""

import os
import re
import secrets
import socket
import sys
from collections.abc import Mapping
from typing import Annotated, Any, NoReturn

import msgspec

from sluice.log.nats.protocol import with_files

__all__ = ["CellConfig", "convert", "load_cell", "load_own", "load_prefixed", "refuse"]

Positive = Annotated[float, msgspec.Meta(gt=0)]

DEFAULT_URL = "nats://127.0.0.1:4222"
_PREFIX = "SLUICE_"
_FIELD = re.compile(r" - at `\$\.(\w+)`$")
_UNKNOWN = re.compile(r"contains unknown field `(\w+)`")
_MISSING = re.compile(r"missing required field `(\w+)`")


class SettingError(ValueError):
    """A variable of the environment is unknown or has a wrong value; the message names it."""


class CellConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all services share, `SLUICE_<FIELD>` each. Other `SLUICE_*` variables are other programs'."""

    cell: str = "main"
    nats_url: str = DEFAULT_URL
    data_dir: str = ".sluice"
    instance: str = ""
    """Name of this replica; made from host and process by default."""
    replicas: Annotated[int, msgspec.Meta(ge=1, le=5)] = 1
    """Copies of the stream and the buckets, in a cluster of servers."""
    lease_ttl_s: Annotated[float, msgspec.Meta(ge=0.3)] = 1.0
    """Time without a renewal after which a stand-by takes over."""
    snapshot_events: Annotated[int, msgspec.Meta(ge=1)] = 100_000
    snapshot_s: Positive = 300.0
    """A snapshot is taken after so many events, or so much time if there were any."""
    mark_inputs: Annotated[int, msgspec.Meta(ge=1)] = 1_000
    """After so many messages without a decision a service says in the log how far it has come: what follows
    on that is not cut."""


def load_prefixed[C: msgspec.Struct](env: Mapping[str, str], prefix: str, kind: type[C]) -> C:
    """Return a service's own configuration: `<PREFIX><FIELD>` variables.

    Raises:
        SettingError: an unknown variable of that prefix, or a wrong value; names it.
    """
    own = {key.removeprefix(prefix).lower(): value for key, value in env.items() if key.startswith(prefix)}
    return convert(own, prefix, kind)


def load_cell(env: Mapping[str, str]) -> CellConfig:
    """Return the shared configuration; NATS_URL counts if SLUICE_NATS_URL is not set.

    Raises:
        SettingError: a wrong value; names its variable.
    """
    values = {
        field: env[_PREFIX + field.upper()]
        for field in CellConfig.__struct_fields__
        if env.get(_PREFIX + field.upper())
    }
    if "nats_url" not in values and env.get("NATS_URL"):
        values["nats_url"] = env["NATS_URL"]
    values["nats_url"] = with_files(
        values.get("nats_url") or DEFAULT_URL, env.get("SLUICE_CREDENTIALS"), env.get("SLUICE_CA")
    )
    if "instance" not in values:
        host = "".join(c if c.isalnum() else "-" for c in socket.gethostname())
        values["instance"] = f"{host}-{os.getpid()}-{secrets.token_hex(2)}"
    return convert(values, _PREFIX, CellConfig)


def convert[C: msgspec.Struct](values: Mapping[str, Any], prefix: str, kind: type[C]) -> C:
    """Return the configuration that the variables' *values* (by field) make.

    Raises:
        SettingError: as `load_prefixed`.
    """
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        text = str(error)
    if unknown := _UNKNOWN.search(text):
        known = ", ".join(prefix + field.upper() for field in kind.__struct_fields__)
        raise SettingError(f"{prefix}{unknown[1].upper()} is unknown; there are: {known or 'none'}")
    if missing := _MISSING.search(text):
        raise SettingError(f"{prefix}{missing[1].upper()} is not set")
    if field := _FIELD.search(text):
        name = field[1]
        raise SettingError(f"{prefix}{name.upper()}={values[name]!r}: {text[: field.start()]}")
    raise SettingError(text)


def load_own[C: msgspec.Struct](service: str, kind: type[C]) -> C:
    """Return a service's own configuration, `<SERVICE>_<FIELD>` in the environment, or end the process."""
    try:
        return load_prefixed(os.environ, f"{service.upper()}_", kind)
    except SettingError as error:
        refuse(service, error)


def refuse(service: str, error: ValueError) -> NoReturn:
    """End the process for a bad setting, with exit code 2 as all services do."""
    print(f"{service}: configuration: {error}", file=sys.stderr)
    sys.exit(2)
