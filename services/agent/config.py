"""Configuration of an agent: `AGENT_*`, beside the cell's."""

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from sluice.log.runtime.config import load_prefixed

Seconds = Annotated[float, msgspec.Meta(gt=0)]


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str = ""
    """Unique in the cell; by default the host's name."""
    flavors: str = ""
    """Resource flavors that this machine has, comma-separated; empty: all."""
    capacity: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Most pods at once; 0: no limit beyond the cell's quota."""
    work_dir: str = ""
    """Where jobs run and leave their logs; by default `agent` under SLUICE_DATA_DIR."""
    grace_s: Annotated[float, msgspec.Meta(ge=0)] = 10.0
    """Time between TERM and KILL, unless the pod says otherwise (terminationGracePeriodSeconds)."""
    retry_delay_s: Annotated[float, msgspec.Meta(ge=0)] = 1.0
    """Delay before a failed pod's first retry; doubles with each further one, up to a minute."""
    heartbeat_s: Seconds = 1.0
    heartbeat_ttl_s: Annotated[float, msgspec.Meta(ge=1)] = 5.0
    takeover_s: Seconds = 15.0
    """How long another agent must be missing before its unreported claims are taken over."""
    keep_days: Seconds = 7.0
    """How long the directories of ended attempts are kept."""

    @property
    def flavor_names(self) -> tuple[str, ...]:
        return tuple(name for part in self.flavors.split(",") if (name := part.strip()))


def load(env: Mapping[str, str], data_dir: str) -> Config:
    """Return the configuration, name and directory filled in.

    Raises:
        SettingError: an unknown variable, or a wrong value; names it.
    """
    config = load_prefixed(env, "AGENT_", Config)
    return msgspec.structs.replace(
        config,
        name=config.name or socket.gethostname(),
        work_dir=str(Path(config.work_dir or Path(data_dir) / "agent").absolute()),
    )
