"""Deciding a log again: each step must come out exactly as it stands there (law 6, DB4)."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from sluice.events.base import Event
from sluice.events.codec import decode_commit, encode_step
from sluice.events.commit import Step
from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.fold import Fold


@dataclass(frozen=True)
class Divergence:
    """The first step of a writer that today's code decides otherwise."""

    seq: int
    """Of the commit."""
    upto: int
    at: int
    expected: tuple[Event, ...]
    """What the log says."""
    found: tuple[Event, ...]

    def __str__(self) -> str:
        return f"commit {self.seq}, upto {self.upto}: expected {self.expected!r}, found {self.found!r}"


@dataclass
class Verdict[S]:
    """What deciding again came to. `fold` is the rebuilt state, as of the end or of the divergence."""

    fold: Fold[S]
    steps: int = 0
    divergence: Divergence | None = None
    unsettled: tuple[Event, ...] = field(default=())
    """What would still be decided at the end of the log, at its last time."""


def verify[S](decider: Decider[S], entries: Iterable[Entry]) -> Verdict[S]:
    """Decide a whole log again; stops at the first difference.

    *entries*: those of the subjects that the decider reads or writes, in order.
    """
    verdict = Verdict(Fold(decider))
    fold = verdict.fold
    for entry in entries:
        if entry.suffix != decider.writer:
            fold.held.append(entry)
            continue
        for step in decode_commit(entry.payload).steps:
            fold.release(step.upto)
            if step.events:
                found = tuple(decider.decide(fold.state, step.at))
                if not _same(step, found):
                    verdict.divergence = Divergence(entry.seq, step.upto, step.at, step.events, found)
                    return verdict
            fold.apply_own(step)
            verdict.steps += 1
        fold.own = entry.seq
    fold.release()
    verdict.unsettled = tuple(decider.decide(fold.state, fold.at))
    return verdict


def _same(step: Step, found: tuple[Event, ...]) -> bool:
    """Compare as the log would store it: lists and tuples are the same there."""
    return encode_step(step) == encode_step(Step(upto=step.upto, at=step.at, events=found))
