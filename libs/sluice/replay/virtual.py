"""A cell in virtual time: the real deciders against each other, and jobs that run for as long as they did.

It can `follow` a log first: then everything is as recorded, step by step, to the same sequences. From there
on, or from the start, it runs freely: a pure loop over a queue of events, in which deciding takes no time,
and deciders hear each other event by event, so nothing is encoded.
"""

import heapq
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sluice.core.state import SchedulerState
from sluice.events.base import Event, JobKey, Micros, WorkloadKey
from sluice.events.checks import ChecksRequested, ChecksWithdrawn
from sluice.events.codec import decode_commit
from sluice.events.commit import Step
from sluice.events.config import ObjectApplied
from sluice.events.envelope import Message
from sluice.events.slices import JobResumed, JobSuspended
from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.subjects import COMMITS

from .checking import Checked
from .controllers import Answer, Names
from .executors import ENDS, Report, Run
from .inputs import Inputs
from .metrics import Collector, Parted
from .reach import Part
from .source import Matcher, Source
from .states import deciders
from .verify import Divergence, decided_as

ROUNDS = 100_000
"""Decisions at one moment after which a run is given up: the deciders go round in circles."""

PACE_US = 50_000
"""A recorded decision that came later than this after an input was no answer to it."""


class LoopError(RuntimeError):
    """The deciders do not settle."""


Said = tuple[int, Micros, Sequence[Event]]
"""A message as a decider folds it: sequence, time, events."""


@dataclass
class Side:
    """One decider and its state. `held`: what it has not folded yet, while a log is followed."""

    decider: Decider[Any]
    state: Any = field(init=False)
    held: deque[Said] = field(default_factory=deque)
    upto: int = 0
    settled: bool = False
    """It has nothing to say at this moment."""
    checked: Checked = field(init=False)
    """What deciding the followed steps again came to."""

    def __post_init__(self) -> None:
        self.state = self.decider.initial()
        self.checked = Checked(self.decider.writer)
        self.reads = Matcher(tuple(self.decider.reads))

    def fold(self, upto: int | None = None) -> None:
        """Fold what is held back, up to a sequence, or all."""
        apply, state, held = self.decider.apply, self.state, self.held
        while held and (upto is None or held[0][0] <= upto):
            seq, at, events = held.popleft()
            for event in events:
                apply(state, event, seq, at)
        self.upto = max(self.upto, upto or 0)


@dataclass(slots=True)
class _Running:
    """An attempt at a job, as executors have it."""

    run: Run
    incarnation: int
    attempt: int
    at: Micros
    """When it began, or was told to stop."""
    stops: bool = False
    said: int = 0
    """How many of its reports were followed."""


@dataclass(slots=True)
class _Asked:
    """A check that a controller is asked to perform."""

    attempt: int
    at: Micros
    said: int = 0


