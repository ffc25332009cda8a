"""Lint and bisect: does a log hold what it must (DB6), and from where on does it not?

`INVARIANTS` are what must hold; most are observers of a fold (`invariants`), the others are here.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from sluice.core.invariants import violations
from sluice.core.scheduler import Scheduler
from sluice.core.slices import SliceAggregator
from sluice.core.slices_state import State as JobState
from sluice.core.slices_state import Todo
from sluice.core.state import SchedulerState
from sluice.events.base import Micros
from sluice.events.codec import CommitDecodeError, decode_commit
from sluice.events.slices import InputsIgnored, WorkloadCreated
from sluice.log.contract import Entry
from sluice.log.fold import Fold, FoldError
from sluice.log.subjects import COMMITS

from . import forking, loops
from .invariants import OBSERVERS, Violation, broken
from .source import Source
from .states import Progress, fold_at, is_long, patterns_of, unhurried


def _state(source: Source, progress: Progress | None) -> Iterator[Violation]:
    """Usage is what reservations charge; no reservation without a live workload; all lists agree.

    A whole state takes long to look at, so it is looked at ever more rarely as the log goes on; the first
    bad step is then found between two looks.
    """
    decider = Scheduler()
    fold: Fold[SchedulerState] = Fold(decider)
    due, good = 64, 0
    for entries in source.read(1, None, patterns_of(decider)):
        for seq, step in fold.take_in(entries):
            if fold.folded < due:
                continue
            due = fold.folded + max(64, fold.folded // 20)
            if violations(fold.state):
                yield from _first_bad(source, good, seq)
                return
            good = seq
            del step
        if progress is not None and entries:
            progress(entries[-1].seq)
    if violations(fold.state):
        yield from _first_bad(source, good, source.end)


def _first_bad(source: Source, good: int, bad: int) -> Iterator[Violation]:
    fold: Fold[SchedulerState] = Fold(Scheduler())
    for entries in source.read(1, bad, patterns_of(fold.decider)):
        for seq, step in fold.take_in(entries):
            if seq > good and (texts := violations(fold.state)):
                yield from (Violation("state", seq, step.at, text) for text in texts)
                return
    yield from (Violation("state", bad, fold.at, text) for text in violations(fold.state))


def _chain(source: Source, progress: Progress | None) -> Iterator[Violation]:
    """Commits can be read, their steps go forward in time and in the log, causes lie in the past."""
    upto: dict[str, int] = {}
    times: dict[str, Micros] = {}
    for entries in source.read():
        for entry in entries:
            if entry.suffix in COMMITS:
                yield from _commit(entry, upto, times)
        if progress is not None and entries:
            progress(entries[-1].seq)


def _commit(entry: Entry, upto: dict[str, int], times: dict[str, Micros]) -> Iterator[Violation]:
    try:
        commit = decode_commit(entry.payload)
    except CommitDecodeError as error:
        yield Violation("chain", entry.seq, entry.at, str(error))
        return
    writer = entry.suffix
    if commit.writer != writer:
        yield Violation("chain", entry.seq, entry.at, f"{commit.writer} wrote to the subject of {writer}")
    for step in commit.steps:
        if not upto.get(writer, 0) <= step.upto < entry.seq:
            text = f"{writer}: upto {step.upto} is not between {upto.get(writer, 0)} and the commit"
            yield Violation("chain", entry.seq, step.at, text)
        if step.at < times.get(writer, 0):
            yield Violation("chain", entry.seq, step.at, f"{writer}: time goes back to {step.at}")
        upto[writer], times[writer] = step.upto, step.at
        for event in step.events:
            if event.cause >= entry.seq:
                text = f"{type(event).__name__}: its cause {event.cause} is not before it"
                yield Violation("chain", entry.seq, step.at, text)


def _lost_jobs(source: Source, progress: Progress | None) -> Iterator[Violation]:
    """Every message about a job was answered, and every live job's workload is known to the scheduler.

    Looked at where the log ends: what is still to be answered there is not lost.
    """
    jobs: Fold[JobState] = Fold(SliceAggregator())
    times: dict[int, Micros] = {}
    made: dict[str, int] = {}
    for entries in source.read(1, None, patterns_of(jobs.decider)):
        times.update((entry.seq, entry.at) for entry in entries if entry.suffix.startswith("job."))
        for seq, step in jobs.take_in(entries):
            for event in step.events:
                times.pop(event.cause, None)
                if isinstance(event, InputsIgnored):
                    for ignored in event.seqs:
                        times.pop(ignored, None)
                elif isinstance(event, WorkloadCreated):
                    made[event.workload.key] = seq
        if progress is not None and entries:
            progress(entries[-1].seq)
    for seq in times:
        key = jobs.state.inbox_of.get(seq)
        waits = seq > jobs.upto or (key in jobs.state.jobs and jobs.state.jobs[key].todo is not Todo.NONE)
        if not waits:
            text = f"the message about {key or 'a job'} at {seq} was never answered"
            yield Violation("no-lost-job", seq, times[seq], text)
    scheduler = fold_at(source, Scheduler(), source.end, progress=progress)
    known = scheduler.state.world.workloads
    for job in jobs.state.jobs.values():
        if job.record.key not in known:
            text = f"{job.key} is live, but the scheduler does not know its workload {job.record.key}"
            yield Violation("no-lost-job", made.get(job.record.key, source.end), jobs.at, text)


def _observed(name: str, source: Source, progress: Progress | None) -> Iterator[Violation]:
    return broken(source, (name,), progress)


def _warned(name: str, source: Source, progress: Progress | None) -> Iterator[Violation]:
    return (found for found in loops.find(source, progress) if found.invariant == name)


Invariant = Callable[[Source, Progress | None], Iterator[Violation]]

INVARIANTS: dict[str, Invariant] = {
    "chain": _chain,
    "state": _state,
    "no-lost-job": _lost_jobs,
    **{name: partial(_observed, name) for name in OBSERVERS},
}
"""What must hold; `bisect` finds the first event that broke one."""

WARNINGS: dict[str, Invariant] = {name: partial(_warned, name) for name in ("loops", "thrashing")}
"""What need not be wrong, but costs work."""


def first_violation(source: Source, name: str, progress: Progress | None = None) -> Violation | None:
    """Return the first event that broke an invariant, None if it held throughout."""
    with unhurried():
        return next(({**INVARIANTS, **WARNINGS})[name](source, progress), None)


def lint(
    source: Source, progress: Progress | None = None, limit: int = 20
) -> tuple[list[Violation], list[Violation]]:
    """Return the violations of all invariants, and the warnings; at most *limit* of each."""
    works: list[Callable[[Progress | None], list[Violation]]] = [
        partial(_all_of, check_, source, limit)
        for name, check_ in INVARIANTS.items()
        if name not in OBSERVERS
    ]
    works.append(partial(_all_observed, source, limit))
    works.append(partial(_all_of, loops.find, source, limit))
    *wrong, warned = forking.each(works, progress, apart=is_long(source))
    return [v for found in wrong for v in found], warned


def _all_of(check_: Invariant, source: Source, limit: int, progress: Progress | None) -> list[Violation]:
    with unhurried():
        return _take(_readable(check_(source, progress)), limit)


def _all_observed(source: Source, limit: int, progress: Progress | None) -> list[Violation]:
    """Return the violations of the invariants that share one fold per decider."""
    found = []
    counts = dict.fromkeys(OBSERVERS, 0)
    with unhurried():
        for violation in _readable(broken(source, OBSERVERS, progress)):
            counts[violation.invariant] += 1
            if counts[violation.invariant] <= limit:
                found.append(violation)
    return found


def _readable(found: Iterator[Violation]) -> Iterator[Violation]:
    """Look up to where the log can be read; that it cannot be any further is for `chain` to say."""
    with suppress(FoldError, CommitDecodeError):
        yield from found


def _take(found: Iterator[Violation], limit: int) -> list[Violation]:
    return [violation for violation, _ in zip(found, range(limit), strict=False)]


def plain(violation: Violation) -> dict[str, Any]:
    return dict(msgspec.to_builtins(violation))
