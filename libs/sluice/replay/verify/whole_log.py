"""`verify`: is every decision of a log what today's code decides?

A long log with snapshots beside it is checked in pieces, in a process each: from its start to a snapshot, and
from there on. That proves as much as one pass does, since the first piece must end with the very state that
the second begins with; if it does not, the snapshot is of no use, and the log is checked in one pass.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.fold import Fold, steps_of
from sluice.log.runtime import process_pool
from sluice.log.runtime.snapshot_info import SnapshotInfo
from sluice.replay.source.source import FileSource, Source
from sluice.replay.source.time_travel import Progress, beginning, is_long, patterns_of, tracked, unhurried

from .steps import Divergence, check_step

__all__ = ["Checked", "Start", "check_all"]

MOST_PIECES = 8
"""Of one decider's log; to begin one costs as much as 50,000 events."""

SHOWN_INPUTS = 10
"""Told with a divergence."""

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
    """With a divergence: the last inputs that the step was decided after, newest last."""
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
    fold = start or beginning(source, decider)
    found = Checked(decider.writer, start=fold.upto)
    first = fold.start
    if not any(source.read(first, None, (decider.writer,))):
        # It has decided nothing, so there is nothing to compare; its inputs would all be held back in vain.
        return found
    with unhurried():
        for entries in tracked(source.read(first, None, patterns_of(decider)), progress):
            for entry in entries:
                if entry.suffix != decider.writer:
                    if entry.seq > fold.upto:
                        fold.held.append(entry)
                    continue
                if entry.seq <= fold.own:
                    continue
                for step in steps_of(entry):
                    found.divergence = check_step(fold, entry.seq, step)
                    if found.divergence is not None:
                        found.inputs = _inputs(source, decider, step.upto)
                        return found
                    fold.apply_own(step)
                    found.steps += 1
                    found.events += len(step.events)
                fold.own = entry.seq
                if entry.seq == until:
                    found.ended = _digest(fold)
                    return found
    return found


def _inputs(source: Source, decider: Decider[Any], upto: int) -> list[Entry]:
    """Return the last inputs of the decider up to *upto*."""
    patterns, width = sorted(decider.reads), 256
    while True:
        start = max(source.first, upto - width + 1)
        found = [entry for entries in source.read(start, upto, patterns) for entry in entries]
        if len(found) >= SHOWN_INPUTS or start == source.first:
            return found[-SHOWN_INPUTS:]
        width *= 16


def check_all(source: Source, starts: Sequence[Start], progress: Progress | None = None) -> list[Checked]:
    """Check several deciders at once, in processes; every one goes on to its own first difference.

    >>> from pathlib import Path
    >>> from sluice.core.scheduler.decider import Scheduler
    >>> log = FileSource(Path("incident.jsonl"))
    >>> (checked,) = check_all(log, [(Scheduler(), None)])
    >>> checked.divergence is None
    True
    """
    works: list[Callable[[Progress | None], Checked]] = []
    counts = []
    for decider, start in reversed(starts):
        cuts = _cuts(source, decider) if start is None else []
        ends = [*(cut.own for cut in cuts), None]
        pieces = [partial(check, source, decider, start=start, until=ends[0])]
        pieces += [partial(_piece, source, decider, *piece) for piece in zip(cuts, ends[1:], strict=True)]
        bounds = pairwise([source.first, *(cut.own for cut in cuts), source.end])
        works += [partial(_shown, source, *piece) for piece in zip(pieces, bounds, strict=True)]
        counts.append(len(pieces))
    # The scheduler comes behind the slice-aggregator, and takes longer: short pieces fill in the end.
    done = iter(process_pool.each(works, progress, apart=is_long(source), at_once=process_pool.processors()))
    found = []
    for (decider, _), count in zip(reversed(starts), counts, strict=True):
        whole = _joined([next(done) for _ in range(count)])
        found.append(whole or check(source, decider, progress=progress))
    return found[::-1]


def _shown(
    source: Source, work: Callable[..., Checked], bounds: tuple[int, int], progress: Progress | None
) -> Checked:
    """Check a piece; its progress is told as if it were the whole log."""
    if progress is None:
        return work()
    first, end = bounds
    stretch = (source.end - source.first) / max(1, end - first)
    found = work(progress=lambda seq: progress(source.first + int((seq - first) * stretch)))
    progress(source.end)
    return found


def _piece(
    source: Source,
    decider: Decider[Any],
    cut: SnapshotInfo,
    until: int | None,
    progress: Progress | None = None,
) -> Checked:
    """Check what follows on a snapshot; where that cannot be had, return what fits to nothing."""
    start = source.snapshot(decider, max(cut.upto, cut.own))
    if start is None:
        return Checked(decider.writer)
    began = _digest(start)
    found = check(source, decider, start=start, until=until, progress=progress)
    found.began = began
    return found


def _cuts(source: Source, decider: Decider[Any]) -> list[SnapshotInfo]:
    """Return snapshots that cut a long log into pieces of about equal work: they lie so many events apart."""
    if not (isinstance(source, FileSource) and is_long(source) and process_pool.AVAILABLE):
        return []
    known = [
        info
        for info, _ in source.sidecar.infos(decider.writer)
        if info.own and info.state_version == decider.state_version and source.first < info.own < source.end
    ]
    known.reverse()
    pieces = min(process_pool.processors(), MOST_PIECES, len(known) + 1)
    return [known[(len(known) + 1) * n // pieces - 1] for n in range(1, pieces)]


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
