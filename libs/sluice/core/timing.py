"""Requeue backoff: base * 2^(n-1), capped. No jitter (ours): the core knows no randomness (law 2)."""

MICROS_PER_S = 1_000_000

_MOST_DOUBLINGS = 62
"""Beyond this the cap has long been reached; keeps the integers small."""


def backoff_s(count: int, base_s: int, max_s: int) -> int:
    """Return the seconds to wait after the *count*-th failure (from 1); *max_s* <= 0 means no cap."""
    wait = base_s << min(max(count - 1, 0), _MOST_DOUBLINGS)
    return wait if max_s <= 0 else min(wait, max_s)
