"""Faults that are known and not mended yet: what they look like. Taken off the list as they are mended."""

from .run import Outcome

KNOWN: tuple[tuple[str, str, str], ...] = (
    # Servers of a cluster compare message ids with what they have applied, so ids do not chain entries there.
    # A write of a replaced leader that comes late loses as many of its first entries as its successor has
    # written, and the next one finds the sequence that it expects. The successor sees it at its next look, or
    # at its next write, and compares everything. Batches that are taken whole or not at all would end it.
    ("a late write in a cluster is taken in part", "shows-the-log", "whose beginning was refused"),
)
"""(fault, invariant that it breaks, part of the text)."""


def known(outcome: Outcome) -> str:
    """Return which known fault a failure looks like, '' if none."""
    for fault, invariant, part in KNOWN:
        if outcome.invariant == invariant and part in outcome.text:
            return fault
    return ""


__all__ = ["KNOWN", "known"]
