"""Lint and bisect: does a log hold what it must (DB6), and from where on does it not?

`INVARIANTS` are what must hold; most are observers of a fold (`invariants`), the others are here.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from sluice.core.checks.decider import AdmissionChecks
from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.state import SchedulerState
from sluice.core.slices.decider import SliceAggregator
from sluice.core.slices.state import State as JobState
from sluice.core.slices.state import Todo
from sluice.core.variants.decider import VariantController
from sluice.events.base import JobKey, Micros, WorkloadKey
from sluice.events.codec import FOREIGN, CommitDecodeError, decode_commit
from sluice.events.commit import Step
from sluice.events.slices import (
    InputsIgnored,
    JobClaimed,
    JobResized,
    JobResumed,
    JobSuspended,
    WorkloadCreated,
    WorkloadFinished,
    WorkloadPodsReady,
)
from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.fold import Fold, FoldError
from sluice.log.runtime import process_pool
from sluice.protocol.subjects import COMMITS
from sluice.replay.source.source import Source
from sluice.replay.source.time_travel import Progress, is_long, tracked, unhurried

from . import preemption_loops
from .invariants import OBSERVERS, broken, watch
from .watching import Listener, Violation

__all__ = ["INVARIANTS", "WARNINGS", "first_violation", "lint", "plain"]


def _chain(source: Source, progress: Progress | None) -> Iterator[Violation]:
    """Commits can be read, their steps go forward in time and in the log, causes lie in the past."""
    upto: dict[str, int] = {}
    times: dict[str, Micros] = {}
    for entries in tracked(source.read(), progress):
        for entry in entries:
            if entry.suffix in COMMITS:
                yield from _commit(entry, upto, times)


def _commit(entry: Entry, upto: dict[str, int], times: dict[str, Micros]) -> Iterator[Violation]:
    try:
        commit = decode_commit(entry.payload, entry.suffix, entry.seq)
    except CommitDecodeError as error:
        yield Violation("chain", entry.seq, entry.at, str(error))
        return
    writer = entry.suffix
    if commit is FOREIGN:
        yield Violation(
            "chain", entry.seq, entry.at, f"not written by {writer}, whose subject this is: passed over"
        )
        return
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


@dataclass(frozen=True)
class _LiveJob:
    """A job at the end of the log, the workload that it has then, and where that was made."""

    job: JobKey
    workload: WorkloadKey
    seq: int
    at: Micros


_FEW = 100
_OF_LIVE_JOBS = (JobClaimed, JobResized, JobResumed, JobSuspended, WorkloadFinished, WorkloadPodsReady)
"""Decided of live jobs alone, and small."""


class _Answers(Listener):
    """Every message about a job is answered. What is still to be answered where the log ends is not lost."""

    def __init__(self) -> None:
        self.lost: list[Violation] = []
        self.live: list[_LiveJob] = []
        self._times: dict[int, Micros] = {}
        self._made: dict[str, int] = {}
        self._passed = 0
        """Up to here, whatever waited in the backlog must have been answered."""

    def came(self, entries: Sequence[Entry]) -> None:
        self._times.update((entry.seq, entry.at) for entry in entries if entry.suffix.startswith("job."))

    def decided(self, seq: int, step: Step) -> None:
        # What is left of such a step is the backlog's.
        if 0 < len(step.events) < _FEW and all(isinstance(event, _OF_LIVE_JOBS) for event in step.events):
            self._passed = step.upto
        for event in step.events:
            self._times.pop(event.cause, None)
            if isinstance(event, InputsIgnored):
                for ignored in event.seqs:
                    self._times.pop(ignored, None)
            elif isinstance(event, WorkloadCreated):
                self._made[event.workload.key] = seq

    def ended(self, fold: Fold[JobState]) -> None:
        state = fold.state
        for seq, at in self._times.items():
            key = state.inbox_of.get(seq)
            job = state.jobs.get(key) if key is not None else None
            waits = seq > (self._passed if key is not None and key in state.backlog else fold.upto)
            waits = waits or (job is not None and job.todo is not Todo.NONE)
            if not waits:
                text = f"the message about {key or 'a job'} at {seq} was never answered"
                self.lost.append(Violation("no-lost-job", seq, at, text))
        for job in state.jobs.values():
            workload = job.record.key
            self.live.append(_LiveJob(job.key, workload, self._made.get(workload, 0), fold.at))


class _Known(Listener):
    """The workloads that the scheduler knows at the end."""

    def __init__(self) -> None:
        self.workloads: frozenset[WorkloadKey] | None = None
        """None: the log cannot be folded to its end."""

    def ended(self, fold: Fold[SchedulerState]) -> None:
        fold.release()
        self.workloads = frozenset(fold.state.world.workloads)


def _lost_jobs(source: Source, progress: Progress | None) -> Iterator[Violation]:
    """Every message about a job was answered, and every live job's workload is known to the scheduler."""
    answers, known = _Answers(), _Known()
    yield from watch(source, SliceAggregator(), (), answers, progress)
    yield from answers.lost
    yield from watch(source, Scheduler(), (), known, progress)
    yield from _strangers(source, answers.live, known.workloads)


