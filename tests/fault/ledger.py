"""What the log says became of each job, counted from the events alone."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from sluice.api import kueue
from sluice.api.quantity import resource_value
from sluice.events.base import Event
from sluice.events.codec import CloudEvent, decode_commit, decode_message
from sluice.events.config import ObjectApplied
from sluice.events.scheduler import Evicted, Preempted, QuotaReleased, QuotaReserved, WorkloadSliceReplaced
from sluice.events.slices import (
    ExecutorLost,
    JobResized,
    JobResumed,
    Rejected,
    WorkloadCreated,
    WorkloadDeleted,
    WorkloadFinished,
)
from sluice.log.contract import Entry
from sluice.protocol.subjects import COMMITS

from .configuration import EDIT

MIGRATION = "FlavorMigration"


@dataclass
class Incarnation:
    """One life of a job, from a submission to its end."""

    job: str
    uid: str
    attempts: list[int] = field(default_factory=list)
    finished: dict[int, None] = field(default_factory=dict)
    """By which messages: both slices of a job end by one."""
    deleted: int = 0

    @property
    def over(self) -> bool:
        return bool(self.finished or self.deleted)


@dataclass
class Ledger:
    """Counts of one whole log. `double` says what was decided twice, `rejected` what was refused."""

    lives: dict[str, Incarnation] = field(default_factory=dict)
    """Uid -> incarnation."""
    edits: list[tuple[int, str, int, int]] = field(default_factory=list)
    """(sequence, queue, number of the edit, quota) in the order of the log."""
    counts: dict[str, int] = field(default_factory=dict)
    double: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """No job of a run fails by itself."""
    _workloads: dict[str, Incarnation] = field(default_factory=dict)
    _reserved: set[str] = field(default_factory=set)
    _messages: dict[int, str] = field(default_factory=dict)
    _by_job: dict[str, list[Incarnation]] = field(default_factory=dict)

    def add(self, entries: Iterable[Entry]) -> "Ledger":
        for entry in entries:
            if entry.suffix in COMMITS:
                for step in decode_commit(entry.payload).steps:
                    for event in step.events:
                        self._event(event, entry.seq)
            else:
                self._message(entry)
        return self

    def _message(self, entry: Entry) -> None:
        found = decode_message(entry.payload)
        assert isinstance(found, CloudEvent), f"{entry.suffix} at {entry.seq}: {found}"
        self._messages[entry.seq] = found.type

    def _event(self, event: Event, seq: int) -> None:
        name = type(event).__name__
        self.counts[name] = self.counts.get(name, 0) + 1
        match event:
            case ObjectApplied(kind="ClusterQueue"):
                self._edit(event, seq)
            case WorkloadCreated():
                self._created(event, seq)
            case JobResumed():
                self._resumed(event, seq)
            case QuotaReserved():
                if event.workload in self._reserved:
                    self.double.append(f"{event.workload}: quota reserved twice, at {seq}")
                self._reserved.add(event.workload)
            case Evicted() if event.reason == MIGRATION:
                self.counts[MIGRATION] = self.counts.get(MIGRATION, 0) + 1
            case QuotaReleased():
                self._reserved.discard(event.workload)
            case WorkloadFinished(reason="WorkloadSliceReplaced"):
                # The job goes on in its other slice.
                self._reserved.discard(event.workload)
            case WorkloadFinished():
                self._reserved.discard(event.workload)
                life = self._workloads[event.workload]
                life.finished[event.cause] = None
                if event.reason != "Succeeded":
                    self.failed.append(f"{life.job}: failed at {seq}: {event.message}")
            case WorkloadDeleted():
                self._reserved.discard(event.workload)
                self._workloads[event.workload].deleted += 1
            case Rejected():
                kind = self._messages.get(event.cause, "")
                self.rejected.append(f"{kind} at {event.cause}: {event.errors[0]}")
            case _:
                pass

    def _edit(self, event: ObjectApplied, seq: int) -> None:
        queue = msgspec.json.decode(event.object, type=kueue.ClusterQueue)
        number = int(queue.metadata.annotations.get(EDIT, "0"))
        nominal = queue.spec.resource_groups[0].flavors[-1].resources[0].nominal_quota
        self.edits.append((seq, event.name, number, resource_value("cpu", nominal) // 1000))

    def _created(self, event: WorkloadCreated, seq: int) -> None:
        reference = event.workload.job
        assert reference is not None
        life = self.lives.get(reference.uid)
        if life is None:
            name = reference.key.partition("/")[2]
            lives = self._by_job.setdefault(name, [])
            if lives and not lives[-1].over:
                self.double.append(f"{name}: {reference.uid} at {seq}, while {lives[-1].uid} still lives")
            life = self.lives[reference.uid] = Incarnation(name, reference.uid)
            lives.append(life)
        elif event.workload.key in self._workloads:
            self.double.append(f"{event.workload.key}: created twice, again at {seq}")
        self._workloads[event.workload.key] = life

    def _resumed(self, event: JobResumed, seq: int) -> None:
        life = self._workloads[event.workload]
        if event.attempt != len(life.attempts) + 1:
            self.double.append(f"{life.job}: attempt {event.attempt} after {life.attempts}, at {seq}")
        life.attempts.append(event.attempt)

    def lost(self, submissions: dict[str, int]) -> list[str]:
        """Return the jobs that were submitted so many times, but did not live and end so many times."""
        lost = []
        for job, count in submissions.items():
            lives = self._by_job.get(job, [])
            if len(lives) < count:
                lost.append(f"{job}: submitted {count} times, lived {len(lives)} times")
            elif not all(life.over for life in lives):
                lost.append(f"{job}: has not ended")
        return lost

    def excess(self, submissions: dict[str, int]) -> list[str]:
        """Return the jobs that lived more often than they were submitted, or finished more than once."""
        wrong = list(self.double)
        wrong += [
            f"{x.job}: finished {len(x.finished)} times" for x in self.lives.values() if len(x.finished) > 1
        ]
        wrong += [
            f"{job}: submitted {submissions.get(job, 0)} times, lived {len(lives)} times"
            for job, lives in self._by_job.items()
            if len(lives) > submissions.get(job, 0)
        ]
        return wrong

    def summary(self) -> str:
        shown = {
            "admissions": "Admitted",
            "preemptions": Preempted.__name__,
            "evictions": "Evicted",
            "deletions": WorkloadDeleted.__name__,
            "agents lost": ExecutorLost.__name__,
            "edits": ObjectApplied.__name__,
            "resizes": JobResized.__name__,
            "growths": WorkloadSliceReplaced.__name__,
            "migrations": MIGRATION,
            "checks passed": "ChecksReady",
        }
        return ", ".join(f"{self.counts.get(name, 0)} {text}" for text, name in shown.items())
