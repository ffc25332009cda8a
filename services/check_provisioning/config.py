"""The provisioning check's own configuration, from `CHECK_PROVISIONING_*` variables."""

from typing import Annotated, Literal

import msgspec

CONTROLLER = "kueue.x-k8s.io/provisioning-request"
"""Kueue's name for it, so that its manifests work as they are."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An unknown variable is an error, not silence."""

    controller: str = CONTROLLER
    """The `controllerName` of the AdmissionChecks that it performs."""
    url: str = ""
    """Of the capacity provider, for all classes that `urls` does not name."""
    urls: str = ""
    """`class=url class=url ...`: providers of single provisioning classes."""
    token_file: str = ""
    """File with a token that is sent as `Authorization: Bearer`."""
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=300)] = 10.0
    """Longest time of one question."""
    poll_s: Annotated[float, msgspec.Meta(gt=0)] = 10.0
    """Between questions about one request."""
    on_revoked: Literal["Ignore", "Retry", "Reject"] = "Ignore"
    """What becomes of a workload that runs already when its booking expires or its capacity is revoked."""
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 100
    """Questions at a time."""


def providers(config: Config) -> dict[str, str]:
    """Return class -> URL, "" for all others.

    Raises:
        ValueError: a part of `urls` is not `class=url`.
    """
    found = {"": config.url.rstrip("/")} if config.url else {}
    for part in config.urls.split():
        name, equals, url = part.partition("=")
        if not name or not equals or not url.startswith(("http://", "https://")):
            raise ValueError(f"CHECK_PROVISIONING_URLS: {part!r}: expected class=http(s)://...")
        found[name] = url.rstrip("/")
    return found
