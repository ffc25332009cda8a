"""The webhook check's own configuration, from `CHECK_WEBHOOK_*` variables."""

from typing import Annotated

import msgspec

CONTROLLER = "sluice.dev/webhook"


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An unknown variable is an error, not silence."""

    controller: str = CONTROLLER
    """The `controllerName` of the AdmissionChecks that it performs."""
    secrets_dir: str = ""
    """Directory with one file per signing secret, named as `signingSecret` names it."""
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 100
    """Questions at a time."""
