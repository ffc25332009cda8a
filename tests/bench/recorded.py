"""A long log of a busy cell: scheduler and slice-aggregator decide against each other in virtual time.

What comes out is a log as a cell writes it, with chains of commits and each step's `upto` and `at`; only
the group commit is regular, one per decider and exchange. Both decide again every step of it (a test).
"""

import heapq
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.state import SchedulerState
from sluice.core.slices.decider import SliceAggregator
from sluice.core.slices.state import Phase, State
from sluice.events.base import Event, JobKey, Micros
from sluice.events.codec import encode_commit
from sluice.events.commit import Step
from sluice.events.slices import JobResumed, JobSuspended
from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.fold import Fold
from tests.support.objects import applied

from .messages import job_message
from .scenario import LARGE_SCALE, JobClass, PlannedJob, Scenario, job_manifest, manifests, plan

TICK_US = 4_000
"""What falls into one tick is folded before deciding, as it is while a commit is under way."""
STOP_US = 1_000
"""How long a preempted job takes to stop."""
REPEAT_US = 8_000_000
"""Time between two beginnings of the scenario: about what it takes."""
BEGIN: Micros = 1_767_225_600_000_000

_NEVER = (sys.maxsize, PlannedJob(0.0, "", "", JobClass("", 0, 0, 0, 0, 0)))
"""Stands behind the last job."""


@dataclass
class Snapshot:
    """A decider's state as its leader would store it."""

    state_version: int
    data: bytes
    upto: int
    at: Micros
    own: int


@dataclass
class Side[S]:
    """One decider as a leader: folds at once, decides until settled, commits."""

    decider: Decider[S]
    fold: Fold[S] = field(init=False)
    own: int = 0

    def __post_init__(self) -> None:
        self.fold = Fold(self.decider)

    def settle(self, at: Micros) -> list[Step]:
        return list(iter(lambda: self.fold.decide(at), None))

    def snapshot(self) -> Snapshot:
        """Return the state; only while it is settled and committed."""
        fold = self.fold
        return Snapshot(
            self.decider.state_version, self.decider.dump(fold.state), fold.upto, fold.at, self.own
        )


class Recorder:
    """Plays *scenario* again and again, or *rounds* times, and gives every message of the log to *sink*."""

    def __init__(
        self, sink: Callable[[Entry], None], scenario: Scenario = LARGE_SCALE, rounds: int | None = None
    ) -> None:
        self.sink, self.scenario, self.rounds = sink, scenario, rounds
        self.now = BEGIN
        self.seq = 0
        self.events: dict[str, int] = {"job": 0, "config": 0, "slices": 0, "scheduler": 0}
        """Events by writer; messages from outside count as one each."""
        self.slices: Side[State] = Side(SliceAggregator())
        self.scheduler: Side[SchedulerState] = Side(Scheduler())
        self._runs_us: dict[JobKey, int] = {}
        self._due: list[tuple[Micros, int, str, JobKey, int]] = []
        self._configure()
        self._planned = self._jobs()
        self._next = next(self._planned, _NEVER)

    @property
    def total(self) -> int:
        """Events so far."""
        return sum(self.events.values())

    def live(self) -> dict[str, int]:
        """Return how many objects there are now."""
        jobs, world = self.slices.fold.state, self.scheduler.fold.state.world
        return {
            "cluster_queues": len(world.cluster_queues),
            "live_jobs": len(jobs.jobs),
            "running_jobs": sum(job.phase is Phase.RUNNING for job in jobs.jobs.values()),
            "finished_jobs_kept": len(jobs.finished),
        }

    # the log

    def _append(self, suffix: str, payload: bytes, events: int = 1) -> None:
        self.seq += 1
        self.events[suffix.partition(".")[0]] += events
        entry = Entry(self.seq, suffix, self.now, payload)
        self.sink(entry)
        if suffix != "slices":
            self.slices.fold.fold(entry)
        if suffix in ("config", "slices"):
            self.scheduler.fold.fold(entry)

    def _commit(self, writer: str, steps: list[Step]) -> None:
        payload = encode_commit("main", writer, f"{writer}-{self.seq}", steps)
        self._append(writer, payload, sum(len(step.events) for step in steps))

    def _configure(self) -> None:
        for number, manifest in enumerate(manifests(self.scenario)):
            step = Step(upto=self.seq, at=self.now + number, events=(applied(manifest),))
            self._commit("config", [step])
        self.now += 1_000_000
        self._exchange()

    # playing

    def play(self, events: int) -> None:
        """Go on until there have been so many events."""
        while self.total < events:
            self._tick()

    def play_out(self) -> None:
        """Go on until all jobs of all rounds have ended."""
        while self._due or self._next is not _NEVER:
            self._tick()

    def _jobs(self) -> Iterator[tuple[Micros, PlannedJob]]:
        """Yield jobs by time of submission.

        Queues begin at different moments, or every tick would be none or a huge one.
        """
        offsets = {queue: n * 37 % 1009 * 59 for n, (_, queue) in enumerate(self.scenario.queues())}
        jobs = [(int(job.at_s * 1e6) + offsets[job.queue], job) for job in plan(self.scenario)]
        jobs.sort(key=lambda pair: (pair[0], pair[1].name))
        begin, round_ = self.now, 0
        while round_ != self.rounds:
            for at, job in jobs:
                yield begin + at, replace(job, name=f"{job.name}-{round_}")
            begin += REPEAT_US
            round_ += 1

    def _tick(self) -> None:
        due = self._due
        limit = min(self._next[0], due[0][0] if due else self._next[0]) + TICK_US
        while self._next[0] <= limit:
            self.now = max(self.now, self._next[0])
            self._submit(self._next[1])
            self._next = next(self._planned, _NEVER)
        while due and due[0][0] <= limit:
            at, _, kind, job, attempt = heapq.heappop(due)
            self.now = max(self.now, at)
            if kind == "JobFinished" and not self._is_running(job, attempt):
                continue
            message = job_message(kind, job, {"attempt": attempt}, attempt=attempt)
            self._append(_suffix(job), message)
        self._exchange()

    def _is_running(self, key: JobKey, attempt: int) -> bool:
        job = self.slices.fold.state.jobs.get(key)
        return job is not None and job.attempt == attempt and job.admitted

    def _submit(self, job: PlannedJob) -> None:
        key = JobKey(f"default/{job.name}")
        self._runs_us[key] = job.job_class.runs_ms * 1000
        self._append(_suffix(key), job_message("JobSubmitted", key, job_manifest(job)))

    def _exchange(self) -> None:
        """Let both decide and answer each other until neither has anything to say."""
        while True:
            said = False
            for writer, side in (("slices", self.slices), ("scheduler", self.scheduler)):
                steps = side.settle(self.now)
                if steps:
                    said = True
                    self._commit(writer, steps)
                    side.own = self.seq
                    if writer == "slices":
                        self._execute(event for step in steps for event in step.events)
            if not said:
                return

    def _execute(self, events: Iterator[Event]) -> None:
        """Run and stop jobs, as executors would."""
        for event in events:
            if isinstance(event, JobResumed):
                runs_us = self._runs_us[event.job]
                self._later(runs_us, "JobFinished", event.job, event.attempt)
            elif isinstance(event, JobSuspended):
                self._later(STOP_US, "JobStopped", event.job, event.attempt)

    def _later(self, wait_us: int, kind: str, job: JobKey, attempt: int) -> None:
        heapq.heappush(self._due, (self.now + wait_us, self.seq, kind, job, attempt))


def _suffix(job: JobKey) -> str:
    return "job." + job.replace("/", ".")
