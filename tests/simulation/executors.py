"""Executors: production's own machine (`sluice.sdk.execution`), whose questions are answered step by step.

They are asked late, not, or with the answer lost. An executor crashes (its pods end within the grace of the
agent's guardian), is cut off and comes back, or shuts down in order. What runs on it is in `pods`.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sluice.events.base import JobKey, Micros
from sluice.events.job import JobEvent
from sluice.protocol.dispatch import Claim, DispatchEntry, dispatch_key, job_of_key
from sluice.sdk.execution import actions as act
from sluice.sdk.execution._book import ExecutorSettings, Identity
from sluice.sdk.execution._machine import Machine
from sluice.sdk.execution._outcome import Outcome
from sluice.services.agent.pods import Pod

from .buckets import Watcher
from .choices import Choices
from .log import SECOND
from .pods import BEGINNING, ENDING, Work, manifest_at
from .truth import Proc

if TYPE_CHECKING:
    from .cell import Cell

TTL: Micros = 5 * SECOND
GUARDIAN: Micros = 3 * SECOND
"""Within this after a crash the agent's guardian has ended its pods."""


@dataclass(eq=False)
class Life:
    """One process of an executor, from its start to its end."""

    executor: "Executor"
    number: int
    machine: Machine = field(init=False)
    watcher: Watcher[DispatchEntry] | None = None
    asked: list[act.Ask] = field(default_factory=list)
    works: dict[int, Work] = field(default_factory=dict)
    reports: dict[int, Work] = field(default_factory=dict)
    ended: bool = False

    def __post_init__(self) -> None:
        who = Identity(name=self.executor.name, instance=self.instance)
        self.machine = Machine(who, ExecutorSettings(flavors=self.executor.flavors, heartbeat_s=3.0))

    @property
    def instance(self) -> str:
        return f"{self.executor.name}-{self.number}"

    @property
    def now(self) -> float:
        return self.executor.cell.log.now / SECOND

    def begin(self) -> None:
        self.do(self.machine.begin(self.now))

    def do(self, actions: list[act.Action]) -> None:
        """Do what the machine says."""
        cell = self.executor.cell
        for action in actions:
            match action:
                case act.Ask():
                    self.asked.append(action)
                case act.StartWork(number, entry):
                    manifest = manifest_at(cell.log.entries[entry.manifest_seq - 1].payload)
                    work = self.works[number] = Work(self.executor, self, number, entry, manifest)
                    work.begin()
                case act.ResizeWork(number, entry, resized):
                    if number in self.works:
                        self.works[number].resize(entry, resized=resized)
                case act.CancelWork(number):
                    if number in self.works:
                        self.works[number].cancel()
                case act.Reported(number):
                    found = self.reports.pop(number, None)
                    if found is not None:
                        found.reported()
                case act.Follow():
                    self.watcher = Watcher(cell.dispatch)
                case act.Ended():
                    self.ended = True

    def work_ended(self, work: Work, outcome: Outcome | None) -> None:
        self.works.pop(work.number, None)
        if outcome is not None:
            entry = work.entry
            self.executor.results[entry.job, entry.uid, entry.attempt] = outcome
        self.do(self.machine.work_ended(work.number, outcome, self.now))

    def report(self, work: Work, data: JobEvent, message_id: str) -> int:
        number, actions = self.machine.report(work.entry.job, data, message_id, self.now)
        self.reports[number] = work
        self.do(actions)
        return number

    # steps

    def follow(self, most: int) -> bool:
        """Hear of what is wanted."""
        watcher = self.watcher
        if watcher is None or not watcher.behind:
            return False
        changes = watcher.begin_anew() if watcher.lost or self.executor.cell.gap() else watcher.take(most)
        told = [(job_of_key(key) if entry is None else entry.job, entry) for key, entry in changes]
        self.do(self.machine.dispatched(told, self.now))
        return True

    def answer(self, ask: act.Ask) -> None:
        """Answer one question; when the server is away, or the answer gets lost, with silence."""
        self.asked.remove(ask)
        executor = self.executor
        request = ask.request
        answer: act.Answer
        if isinstance(request, act.Recover):
            held = request.held
            executor.end_orphans()
            answer = act.Recovered(executor.results.get((held.job, held.uid, held.attempt)))
        elif not executor.connected:
            answer = act.Unanswered("no server")
        else:
            lost = executor.cell.unanswered()
            answer = act.Unanswered("lost")
            if lost != "lost":
                found = executor.serve(request)
                answer = found if not lost else answer
        self.do(self.machine.answer(ask.number, answer, self.now))

    def tick(self) -> bool:
        due = self.machine.deadline
        if due is None or due > self.now:
            return False
        self.do(self.machine.tick(self.now))
        return True

    def pods_move(self, choices: Choices) -> bool:
        """Let pods that are beginning begin, and those that were told to end: whatever they exit with."""
        works = [work for work in self.works.values() if not work.over]
        if not works:
            return False
        work = choices.pick(works)
        if work.tick():
            return True
        slow = self.executor.cell.on.late_stops and choices.chance(0.5)
        beginning = work.pods(BEGINNING)
        for pod in beginning[:1] if slow else beginning:
            if choices.chance(0.02):
                work.exits(pod, 127)
            else:
                work.starts(pod)
        if beginning or work.over:
            return True
        ending = work.pods(ENDING)
        for pod in ending[:1] if slow else ending:
            work.exits(pod, choices.pick((-15, 0, 143)) if work.machine.state(pod) is Pod.ENDING else -9)
        return bool(ending)


