"""Everything the api service knows: a fold over the whole log."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
import structlog

from sluice.core.config import Objects, object_key
from sluice.core.status.view import View
from sluice.events import checks, config, job, scheduler, slices, variants
from sluice.events.base import Event, FieldError, JobKey, Micros, WorkloadKey
from sluice.events.codec import CommitDecodeError, decode_commit, decode_message
from sluice.events.ids import uid
from sluice.log.contract import Entry
from sluice.log.subjects import COMMITS, names

from .changes import Changes

log = structlog.get_logger("sluice.api.world")

REFUSED_JOBS = 1_000
"""Jobs without a workload because their manifest was refused: so many are shown, `log rejected` has all."""

_COMMITS = frozenset(COMMITS)


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _Head(msgspec.Struct, frozen=True, rename="camel"):
    """What the world keeps of a submitted manifest; the rest stays in the log."""

    api_version: str = ""
    kind: str = ""
    metadata: _Metadata = _Metadata()


_HEADS = msgspec.json.Decoder(_Head)


@dataclass(slots=True)
class Submitted:
    """A job as it was submitted: where its manifest stands in the log, and what became of the message."""

    key: JobKey
    head: _Head
    first_seq: int
    seq: int
    created_at: Micros
    errors: tuple[FieldError, ...] = ()
    """Why it was rejected; () while it was not."""
    deleted: bool = False
    ended: job.JobFinished | None = None
    ended_at: Micros = 0
    executor: str = ""

    @property
    def uid(self) -> str:
        return self.head.metadata.uid or uid(self.first_seq)


@dataclass(slots=True)
class Presence:
    """An agent or check controller, as its shell recorded it."""

    kind: str
    name: str
    lost: bool
    since: Micros
    message: str = ""
    flavors: tuple[str, ...] = ()
    seq: int = 0


@dataclass(slots=True)
class World:
    """The state; only `fold` changes it."""

    objects: Objects = field(default_factory=Objects)
    view: View = field(default_factory=View)
    changes: Changes = field(default_factory=Changes)
    jobs: dict[JobKey, Submitted] = field(default_factory=dict)
    presence: dict[tuple[str, str], Presence] = field(default_factory=dict)
    heads: dict[str, tuple[int, Micros]] = field(default_factory=dict)
    """Writer -> sequence and time of its last commit."""
    rejected: int = 0
    _refused: deque[JobKey] = field(default_factory=deque)
    seq: int = 0
    at: Micros = 0
    """Of the last entry folded."""

    def fold(self, entries: Iterable[Entry]) -> None:
        """Fold entries of the log, in order."""
        for entry in entries:
            self.seq, self.at = entry.seq, entry.at
            if entry.suffix in _COMMITS:
                self._commit(entry)
            else:
                self._message(entry)

    # Commits

    def _commit(self, entry: Entry) -> None:
        self.heads[entry.suffix] = (entry.seq, entry.at)
        try:
            commit = decode_commit(entry.payload)
        except CommitDecodeError as error:
            # Readers of a newer writer's events go on; what they cannot read they cannot show.
            log.error("commit not readable", seq=entry.seq, writer=entry.suffix, error=str(error))
            return
        for step in commit.steps:
            for event in step.events:
                self._event(event, entry.seq, step.at)

    def _event(self, event: Event, seq: int, at: Micros) -> None:
        before = self._touched(event)
        if isinstance(event, config.ObjectApplied | config.ObjectDeleted):
            self.objects.apply(event, seq)
        self.view.apply(event, seq, at)
        if isinstance(event, slices.Rejected):
            self._rejected(event)
        elif isinstance(event, slices.WorkloadDeleted):
            self._forget_jobs(before)
        for kind, key in (*before, *self._touched(event)):
            if self.exists(kind, key):
                self.changes.touch(kind, key, seq)
            else:
                self.changes.drop(kind, key, seq)

    def _touched(self, event: Event) -> tuple[tuple[str, str], ...]:
        """Return (kind, key) of the objects that people would see change."""
        match event:
            case config.ObjectApplied() | config.ObjectDeleted():
                return ((event.kind, object_key(event.kind, event.namespace, event.name)),)
            case slices.WorkloadCreated() | variants.VariantCreated():
                return self._workload(event.workload.key)
            case scheduler.PendingReasonChanged() | scheduler.WorkloadsParked():
                return tuple(pair for key in event.workloads for pair in self._workload(key, queues=False))
            case scheduler.ClusterQueueStatusChanged():
                return (("ClusterQueue", event.cluster_queue),)
            case scheduler.LocalQueueStatusChanged():
                return (("LocalQueue", event.local_queue),)
            case scheduler.FlavorScanAdvanced() | scheduler.TreesSettled():
                return ()
            case slices.WorkloadUpdated() | slices.WorkloadFinished() | slices.WorkloadDeleted():
                return self._workload(event.workload)
            case scheduler.QuotaReserved() | scheduler.Admitted() | scheduler.QuotaReleased():
                return self._workload(event.workload)
            case checks.CheckStateChanged() | scheduler.Preempted():
                return self._workload(event.workload, queues=False)
            case slices.Rejected():
                return self._of_subject(event.subject)
        job_key = getattr(event, "job", None)
        if isinstance(job_key, str):
            return (("Job", job_key),)
        workload = getattr(event, "workload", None)
        return self._workload(workload) if isinstance(workload, str) else ()

    def _of_subject(self, subject: str) -> tuple[tuple[str, str], ...]:
        parts = names(subject)
        return (("Job", f"{parts[1]}/{parts[2]}"),) if len(parts) == 3 and parts[0] == "job" else ()

    def _workload(self, key: str, *, queues: bool = True) -> tuple[tuple[str, str], ...]:
        workload = self.view.workloads.get(WorkloadKey(key))
        if workload is None:
            return (("Workload", key),)
        found = [("Workload", key)]
        if workload.record.parent is not None:
            found += [("Variant", key), ("Workload", workload.record.parent)]
        if workload.record.job is not None:
            found.append(("Job", workload.record.job.key))
        if queues:
            found.append(("LocalQueue", workload.local_queue.key))
            if workload.cluster_queue is not None:
                found.append(("ClusterQueue", workload.cluster_queue.name))
            elif workload.local_queue.spec is not None:
                found.append(("ClusterQueue", workload.local_queue.spec.cluster_queue))
        return tuple(found)

    def _rejected(self, event: slices.Rejected) -> None:
        self.rejected += 1
        for _, key in self._of_subject(event.subject):
            submitted = self.jobs.get(JobKey(key))
            if submitted is not None and submitted.seq == event.cause:
                submitted.errors = tuple(event.errors)
                self._refused.append(submitted.key)
        while len(self._refused) > REFUSED_JOBS:
            key = self._refused.popleft()
            if key not in self.view.jobs and key in self.jobs and self.jobs[key].errors:
                del self.jobs[key]
                self.changes.drop("Job", key, self.seq)

    def _forget_jobs(self, touched: Iterable[tuple[str, str]]) -> None:
        """Forget jobs that are over and whose last workload has gone: deleted, or kept long enough."""
        for kind, key in touched:
            submitted = self.jobs.get(JobKey(key)) if kind == "Job" else None
            if (
                submitted is not None
                and submitted.key not in self.view.jobs
                and (submitted.deleted or submitted.ended is not None)
            ):
                del self.jobs[submitted.key]

    def exists(self, kind: str, key: str) -> bool:
        """Tell whether people can get the object."""
        if kind == "Job":
            return JobKey(key) in self.view.jobs or JobKey(key) in self.jobs
        if kind in ("Workload", "Variant"):
            return key in self.view.workloads
        if kind == "Agent":
            return ("agent", key) in self.presence
        return key in self.objects.by_kind.get(kind, {})

    # Messages from outside

    def _message(self, entry: Entry) -> None:
        parts = names(entry.suffix)
        if parts[0] == "job" and len(parts) == 3:
            self._job_message(JobKey(f"{parts[1]}/{parts[2]}"), entry)
        elif parts[0] == "presence" and len(parts) == 3:
            self._presence_message(parts[1], parts[2], entry)

    def _job_message(self, key: JobKey, entry: Entry) -> None:
        message = decode_message(entry.payload)
        if isinstance(message, tuple):
            return
        if message.type == "JobSubmitted":
            self._submitted(key, bytes(message.data), entry)
        elif message.type == "JobDeleted":
            self._deleted(key, entry)
        elif message.type in ("JobFinished", "JobPodsReady"):
            self._reported(key, message.type, bytes(message.data), entry)

    def _submitted(self, key: JobKey, data: bytes, entry: Entry) -> None:
        try:
            head = _HEADS.decode(data)
        except msgspec.DecodeError:
            head = _Head()
        before = self.jobs.get(key)
        if before is not None and not before.deleted and not before.errors and before.ended is None:
            # A newer version of the same job.
            before.head, before.seq = head, entry.seq
        else:
            self.jobs[key] = Submitted(key, head, entry.seq, entry.seq, entry.at)
        self.changes.touch("Job", key, entry.seq)

    def _deleted(self, key: JobKey, entry: Entry) -> None:
        submitted = self.jobs.get(key)
        if submitted is not None:
            submitted.deleted = True
            if key not in self.view.jobs:
                del self.jobs[key]
                self.changes.drop("Job", key, entry.seq)

    def _reported(self, key: JobKey, event_type: str, data: bytes, entry: Entry) -> None:
        submitted = self.jobs.get(key)
        if submitted is None:
            return
        try:
            if event_type == "JobFinished":
                submitted.ended = msgspec.json.decode(data, type=job.JobFinished)
                submitted.ended_at = entry.at
                submitted.executor = submitted.ended.executor or submitted.executor
            else:
                submitted.executor = msgspec.json.decode(data, type=job.JobPodsReady).executor
        except msgspec.DecodeError:
            return
        self.changes.touch("Job", key, entry.seq)

    def _presence_message(self, kind: str, name: str, entry: Entry) -> None:
        message = decode_message(entry.payload)
        if isinstance(message, tuple) or message.type not in ("Seen", "Lost"):
            return
        text = ""
        flavors: tuple[str, ...] = ()
        try:
            if message.type == "Seen":
                seen = msgspec.json.decode(message.data, type=job.Seen)
                text, flavors = seen.message, tuple(seen.flavors)
            else:
                text = msgspec.json.decode(message.data, type=job.Lost).message
        except msgspec.DecodeError:
            return
        lost = message.type == "Lost"
        before = self.presence.get((kind, name))
        if lost and before is not None:
            flavors = before.flavors
        self.presence[kind, name] = Presence(kind, name, lost, entry.at, text, flavors, entry.seq)
        if kind == "agent":
            self.changes.touch("Agent", name, entry.seq)
