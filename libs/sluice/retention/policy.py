"""Policy of retention: how much of the log stays in the stream."""

from dataclasses import dataclass

from sluice.events.base import Micros
from sluice.replay.source.source import Source, sequence_at

__all__ = ["RetentionPolicy", "wanted_cut"]

SECOND = 1_000_000


@dataclass(frozen=True)
class RetentionPolicy:
    """What is older than `max_age_s`, or beyond `max_bytes`, is to go; 0 means no such limit."""

    max_age_s: float = 0
    max_bytes: int = 0
    keep_s: float = 3600
    """What is younger stays, whatever the size: readers that were away for so long miss nothing."""

    @property
    def cuts(self) -> bool:
        return bool(self.max_age_s or self.max_bytes)


def wanted_cut(source: Source, policy: RetentionPolicy, now: Micros, size: int) -> int:
    """Return the last sequence that is to go, 0 if none is. *size*: of the stream, in bytes.

    >>> from sluice.log.contract import Entry
    >>> from sluice.replay.source.source import ListSource
    >>> log = ListSource([Entry(seq, "config", seq * SECOND, b"") for seq in range(1, 101)])
    >>> wanted_cut(log, RetentionPolicy(max_age_s=30, keep_s=10), 100 * SECOND, 1000)
    70
    >>> wanted_cut(log, RetentionPolicy(max_bytes=400, keep_s=10), 100 * SECOND, 1000)
    60
    >>> wanted_cut(log, RetentionPolicy(max_bytes=1, keep_s=10), 100 * SECOND, 1000)
    90
    """
    wanted = 0
    if policy.max_age_s:
        wanted = sequence_at(source, now - int(policy.max_age_s * SECOND))
    if policy.max_bytes and size > policy.max_bytes:
        share = 1 - policy.max_bytes / size
        wanted = max(wanted, source.first - 1 + int(share * (source.end - source.first + 1)))
    wanted = min(wanted, sequence_at(source, now - int(policy.keep_s * SECOND)))
    return wanted if wanted >= source.first else 0
