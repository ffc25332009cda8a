"""Configuration of processes that use the log, from the environment, read once."""

import os
import secrets
import socket
from collections.abc import Mapping
from typing import Annotated

import msgspec

Positive = Annotated[float, msgspec.Meta(gt=0)]

_PREFIX = "SLUICE_"


class CellConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all services share, `SLUICE_<FIELD>` each. Other `SLUICE_*` variables are other programs'."""

    cell: str = "main"
    nats_url: str = "nats://127.0.0.1:4222"
    data_dir: str = ".sluice"
    instance: str = ""
    """Name of this replica; made from host and process by default."""
    replicas: Annotated[int, msgspec.Meta(ge=1, le=5)] = 1
    """Copies of the stream and the buckets, in a cluster of servers."""
    lease_ttl_s: Annotated[float, msgspec.Meta(ge=0.3)] = 1.0
    """Time without a renewal after which a stand-by takes over."""
    snapshot_events: Annotated[int, msgspec.Meta(ge=1)] = 200_000
    snapshot_s: Positive = 300.0
    """A snapshot is taken after so many events, or so much time if there were any."""


def load_prefixed[C](env: Mapping[str, str], prefix: str, kind: type[C]) -> C:
    """Return a service's own configuration: `<PREFIX><FIELD>` variables.

    Raises:
        msgspec.ValidationError: an unknown variable of that prefix, or a wrong value; names it.
    """
    own = {key.removeprefix(prefix).lower(): value for key, value in env.items() if key.startswith(prefix)}
    return msgspec.convert(own, kind, strict=False)


def load_cell(env: Mapping[str, str]) -> CellConfig:
    """Return the shared configuration; NATS_URL counts if SLUICE_NATS_URL is not set.

    Raises:
        msgspec.ValidationError: a wrong value; names it.
    """
    values = {
        field: env[_PREFIX + field.upper()]
        for field in CellConfig.__struct_fields__
        if env.get(_PREFIX + field.upper())
    }
    if "nats_url" not in values and env.get("NATS_URL"):
        values["nats_url"] = env["NATS_URL"]
    if "instance" not in values:
        host = "".join(c if c.isalnum() else "-" for c in socket.gethostname())
        values["instance"] = f"{host}-{os.getpid()}-{secrets.token_hex(2)}"
    return msgspec.convert(values, CellConfig, strict=False)
