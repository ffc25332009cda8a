"""Executors without a server: machines, buckets that can be lost, the messages about jobs, and what runs.

Time is virtual. Each `World.step` does one thing that a `random.Random` chooses: answer a question
(or not, though it was done), end work, wait.
"""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Literal, NamedTuple

from sluice.events.base import JobKey, WorkloadKey
from sluice.events.ids import uid
from sluice.events.job import JobEvent, JobFinished, JobPodsReady, JobStopped
from sluice.protocol.dispatch import Claim, DispatchEntry, DispatchPodSet, Heartbeat
from sluice.sdk.execution import ExecutorSettings, Held, Identity, Machine, Outcome
from sluice.sdk.execution import actions as act
from tests.simulation.buckets import Bucket, Kept

SETTINGS = ExecutorSettings(heartbeat_s=1, ttl_s=5, takeover_s=10, check_s=10)


def entry_of(
    job: str, born: int, attempt: int = 1, *, stop: bool = False, count: int = 1, since: int = 0
) -> DispatchEntry:
    """Return what dispatch says of a job whose submission is at *born*, of an attempt made after *since*."""
    return DispatchEntry(
        job=JobKey(f"default/{job}"),
        uid=uid(born),
        state="Suspended" if stop else "Running",
        stop=stop,
        attempt=attempt,
        workload=WorkloadKey(f"default/job-{job}"),
        manifest_seq=born,
        since=since,
        seq=born + 1,
        pod_sets=() if stop else (DispatchPodSet(name="main", count=count),),
    )


@dataclass(slots=True, eq=False)
class Running:
    executor: str
    instance: str
    entry: DispatchEntry
    cancelled: bool = False
    resizes: int = 0
    """How often it was told that it is of another size or slice."""


@dataclass
class Process:
    """One process of an executor: a machine, what it runs, and what it has asked."""

    machine: Machine
    works: dict[int, Running] = field(default_factory=dict)
    asked: list[act.Ask] = field(default_factory=list)
    follows: bool = False
    ended: act.Ended | None = None


class Store(NamedTuple):
    """What a server has stored."""

    seq: int
    log: dict[JobKey, list[act.Told]]
    dispatch: dict[JobKey, DispatchEntry]
    claims: dict[str, Kept[Claim]]
    changes: list[tuple[str, Claim | None]]


