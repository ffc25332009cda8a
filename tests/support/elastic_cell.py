"""A cell of two deciders and an executor that read each other's commits late, for storms of resizes.

Scheduler and slice-aggregator each have a cursor into one log; what one has decided the other sees when it
gets that far. After every event, what must hold of elastic jobs is checked across both (DB6).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sluice.core.decision_loop import step
from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.invariants import reservation_violations, violations
from sluice.core.slices.decider import SliceAggregator
from sluice.core.slices.dispatch import dispatch_entry
from sluice.core.views import View
from sluice.events.base import Event, JobKey, Micros
from sluice.events.checks import ChecksReady, ChecksRejected, ChecksRetry
from sluice.events.codec import encode_commit, encode_message
from sluice.events.commit import Step
from sluice.events.config import ObjectApplied
from sluice.events.envelope import Message
from sluice.log.contract import Entry as LogEntry
from tests.support.log_check import wrong_with
from tests.support.shown_usage import wrong_usage

ELASTIC = "kueue.x-k8s.io/elastic-job"
MAX_DECISIONS = 300
KUEUE = "kueue.x-k8s.io/v1beta2"


@dataclass(frozen=True)
class Entry:
    """A message, or one step of a writer, decided when it had read `upto` entries of the others."""

    writer: str
    events: Sequence[Event]
    at: Micros
    upto: int = 0


@dataclass
class Reader:
    decider: Any
    state: Any
    read: int = 0

    def fold(self, entry: Entry, seq: int) -> None:
        if entry.writer != self.decider.writer and self._concerns(entry):
            for event in entry.events:
                self.decider.apply(self.state, event, seq, entry.at)

    def _concerns(self, entry: Entry) -> bool:
        return entry.writer != "messages" or self.decider.writer == "slices"


@dataclass
class Cell:
    log: list[Entry] = field(default_factory=list)
    now: Micros = 1_000_000
    scheduler: Reader = field(default_factory=lambda: _reader(Scheduler()))
    slices: Reader = field(default_factory=lambda: _reader(SliceAggregator()))
    ids: int = 0
    ready: dict[JobKey, tuple[str, int, str, int]] = field(default_factory=dict)
    """Job -> its incarnation, attempt, workload and pods when the executor last said that they run."""
    left: dict[tuple[str, int], int] = field(default_factory=dict)
    """Incarnation and attempt of a job with completions -> how many are left to do, if some are done."""
    view: View = field(default_factory=View)
    shown: int = 0
    """What people see, and how many entries of the log are in it."""

    # Inputs

    def apply(self, kind: str, name: str, namespace: str = "", **body: Any) -> None:
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        version = "sluice.dev/v1alpha1" if kind == "Configuration" else KUEUE
        raw = msgspec.json.encode({"apiVersion": version, "kind": kind, "metadata": metadata, **body})
        event = ObjectApplied(cause=0, kind=kind, name=name, namespace=namespace, object=msgspec.Raw(raw))
        self._append(Entry("config", (event,), self._tick()))

    def queue(self, name: str, cpu: int, cohort: str = "", **spec: Any) -> None:
        quota = {"name": "cpu", "nominalQuota": cpu}
        group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}
        spec = {"namespaceSelector": {}, "resourceGroups": [group], **spec}
        if cohort:
            spec["cohortName"] = cohort
        self.apply("ClusterQueue", name, spec=spec)
        self.apply("LocalQueue", name, "default", spec={"clusterQueue": name})

    def submit(self, name: str, queue: str, count: int, *, elastic: bool = True, **spec: Any) -> None:
        notes = {ELASTIC: "true"} if elastic else {}
        manifest = {
            "apiVersion": "sluice.dev/v1alpha1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": "default", "annotations": notes},
            "spec": {
                "queueName": queue,
                "replicas": count,
                "resources": {"cpu": 1},
                "command": ["true"],
                **spec,
            },
        }
        self.message(name, "JobSubmitted", manifest)

    def message(self, job: str, event_type: str, data: Any) -> None:
        self.ids += 1
        subject = f"job.default.{job}"
        payload = encode_message(
            message_id=f"m{self.ids}",
            source="test",
            event_type=event_type,
            subject=subject,
            at=self.now,
            data=data,
        )
        self._append(Entry("messages", (Message(subject=subject, payload=payload),), self._tick()))

    def scale(self, job: str, count: int, **fields: Any) -> None:
        self.message(job, "JobScaled", {"podSets": {"main": count}, **fields})

    def _append(self, entry: Entry) -> None:
        self.log.append(entry)

    def _tick(self) -> Micros:
        self.now += 1000
        return self.now

    # Reading and deciding

    def catch_up(self, reader: Reader, most: int = 1_000_000) -> None:
        """Let one decider read at most so many entries, and decide until it is settled."""
        while reader.read < len(self.log) and most > 0:
            reader.fold(self.log[reader.read], reader.read + 1)
            reader.read += 1
            most -= 1
        for _ in range(MAX_DECISIONS):
            at = self._tick()
            events = step(reader.decider, reader.state, reader.read, at, self._checked(reader))
            if not events:
                assert reader is not self.scheduler or not violations(reader.state)
                return
            self._append(Entry(reader.decider.writer, events, at, reader.read))
            self.check()
        raise AssertionError("does not settle")

    def _checked(self, reader: Reader) -> Callable[[Event], None]:
        def check(event: Event) -> None:
            if reader is self.scheduler:
                assert not reservation_violations(reader.state, event)

        return check

    def settle(self, *, executor: bool = True, ready: bool = False) -> None:
        """Let all read everything until nothing follows. *ready*: executors say that pods run, too."""
        for _ in range(1000):
            before = len(self.log)
            self.catch_up(self.scheduler)
            self.catch_up(self.slices)
            if executor:
                self.answer()
            if ready:
                self.say_ready()
            if len(self.log) == before:
                return
        raise AssertionError("does not settle")

    def answer(self) -> None:
        """Be the executor: say of each job that was told to stop that it has."""
        for key in list(self.slices.state.jobs):
            entry = dispatch_entry(self.slices.state, key)
            if entry is not None and entry.stop:
                self.message(key.partition("/")[2], "JobStopped", {"attempt": entry.attempt})

    def say_ready(self) -> None:
        """Be the executor: say of each job that its pods run, once for each size and slice it is told of."""
        for key in list(self.slices.state.jobs):
            entry = dispatch_entry(self.slices.state, key)
            if entry is None or entry.state != "Running":
                continue
            pods = sum(pods.count for pods in entry.pod_sets)
            now = (entry.uid, entry.attempt, entry.workload, pods)
            if self.ready.get(key) != now:
                self.ready[key] = now
                self.message(key.partition("/")[2], "JobPodsReady", {"attempt": entry.attempt})

    def checks_asked(self) -> list[int]:
        """Return for how many pods there is quota of each workload that waits for its checks."""
        return [
            sum(pods.count for pods in workload.assignment)
            for workload in self.scheduler.state.world.workloads.values()
            if workload.assignment is not None and workload.admitted_at is None
        ]

    def checks_say(self, *, ready: bool) -> bool:
        """Answer for the checks of all workloads that wait for them; return whether there are any."""
        events: list[Event] = []
        for key, workload in self.scheduler.state.world.workloads.items():
            if workload.assignment is not None and workload.admitted_at is None:
                if ready:
                    events.append(ChecksReady(cause=0, workload=key))
                else:
                    events.append(ChecksRetry(cause=0, workload=key, checks=("gpu",), requeue_at=self.now))
        if events:
            self._append(Entry("checks", tuple(events), self._tick()))
        return bool(events)

    def checks_reject(self) -> None:
        """Reject all growth that waits for its checks."""
        events = [
            ChecksRejected(cause=0, workload=key, checks=("gpu",))
            for key, workload in self.scheduler.state.world.workloads.items()
            if workload.assignment is not None and workload.admitted_at is None and workload.record.replaces
        ]
        if events:
            self._append(Entry("checks", tuple(events), self._tick()))

    def do(self, job: str, completions: int, more: int) -> None:
        """Be the executor of a job of one pod set: so many more completions are done, but never all."""
        entry = dispatch_entry(self.slices.state, JobKey(f"default/{job}"))
        if entry is None or entry.state != "Running":
            return
        (pods,) = entry.pod_sets
        own = (entry.uid, entry.attempt)
        left = self.left[own] = max(1, self.left.get(own, completions) - more)
        report = {
            "attempt": entry.attempt,
            "pods": {"main": ended} if (ended := max(0, pods.count - left)) else {},
            "counts": {"main": pods.count},
            "succeeded": {"main": completions - left},
        }
        self.message(job, "JobPodsReclaimable", report)

    # What must hold

    def charged(self, job: JobKey) -> int:
        """Return for how many pods the scheduler charges the job."""
        return sum(
            sum(w.usage.values()) // 1000
            for w in self.scheduler.state.world.workloads.values()
            if w.record.job is not None and w.record.job.key == job
        )

    def running(self, job: JobKey) -> int:
        """Return how many pods executors may have running."""
        entry = dispatch_entry(self.slices.state, job)
        if entry is None or entry.state != "Running":
            return 0
        assert all(pods.ungated == pods.count for pods in entry.pod_sets)
        granted = sum(pods.ungated for pods in entry.pod_sets)
        return min(granted, self.left.get((entry.uid, entry.attempt), granted))

    def check(self) -> None:
        live: dict[JobKey, list[str]] = {}
        for key, workload in self.scheduler.state.world.workloads.items():
            assert workload.record.job is not None
            live.setdefault(workload.record.job.key, []).append(key)
        for key, slices in live.items():
            assert len(slices) <= 2, f"{key} has {slices}"
        for key in self.slices.state.jobs:
            running, charged = self.running(key), self.charged(key)
            assert running <= charged, f"{key} runs {running} pods with quota for {charged}"

    def check_settled(self) -> None:
        """What must hold when all have read everything, and the executor has said all that it has to say."""
        for key, job in self.slices.state.jobs.items():
            if job.pending is not None:
                had = {pods.name: pods.count for pods in job.record.pod_sets}
                more = any(pods.count > had[pods.name] for pods in job.pending.pod_sets)
                assert more or not job.reserved, f"{key} has a slice that asks for no more than it has"
            if key in self.ready and self.running(key):
                workload = self.scheduler.state.world.workloads[job.record.key]
                assert job.pods_ready, f"the pods of {key} run, and are not ready"
                assert workload.pods_ready_at is not None, f"{workload.key} would be evicted for its pods"
        for seq in range(self.shown, len(self.log)):
            for event in self.log[seq].events:
                self.view.apply(event, seq + 1, self.log[seq].at)
        self.shown = len(self.log)
        assert not (wrong := wrong_usage(self.view, self.scheduler.state)), wrong

    def redecide(self) -> None:
        """Decide the whole log again: the same events, step by step, and the same states."""
        for live, decider in ((self.scheduler, Scheduler()), (self.slices, SliceAggregator())):
            again = _reader(decider)
            for entry in self.log:
                if entry.writer != decider.writer:
                    continue
                while again.read < entry.upto:
                    again.fold(self.log[again.read], again.read + 1)
                    again.read += 1
                # As the log has them: a snapshot has lists where what was just made has tuples.
                decided = msgspec.json.encode(decider.decide(again.state, entry.at))
                assert decided == msgspec.json.encode(entry.events)
                for event in entry.events:
                    decider.apply(again.state, event, entry.upto, entry.at)
            while again.read < live.read:
                again.fold(self.log[again.read], again.read + 1)
                again.read += 1
            dumped = decider.dump(live.state)
            assert decider.dump(again.state) == dumped
            loaded: Any = decider.load(dumped)
            assert decider.dump(loaded) == dumped
        assert not (wrong := wrong_with(self.entries(), writers=("scheduler", "slices"))), wrong

    def entries(self) -> list[LogEntry]:
        """Return the log as a cell would have written it."""
        return [self._message(seq, entry) for seq, entry in enumerate(self.log, 1)]

    @staticmethod
    def _message(seq: int, entry: Entry) -> LogEntry:
        if entry.writer == "messages":
            (event,) = entry.events
            assert isinstance(event, Message)
            return LogEntry(seq, event.subject, entry.at, event.payload)
        upto = entry.upto if entry.writer != "config" else seq - 1
        step = Step(upto=upto, at=entry.at, events=tuple(entry.events))
        return LogEntry(seq, entry.writer, entry.at, encode_commit("main", entry.writer, f"c{seq}", [step]))

    def restart(self, reader: Reader) -> None:
        """Kill a decider: its successor begins with the snapshot."""
        reader.state = reader.decider.load(reader.decider.dump(reader.state))


def _reader(decider: Any) -> Reader:
    return Reader(decider, decider.initial())
