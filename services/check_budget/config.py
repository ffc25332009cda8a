"""The budget check's own configuration, from `CHECK_BUDGET_*` variables."""

from typing import Annotated

import msgspec

CONTROLLER = "sluice.dev/budget"


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An unknown variable is an error, not silence."""

    controller: str = CONTROLLER
    """The `controllerName` of the AdmissionChecks that it performs."""
    refresh_s: Annotated[float, msgspec.Meta(ge=1)] = 600.0
    """How old the amounts in a held workload's message may get: each new message is stored in the log."""
    http: Annotated[str, msgspec.Meta(pattern=r"^([^ ]*:[0-9]{1,5})?$")] = ""
    """`host:port` or `:port` where /budgets and /metrics are served; not at all by default."""
    snapshot_entries: Annotated[int, msgspec.Meta(ge=0)] = 100_000
    """After so many entries of the log the state is saved, so that a start folds fewer; 0 for never."""
