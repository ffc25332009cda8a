"""`verify`, lint and bisect: does a log hold what it must, and from where on does it not?"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sluice.core.invariants import reservation_violations, violations
from sluice.core.scheduler import Scheduler
from sluice.core.state import SchedulerState
from sluice.events.base import Event, Micros
from sluice.events.codec import CommitDecodeError, decode_commit
from sluice.events.scheduler import Admitted, Preempted, QuotaReserved
from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.fold import Fold
from sluice.log.subjects import COMMITS

from .source import Source
from .states import Progress, patterns_of, unhurried
from .verify import Divergence, check_step


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
                    recent = [e for e in fold.held if e.seq <= step.upto] or recent
                    found.divergence = check_step(fold, entry.seq, step)
                    if found.divergence is not None:
                        found.inputs = recent[-10:]
                        return found
                    fold.apply_own(step)
                    found.steps += 1
                    found.events += len(step.events)
                fold.own = entry.seq
            if progress is not None and entries:
                progress(entries[-1].seq)
    return found


# Invariants (DB6)


@dataclass(frozen=True)
class Violation:
    """`seq`: of the message whose events broke it; `upto` orders own events among the inputs."""

    invariant: str
    seq: int
    at: Micros
    text: str


@dataclass
class _Watch(Scheduler):
    """A scheduler whose fold is looked at event by event."""

    found: list[tuple[Micros, Event, str]]

    def apply(self, state: SchedulerState, event: Event, seq: int, at: Micros) -> None:
        super().apply(state, event, seq, at)
        for text in reservation_violations(state, event):
            self.found.append((at, event, text))


def _quota(source: Source, progress: Progress | None) -> Iterator[Violation]:
    """Quota is never given out twice: no reservation may exceed what is available."""
    watch = _Watch([])
    fold: Fold[SchedulerState] = Fold(watch)
    for entries in source.read(1, None, patterns_of(watch)):
        for seq, _ in fold.take_in(entries):
            yield from (Violation("quota", seq, at, text) for at, _, text in watch.found)
            watch.found.clear()
        if progress is not None and entries:
            progress(entries[-1].seq)


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


def _admitted(source: Source, progress: Progress | None) -> Iterator[Violation]:
    """Nobody is admitted without quota, or reserves quota that it has already."""
    reserved: dict[str, int] = {}
    for seq, at, event in scheduler_events(source, progress):
        if isinstance(event, QuotaReserved):
            if event.workload in reserved:
                text = f"{event.workload} had quota since {reserved[event.workload]}"
                yield Violation("admission", seq, at, text)
            reserved[event.workload] = seq
        elif isinstance(event, Admitted):
            if event.workload not in reserved:
                yield Violation("admission", seq, at, f"{event.workload} was admitted without quota")
        elif (workload := getattr(event, "workload", None)) is not None and type(event).__name__ in _ENDS:
            reserved.pop(workload, None)


_ENDS = ("QuotaReleased", "WorkloadFinished", "WorkloadDeleted")


def scheduler_events(source: Source, progress: Progress | None = None) -> Iterator[tuple[int, Micros, Event]]:
    """Yield (seq, at, event) of all commits about workloads."""
    for entries in source.read(1, None, ("slices", "variants", "scheduler", "checks")):
        for entry in entries:
            for step in decode_commit(entry.payload).steps:
                for event in step.events:
                    yield entry.seq, step.at, event
        if progress is not None and entries:
            progress(entries[-1].seq)


LOOP_PREEMPTIONS = 3


def _loops(source: Source, progress: Progress | None) -> Iterator[Violation]:
    """Two workloads that preempt each other again and again, or one that is preempted again and again."""
    pairs: dict[tuple[str, str], list[int]] = {}
    victims: dict[str, list[int]] = {}
    for seq, at, event in scheduler_events(source, progress):
        if not isinstance(event, Preempted):
            continue
        pair = (event.preemptor, event.workload)
        pairs.setdefault(pair, []).append(seq)
        victims.setdefault(event.workload, []).append(seq)
        back = pairs.get((event.workload, event.preemptor), [])
        if back:
            text = (
                f"{event.preemptor} preempted {event.workload} ({event.rule}), which had preempted it at "
                f"{', '.join(map(str, back[-3:]))}"
            )
            yield Violation("loops", seq, at, text)
        elif len(victims[event.workload]) == LOOP_PREEMPTIONS:
            seqs = ", ".join(map(str, victims[event.workload]))
            text = (
                f"{event.workload} was preempted {LOOP_PREEMPTIONS} times, at {seqs}, last for {event.rule}"
            )
            yield Violation("loops", seq, at, text)


Invariant = Callable[[Source, Progress | None], Iterator[Violation]]

INVARIANTS: dict[str, Invariant] = {
    "chain": _chain,
    "admission": _admitted,
    "quota": _quota,
    "state": _state,
}
"""What must hold. `bisect` finds the first event that broke one."""

WARNINGS: dict[str, Invariant] = {"loops": _loops}
"""What need not be wrong, but costs work."""


def first_violation(source: Source, name: str, progress: Progress | None = None) -> Violation | None:
    """Return the first event that broke an invariant, None if it held throughout."""
    with unhurried():
        return next(({**INVARIANTS, **WARNINGS})[name](source, progress), None)


def lint(
    source: Source, progress: Progress | None = None, limit: int = 20
) -> tuple[list[Violation], list[Violation]]:
    """Return the violations of all invariants, and the warnings; at most *limit* of each."""
    with unhurried():
        wrong = [_take(check_(source, progress), limit) for check_ in INVARIANTS.values()]
        warned = [_take(check_(source, progress), limit) for check_ in WARNINGS.values()]
    return [v for found in wrong for v in found], [v for found in warned for v in found]


def _take(found: Iterator[Violation], limit: int) -> list[Violation]:
    return [violation for violation, _ in zip(found, range(limit), strict=False)]


def plain(violation: Violation) -> dict[str, Any]:
    return dict(msgspec.to_builtins(violation))