@dataclass
class VirtualCell:
    """Plays *inputs*; `collector` has what came of it."""

    inputs: Inputs
    collector: Collector | Parted = field(default_factory=Collector)
    tick_us: int = 0
    """What comes within so many microseconds is decided on together."""
    sides: dict[str, Side] = field(default_factory=lambda: {d.writer: Side(d) for d in deciders()})
    now: Micros = 0
    seq: int = 0
    assumed: dict[JobKey, None] = field(default_factory=dict)
    """Jobs whose run time was not in the log."""
    guessed: dict[WorkloadKey, None] = field(default_factory=dict)
    """Workloads whose checks were not answered in the log, in that attempt."""
    _running: dict[JobKey, _Running] = field(default_factory=dict)
    names: Names = field(default_factory=Names)
    _asked: dict[WorkloadKey, dict[str, _Asked]] = field(default_factory=dict)
    _due: list[tuple[Micros, int, int, Callable[[], None]]] = field(default_factory=list)
    _number: int = 0
    _index: int = 0
    _follows: bool = False
    _all: list[Side] = field(init=False)
    _readers: dict[str, list[Side]] = field(default_factory=dict)
    """Subject, or `job.` for those of all jobs -> who folds it."""
    reach: Part | None = None
    """Whose jobs run; others do nothing once no log is followed any more. None: all."""

    def __post_init__(self) -> None:
        self._all = list(self.sides.values())

    @property
    def state(self) -> SchedulerState:
        found: SchedulerState = self.sides["scheduler"].state
        return found

    def followed(self) -> list[Checked]:
        """Return what deciding again came to, of the services that have said anything in the log."""
        return [side.checked for side in self._all if side.checked.steps or side.checked.divergence]

    # Following a log

    def follow(
        self,
        source: Source,
        until: int | None = None,
        before: Micros | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Divergence | None:
        """Do as the log says up to a sequence, or to what was said at a time; decide every step again.

        Returns the first step that is decided otherwise now; then nothing behind it was followed.
        """
        self._follows = True
        for entries in source.read(1, until):
            for entry in entries:
                if before is not None and entry.at >= before:
                    return None
                found = self._entry(entry)
                if found is not None:
                    return found
            if progress is not None and entries:
                progress(entries[-1].seq)
        return None

    def take_over(self, inputs: Inputs, reach: Part | None) -> None:
        """Go on from the log with other inputs, the same so far; only jobs of *reach* run, if it is given."""
        self.inputs, self.reach = inputs, reach

    def _entry(self, entry: Entry) -> Divergence | None:
        seq, suffix, at, payload, _ = entry
        side = self.sides.get(suffix)
        said: list[Said] = []
        found: Divergence | None = None
        if suffix not in COMMITS:
            said.append((seq, at, (Message(subject=suffix, payload=payload),)))
            self._followed(seq)
        else:
            for step in decode_commit(payload).steps:
                if side is not None:
                    found = self._step(side, seq, step)
                    if found is not None:
                        break
                said.append((seq, step.at, step.events))
        for other in self.sides.values():
            if other is not side and other.reads(suffix):
                other.held += said
        self.seq, self.now = seq, max(self.now, at)
        return found

    def _step(self, side: Side, seq: int, step: Step) -> Divergence | None:
        side.fold(step.upto)
        if step.events and not decided_as(step, found := side.decider.decide(side.state, step.at)):
            divergence = Divergence(seq, step.upto, step.at, step.events, tuple(found))
            side.checked.divergence = divergence
            return divergence
        side.checked.steps += 1
        side.checked.events += len(step.events)
        for event in step.events:
            side.decider.apply(side.state, event, step.upto, step.at)
        self.now = max(self.now, step.at)
        self._said(side.decider.writer, step.events, step.at)
        return None

    def _followed(self, seq: int) -> None:
        """An executor's report was as recorded, so it is not to come again."""
        if self._reports is None:
            self._reports = _reports_in(self.inputs)
        job, answered = self._reports.get(seq, ("", None))
        running = self._running.get(JobKey(job))
        if answered is not None:
            asked = self._asked.get(answered[0], {}).get(answered[1])
            if asked is not None:
                asked.said += 1
        elif running is not None:
            running.said += 1

    _reports: dict[int, tuple[str, tuple[WorkloadKey, str] | None]] | None = None

    def _leave(self) -> None:
        """Go on freely: what was held back is folded, and what executors were about to say is due."""
        self._follows = False
        items = self.inputs.items
        while self._index < len(items) and 0 < items[self._index].seq <= self.seq:
            self._index += 1
        for side in self.sides.values():
            side.fold()
        for job, running in self._running.items():
            if self._runs(job):
                self._schedule(job, running, running.said)
        for key, checks in self._asked.items():
            for check, asked in checks.items():
                self._schedule_verdicts(key, check, asked, asked.said)

    # Running freely

    def run(self, until: Micros | None = None, progress: Callable[[int], None] | None = None) -> None:
        """Play everything, up to *until* if that is given; progress is told the input's sequence."""
        if self._follows:
            self._leave()
        self._dismiss()
        items = self.inputs.items
        while self._index < len(items) or self._due:
            first = items[self._index].at if self._index < len(items) else self._due[0][0]
            if self._due and self._due[0][0] < first:
                first = self._due[0][0]
            deadline = self._deadline()
            if deadline is not None and deadline < first:
                first = deadline
            if until is not None and first > until:
                break
            limit = self._moment(first)
            self.now = max(self.now, first)
            self._take(limit)
            self.now = max(self.now, limit)
            self._settle()
            if progress is not None and self._index:
                progress(items[self._index - 1].seq)
        self._settle()

    def _dismiss(self) -> None:
        """Let go of services that have nothing to do: no variants without a policy, no checks without any."""
        kinds: set[str] = set()
        policies = False
        for item in self.inputs.items:
            for event in item.events:
                if isinstance(event, ObjectApplied):
                    kinds.add(event.kind)
                    policies |= b'"concurrentAdmissionPolicy"' in bytes(event.object)
        if not policies:
            self.sides.pop("variants", None)
        if "AdmissionCheck" not in kinds:
            self.sides.pop("checks", None)

    def _take(self, limit: Micros) -> None:
        """Hear everything that comes up to *limit*, in order."""
        items = self.inputs.items
        while True:
            take = items[self._index] if self._index < len(items) else None
            if take is not None and take.at > limit:
                take = None
            due = self._due[0] if self._due and self._due[0][0] <= limit else None
            if take is not None and (due is None or (take.at, take.seq) <= (due[0], due[1])):
                self.now = max(self.now, take.at)
                events = take.events
                if take.suffix != "config":
                    events = (Message(subject=take.suffix, payload=take.payload),)
                self._hear(take.suffix, events)
                self._index += 1
            elif due is not None:
                heapq.heappop(self._due)
                self.now = max(self.now, due[0])
                due[3]()
            else:
                return

    def _moment(self, first: Micros) -> Micros:
        """Return when what comes at *first* is decided on: as in the log, where that decided soon after."""
        times = self.inputs.times
        index = bisect_left(times, first)
        if index < len(times) and times[index] - first <= PACE_US:
            return times[index]
        return first + self.tick_us

    def _deadline(self) -> Micros | None:
        times = [t for side in self.sides.values() if (t := side.decider.deadline(side.state)) is not None]
        soonest = min(times, default=None)
        return None if soonest is None or soonest <= self.now else soonest

    def _hear(self, suffix: str, events: Sequence[Event], speaker: Side | None = None) -> None:
        self.seq += 1
        seq, at = self.seq, self.now
        root = "job." if suffix.startswith("job.") else suffix
        readers = self._readers.get(root)
        if readers is None:
            readers = self._readers[root] = [side for side in self.sides.values() if side.reads(suffix)]
        for side in readers:
            if side is not speaker:
                apply, state = side.decider.apply, side.state
                for event in events:
                    apply(state, event, seq, at)
                side.settled = False

    def _settle(self) -> None:
        """Let all decide and hear each other until nobody has anything to say.

        Time has gone on, so everybody is asked once; then only who has heard something since.
        """
        for side in self.sides.values():
            side.settled = False
        for _ in range(ROUNDS):
            said = False
            for side in self.sides.values():
                if side.settled:
                    continue
                events = self._decided(side)
                side.settled = True
                if events:
                    said = True
                    self._hear(side.decider.writer, events, side)
                    self._said(side.decider.writer, events, self.now)
            if not said:
                return
        raise LoopError(f"the deciders do not settle at {self.now}")

    def _decided(self, side: Side) -> list[Event]:
        """Let one decide until it is settled; returns its events, folded already."""
        found: list[Event] = []
        decider, state = side.decider, side.state
        while events := decider.decide(state, self.now):
            for event in events:
                decider.apply(state, event, self.seq, self.now)
            found += events
            if len(found) > 100 * ROUNDS:
                raise LoopError(f"{decider.writer} does not settle at {self.now}")
        if decider.writer == "slices":
            state.touched.clear()
        return found

    # Executors

    def _said(self, writer: str, events: Sequence[Event], at: Micros) -> None:
        """Note what a decider has said; executors do as they are told."""
        self.collector.take(events, at)
        if writer == "checks":
            self._ask(events, at)
            return
        if writer in ("slices", "variants") and "checks" in self.sides:
            for event in events:
                self.names.hear(event)
        if writer != "slices":
            return
        for event in events:
            if isinstance(event, JobResumed):
                last = self._running.get(event.job)
                number = 0 if last is None else last.incarnation + (event.attempt <= last.attempt)
                run = self.inputs.run_of(event.job, number)
                self._begin(event.job, _Running(run, number, event.attempt, at))
            elif isinstance(event, JobSuspended) and (last := self._running.get(event.job)) is not None:
                self._begin(event.job, _Running(last.run, last.incarnation, event.attempt, at, stops=True))

    def _begin(self, job: JobKey, running: _Running) -> None:
        self._running[job] = running
        if not self._follows and self._runs(job):
            self._schedule(job, running)

    def _runs(self, job: JobKey) -> bool:
        return self.reach is None or self.reach.job(job)

    def _schedule(self, job: JobKey, running: _Running, done: int = 0) -> None:
        """Put down what an executor will report, but for the first *done* reports."""
        run = running.run
        if running.stops:
            reports = run.answers(job, running.attempt)
        else:
            seconds, assumed = self.inputs.seconds_of(run)
            if assumed:
                self.assumed[job] = None
            reports = run.reports(job, running.attempt, seconds)
        for report in reports[done:]:
            self._later(running.at + report.after_us, report.seq, partial(self._report, job, running, report))

    def _later(self, at: Micros, order: int, action: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._due, (at, order, self._number, action))

    def _report(self, job: JobKey, running: _Running, report: Report) -> None:
        # A job that was told to stop does not finish any more; one that has finished need not stop.
        if self._running.get(job) is not running:
            return
        if report.kind in ENDS:
            running.said = -1
        namespace, _, name = job.partition("/")
        suffix = f"job.{namespace.replace('.', '%2E')}.{name.replace('.', '%2E')}"
        self._hear(suffix, (Message(subject=suffix, payload=report.payload),))

    # Controllers of admission checks

    def _ask(self, events: Sequence[Event], at: Micros) -> None:
        for event in events:
            if isinstance(event, ChecksRequested):
                checks = self._asked.setdefault(event.workload, {})
                for check in event.checks:
                    asked = checks.get(check)
                    if asked is None or asked.attempt != event.attempt:
                        checks[check] = asked = _Asked(event.attempt, at)
                        if not self._follows:
                            self._schedule_verdicts(event.workload, check, asked)
            elif isinstance(event, ChecksWithdrawn):
                self._asked.pop(event.workload, None)

    def _schedule_verdicts(self, key: WorkloadKey, check: str, asked: _Asked, done: int = 0) -> None:
        answers, assumed = self.inputs.verdicts.of(self.names(key), check, asked.attempt)
        if assumed:
            self.guessed[key] = None
        for answer in answers[done:]:
            action = partial(self._answer, key, check, asked, answer)
            self._later(asked.at + answer.after_us, answer.seq, action)

    def _answer(self, key: WorkloadKey, check: str, asked: _Asked, answer: Answer) -> None:
        # Who was told to stop says nothing any more.
        if self._asked.get(key, {}).get(check) is asked:
            message = Message(subject=answer.suffix, payload=answer.payload(key, asked.attempt))
            self._hear(answer.suffix, (message,))


def _reports_in(inputs: Inputs) -> dict[int, tuple[str, tuple[WorkloadKey, str] | None]]:
    """Return sequence -> the job that was reported on, or the (workload, check) that was answered."""
    found: dict[int, tuple[str, tuple[WorkloadKey, str] | None]] = {
        report.seq: (job, None)
        for job, runs in inputs.runs.items()
        for run in runs
        for attempt in run.attempts.values()
        for report in (*attempt.running, *attempt.stopping)
    }
    for attempts in inputs.verdicts.answers.values():
        for answers in attempts.values():
            for answer in answers:
                found[answer.seq] = ("", (answer.data["workload"], answer.data["check"]))
    return found


__all__ = ["LoopError", "Side", "VirtualCell"]
