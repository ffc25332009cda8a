"""Configuration of the slice-aggregator: `SLICE_AGGREGATOR_*`, beside the cell's."""

from typing import Annotated

import msgspec


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    poll_s: Annotated[float, msgspec.Meta(gt=0)] = 0.5
    """How often the agents' heartbeats are looked at."""
    lost_after_s: Annotated[float, msgspec.Meta(gt=0)] = 3.0
    """How long an expired heartbeat must stay away before its agent counts as lost.

    It covers agents that only have to find a restarted server again.
    """
