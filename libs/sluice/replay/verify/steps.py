"""Deciding a step of a log again: it must come out exactly as it stands there (law 6, DB4)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from sluice.events.base import Event, Micros
from sluice.events.codec import encode_step
from sluice.events.commit import Step
from sluice.log.fold import Fold

__all__ = ["Divergence", "decided_as"]

_encode = msgspec.json.Encoder().encode
"""Events are compared as the log holds them, where lists and tuples are the same."""


@dataclass(frozen=True)
class Divergence:
    """The first step of a writer that does not follow from what was before it."""

    seq: int
    """Of the commit."""
    upto: int
    at: Micros
    expected: tuple[Event, ...]
    """What the log says."""
    found: tuple[Event, ...]
    """What is decided now; as expected, if something else is wrong."""
    reason: str = "decided otherwise"

    def __str__(self) -> str:
        text = f"commit {self.seq}, step of upto {self.upto} at {self.at}: {self.reason}"
        if self.found == self.expected:
            return text
        pairs = zip(self.expected, self.found, strict=False)
        index = next(
            (n for n, pair in enumerate(pairs) if _encode(pair[0]) != _encode(pair[1])),
            min(len(self.expected), len(self.found)),
        )
        expected, found = self.expected[index : index + 1], self.found[index : index + 1]
        return (
            f"{text}; of {len(self.expected)} and {len(self.found)} events, the first to differ is number "
            f"{index}: expected {expected or 'none'!r}, found {found or 'none'!r}"
        )


def check_step(fold: Fold[Any], seq: int, step: Step) -> Divergence | None:
    """Fold the inputs that the step was decided after; return what is wrong with it."""
    if not fold.upto <= step.upto < seq:
        return _wrong(seq, step, f"its upto is not between {fold.upto} and its commit")
    fold.release(step.upto)
    if step.at < fold.at:
        return _wrong(seq, step, f"it was decided before the time of what it knew, {fold.at}")
    if not step.events:
        return None
    found = tuple(fold.decider.decide(fold.state, step.at))
    if decided_as(step, found):
        return None
    return Divergence(seq, step.upto, step.at, step.events, found)


def decided_as(step: Step, found: Sequence[Event]) -> bool:
    """Tell whether *found* are the step's events, as the log holds them."""
    events = tuple(found)
    return events == step.events or _encoded(step, events) == encode_step(step)


def _wrong(seq: int, step: Step, reason: str) -> Divergence:
    return Divergence(seq, step.upto, step.at, step.events, step.events, reason)


def _encoded(step: Step, found: tuple[Event, ...]) -> bytes:
    """Return what the log would hold, where lists and tuples are the same."""
    return encode_step(Step(upto=step.upto, at=step.at, events=found))