@dataclass(eq=False)
class Executor:
    cell: "Cell"
    name: str
    flavors: tuple[str, ...] = ()
    lives: int = 0
    life: Life | None = None
    silent: bool = False
    """It takes jobs, and its heartbeats never arrive."""
    connected: bool = True
    since: Micros = 0
    """Of its crash, or when it was cut off."""
    orphans: list[Proc] = field(default_factory=list)
    results: dict[tuple[JobKey, str, int], Outcome] = field(default_factory=dict)
    """How attempts ended: the agent's RESULT files."""

    @property
    def alive(self) -> bool:
        return self.life is not None and not self.life.ended

    @property
    def able(self) -> bool:
        return self.alive and self.connected

    @property
    def beating(self) -> bool:
        """Is its heartbeat there? It lasts for a while after the last beat."""
        return not self.silent and (self.able or (self.lives > 0 and self.cell.now - self.since < TTL))

    def begin(self) -> None:
        """A new process: first of all it ends what an earlier one has left."""
        self.end_orphans()
        self.lives += 1
        self.connected = True
        self.life = Life(self, self.lives)
        self.life.begin()

    def crash(self) -> None:
        """The process dies; what it had begun is left to the guardian."""
        if self.life is not None:
            self.orphans += [work.proc for work in self.life.works.values() if not work.over]
        self.life = None
        self.since = self.cell.now

    def end_orphans(self) -> None:
        for proc in self.orphans:
            self.cell.truth.end(proc)
        self.orphans.clear()

    def cut(self) -> None:
        self.connected = False
        self.since = self.cell.now

    def reconnect(self) -> None:
        self.connected = True

    # the server

    def serve(self, request: act.Request) -> act.Answer:
        """Answer a question as the server does."""
        cell = self.cell
        match request:
            case act.GetEntry(job):
                entry = cell.dispatch.get(dispatch_key(job))
                if entry is not None:
                    return act.HasEntry(entry.value)
                return act.Absent() if cell.dispatch.whole else act.Unanswered("being written anew")
            case act.GetClaim(key):
                kept = cell.claims.get(key)
                return act.Absent() if kept is None else act.HasClaim(kept.value, kept.revision)
            case act.PutClaim(key, claim, revision, ttl_s):
                return self._claim(key, claim, revision, ttl_s)
            case act.ListClaims():
                found = [(key, cell.claims.get(key)) for key in sorted(cell.claims.values)]
                return act.HasClaims(tuple((k, c.value, c.revision) for k, c in found if c is not None))
            case act.GetHeartbeat():
                return act.Absent()
            case act.ListHeartbeats():
                return act.Present(frozenset(each.name for each in cell.executors if each.beating))
            case act.PutHeartbeat() | act.RemoveHeartbeat():
                return act.Stored()
            case act.ReadJob(job, since):
                told = cell.told.get(job, [])
                last = told[-1].seq if told else 0
                return act.JobRead(tuple(each for each in told if each.seq >= since), last)
            case act.Publish(job, data, message_id, after):
                return cell.say(job, data, message_id, after)
        raise TypeError(f"{type(request).__name__} is no question to the server")

    def _claim(self, key: str, claim: Claim, revision: int, ttl_s: int | None) -> act.Answer:
        expires = None if ttl_s is None else self.cell.now + ttl_s * SECOND
        if ttl_s is None:
            self.cell.gone(key, self.name)
        stored = self.cell.claims.put(key, claim, expected=revision, expires=expires)
        return act.Refused() if stored is None else act.Stored(stored)


__all__ = ["GUARDIAN", "Executor", "Life"]
