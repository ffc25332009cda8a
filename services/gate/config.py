"""Configuration of the gate: `GATE_*`, beside the cell's."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from sluice.log.runtime.config import load_prefixed


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    roles: str
    """File of roles that `sluice auth` writes: who there is; read again when it changes."""
    consumers_per_s: Annotated[float, msgspec.Meta(gt=0)] = 50.0
    """How many consumers a party may make in a second, in the long run; ten times as many at once."""
    replicas: Annotated[int, msgspec.Meta(ge=1)] = 1
    """How many gates there are: each lets a party send its part of the party's rate."""
    questions_per_s: Annotated[float, msgspec.Meta(gt=0)] = 50.0
    """How many questions a team may ask in a second, in the long run; four times as many at once."""


def load(env: Mapping[str, str]) -> Config:
    """Return the configuration.

    Raises:
        SettingError: an unknown `GATE_*` variable, or one with a wrong value; names it.
    """
    return load_prefixed(env, "GATE_", Config)
