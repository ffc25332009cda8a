"""Times as Kubernetes writes them."""

from sluice.events.base import Micros
from sluice.events.codec import rfc3339


def timestamp(at: Micros) -> str:
    """Return *at* to the second: `2026-11-21T04:53:48Z`."""
    return f"{rfc3339(at)[:19]}Z"