def _strangers(
    source: Source, live: list[_LiveJob], known: frozenset[WorkloadKey] | None
) -> Iterator[Violation]:
    for job in live:
        if known is not None and job.workload not in known:
            text = f"{job.job} is live, but the scheduler does not know its workload {job.workload}"
            yield Violation("no-lost-job", job.seq or source.end, job.at, text)


def _observed(name: str, source: Source, progress: Progress | None) -> Iterator[Violation]:
    return broken(source, (name,), progress)


def _warned(name: str, source: Source, progress: Progress | None) -> Iterator[Violation]:
    return (found for found in preemption_loops.find(source, progress) if found.invariant == name)


Invariant = Callable[[Source, Progress | None], Iterator[Violation]]

INVARIANTS: dict[str, Invariant] = {
    "chain": _chain,
    "no-lost-job": _lost_jobs,
    **{name: partial(_observed, name) for name in OBSERVERS},
}
"""What must hold; `bisect` finds the first event that broke one."""

WARNINGS: dict[str, Invariant] = {name: partial(_warned, name) for name in ("loops", "thrashing")}
"""What need not be wrong, but costs work."""


def first_violation(source: Source, name: str, progress: Progress | None = None) -> Violation | None:
    """Return the first event that broke an invariant, None if it held throughout.

    >>> from pathlib import Path
    >>> from sluice.replay.source.source import FileSource
    >>> first_violation(FileSource(Path("incident.jsonl")), "chain") is None
    True
    """
    with unhurried():
        return next(({**INVARIANTS, **WARNINGS})[name](source, progress), None)


def lint(
    source: Source, progress: Progress | None = None, limit: int = 20
) -> tuple[list[Violation], list[Violation]]:
    """Return the violations of all invariants, and the warnings; at most *limit* of each.

    One fold per decider serves all that look at it.

    >>> from pathlib import Path
    >>> from sluice.replay.source.source import FileSource
    >>> violations, warnings = lint(FileSource(Path("incident.jsonl")))
    >>> violations
    []
    """
    works: list[Callable[[Progress | None], Any]] = [
        partial(_scheduler_pass, source, limit),
        partial(_slices_pass, source, limit),
        partial(_all_watched, source, VariantController(), Listener(), limit),
        partial(_checks_pass, source, limit),
        partial(_all_of, _chain, source, limit),
        partial(_all_of, preemption_loops.find, source, limit),
    ]
    (seen, known), (seen_of_jobs, lost, live), seen_of_families, seen_of_checks, chain, warned = (
        process_pool.each(works, progress, apart=is_long(source))
    )
    lost += _strangers(source, live, known)
    return [*chain, *lost[:limit], *seen, *seen_of_jobs, *seen_of_families, *seen_of_checks], warned


def _all_of(check_: Invariant, source: Source, limit: int, progress: Progress | None) -> list[Violation]:
    with unhurried():
        return _take(_readable(check_(source, progress)), limit)


def _scheduler_pass(
    source: Source, limit: int, progress: Progress | None
) -> tuple[list[Violation], frozenset[WorkloadKey] | None]:
    known = _Known()
    return _all_watched(source, Scheduler(), known, limit, progress), known.workloads


def _slices_pass(
    source: Source, limit: int, progress: Progress | None
) -> tuple[list[Violation], list[Violation], list[_LiveJob]]:
    answers = _Answers()
    found = _all_watched(source, SliceAggregator(), answers, limit, progress)
    return found, answers.lost, answers.live


def _checks_pass(source: Source, limit: int, progress: Progress | None) -> list[Violation]:
    """Most cells have no admission checks, whose service has nothing to say there."""
    if not any(source.read(1, None, (AdmissionChecks.writer,))):
        return []
    return _all_watched(source, AdmissionChecks(), Listener(), limit, progress)


def _all_watched(
    source: Source, decider: Decider[Any], listener: Listener, limit: int, progress: Progress | None
) -> list[Violation]:
    found = []
    counts = dict.fromkeys(OBSERVERS, 0)
    with unhurried():
        for violation in _readable(watch(source, decider, OBSERVERS, listener, progress)):
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
    """Return a violation as JSON has it."""
    return dict(msgspec.to_builtins(violation))
