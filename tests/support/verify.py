"""Deciding a log that is in memory again, whole and at once (law 6, DB4).

verdict = verify(Scheduler(), entries_for(Scheduler(), entries))
verdict.divergence            # None, or the first step that does not follow from what was before it
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sluice.events.base import Event
from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.fold import Fold, steps_of
from sluice.protocol.subjects import matches_any
from sluice.replay.verify.steps import Divergence, check_step


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
