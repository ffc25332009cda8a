"""The cell: log, services, buckets, executors, controllers and people, in one process and virtual time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sluice.core.config.objects import NAMESPACED, Clock, Draft, Objects, plan_finalize
from sluice.core.config.plan import plan_apply, plan_delete
from sluice.core.deciders import DECIDERS
from sluice.events.base import Event, JobKey, Micros
from sluice.events.codec import encode_message
from sluice.events.commit import Step
from sluice.events.job import JobEvent
from sluice.log.contract import Entry
from sluice.protocol.checks import CheckRequest
from sluice.protocol.dispatch import Claim, DispatchEntry, job_of_key
from sluice.protocol.query import Reference
from sluice.protocol.subjects import job_suffix
from sluice.replay.source.source import Matcher
from sluice.sdk.execution.actions import Refused, Stored, Told
from sluice.services.admission_check.requests import Entries as CheckEntries
from sluice.services.slice_aggregator.dispatch import Entries as DispatchEntries

from .buckets import Bucket
from .choices import Choices
from .controllers import WHOLE, Controller
from .executors import GUARDIAN, Executor
from .grammar import Manifest
from .log import SECOND, SimLog
from .projecting import Publisher, Recorded, Shown
from .replica import Replica, Service
from .swarm import Features
from .truth import Truth
from .watchman import Watchman

STEP_TIME: Micros = 5_000


def _plain[V](value: V) -> V:
    """Buckets hold structs here, not their bytes."""
    return value


@dataclass
class Stats:
    """What a run came to."""

    steps: int = 0
    jobs: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    actions: dict[str, int] = field(default_factory=dict)

    fault_at: list[tuple[int, str]] = field(default_factory=list)
    """(end of the log then, fault), in order."""
    end: Callable[[], int] = int

    def fault(self, name: str) -> None:
        self.faults[name] = self.faults.get(name, 0) + 1
        self.fault_at.append((self.end(), name))


@dataclass
class Cell:
    choices: Choices
    on: Features
    encoded: bool = False
    log: SimLog = field(init=False)
    services: dict[str, Service] = field(default_factory=dict)
    replicas: list[Replica] = field(default_factory=list)
    publishers: list[Publisher] = field(default_factory=list)
    truth: Truth = field(default_factory=Truth)
    executors: list[Executor] = field(default_factory=list)
    controllers: list[Controller] = field(default_factory=list)
    objects: Objects = field(default_factory=Objects)
    manifests: dict[str, Manifest] = field(default_factory=dict)
    """Jobs' names -> what was submitted last."""
    transit: list[tuple[str, bytes, str]] = field(default_factory=list)
    """Copies of messages that are still on their way."""
    delayed: list[Callable[[], None]] = field(default_factory=list)
    """What leaders have sent and nobody has answered: it may still arrive."""
    told: dict[JobKey, list[Told]] = field(default_factory=dict)
    """All messages about each job, as executors read them in the log."""
    stats: Stats = field(default_factory=Stats)
    calm: bool = False
    """Faults have ended."""
    ids: int = 0
    watchman: Watchman = field(init=False)
    _said: JobEvent | None = None
    """What the executor's report says that is just being published."""

    def __post_init__(self) -> None:
        self.log = SimLog(self.encoded)
        self.stats.end = lambda: self.log.end
        self.dispatch: Bucket[DispatchEntry] = Bucket(lambda: self.log.now)
        self.requests: Bucket[CheckRequest] = Bucket(lambda: self.log.now)
        self.claims: Bucket[Claim] = Bucket(lambda: self.log.now)
        self.shown = {
            "slices": Shown(self.dispatch, Recorded(DispatchEntries(_plain))),
            "checks": Shown(self.requests, Recorded(CheckEntries(_plain))),
        }
        self._readers: dict[str, list[Service]] = {}
        self._matchers: list[tuple[Service, Matcher]] = []
        for decider in DECIDERS:
            service = Service(decider, self.log, decider.writer)
            self.services[decider.writer] = service
            self._matchers.append((service, Matcher((*decider.reads, decider.writer))))
        self.watchman = Watchman(self)
        self.log.listeners.append(self._appended)
        for service in self.services.values():
            for number in range(2 if self.on.standby else 1):
                self._replica(service, number)
            service.replicas[0].take_over()

    def _replica(self, service: Service, number: int) -> None:
        shown = self.shown.get(service.writer)
        publisher = None if shown is None else Publisher(self, shown)
        replica = Replica(service, number, publisher)
        if publisher is not None:
            publisher.replica = replica
            self.publishers.append(publisher)
        service.replicas.append(replica)
        self.replicas.append(replica)

    @property
    def now(self) -> Micros:
        return self.log.now

    # the log

    def _appended(self, entry: Entry) -> None:
        suffix = entry.suffix
        first, dot, rest = suffix.partition(".")
        root = f"{first}.{rest.partition('.')[0]}" if first == "presence" else first + dot
        readers = self._readers.get(root)
        if readers is None:
            readers = [service for service, matches in self._matchers if matches(suffix)]
            self._readers[root] = readers
        for service in readers:
            service.entries.append(entry)
        if first == "job":
            namespace, _, name = rest.partition(".")
            told = Told(entry.seq, entry.header.decode(), self._said)
            self.told.setdefault(JobKey(f"{namespace}/{name}"), []).append(told)
        self.watchman.appended(entry, readers)

    def message(
        self, suffix: str, event_type: str, data: Any, message_id: str = "", source: str = "sim"
    ) -> bool:
        """Publish a message; a copy of it may follow later. False if it was there already."""
        if not message_id:
            self.ids += 1
            message_id = f"m{self.ids}"
        payload = encode_message(
            message_id=message_id,
            source=source,
            event_type=event_type,
            subject=suffix,
            at=self.now,
            data=data,
        )
        return self.publish(suffix, payload, message_id)

    def publish(self, suffix: str, payload: bytes, message_id: str) -> bool:
        if self.on.late_copies and not self.calm and self.choices.chance(0.02):
            self.transit.append((suffix, payload, message_id))
            self.stats.fault("late-copy")
        return self.log.message(suffix, payload, message_id) is not None

    def unanswered(self) -> str:
        """Tell whether a request stays unanswered: '' mostly, `lost` before or `stored` after it was done."""
        if not self.on.lost_answers or self.calm or not self.choices.chance(0.05):
            return ""
        self.stats.fault("unanswered")
        return self.choices.pick(("stored", "lost"))

    def delay(self, arrives: Callable[[], None]) -> None:
        """What was sent arrives at some time, or never."""
        if self.on.late_copies and not self.calm and self.choices.chance(0.5):
            self.delayed.append(arrives)
            self.stats.fault("late-write")

    def interrupts(self) -> bool:
        """Does something come between the parts of what a leader writes?"""
        return self.on.slow_services and not self.calm and self.choices.chance(0.1)

    def gap(self) -> bool:
        """Does a watcher lose its place now?"""
        if not self.on.gaps or self.calm or not self.choices.chance(0.02):
            return False
        self.stats.fault("gap")
        return True

    # configuration

    def change(self, draft: Draft) -> bool:
        """Commit a planned change."""
        if not draft.events:
            return False
        self.commit_config(draft.events)
        return True

    def commit_config(self, events: list[Event]) -> None:
        log = self.log
        step = Step(upto=log.end, at=log.now, events=tuple(events))
        head = log.heads.get("config", 0)
        seq = log.commit("config", [step], head, f"config-{head}-api").seq
        for event in events:
            self.objects.apply(event, seq)

    def apply(self, *manifests: Manifest) -> list[str]:
        """Apply manifests as the api does; return what was refused."""
        draft = Draft(self.objects, Clock(self.now, self.log.end))
        refused = []
        for each in manifests:
            result = plan_apply(draft, each, "default")
            if result.status is not None:
                refused.append(result.status.message)
        self.change(draft)
        return refused

    def delete(self, kind: str, name: str) -> bool:
        draft = Draft(self.objects, Clock(self.now, self.log.end))
        reference = Reference(kind=kind, name=name, namespace="default" if kind in NAMESPACED else "")
        plan_delete(draft, self.watchman, reference, "default")
        return self.change(draft)

    def finalize(self) -> bool:
        events = plan_finalize(self.objects, self.watchman, Clock(self.now, self.log.end))
        if events:
            self.commit_config(list(events))
        return bool(events)

    # jobs

    def say(self, job: JobKey, data: JobEvent, message_id: str, after: int | None) -> Stored | Refused:
        """Publish what an executor says of a job, behind the message *after* if that is given."""
        known = self.log.known(message_id)
        if known:
            return Stored(known, before=True)
        told = self.told.get(job, [])
        if after is not None and after != (told[-1].seq if told else 0):
            return Refused()
        namespace, _, name = job.partition("/")
        self._said = data
        self.message(job_suffix(namespace, name), type(data).__name__, data, message_id, source="executor")
        self._said = None
        return Stored(self.log.end)

    def submit(self, found: Manifest) -> None:
        name = found["metadata"]["name"]
        self.manifests[name] = found
        self.message(f"job.default.{name}", "JobSubmitted", found)
        self.stats.jobs += 1
        self.watchman.touched_by_people()

    # presence

    def beats(self, executor: str) -> bool:
        return any(each.beating for each in self.executors if each.name == executor)

    def gone(self, key: str, taker: str) -> None:
        """An executor claims an attempt; whoever else had it and is away has lost it."""
        kept = self.claims.get(key)
        owner = kept.value.executor if kept is not None else ""
        if owner in ("", taker) or self.beats(owner):
            return
        job = job_of_key(key.rpartition(".")[0].rpartition(".")[0])
        for proc in self.truth.of(job):
            if proc.executor == owner:
                proc.lost = True

    # time

    def wait(self, micros: Micros) -> None:
        """Let time pass; guardians do their work on the way."""
        self.log.now += micros
        for executor in self.executors:
            if executor.orphans and self.now - executor.since >= GUARDIAN:
                executor.end_orphans()

    def deadlines(self) -> Iterator[Micros]:
        """Yield the times at which somebody will act because of the time."""
        for replica in self.replicas:
            if replica.able and replica.leading and replica.machine.due is not None:
                yield replica.machine.due - replica.skew
        for publisher in self.publishers:
            # Who is idle looks at the bucket now and then, for ever.
            if publisher.machine.deadline is not None and not publisher.machine.idle:
                yield int(publisher.machine.deadline * SECOND) + 1
        for controller in self.controllers:
            term = controller.term
            if self.now < term.begins:
                yield term.begins
            elif term.unwhole:
                yield term.unwhole + WHOLE
            if term.machine.deadline is not None:
                yield int(term.machine.deadline * SECOND) + 1
        for executor in self.executors:
            if not executor.able:
                yield executor.since + 9 * SECOND
            elif executor.life is not None:
                for work in executor.life.works.values():
                    due = work.machine.deadline()
                    if due is not None:
                        yield due

    def leader(self, writer: str) -> Replica | None:
        """Return who leads a service and is at work."""
        holder = self.services[writer].holder
        return holder if holder is not None and holder.able and holder.leading else None


__all__ = ["DECIDERS", "STEP_TIME", "Cell", "Stats"]
