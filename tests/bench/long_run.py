"""A cell that works for months: its four deciders and what the api service knows, in virtual time.

Each message is folded by everybody who reads it and then forgotten: what is left is what the services
remember. Jobs come evenly, a million of them a day; most run and end, and some of each twenty do all else
that jobs do: they preempt, race in variants, wait for a check, grow, fail, are deleted, or are refused.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import Any

import msgspec

from sluice.core.budgets.consumption import Consumption
from sluice.core.deciders import DECIDERS
from sluice.events.base import Event, JobKey, Micros
from sluice.events.checks import ChecksRequested
from sluice.events.codec import decode_commit, encode_commit, encode_message
from sluice.events.commit import Step
from sluice.events.slices import JobResumed, JobSuspended
from sluice.log.contract import Entry
from sluice.log.fold import Fold
from sluice.protocol.subjects import COMMITS, matches_any, presence_suffix, verdict_suffix
from sluice.readmodel.world import World
from tests.support.objects import (
    OWN,
    applied,
    configuration,
    defaulted,
    kueue_object,
    local_queue,
    priority_class,
    resource_group,
)

JOBS_PER_DAY = 1_000_000
PER_TICK = 100
TICK_US: Micros = 86_400_000_000 * PER_TICK // JOBS_PER_DAY
"""Time between two batches of jobs."""
RUNS = 2
"""Ticks that a job runs."""
BEGIN: Micros = 1_767_225_600_000_000
TEAMS = 8
CONTROLLER = "gatekeeper"
ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}


class Kind(IntEnum):
    """What the last of each twenty jobs do; those before run and end."""

    URGENT = 12
    RACING = 13
    CHECKED = 14
    GROWING = 15
    FAILING = 16
    DELETED = 17
    FORGOTTEN = 18
    REFUSED = 19


class LongRun:
    """Plays jobs; *retained* finished ones are kept (`retainFinishedJobsCount`).

    *sink* gets what is in the log, in the pieces in which the api service reads it.
    """

    def __init__(self, retained: int, sink: Callable[[list[Entry]], object] = lambda _: None) -> None:
        self.sink = sink
        self.now = BEGIN
        self.seq = self.jobs = self.log_bytes = self.messages = 0
        self.sides: dict[str, Fold[Any]] = {kind.writer: Fold(kind()) for kind in DECIDERS}
        self.world = World()
        self.consumption = Consumption()
        self._inputs: dict[str, list[Fold[Any]]] = {}
        self._unseen: list[Entry] = []
        self._due: dict[int, list[tuple[str, JobKey, dict[str, Any]]]] = {}
        self._tick = 0
        self._verdicts: deque[dict[str, Any]] = deque()
        self._configure(retained)

    # The log

    def _append(self, suffix: str, payload: bytes) -> None:
        self.seq += 1
        self.messages += 1
        self.log_bytes += len(suffix) + len(payload)
        entry = Entry(self.seq, suffix, self.now, payload)
        readers = self._inputs.get(suffix.partition(".")[0])
        if readers is None:
            readers = self._inputs[suffix.partition(".")[0]] = [
                side
                for writer, side in self.sides.items()
                if writer != suffix and matches_any(side.decider.reads, suffix)
            ]
        for side in readers:
            side.fold(entry)
        self._unseen.append(entry)

    def _commit(self, writer: str, steps: list[Step]) -> None:
        self._append(writer, encode_commit("main", writer, f"{writer}-{self.seq}", steps))

    def _message(self, suffix: str, kind: str, data: Any) -> None:
        payload = encode_message(
            message_id=f"m{self.seq}", source="bench", event_type=kind, subject=suffix, at=self.now, data=data
        )
        self._append(suffix, payload)

    def _tell(self, kind: str, job: JobKey, **data: Any) -> None:
        self._message("job." + job.replace("/", "."), kind, data)

    # Configuration

    def _configure(self, retained: int) -> None:
        for manifest in _objects(retained):
            event = applied(defaulted(manifest))
            self._commit("config", [Step(upto=self.seq, at=self.now, events=(event,))])
        self._message(presence_suffix("controller", CONTROLLER), "Seen", {})
        self._exchange()

    # Playing

    def play(self, jobs: int) -> None:
        """Go on until so many jobs have been submitted."""
        while self.jobs < jobs:
            self.tick(range(self.jobs, self.jobs + PER_TICK))

    def play_out(self) -> None:
        """Let everything end that still runs or waits."""
        for _ in range(1000):
            if not self.sides["slices"].state.jobs:
                return
            self.tick()
        raise AssertionError(f"{len(self.sides['slices'].state.jobs)} jobs do not end")

    def tick(self, numbers: Sequence[int] = ()) -> None:
        """Let time pass, what is due happen, and jobs of these numbers be submitted."""
        self.now += TICK_US
        self._tick += 1
        for kind, job, data in self._due.pop(self._tick, ()):
            self._tell(kind, job, **data)
        for number in numbers:
            self._submit(number)
        self.jobs += len(numbers)
        self._exchange()

    def _submit(self, number: int) -> None:
        job = key_of(number)
        self._message("job." + job.replace("/", "."), "JobSubmitted", _manifest(number))
        match number % 20:
            case Kind.DELETED:
                self._later(1, "JobDeleted", job)
            case Kind.FORGOTTEN:
                self._later(RUNS + 3, "JobDeleted", job)
            case Kind.GROWING:
                self._later(1, "JobScaled", job, podSets={"main": 2})

    def _later(self, ticks: int, kind: str, job: JobKey, **data: Any) -> None:
        self._due.setdefault(self._tick + ticks, []).append((kind, job, data))

    def _exchange(self) -> None:
        """Let everybody decide and answer until nobody has anything to say; then the api reads it all."""
        said = True
        while said:
            said = False
            for writer, side in self.sides.items():
                steps = list(iter(lambda side=side: side.decide(self.now), None))
                if steps:
                    said = True
                    self._commit(writer, steps)
                    side.own = self.seq
                    self._obey(event for step in steps for event in step.events)
            while self._verdicts:
                said = True
                self._message(verdict_suffix(CONTROLLER), "CheckVerdict", self._verdicts.popleft())
        self._read()

    def _read(self) -> None:
        """Let those read who decide nothing."""
        entries, self._unseen = self._unseen, []
        self.world.fold(entries)
        for entry in entries:
            if entry.suffix in COMMITS:
                for step in decode_commit(entry.payload).steps:
                    for event in step.events:
                        self.consumption.apply(event, step.at)
        self.sink(entries)

    def _obey(self, events: Iterator[Event]) -> None:
        """Do what executors and controllers of checks would."""
        for event in events:
            match event:
                case JobResumed():
                    self._later(1, "JobPodsReady", event.job, attempt=event.attempt, executor="agent")
                    ending: dict[str, Any] = {"attempt": event.attempt, "executor": "agent"}
                    if int(event.job.rpartition("-")[2]) % 20 == Kind.FAILING:
                        ending |= {"success": False, "message": "exit code 3", "exitCodes": {"main-0": 3}}
                    self._later(RUNS, "JobFinished", event.job, **ending)
                case JobSuspended():
                    self._later(1, "JobStopped", event.job, attempt=event.attempt, executor="agent")
                case ChecksRequested():
                    for check in event.checks:
                        verdict = {"workload": event.workload, "check": check, "attempt": event.attempt}
                        self._verdicts.append({**verdict, "state": "Ready", "message": "room 7"})


def key_of(number: int) -> JobKey:
    return JobKey(f"team-{number % TEAMS}/train-{number}")


def _objects(retained: int) -> Iterator[Any]:
    yield configuration(retainFinishedJobsCount=retained)
    yield kueue_object("ResourceFlavor", "default")
    yield kueue_object("ResourceFlavor", "spot")
    yield kueue_object("AdmissionCheck", "budget", {"controllerName": CONTROLLER})
    yield priority_class("urgent", 100)
    for team in range(TEAMS):
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"team-{team}"}}
    queues: dict[str, dict[str, Any]] = {
        "plain": {"preemption": {"withinClusterQueue": "LowerPriority"}},
        "racing": {"concurrentAdmissionPolicy": {"migration": {"mode": "TryPreferredFlavors"}}},
        "checked": {"admissionChecksStrategy": {"admissionChecks": [{"name": "budget"}]}},
    }
    for name, more in queues.items():
        flavors = {"default": 200, "spot": 200} if name == "racing" else {"default": 195}
        groups = {"namespaceSelector": {}, "resourceGroups": [resource_group(flavors)]}
        yield kueue_object("ClusterQueue", name, {**groups, **more})
        for team in range(TEAMS):
            yield local_queue(name, name, f"team-{team}")


def _manifest(number: int) -> Any:
    """Return a job as teams submit it, with the labels and the command that such a job has."""
    kind = number % 20
    namespace, _, name = key_of(number).partition("/")
    queue = "racing" if kind == Kind.RACING else "checked" if kind == Kind.CHECKED else "plain"
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    metadata["labels"] = {"app": "trainer", "run": f"r{number // 50}"}
    if kind == Kind.GROWING:
        metadata["annotations"] = ELASTIC
    spec: dict[str, Any] = {
        "queueName": queue,
        "replicas": -1 if kind == Kind.REFUSED else 1,
        "resources": {"cpu": 1},
        "command": ["python", "-m", "trainer", "--config", f"experiments/{number % 100}.yaml", "--seed", "7"],
    }
    if kind == Kind.URGENT:
        spec["priorityClassName"] = "urgent"
    return msgspec.Raw(
        msgspec.json.encode({"apiVersion": OWN, "kind": "Job", "metadata": metadata, "spec": spec})
    )
