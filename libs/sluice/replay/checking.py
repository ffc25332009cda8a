"""`verify`: is every decision of a log what today's code decides?

A long log with snapshots beside it is checked in pieces, in a process each: from its start to a snapshot, and
from there on. That proves as much as one pass does, since the first piece must end with the very state that
the second begins with; if it does not, the snapshot is of no use, and the log is checked in one pass.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise, takewhile
from typing import Any

from sluice.events.codec import decode_commit
from sluice.log import forking
from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.fold import Fold

from .source import FileSource, Source
from .states import Progress, is_long, patterns_of, unhurried
from .verify import Divergence, check_step

MOST_PIECES = 8
"""Of one decider's log; each holds a state of its own."""

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
    began: str = ""
    """Of a piece: digest of the state that it began with, "" at the log's start."""
    ended: str = ""
    """Digest of the state behind its last commit, if a piece follows."""


def check(
    source: Source,
    decider: Decider[Any],
    *,
    start: Fold[Any] | None = None,
    until: int | None = None,
    progress: Progress | None = None,
) -> Checked:
    """Decide every step of the decider's commits again; stops at the first difference.

    *start*: a snapshot's state to go on from, which is then taken on trust. *until*: the last own commit.
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
                if entry.seq == until:
                    found.ended = _digest(fold)
                    return found
            if progress is not None and entries:
                progress(entries[-1].seq)
    return found


def check_all(source: Source, starts: Sequence[Start], progress: Progress | None = None) -> list[Checked]:
    """Check several deciders at once, in processes; every one goes on to its own first difference."""
    works: list[Callable[[Progress | None], Checked]] = []
    counts = []
    for decider, start in starts:
        pieces = [start] if start is not None else [None, *_inner(source, decider)]
        ends = [*(fold.own if fold is not None else None for fold in pieces[1:]), None]
        works += [partial(_piece, source, decider, *piece) for piece in zip(pieces, ends, strict=True)]
        counts.append(len(pieces))
    done = iter(forking.each(works, progress, apart=is_long(source)))
    found = []
    for (decider, _), count in zip(starts, counts, strict=True):
        whole = _joined([next(done) for _ in range(count)])
        found.append(whole or check(source, decider, progress=progress))
    return found


def _piece(
    source: Source, decider: Decider[Any], start: Fold[Any] | None, until: int | None, show: Progress | None
) -> Checked:
    began = _digest(start) if start is not None else ""
    found = check(source, decider, start=start, until=until, progress=show)
    found.began = began
    return found


def _inner(source: Source, decider: Decider[Any]) -> list[Fold[Any]]:
    """Return snapshots that cut a long log into about as many pieces as there are processors."""
    if not (isinstance(source, FileSource) and is_long(source) and forking.AVAILABLE):
        return []
    number = min(MOST_PIECES, os.cpu_count() or 1)
    found: dict[int, Fold[Any]] = {}
    for n in range(1, number):
        fold = source.snapshot(decider, source.first + (source.end - source.first) * n // number)
        if fold is not None and fold.own:
            found[fold.own] = fold
    return [found[own] for own in sorted(found)]


def _joined(pieces: Sequence[Checked]) -> Checked | None:
    """Return what the pieces come to as one; None if they do not fit together."""
    whole = pieces[0]
    for before, piece in pairwise(pieces):
        if whole.divergence is not None:
            break
        if before.ended != piece.began:
            return None
        whole.steps += piece.steps
        whole.events += piece.events
        whole.divergence, whole.inputs = piece.divergence, piece.inputs
    return whole


def _digest(fold: Fold[Any]) -> str:
    """Return what is equal for states from which the same follows."""
    place = f"{fold.upto} {fold.own} {fold.at} ".encode()
    return hashlib.sha256(place + fold.decider.dump(fold.state)).hexdigest()
