"""A cell in virtual time: the real deciders against each other, and jobs that run for as long as they did.

It can `follow` a log first: then everything is as recorded, step by step, to the same sequences. From there
on, or from the start, it runs freely: a pure loop over a queue of events. Services hear of things and decide
when they did in the log (`tempo`), or at once where it has nothing like it; nothing is encoded.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluice.core.scheduler.state import SchedulerState
from sluice.events.base import Event, JobKey, Micros, WorkloadKey
from sluice.events.checks import ChecksRequested, ChecksWithdrawn
from sluice.events.codec import decode_commit
from sluice.events.commit import Step
from sluice.events.config import ObjectApplied
from sluice.events.slices import JobResumed, JobSuspended
from sluice.log.contract import Entry
from sluice.protocol.subjects import COMMITS
from sluice.replay.source.source import Source
from sluice.replay.source.time_travel import deciders, tracked
from sluice.replay.verify.steps import Divergence, decided_as
from sluice.replay.verify.whole_log import Checked

from .affected_trees import Part
from .controllers import Answer, Names
from .decider_host import Call, Said, Side, entry_of
from .executors import ENDS, Report, Run
from .inputs import Inputs
from .metrics import Collector, Parted
from .recorded_timing import LAG_US, Position, Tempo

ROUNDS = 100_000
"""Decisions at one moment after which a run is given up: the deciders go round in circles."""


class LoopError(RuntimeError):
    """The deciders do not settle."""


_NEVER: Position = (1 << 62, 0)

STALLED_US = 7 * 24 * 3_600_000_000
"""With no more inputs, it ends when no job finishes for so long: a check may ask for retries for ever."""

_FREE = Tempo()

_Reported = tuple[str, tuple[WorkloadKey, str] | None, bool]
"""The job that was reported on, or the (workload, check) that was answered; and whether the job had ended."""


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
    over: bool = False
    """It has ended: of its own accord, if nobody knew yet that it was to stop."""


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
    _due: list[tuple[Position, int, Callable[..., None], tuple[Any, ...]]] = field(default_factory=list)
    """What will be said: where it stands, what to call, with what."""
    _wakes: list[Call] = field(default_factory=list)
    _turns: int = 0
    """How often somebody has decided at this moment."""
    _number: int = 0
    _progressed: Micros = 0
    """When an input was read or a job finished last, running freely."""
    _index: int = 0
    _follows: bool = False
    _all: list[Side] = field(init=False)
    _readers: dict[str, list[Side]] = field(default_factory=dict)
    """Subject, or `job.` for those of all jobs -> who folds it."""
    reach: Part | None = None
    """Whose jobs run; others do nothing once no log is followed any more. None: all."""
    cut_off: bool = False
    """It ended for `STALLED_US` alone, and would go on."""

    def __post_init__(self) -> None:
        self._all = list(self.sides.values())
        for order, side in enumerate(self._all):
            side.order = order

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
        for entries in tracked(source.read(1, until), progress):
            for entry in entries:
                if before is not None and entry.at >= before:
                    return None
                found = self._entry(entry)
                if found is not None:
                    return found
        return None

    def take_over(self, inputs: Inputs, reach: Part | None) -> None:
        """Go on from the log with other inputs, the same so far; only jobs of *reach* run, if it is given."""
        self.inputs, self.reach = inputs, reach

    def _entry(self, entry: Entry) -> Divergence | None:
        seq, suffix, at, payload, _ = entry
        side = self.sides.get(suffix)
        found: Divergence | None = None
        if suffix not in COMMITS:
            self._followed(seq)
        else:
            steps = decode_commit(payload, suffix, seq).steps
            if side is not None:
                for number, step in enumerate(steps):
                    found = self._step(side, seq, step)
                    if found is not None:
                        steps = steps[:number]
                        break
            entry = entry_of(seq, suffix, at, steps)
        for other in self.sides.values():
            if other is not side and other.reads(suffix):
                other.fold.held.append(entry)
        self.seq, self.now = seq, max(self.now, at)
        return found

    def _step(self, side: Side, seq: int, step: Step) -> Divergence | None:
        fold = side.fold
        fold.release(step.upto)
        if step.events and not decided_as(step, found := side.decider.decide(fold.state, step.at)):
            divergence = Divergence(seq, step.upto, step.at, step.events, tuple(found))
            side.checked.divergence = divergence
            return divergence
        side.checked.steps += 1
        side.checked.events += len(step.events)
        fold.apply_own(step)
        self.now = max(self.now, step.at)
        self.collector.take(step.events, step.at)
        self._said(side.decider.writer, step.events, step.at)
        return None

    def _followed(self, seq: int) -> None:
        """An executor's report was as recorded, so it is not to come again."""
        if self._reports is None:
            self._reports = _reports_in(self.inputs)
        job, answered, ended = self._reports.get(seq, ("", None, False))
        running = self._running.get(JobKey(job))
        if answered is not None:
            asked = self._asked.get(answered[0], {}).get(answered[1])
            if asked is not None:
                asked.said += 1
        elif running is not None:
            running.said += 1
            running.over |= ended

    _reports: dict[int, _Reported] | None = None

    def _leave(self) -> None:
        """Go on freely: what was held back is answered as it was, what executors were about to say is due."""
        self._follows = False
        items = self.inputs.items
        while self._index < len(items) and 0 < items[self._index].seq <= self.seq:
            self._index += 1
        for side in self.sides.values():
            # It may be in the middle of a turn.
            step = side.tempo.soon(self.now, LAG_US)
            if step >= 0:
                self._call(side, side.tempo.at[step], step, side.tempo.limits[step])
            else:
                self._call(side, self.now, -1, (0, 0))
            for entry in side.fold.held:
                self._give(side, (entry.at, entry.seq), entry)
            side.fold.held.clear()
        for job, running in self._running.items():
            if self._runs(job):
                self._schedule(job, running, running.said)
        for key, checks in self._asked.items():
            for check, asked in checks.items():
                self._schedule_verdicts(key, check, asked, asked.said)

    # Running freely

    def run(self, progress: Callable[[int], None] | None = None) -> None:
        """Play everything; progress is told the input's sequence."""
        self._dismiss()
        if self._follows:
            self._leave()
        for side in self.sides.values():
            side.replica.lead()
        items, due, wakes = self.inputs.items, self._due, self._wakes
        coming, self._progressed = self._coming(), self.now
        while coming is not _NEVER or self.now - self._progressed <= STALLED_US:
            first = due[0][0] if due and due[0][0] < coming else coming
            if wakes and wakes[0][0] < first[0]:
                self._wake(*heapq.heappop(wakes))
                continue
            if first is _NEVER:
                return
            if first[0] > self.now:
                self.now, self._turns = first[0], 0
            if first is not coming:
                _, _, action, arguments = heapq.heappop(due)
                action(*arguments)
                continue
            item = items[self._index]
            said: Said = item.payload
            self._progressed = self.now
            if item.suffix == "config":
                said = (Step(upto=self.seq, at=self.now, events=item.events),)
            self._hear(item.suffix, said, first)
            self._index += 1
            coming = self._coming()
            if progress is not None and not self._index % 64:
                progress(item.seq)
        self.cut_off = True

    def _coming(self) -> Position:
        """Return where the next input stands."""
        items = self.inputs.items
        if self._index == len(items):
            return _NEVER
        item = items[self._index]
        return item.at, item.seq

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
        for side in self.sides.values():
            side.tempo = self.inputs.tempos.get(side.decider.writer, _FREE)

    def _hear(self, suffix: str, said: Said, position: Position, speaker: Side | None = None) -> None:
        """Let everybody who reads it have a message, and answer it when they did in the log, or at once."""
        self.seq += 1
        root = "job." if suffix.startswith("job.") else suffix
        readers = self._readers.get(root)
        if readers is None:
            readers = self._readers[root] = [side for side in self.sides.values() if side.reads(suffix)]
        entry = entry_of(self.seq, suffix, self.now, said)
        for side in readers:
            if side is not speaker:
                self._give(side, position, entry)

    def _give(self, side: Side, position: Position, entry: Entry) -> None:
        side.inbox.append((position, entry))
        tempo = side.tempo
        step = tempo.answer(position)
        if step < 0:
            # Not before what it decided without having heard of this: it was busy, or the log was slow.
            self._call(side, tempo.deaf_until(position), -1, position)
        elif step != side.latest or tempo.at[step] <= self.now:
            self._call(side, tempo.at[step], step, tempo.limits[step])

    def _call(self, side: Side, at: Micros, step: int, limit: Position) -> None:
        """Let a service decide at a time, having heard what stands up to *limit*."""
        call = (max(at, self.now), limit, side.order, step)
        if call not in side.called:
            side.called.add(call)
            side.latest = step
            heapq.heappush(self._wakes, call)

    def _wake_at(self, side: Side, at: Micros) -> None:
        """Let a service decide at a time because of the time: at the recorded step there, if there is one."""
        step = side.tempo.soon(at)
        if step >= 0:
            self._call(side, side.tempo.at[step], step, side.tempo.limits[step])
        else:
            self._call(side, at, -1, (at, 0))

    def _wake(self, at: Micros, limit: Position, order: int, step: int) -> None:
        """Let a service fold what it has heard by then, and decide until it is settled."""
        if at > self.now:
            self.now, self._turns = at, 0
        self._turns += 1
        if self._turns > ROUNDS:
            raise LoopError(f"the deciders do not settle at {self.now}")
        side = self._all[order]
        side.called.discard((at, limit, order, step))
        heard, inbox = [], side.inbox
        while inbox and inbox[0][0] <= limit:
            heard.append(inbox.popleft()[1])
        if heard:
            side.replica.hear(heard)
        goes_on = step >= 0 and side.tempo.goes_on(step)
        said = self._decided(side, once=goes_on)
        if said:
            for each in said:
                self.collector.take(each.events, self.now)
            out = side.tempo.out[step] if step >= 0 else (self.now, 0)
            if out[0] > self.now or out[1]:
                self._later(out, self._publish, side, said, self.now, out)
            else:
                self._publish(side, said, self.now, out)
            if goes_on:
                self._call(side, side.tempo.at[step + 1], step + 1, limit)
                return
        due = side.replica.due
        if due is not None:
            self._wake_at(side, due)

    def _publish(self, side: Side, steps: Sequence[Step], at: Micros, position: Position) -> None:
        """Let everybody have what was decided at a time: services, executors, controllers."""
        writer = side.decider.writer
        self._hear(writer, steps, position, side)
        side.replica.written(self.seq, steps)
        for step in steps:
            self._said(writer, step.events, at)

    def _decided(self, side: Side, *, once: bool) -> list[Step]:
        """Let one decide until it is settled, or *once*: where the log has a step for the rest."""
        replica, now, count = side.replica, self.now, 0
        while (step := replica.decide(now)) is not None and not once:
            count += len(step.events)
            if count > 100 * ROUNDS:
                raise LoopError(f"{side.decider.writer} does not settle at {now}")
        return replica.take()

    # Executors

    def _said(self, writer: str, events: Sequence[Event], at: Micros) -> None:
        """Note what a decider has said; executors do as they are told."""
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
                over = last.over and event.attempt == last.attempt
                running = _Running(last.run, last.incarnation, event.attempt, at, stops=True, over=over)
                self._begin(event.job, running)

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
            reports = run.answers(job, running.attempt, over=running.over)
        else:
            seconds, assumed = self.inputs.seconds_of(run)
            if assumed:
                self.assumed[job] = None
            reports = run.reports(job, running.attempt, seconds)
        for report in reports[done:]:
            position = (running.at + report.after_us, report.seq)
            self._later(position, self._report, job, running, report)

    def _later(self, position: Position, action: Callable[..., None], *arguments: Any) -> None:
        self._number += 1
        heapq.heappush(self._due, (position, self._number, action, arguments))

    def _report(self, job: JobKey, running: _Running, report: Report) -> None:
        # A job that was told to stop does not finish any more; one that has finished need not stop.
        if self._running.get(job) is not running:
            return
        running.over |= report.kind in ENDS
        if report.kind == "JobFinished":
            self._progressed = self.now
        suffix = "job." + job.replace(".", "%2E").replace("/", ".", 1)
        recorded = report.seq if report.at == self.now else 0
        self._hear(suffix, report.payload, (self.now, recorded))

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
            position = (asked.at + answer.after_us, answer.seq)
            self._later(position, self._answer, key, check, asked, answer)

    def _answer(self, key: WorkloadKey, check: str, asked: _Asked, answer: Answer) -> None:
        # Who was told to stop says nothing any more.
        if self._asked.get(key, {}).get(check) is asked:
            recorded = answer.seq if answer.at == self.now else 0
            self._hear(answer.suffix, answer.payload(key, asked.attempt), (self.now, recorded))


def _reports_in(inputs: Inputs) -> dict[int, _Reported]:
    found: dict[int, _Reported] = {
        report.seq: (job, None, report.kind in ENDS)
        for job, runs in inputs.runs.items()
        for run in runs
        for attempt in run.attempts.values()
        for report in (*attempt.running, *attempt.stopping)
    }
    for attempts in inputs.verdicts.answers.values():
        for answers in attempts.values():
            for answer in answers:
                found[answer.seq] = ("", (answer.data["workload"], answer.data["check"]), False)
    return found
