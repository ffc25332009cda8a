"""Faults that are known and not mended yet: what they look like. Taken off the list as they are mended."""

from .run import Outcome

KNOWN: tuple[tuple[str, str, str], ...] = ()
"""(fault, invariant that it breaks, part of the text)."""


def known(outcome: Outcome) -> str:
    """Return which known fault a failure looks like, '' if none."""
    for fault, invariant, part in KNOWN:
        if outcome.invariant == invariant and part in outcome.text:
            return fault
    return ""


__all__ = ["KNOWN", "known"]
