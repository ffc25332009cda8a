"""The state at any point of a log: folded from the nearest snapshot, or from the start."""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec

from sluice.core.checks.decider import AdmissionChecks
from sluice.core.checks.state import State as ChecksState
from sluice.core.deciders import DECIDERS
from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.state import SchedulerState
from sluice.core.variants.decider import VariantController
from sluice.core.variants.state import State as VariantState
from sluice.events.config import ObjectApplied
from sluice.log.cell import CellFold
from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.fold import Fold
from sluice.log.runtime import process_pool
from sluice.log.runtime.gc_tuning import anything_left_out
from sluice.protocol.subjects import COMMITS

from .source import FileSource, Source

Progress = Callable[[int], None]
"""Told the last sequence that was worked on."""


LONG = 10_000
"""Messages from which on passes over a log are worth a process each."""


class RangeError(ValueError):
    """A sequence or time that the log does not have."""


def is_long(source: Source) -> bool:
    return source.end - source.first > LONG


def tracked(batches: Iterable[Sequence[Entry]], progress: Progress | None) -> Iterator[Sequence[Entry]]:
    """Yield batches of a log; *progress* hears the last sequence of each when it has been worked on."""
    for entries in batches:
        yield entries
        if progress is not None and entries:
            progress(entries[-1].seq)


def deciders() -> list[Decider[Any]]:
    """Return all services' deciders, in the order in which a job meets them."""
    return [decider() for decider in DECIDERS]


def patterns_of(decider: Decider[Any]) -> tuple[str, ...]:
    """Return the subjects that the decider reads or writes."""
    return (*sorted(decider.reads), decider.writer)


@contextmanager
def unhurried() -> Iterator[None]:
    """Put off the collection of cycles: folding makes many objects and few cycles.

    What was made meanwhile counts as old afterwards: the next collection does not begin by looking through
    all of it, but a full one some day will.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            if not anything_left_out():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def check_range(source: Source, seq: int) -> None:
    """Raise RangeError unless the log has come to *seq*."""
    if not source.first <= seq <= source.end:
        where = f"; {source.earlier}" if source.earlier and seq < source.first else ""
        raise RangeError(
            f"there is no sequence {seq}: {source.name} has {source.first} to {source.end}{where}"
        )


def beginning[S](source: Source, decider: Decider[S]) -> Fold[S]:
    """Return the state with which the log begins: of the base, if it was cut, else none.

    Raises:
        NoBaseError, BaseMismatchError: it was cut, and there is no such state for this code.
    """
    return source.base(decider) or Fold(decider)


def check_whole(source: Source) -> None:
    """Raise RangeError if the log was cut: for what can be told of a whole one only."""
    if source.first > 1 and source.earlier:
        raise RangeError(
            f"this needs the whole log, and {source.name} begins at {source.first}; {source.earlier}"
        )


def _begun[S](source: Source, decider: Decider[S], seq: int, *, snapshots: bool) -> Fold[S]:
    """Return what to fold from to come to *seq*."""
    fold = source.snapshot(decider, seq) if snapshots else None
    if fold is None or fold.start < source.first:
        fold = beginning(source, decider)
    if max(fold.upto, fold.own) > seq:
        raise RangeError(
            f"the state at {seq} cannot be told: {source.name} was cut, and what was before "
            f"{max(fold.upto, fold.own)} is a base; {source.earlier}"
        )
    return fold


def fold_at[S](
    source: Source, decider: Decider[S], seq: int, *, snapshots: bool = True, progress: Progress | None = None
) -> Fold[S]:
    """Return the state after *seq*, what the decider had not yet answered included.

    Raises:
        RangeError: the log has no such sequence.
    """
    check_range(source, seq)
    with unhurried():
        fold = _begun(source, decider, seq, snapshots=snapshots)
        for _ in steps(source, fold, seq, progress):
            pass
    fold.release()
    return fold


def steps(
    source: Source, fold: Fold[Any], until: int, progress: Progress | None = None
) -> Iterator[tuple[int, Any]]:
    """Fold on to *until*; yields own steps with their commit's seq, inputs after the last one held back."""
    decides = fold.decider.writer in COMMITS
    for entries in tracked(source.read(fold.start, until, patterns_of(fold.decider)), progress):
        yield from fold.take_in(entries)
        if not decides:
            fold.release()


def scheduler_at(source: Source, seq: int, progress: Progress | None = None) -> Fold[SchedulerState]:
    return fold_at(source, Scheduler(), seq, progress=progress)


def configured_at[S](source: Source, decider: Decider[S], seq: int, progress: Progress | None = None) -> S:
    """Return a state that knows the configuration as of *seq*, and nothing else."""
    fold = Fold(decider)
    begun = source.base(CellFold())
    if begun is not None:
        for kind, changed, raw in sorted(begun.state.objects.rows(), key=lambda row: row[1]):
            json = msgspec.Raw(msgspec.json.encode(msgspec.msgpack.decode(raw)))
            name = msgspec.json.decode(json)["metadata"]["name"]
            applied = ObjectApplied(cause=0, kind=kind, name=name, object=json)
            decider.apply(fold.state, applied, changed, begun.at)
    with unhurried():
        for entries in tracked(source.read(begun.start if begun else 1, seq, ("config",)), progress):
            for entry in entries:
                fold.fold(entry)
    return fold.state


def variants_at(source: Source, seq: int, progress: Progress | None = None) -> Fold[VariantState]:
    return fold_at(source, VariantController(), seq, progress=progress)


def checks_at(source: Source, seq: int, progress: Progress | None = None) -> Fold[ChecksState]:
    return fold_at(source, AdmissionChecks(), seq, progress=progress)


def index(source: FileSource, every: int, progress: Progress | None = None) -> int:
    """Store snapshots beside the file, of the scheduler one for about *every* events; return how many.

    Of what people see of the cell half as many, of the other services a quarter: fewer questions are
    about their states.
    """
    works = [partial(_index, source, decider, every) for decider in (*deciders(), CellFold())]
    return sum(process_pool.each(works, progress, apart=is_long(source)))


def _spacing(decider: Decider[Any]) -> int:
    if decider.writer not in COMMITS:
        return 2
    return 1 if decider.writer == Scheduler.writer else 4


def _index(source: FileSource, decider: Decider[Any], every: int, progress: Progress | None) -> int:
    fold: Fold[Any] = Fold(decider)
    decides = decider.writer in COMMITS
    distance = every * _spacing(decider)
    count, due = 0, distance
    with unhurried():
        for entries in tracked(source.read(1, None, patterns_of(decider)), progress):
            for part in _commits(entries, decider.writer):
                for _ in fold.take_in(part):
                    pass
                if not decides:
                    fold.release()
                # Only a settled state can be stored: what waits to be decided is no part of it.
                if (
                    fold.folded >= due
                    and (fold.own or not decides)
                    and not decider.decide(fold.state, fold.at)
                ):
                    data = source.sidecar.put(fold)
                    if not decides:
                        # From here on only what an event touches is read, and written anew the next time.
                        fold.state = decider.load(data)
                        # The state that was has cycles, and nobody else looks for those here.
                        gc.collect()
                    count += 1
                    due = fold.folded + distance
    return count


def _commits(entries: Sequence[Entry], writer: str) -> Iterator[Sequence[Entry]]:
    """Cut entries behind each commit of *writer*."""
    begin = 0
    for index_, entry in enumerate(entries):
        if entry.suffix == writer:
            yield entries[begin : index_ + 1]
            begin = index_ + 1
    if begin < len(entries):
        yield entries[begin:]