@dataclass
class World:
    """*unanswered*: share of questions that nobody answers; half of them were done."""

    random: Random
    unanswered: float = 0.0
    now: float = 0.0
    seq: int = 0
    log: dict[JobKey, list[act.Told]] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    dispatch: dict[JobKey, DispatchEntry] = field(default_factory=dict)
    dispatch_whole: bool = True
    claims: Bucket[Claim] = field(init=False)
    beats: Bucket[Heartbeat] = field(init=False)
    processes: dict[str, Process] = field(default_factory=dict)
    lives: int = 0
    judges: bool = False
    """Whether executors look at manifests before they claim."""
    images: set[JobKey] = field(default_factory=set)
    """Jobs that none of those can run."""
    started: list[tuple[JobKey, str, int, str]] = field(default_factory=list)
    """(job, uid, attempt, instance) in the order of starts."""
    double: list[str] = field(default_factory=list)
    recovered: list[Held] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.claims, self.beats = Bucket(lambda: self.micros()), Bucket(lambda: self.micros())

    def micros(self, after_s: float = 0) -> int:
        return round((self.now + after_s) * 1_000_000)

    # the server's store

    def back_up(self) -> Store:
        return deepcopy(Store(self.seq, self.log, self.dispatch, self.claims.values, self.claims.changes))

    def restore(self, backup: Store, claims: Literal["put back", "lost", "kept"] = "lost") -> None:
        """Put an older log back, and with it the ids that it has; *claims*: what becomes of their bucket.

        Dispatch is read anew by whoever follows it, some time later (`tell_all`).
        """
        self.seq, self.log, self.dispatch, values, changes = deepcopy(backup)
        told = [one for messages in self.log.values() for one in messages]
        self.ids = {one.message_id: one.seq for one in told if one.message_id}
        if claims == "put back":
            self.claims.values, self.claims.changes = values, changes
        elif claims == "lost":
            self.claims.lose()

    def tell_all(self) -> None:
        """Everybody reads dispatch anew; of what is not there any more they do not hear."""
        for process in list(self.processes.values()):
            if process.follows:
                self.do(process, process.machine.dispatched(list(self.dispatch.items()), self.now))

    # executors

    def start(self, name: str, settings: ExecutorSettings = SETTINGS) -> Process:
        """Start a process of the executor *name*; one that was there is killed."""
        self.lives += 1
        machine = Machine(Identity(name=name, instance=f"{name}{self.lives}"), settings, judges=self.judges)
        process = self.processes[name] = Process(machine)
        self.do(process, machine.begin(self.now))
        return process

    def kill(self, name: str) -> None:
        """End a process and what it runs."""
        del self.processes[name]

    def do(self, process: Process, actions: Iterable[act.Action]) -> None:
        who = process.machine.book.who
        for action in actions:
            match action:
                case act.Ask():
                    process.asked.append(action)
                case act.StartWork(number, entry):
                    self._runs(Running(who.name, who.instance, entry), process, number)
                case act.ResizeWork(number, entry, resized):
                    process.works[number].entry = entry
                    process.works[number].resizes += resized
                case act.CancelWork(number):
                    process.works[number].cancelled = True
                case act.Follow():
                    process.follows = True
                    self.do(process, process.machine.dispatched(list(self.dispatch.items()), self.now))
                case act.Ended():
                    process.ended = action
                case _:
                    pass

    def _runs(self, running: Running, process: Process, number: int) -> None:
        entry = running.entry
        for other in self.processes.values():
            for work in other.works.values():
                if work.entry.job == entry.job and work.entry.uid == entry.uid:
                    self.double.append(f"{entry.job}: {running.instance} beside {work.instance}")
        process.works[number] = running
        self.started.append((entry.job, entry.uid, entry.attempt, running.instance))

    # what happens

    def say(self, job: JobKey, data: JobEvent | None, message_id: str = "", after: int | None = None) -> int:
        """Append a message about a job; 0 if the newest one is not that of *after*."""
        if message_id in self.ids:
            return self.ids[message_id]
        told = self.log.setdefault(job, [])
        if after is not None and after != (told[-1].seq if told else 0):
            return 0
        self.seq += 1
        told.append(act.Told(self.seq, message_id, data))
        if message_id:
            self.ids[message_id] = self.seq
        return self.seq

    def submit(self, name: str, *, count: int = 1) -> DispatchEntry:
        """A job is submitted and may run at once."""
        seq = self.say(JobKey(f"default/{name}"), None) if self.seq else self._first(name)
        entry = entry_of(name, seq, count=count)
        self.tell(entry)
        return entry

    def admit(self, name: str, born: int, attempt: int = 1) -> None:
        """A job that was submitted at *born* may run from now on: a commit says so."""
        self.seq += 1
        self.tell(entry_of(name, born, attempt, since=self.seq))

    def _first(self, name: str) -> int:
        # A log begins with configuration.
        self.seq = 10
        return self.say(JobKey(f"default/{name}"), None)

    def tell(self, entry: DispatchEntry | None, job: JobKey | None = None) -> None:
        """Dispatch says so, to all who follow it."""
        if entry is not None:
            self.dispatch[entry.job], job = entry, entry.job
        else:
            assert job is not None
            self.dispatch.pop(job, None)
        for process in list(self.processes.values()):
            if process.follows:
                self.do(process, process.machine.dispatched([(job, entry)], self.now))

    def decide(self) -> None:
        """Do what the slice-aggregator does: attempts that have ended are over, or run again."""
        for job, entry in list(self.dispatch.items()):
            for told in self.log.get(job, ()):
                data = told.data
                if not isinstance(data, JobStopped | JobFinished):
                    continue
                if told.seq <= entry.since or (data.attempt, data.uid) != (entry.attempt, entry.uid):
                    continue  # of no attempt that there was
                if isinstance(data, JobFinished) or entry.stop:
                    self.tell(None, job)
                else:
                    self._again(entry)
                break

    def lose_executor(self, name: str) -> None:
        """Its heartbeat is gone for long: what the log knows it to have runs again."""
        for entry in list(self.dispatch.values()):
            owner = self.owner(entry)
            if owner == name:
                self._again(entry)

    def _again(self, entry: DispatchEntry) -> None:
        self.admit(entry.job.partition("/")[2], entry.manifest_seq, entry.attempt + 1)

    def owner(self, entry: DispatchEntry) -> str:
        """Return who has said first that it has the attempt."""
        for told in self.log.get(entry.job, ()):
            if told.seq <= entry.since:
                continue
            if isinstance(told.data, JobPodsReady) and told.data.attempt == entry.attempt:
                return told.data.executor
        return ""

    # steps

    def answer(self, process: Process, ask: act.Ask, *, lost: bool = False, done: bool = True) -> None:
        """Answer a question; *lost*: the answer does not arrive, *done*: but what was asked is done."""
        process.asked.remove(ask)
        answer = self._answered(process, ask.request) if done else act.Unanswered("lost")
        if lost:
            answer = act.Unanswered("lost")
        self.do(process, process.machine.answer(ask.number, answer, self.now))

    def _answered(self, process: Process, request: act.Request) -> act.Answer:
        name = process.machine.book.who.name
        match request:
            case act.GetEntry(job):
                if job in self.dispatch:
                    return act.HasEntry(self.dispatch[job])
                return act.Absent() if self.dispatch_whole else act.Unanswered("being written anew")
            case act.GetClaim(key):
                kept = self.claims.get(key)
                return act.Absent() if kept is None else act.HasClaim(kept.value, kept.revision)
            case act.PutClaim(key, claim, expected, ttl_s):
                expires = None if ttl_s is None else self.micros(ttl_s)
                revision = self.claims.put(key, claim, expected=expected, expires=expires)
            case act.ListClaims():
                found = [(key, self.claims.get(key)) for key in sorted(self.claims.values)]
                return act.HasClaims(tuple((k, c.value, c.revision) for k, c in found if c is not None))
            case act.GetHeartbeat():
                beat = self.beats.get(name)
                return act.Absent() if beat is None else act.HasHeartbeat(beat.value)
            case act.PutHeartbeat(heartbeat, expected, lasts_s):
                revision = self.beats.put(name, heartbeat, expected=expected, expires=self.micros(lasts_s))
            case act.ListHeartbeats():
                return act.Present(frozenset(k for k in sorted(self.beats.values) if self.beats.get(k)))
            case act.RemoveHeartbeat():
                self.beats.values.pop(name, None)
                return act.Stored()
            case act.ReadJob(job, since):
                told = self.log.get(job, [])
                last = told[-1].seq if told else 0
                return act.JobRead(tuple(one for one in told if one.seq >= since), last)
            case act.Publish(job, data, message_id, after):
                before = message_id in self.ids
                seq = self.say(job, data, message_id, after)
                return act.Stored(seq, before) if seq else act.Refused()
            case act.Judge(entry):
                return act.Judged(fit=entry.job not in self.images)
            case act.Recover(held):
                self.recovered.append(held)
                return act.Recovered(None)
        return act.Refused() if revision is None else act.Stored(revision)

    def step(self) -> None:
        """Do one thing, drawn from what there is to do."""
        choices: list[tuple[Process, act.Ask | int]] = []
        for process in self.processes.values():
            choices += [(process, ask) for ask in process.asked]
            choices += [(process, n) for n, work in process.works.items() if work.cancelled]
        if not choices:
            self.wait()
            return
        process, chosen = self.random.choice(choices)
        if isinstance(chosen, int):
            self.end_work(process, chosen, None)
            return
        lost = self.random.random() < self.unanswered
        self.answer(process, chosen, lost=lost, done=not lost or self.random.random() < 0.5)
        self.decide()

    def end_work(self, process: Process, number: int, outcome: Outcome | None) -> None:
        del process.works[number]
        self.do(process, process.machine.work_ended(number, outcome, self.now))

    def wait(self) -> None:
        """Let time pass until the next alarm of any machine."""
        due = [p.machine.deadline for p in self.processes.values() if p.machine.deadline is not None]
        self.now = max(self.now, min(due)) if due else self.now + 1.0
        for process in list(self.processes.values()):
            self.do(process, process.machine.tick(self.now))

    def settle(self, seconds: float = 60.0) -> None:
        """Answer everything, in order, for so long."""
        end, steps = self.now + seconds, 0
        while self.now < end:
            steps += 1
            assert steps < 200_000, "time does not pass"
            busy = False
            for process in list(self.processes.values()):
                for number in [n for n, work in process.works.items() if work.cancelled]:
                    self.end_work(process, number, None)
                for ask in list(process.asked):
                    busy = True
                    self.answer(process, ask)
            self.decide()
            if not busy:
                self.wait()

    def running(self, name: str) -> list[str]:
        """Return the executors that run a job now."""
        return [
            work.executor
            for process in self.processes.values()
            for work in process.works.values()
            if work.entry.job == f"default/{name}" and not work.cancelled
        ]

    def finish(self, name: str) -> None:
        """The work of a job ends well, wherever it runs."""
        for process in self.processes.values():
            for number, work in list(process.works.items()):
                if work.entry.job == f"default/{name}":
                    self.end_work(process, number, Outcome())
