"""Deciding a log again: each step must come out exactly as it stands there (law 6, DB4).

verdict = verify(Scheduler(), entries_for(Scheduler(), entries))
verdict.divergence            # None, or the first step that does not follow from what was before it
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sluice.events.base import Event, Micros
from sluice.events.codec import encode_step
from sluice.events.commit import Step
from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.fold import Fold, steps_of
from sluice.protocol.subjects import matches_any

__all__ = ["Divergence", "check_step", "decided_as"]

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


@dataclass
class Verdict[S]:
    """What deciding again came to. `fold` is the rebuilt state, as of the end or of the divergence."""

    fold: Fold[S]
    steps: int = 0
    """How many steps came out as they are."""
    divergence: Divergence | None = None
    unsettled: tuple[Event, ...] = field(default=())
    """What would still be decided at the end of the log, at its last time."""


def entries_for(decider: Decider[Any], entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the entries that *decider* reads or writes."""
    patterns = (*decider.reads, decider.writer)
    return (entry for entry in entries if matches_any(patterns, entry.suffix))


def verify[S](decider: Decider[S], entries: Iterable[Entry]) -> Verdict[S]:
    """Decide a whole log again; stops at the first difference.

    *entries*: those of the subjects that the decider reads or writes, in order (`entries_for`).
    """
    verdict = Verdict(Fold(decider))
    fold = verdict.fold
    for entry in entries:
        if entry.suffix != decider.writer:
            fold.held.append(entry)
            continue
        for step in steps_of(entry):
            verdict.divergence = check_step(fold, entry.seq, step)
            if verdict.divergence is not None:
                return verdict
            fold.apply_own(step)
            verdict.steps += 1
        fold.own = entry.seq
    fold.release()
    verdict.unsettled = tuple(decider.decide(fold.state, fold.at))
    return verdict


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
