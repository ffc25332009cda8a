"""Near misses: "did you mean" for names and resource types."""

from collections.abc import Iterable
from difflib import get_close_matches
from heapq import nlargest

__all__ = ["did_you_mean", "nearest"]

COMPARED = 1_000
"""Of more known words only the likeliest are looked at."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that *word* was most likely meant to be, or None."""
    candidates = sorted(set(known))
    folded = {candidate.lower(): candidate for candidate in candidates}
    found = get_close_matches(word.lower(), _likeliest(word.lower(), list(folded)), n=1, cutoff=0.6)
    if found:
        return folded[found[0]]
    starts = [candidate for candidate in candidates if candidate.startswith(word) and word]
    return starts[0] if len(starts) == 1 else None


def _likeliest(word: str, candidates: list[str]) -> list[str]:
    """Return not too many, those that share most with the word: each comparison takes a while."""
    if len(candidates) <= COMPARED:
        return candidates
    pieces = {word[at : at + 3] for at in range(len(word) - 2)}
    return nlargest(COMPARED, candidates, key=lambda one: sum(piece in one for piece in pieces))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ` Did you mean "X"?`, or an empty text when nothing is near."""
    near = nearest(word, known)
    return f' Did you mean "{near}"?' if near else ""
