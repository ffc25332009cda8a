"""Configuration of the api service, from the environment."""

import socket
from collections.abc import Mapping
from typing import Annotated

import msgspec

from sluice.log.nats.protocol import with_files
from sluice.log.runtime.config import convert

PREFIX = "API_"


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`API_<FIELD>` each, next to what all services share: `SLUICE_CELL`, `_NATS_URL`, `_INSTANCE`,
    `_REPLICAS`."""

    cell: str = "main"
    nats_url: str = "nats://127.0.0.1:4222"
    instance: str = ""
    """Name of this replica; host and pid by default."""
    stream_replicas: Annotated[int, msgspec.Meta(ge=1, le=5)] = 1
    snapshot_entries: Annotated[int, msgspec.Meta(ge=0)] = 30_000
    """After so many entries of the log the state is saved, so that a start folds fewer; 0 for never."""
    http: str = ""
    """Where `/healthz` and `/metrics` are served: `host:port`, or `:port` on all hosts; "" for nowhere."""
    kueue_names: bool = False
    """Does `/metrics` show what Kueue has, too, also under Kueue's names?"""
    nice: Annotated[int, msgspec.Meta(ge=0, le=19)] = 5
    """Added to the process's niceness."""


def load(env: Mapping[str, str], pid: int) -> Config:
    """Return the configuration in *env*.

    Raises:
        SettingError: an unknown `API_*` variable, or one with a wrong value; names it.
    """
    own = {key.removeprefix(PREFIX).lower(): value for key, value in env.items() if key.startswith(PREFIX)}
    shared = {
        "cell": env.get("SLUICE_CELL"),
        "nats_url": with_files(
            env.get("SLUICE_NATS_URL") or env.get("NATS_URL") or Config().nats_url,
            env.get("SLUICE_CREDENTIALS"),
            env.get("SLUICE_CA"),
        ),
        "instance": env.get("SLUICE_INSTANCE") or f"{socket.gethostname()}-{pid}",
        "stream_replicas": env.get("SLUICE_REPLICAS"),
    }
    values = {key: value for key, value in shared.items() if value} | own
    return convert(values, PREFIX, Config)
