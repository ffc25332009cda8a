"""Description of a stored state."""

import msgspec

from sluice.events.base import Micros


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
    stamp: Micros = 0
    """When the log took the last message that is in the state; 0: not known. By this it is told from one of
    a log that was replaced by an older one, which has other messages there, or will have."""
