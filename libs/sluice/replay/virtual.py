"""A cell in virtual time: the real deciders against each other, and jobs that run for as long as they did.

A pure loop over a queue of events; deciding takes no virtual time. Deciders hear each other event by event,
so nothing is encoded.
"""

import heapq
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sluice.core.scheduler import Scheduler
from sluice.core.slices import SliceAggregator
from sluice.core.slices_state import State
from sluice.core.state import SchedulerState
from sluice.events.base import Event, JobKey, Micros
from sluice.events.envelope import Message
from sluice.events.slices import JobResumed, JobSuspended

from .inputs import DEFAULT_STOP_US, Inputs, report_message
from .metrics import Collector

ROUNDS = 100_000
"""Decisions at one moment after which a run is given up: the deciders go round in circles."""

PACE_US = 50_000
"""A recorded decision that came later than this after an input was no answer to it."""


class LoopError(RuntimeError):
    """The deciders do not settle."""


@dataclass
class VirtualCell:
    """Plays *inputs*; `collector` has what came of it."""

    inputs: Inputs
    collector: Collector = field(default_factory=Collector)
    slices: SliceAggregator = field(default_factory=SliceAggregator)
    scheduler: Scheduler = field(default_factory=Scheduler)
    slices_state: State = field(default_factory=State)
    state: SchedulerState = field(init=False)
    now: Micros = 0
    seq: int = 0
    assumed: dict[JobKey, None] = field(default_factory=dict)
    """Jobs whose run time was not in the log."""
    tick_us: int = 0
    """What comes within so many microseconds is decided on together."""
    _due: list[tuple[Micros, int, int, str, JobKey, int, bool]] = field(default_factory=list)
    _attempts: dict[JobKey, int] = field(default_factory=dict)
    _number: int = 0

    def __post_init__(self) -> None:
        self.state = self.scheduler.initial()

    def run(self, until: Micros | None = None, progress: Callable[[int], None] | None = None) -> None:
        """Play everything, up to *until* if that is given; progress is told the input's sequence."""
        items = self.inputs.items
        index = 0
        while index < len(items) or self._due:
            first = items[index].at if index < len(items) else self._due[0][0]
            if self._due and self._due[0][0] < first:
                first = self._due[0][0]
            deadline = self._deadline()
            if deadline is not None and deadline < first:
                first = deadline
            if until is not None and first > until:
                break
            limit = self._moment(first)
            self.now = max(self.now, first)
            while True:
                take = items[index] if index < len(items) and items[index].at <= limit else None
                due = self._due[0] if self._due and self._due[0][0] <= limit else None
                if take is not None and (due is None or (take.at, take.seq) <= (due[0], due[1])):
                    self.now = max(self.now, take.at)
                    self._message(take.suffix, take.payload, take.events)
                    index += 1
                elif due is not None:
                    heapq.heappop(self._due)
                    self.now = max(self.now, due[0])
                    self._report(due)
                else:
                    break
            self.now = max(self.now, limit)
            self._settle()
            if progress is not None and index:
                progress(items[index - 1].seq)
        self._settle()

    def _moment(self, first: Micros) -> Micros:
        """Return when what comes at *first* is decided on: as in the log, where that decided soon after."""
        times = self.inputs.times
        index = bisect_left(times, first)
        if index < len(times) and times[index] - first <= PACE_US:
            return times[index]
        return first + self.tick_us

    def _deadline(self) -> Micros | None:
        times = [
            t
            for t in (self.slices.deadline(self.slices_state), self.scheduler.deadline(self.state))
            if t is not None
        ]
        soonest = min(times, default=None)
        return None if soonest is None or soonest <= self.now else soonest

    def _message(self, suffix: str, payload: bytes, events: Sequence[Event]) -> None:
        self.seq += 1
        seq, at = self.seq, self.now
        if suffix == "config":
            for event in events:
                self.slices.apply(self.slices_state, event, seq, at)
                self.scheduler.apply(self.state, event, seq, at)
        elif suffix.startswith(("job.", "presence.agent.")):
            self.slices.apply(self.slices_state, Message(subject=suffix, payload=payload), seq, at)

    def _report(self, due: tuple[Micros, int, int, str, JobKey, int, bool]) -> None:
        _, _, _, kind, job, attempt, success = due
        # A job that was told to stop does not finish any more; one that has finished need not stop.
        if kind != "JobStopped" and self._attempts.get(job) != attempt:
            return
        payload = report_message(kind, job, attempt, self.now, success=success)
        namespace, _, name = job.partition("/")
        self._message(f"job.{namespace.replace('.', '%2E')}.{name.replace('.', '%2E')}", payload, ())

    def _settle(self) -> None:
        """Let both decide and hear each other until neither has anything to say."""
        for _ in range(ROUNDS):
            said = self._turn(self.slices_decided()) | self._turn(self.scheduler_decided(), scheduler=True)
            if not said:
                return
        raise LoopError(f"the deciders do not settle at {self.now}")

    def slices_decided(self) -> list[Event]:
        """Let the slice-aggregator decide until it is settled; returns its events, folded already."""
        found: list[Event] = []
        while events := self.slices.decide(self.slices_state, self.now):
            for event in events:
                self.slices.apply(self.slices_state, event, self.seq, self.now)
            found += events
        self.slices_state.touched.clear()
        return found

    def scheduler_decided(self) -> list[Event]:
        """The same for the scheduler."""
        found: list[Event] = []
        while events := self.scheduler.decide(self.state, self.now):
            for event in events:
                self.scheduler.apply(self.state, event, self.seq, self.now)
            found += events
            if len(found) > 100 * ROUNDS:
                raise LoopError(f"the scheduler does not settle at {self.now}")
        return found

    def _turn(self, events: list[Event], *, scheduler: bool = False) -> bool:
        """Tell the other one, and the jobs."""
        if not events:
            return False
        self.seq += 1
        self.collector.take(events, self.now)
        if scheduler:
            for event in events:
                self.slices.apply(self.slices_state, event, self.seq, self.now)
            return True
        for event in events:
            self.scheduler.apply(self.state, event, self.seq, self.now)
            if isinstance(event, JobResumed):
                self._start(event.job, event.attempt)
            elif isinstance(event, JobSuspended):
                self._attempts.pop(event.job, None)
                run, _ = self.inputs.run_of(event.job)
                wait = DEFAULT_STOP_US if run.stop_us is None else run.stop_us
                self._later(wait, 0, "JobStopped", event.job, event.attempt)
        return True

    def _start(self, job: JobKey, attempt: int) -> None:
        run, assumed = self.inputs.run_of(job)
        if assumed:
            self.assumed[job] = None
        self._attempts[job] = attempt
        assert run.seconds_us is not None
        if run.ready_us is not None and run.ready_us < run.seconds_us:
            self._later(run.ready_us, 0, "JobPodsReady", job, attempt)
        self._later(run.seconds_us, run.finish_seq, "JobFinished", job, attempt, success=run.success)

    def _later(
        self, wait_us: int, order: int, kind: str, job: JobKey, attempt: int, *, success: bool = True
    ) -> None:
        self._number += 1
        heapq.heappush(self._due, (self.now + wait_us, order, self._number, kind, job, attempt, success))
