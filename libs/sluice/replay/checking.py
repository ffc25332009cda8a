"""`verify`: is every decision of a log what today's code decides?"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from sluice.events.codec import decode_commit
from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.fold import Fold

from . import forking
from .source import Source
from .states import Progress, is_long, patterns_of, unhurried
from .verify import Divergence, check_step

Start = tuple[Decider[Any], Fold[Any] | None]
"""A decider, and the snapshot's state to go on from."""


@dataclass
class Checked:
    """What deciding one service's commits again came to."""

    writer: str
    steps: int = 0
    events: int = 0
    start: int = 0
    """Sequence of the snapshot from which it went on, 0 for the start of the log."""
    divergence: Divergence | None = None
    inputs: list[Entry] = field(default_factory=list)
    """With a divergence: the last inputs folded before the step, newest last."""


def check(
    source: Source, decider: Decider[Any], *, start: Fold[Any] | None = None, progress: Progress | None = None
) -> Checked:
    """Decide every step of the decider's commits again; stops at the first difference.

    *start*: a snapshot's state to go on from, which is then taken on trust.
    """
    fold = start or Fold(decider)
    found = Checked(decider.writer, start=fold.upto)
    first = min(fold.upto, fold.own or fold.upto) + 1 if fold.upto else 1
    recent: list[Entry] = []
    if not any(source.read(first, None, (decider.writer,))):
        # It has decided nothing, so there is nothing to compare; its inputs would all be held back in vain.
        return found
    with unhurried():
        for entries in source.read(first, None, patterns_of(decider)):
            for entry in entries:
                if entry.suffix != decider.writer:
                    if entry.seq > fold.upto:
                        fold.held.append(entry)
                    continue
                if entry.seq <= fold.own:
                    continue
                for step in decode_commit(entry.payload).steps:
                    known = takewhile(lambda e: e.seq <= step.upto, fold.held)  # noqa: B023
                    recent = list(known)[-10:] or recent
                    found.divergence = check_step(fold, entry.seq, step)
                    if found.divergence is not None:
                        found.inputs = recent
                        return found
                    fold.apply_own(step)
                    found.steps += 1
                    found.events += len(step.events)
                fold.own = entry.seq
            if progress is not None and entries:
                progress(entries[-1].seq)
    return found


def check_all(source: Source, starts: Sequence[Start], progress: Progress | None = None) -> list[Checked]:
    """Check several deciders at once, in a process each; every one goes on to its own first difference."""
    works = [lambda show, d=d, f=f: check(source, d, start=f, progress=show) for d, f in starts]
    return forking.each(works, progress, apart=is_long(source))
