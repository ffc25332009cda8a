"""What is known of a stored state."""

import msgspec

from sluice.events.base import Micros

__all__ = ["SnapshotInfo"]


class SnapshotInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Where in the log a state belongs."""

    writer: str
    state_version: int
    upto: int
    """Last input folded."""
    at: Micros
    own: int
    """Last commit of its own chain that is in the state."""
    digest: str
    """SHA-256 of the uncompressed state."""
    size: int
    """Bytes, uncompressed."""
