"""Configuration of the admission-check service: `ADMISSION_CHECK_*`, beside the cell's."""

from typing import Annotated

import msgspec


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    poll_s: Annotated[float, msgspec.Meta(gt=0)] = 0.5
    """How often the controllers' heartbeats are looked at."""
    lost_after_s: Annotated[float, msgspec.Meta(gt=0)] = 3.0
    """How long an expired heartbeat must stay away before its controller counts as lost.

    Its checks stay active for longer: `controllerGraceSeconds` of the Configuration object.
    """
