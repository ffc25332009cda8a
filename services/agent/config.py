"""Configuration of an agent: `AGENT_*`, beside the cell's."""

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from sluice.log.runtime.config import load_prefixed

from .isolation import User, find_user, parse_limits

Seconds = Annotated[float, msgspec.Meta(gt=0)]

RUN_HERE = ("Job", "JobSet")
"""Kinds of jobs that an agent can run, as processes."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str = ""
    """Unique in the cell; by default the host's name."""
    flavors: str = ""
    """Resource flavors that this machine has, comma-separated; empty: all."""
    namespaces: str = ""
    """Namespaces whose jobs this machine runs, comma-separated; empty: all. A pool has its own only."""
    kinds: str = ",".join(RUN_HERE)
    """Kinds of jobs that this machine runs, comma-separated: what agents can run, or less."""
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
    on_loss: Literal["Requeue", "Wait"] = "Requeue"
    """What becomes of its jobs while it is away: queued again, or they wait until it is back."""
    requeue_after_s: Seconds | None = None
    """Of Requeue: how long its heartbeat must have been missing; by default what the cell has, 3 s."""
    lease: bool = False
    """End pods that it cannot report on before they are queued again, so that no job runs twice."""
    keep_days: Seconds = 7.0
    """How long the directories of ended attempts are kept."""
    run_as: str = ""
    """User that pods run as, name or number; by default the agent's own. The agent must be root's then."""
    limits: str = ""
    """Limits of each process of a pod, as setrlimit has them: `nofile=1024,as=8Gi,core=0`."""
    secrets_dir: str = ""
    """Secrets that manifests name: `<namespace>/<name>/<key>` below it."""
    pass_env: str = ""
    """Variables that pods get of the agent's environment beside the plain ones: `CUDA_*,LD_LIBRARY_PATH`."""

    def __post_init__(self) -> None:
        if not self.kind_names or any(kind not in RUN_HERE for kind in self.kind_names):
            raise ValueError(f"AGENT_KINDS {self.kinds!r}: must be one or both of {', '.join(RUN_HERE)}")

    @property
    def flavor_names(self) -> tuple[str, ...]:
        return _names(self.flavors)

    @property
    def kind_names(self) -> tuple[str, ...]:
        return _names(self.kinds)

    @property
    def namespace_names(self) -> tuple[str, ...]:
        return _names(self.namespaces)

    @property
    def passed(self) -> tuple[str, ...]:
        return _names(self.pass_env)

    @property
    def user(self) -> User | None:
        return find_user(self.run_as)

    @property
    def pod_limits(self) -> dict[int, int]:
        return parse_limits(self.limits)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip()))


def load(env: Mapping[str, str], data_dir: str) -> Config:
    """Return the configuration, name and directory filled in.

    Raises:
        SettingError, IsolationError: an unknown variable, or a wrong value; names it.
    """
    config = load_prefixed(env, "AGENT_", Config)
    _ = config.user, config.pod_limits
    return msgspec.structs.replace(
        config,
        name=config.name or socket.gethostname(),
        work_dir=str(Path(config.work_dir or Path(data_dir) / "agent").absolute()),
    )
