"""State of the slice-aggregator: live jobs, finished ones, and messages that wait to be decided.

Plain mutable records, changed only by folding events. `State.inbox` (of which `first` and `backlog` say what
comes when), `State.todo` and `State.presence` are the work lists: what is in none of them is settled.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from sluice.api import kueue
from sluice.api.core_v1 import LimitRangeSpec
from sluice.api.mapped import JobKindSpec, Mapping, mappings_of
from sluice.core.workload.additions import Additions
from sluice.core.workload.limit_ranges import Rules
from sluice.core.workload.pod_resources import Amounts
from sluice.events.base import JobKey, Micros, PodSet, PodSetAssignment, WorkloadKey
from sluice.events.job import OnLoss
from sluice.events.slices import WorkloadRecord
from sluice.protocol.dispatch import DispatchPodSet

from .backlog import Backlog, queue_of
from .intake import Inbound, Presence

__all__ = ["Job", "Phase", "State", "Stop", "Todo"]


class Phase(IntEnum):
    """Whether the job runs, by what was dispatched and answered."""

    PENDING = 0
    """Nothing runs: it waits for its first admission or for the next one."""
    RUNNING = 1
    """Dispatched; an executor may run it."""
    STOPPING = 2
    """Told to stop; an executor owes the answer."""


class Stop(IntEnum):
    """Why a job is stopping, which says what follows when it has."""

    EVICTED = 0
    DELETED = 1
    REPLACED = 2
    """Its spec changed: it gets a new workload."""


class Todo(IntEnum):
    """What a job's workload asks for since the job was last decided on."""

    NONE = 0
    RESUME = 1
    SUSPEND = 2
    CONFIRM_STOP = 3
    """Evicted before it was dispatched: nothing runs, which must be said."""
    RECREATE = 4
    """Quota was reserved for a spec that has changed meanwhile."""
    FORGET_SLICE = 5
    """The old slice has lost its quota while a new one waits: only the new one is left."""
    GROW = 6
    """A slice was admitted smaller than it is wanted by now."""
    WITHDRAW = 9
    """The pending slice gets no quota any more, as its growth was taken back."""
    REACTIVATE = 10
    """A check has rejected the pending slice, but not with the size that it has by now."""
    RESIZE = 8
    """Another slice was admitted while the job runs: executors must hear of the new size."""
    PRUNE = 7
    """There are more finished slices than are kept."""


@dataclass(slots=True)
class Job:
    """A live job and its present workload."""

    key: JobKey
    uid: str
    record: WorkloadRecord
    manifest_seq: int
    message_id: str = ""
    """Of the submission in force."""
    digest: bytes = b""
    """Of its manifest."""
    template: bytes = b""
    """Digest of its pods, their number left out."""
    resources: bytes = b""
    """What its manifest says of resources (`limit_ranges.encode`), where its pod sets do not tell it."""
    most: dict[str, int] = field(default_factory=dict)
    """Pod set -> how many of its pods there can be at once, where its manifest says so (`most_pods`)."""
    ttl_s: int | None = None
    """How long it is kept when it has finished, if it says so."""
    generation: int = 0
    changes: int = 0
    """How often the pods of its workload were changed in place."""
    switched_by: int = 0
    """The message that last switched its workload on or off, 0 if none has."""
    revision: int = 1
    """Counts its workloads; makes their names differ."""
    phase: Phase = Phase.PENDING
    stop: Stop = Stop.EVICTED
    attempt: int = 0
    since: int = 0
    """The newest message when its attempt was decided."""
    executor: str = ""
    pods_ready: bool = False
    heard: list[str] = field(default_factory=list)
    """Ids of the messages that its claim and its pods' readiness are from, the newest ones of the attempt."""
    reserved: bool = False
    admitted: bool = False
    edited: bool = False
    """The workload was changed in place since its last reservation, which may then be for the old one."""
    evicting: bool = False
    """Evicted, or stopped, and its quota not released yet."""
    through_variant: bool = False
    """Its quota is that of a variant (CA7), which is resized by stopping, elastic or not."""
    pending: WorkloadRecord | None = None
    """The slice that is to replace the present one (WS4)."""
    pending_changes: int = 0
    """How often its pods were changed in place."""
    pending_switched_by: int = 0
    """The message that last switched it on or off, 0 if none has."""
    pending_assignment: Sequence[PodSetAssignment] = ()
    pending_observed: int = 0
    """How many of these changes its assignment takes into account."""
    pending_updates: Additions | None = None
    pending_admitted: bool = False
    pending_reclaimable: dict[str, int] = field(default_factory=dict)
    """Of its pods, how many no completion is left for (`completions`)."""
    pending_todo: Todo = Todo.NONE
    """What the pending slice asks for, whatever else the job does: WITHDRAW or REACTIVATE; comes first."""
    pending_cause: int = 0
    sizes: list[tuple[int, dict[str, int], dict[str, int]]] = field(default_factory=list)
    """Sizes of the newest slice: after how many changes, and the smallest size since."""
    history: list[WorkloadKey] = field(default_factory=list)
    """Slices that were replaced, oldest first."""
    assignment: Sequence[PodSetAssignment] = ()
    placement: Sequence[DispatchPodSet] = ()
    """What was dispatched with the present attempt."""
    dispatched: WorkloadKey | None = None
    """The workload that its entry names: the present one as of the last own event about the job."""
    updates: Additions | None = None
    """What its checks add to the pods; None: none was asked."""
    reclaimable: dict[str, int] = field(default_factory=dict)
    remaining: dict[str, int] = field(default_factory=dict)
    """Pod set -> how many completions this attempt has left to do, where executors have said what is done."""
    reason: str = ""
    message: str = ""
    """Why it is suspended."""
    todo: Todo = Todo.NONE
    cause: int = 0
    """Log sequence of what `todo` comes from."""

    @property
    def keeps_quota(self) -> bool:
        """Has its workload quota that it does not give up?"""
        return self.reserved and not self.evicting

    @property
    def stops(self) -> bool:
        """Is it about to stop? Or it has, and a growth takes its place when its quota is free."""
        if self.evicting and (self.phase is Phase.RUNNING or self.pending is not None):
            return True
        return self.phase is Phase.STOPPING


@dataclass(slots=True)
class Finished:
    """What is kept of a job that is over, until it is deleted, submitted again or forgotten."""

    key: JobKey
    uid: str
    workload: WorkloadKey
    finished_at: Micros
    attempt: int
    message_id: str
    slices: list[WorkloadKey] = field(default_factory=list)
    """Its other slices, which are kept and go with it."""
    due: Micros | None = None
    """When its own time to live ends."""


@dataclass(slots=True)
class State:
    jobs: dict[JobKey, Job] = field(default_factory=dict)
    finished: dict[JobKey, Finished] = field(default_factory=dict)
    """In the order in which they finished."""
    finished_workloads: dict[WorkloadKey, JobKey] = field(default_factory=dict)
    by_workload: dict[WorkloadKey, Job] = field(default_factory=dict)
    replaced: dict[WorkloadKey, Job] = field(default_factory=dict)
    """Slices in the history of live jobs. Derived, never dumped."""
    aging: dict[WorkloadKey, tuple[JobKey, Micros]] = field(default_factory=dict)
    """Slices that were replaced -> their job, and when; oldest first, those of finished jobs too (WS8)."""
    claimed: dict[str, dict[JobKey, OnLoss | None]] = field(default_factory=dict)
    """Executor -> jobs whose open attempt it has, and what is to become of that if it is away."""
    executors: dict[str, bool] = field(default_factory=dict)
    """Agents that were seen -> whether they are there, or at least not lost."""
    away: dict[str, None] = field(default_factory=dict)
    """Agents that are away, and keep their attempts for now."""
    expiry: list[tuple[Micros, JobKey]] = field(default_factory=list)
    """Heap of finished jobs with a time to live of their own; entries of others are skipped."""
    priorities: dict[str, int] = field(default_factory=dict)
    flavors: dict[str, kueue.ResourceFlavorSpec] = field(default_factory=dict)
    cluster_queues: dict[str, str] = field(default_factory=dict)
    """Local queue `namespace/name` -> its cluster queue."""
    concurrent: dict[str, None] = field(default_factory=dict)
    """Cluster queues with concurrent admission."""
    config: kueue.ConfigurationSpec = field(default_factory=kueue.ConfigurationSpec)
    limits_used: bool = False
    """Has there ever been a limit range or runtime class? Else nobody looks for any."""
    limit_ranges: dict[str, dict[str, LimitRangeSpec]] = field(default_factory=dict)
    """Namespace -> name -> limit range."""
    job_kinds: dict[str, JobKindSpec] = field(default_factory=dict)
    """Teams' kinds of jobs, by the names of their JobKinds."""
    mappings: dict[tuple[str, str], Mapping] = field(default_factory=dict)
    """(apiVersion, kind) of these -> how new jobs of them are read. Derived, never dumped."""
    overheads: dict[str, Amounts] = field(default_factory=dict)
    """Runtime class -> what each of its pods needs on top."""
    rules: dict[str, Rules] = field(default_factory=dict)
    """Namespace -> what these make of its jobs. Derived when asked for, never dumped."""
    adjusting: dict[JobKey, int] = field(default_factory=dict)
    """Jobs whose waiting workload is not what they make of it -> sequence of what changed that."""

    inbox: dict[JobKey, dict[int, Inbound]] = field(default_factory=dict)
    """Job -> messages by sequence, in order."""
    first: dict[JobKey, None] = field(default_factory=dict)
    """Jobs in the inbox that live, or did when their first message came: these are answered first."""
    backlog: Backlog = field(default_factory=Backlog)
    """All others in the inbox, as their turns come."""
    inbox_of: dict[int, JobKey] = field(default_factory=dict)
    """Sequence of a message in the inbox -> its job."""
    unread: dict[JobKey, tuple[Inbound, Sequence[PodSet]]] = field(default_factory=dict)
    """Jobs -> the manifest in force, and their pods when it came, of which their own fields do not tell yet:
    see `lazy_manifest`. Never dumped."""
    todo: dict[JobKey, None] = field(default_factory=dict)
    presence: deque[Presence] = field(default_factory=deque)
    touched: dict[JobKey, bool] = field(default_factory=dict)
    """Jobs whose dispatch the latest step may have changed -> whether they may have had an entry.

    For the projection to read; no part of what is decided on, and never dumped.
    """
    step: tuple[int, Micros] = (0, 0)
    """Sequence and time of the events that `touched` is of."""

    def begin_step(self, seq: int, at: Micros) -> None:
        """Forget what steps before have changed: whom that concerns has read it by now."""
        self.step = (seq, at)
        if self.touched:
            self.touched = {}

    def touch(self, job: Job) -> None:
        """Note that an own event has changed what the job should be doing.

        Inputs never do: an entry says as of which own commit it is, and a leader that compares the whole
        bucket may have folded more than anybody has decided by.
        """
        job.dispatched = job.record.key
        self.touched[job.key] = job.attempt > 0 or self.touched.get(job.key, False)

    def set_todo(self, job: Job, todo: Todo, cause: int) -> None:
        job.todo, job.cause = todo, cause
        self.todo[job.key] = None

    def clear_todo(self, job: Job) -> None:
        if job.todo is not Todo.NONE:
            job.todo = Todo.NONE
            if job.pending_todo is Todo.NONE:
                self.todo.pop(job.key, None)

    def set_pending_todo(self, job: Job, todo: Todo, cause: int) -> None:
        job.pending_todo, job.pending_cause = todo, cause
        self.todo[job.key] = None

    def clear_pending_todo(self, job: Job) -> None:
        if job.pending_todo is not Todo.NONE:
            job.pending_todo, job.pending_cause = Todo.NONE, 0
            if job.todo is Todo.NONE:
                self.todo.pop(job.key, None)

    def set_executor(self, job: Job, executor: str, on_loss: OnLoss | None = None) -> None:
        """Note who runs the job; '' when nobody does."""
        if job.executor == executor:
            return
        if job.executor:
            claims = self.claimed[job.executor]
            del claims[job.key]
            if not claims:
                del self.claimed[job.executor]
        job.executor = executor
        if executor:
            self.claimed.setdefault(executor, {})[job.key] = on_loss

    def receive(self, key: JobKey, inbound: Inbound, *, first: bool) -> None:
        """Put a message into the inbox. *first*: whether its job is then one of those answered first."""
        inbound.mapping_of = self.mapping_of
        messages = self.inbox.get(key)
        if messages is not None:
            messages[inbound.seq] = inbound
        else:
            self.inbox[key] = {inbound.seq: inbound}
            if first:
                self.first[key] = None
            else:
                self.backlog.add(key, queue_of(key, inbound.payload))
        self.inbox_of[inbound.seq] = key

    def mapping_of(self, key: JobKey, api_version: str, kind: str) -> Mapping | None:
        """Return how a manifest of a team's kind for a job is read; None if there is no such kind.

        A job that lives goes by the mapping that it was made by, whatever has become of the JobKind.
        """
        job = self.jobs.get(key)
        if job is not None and job.record.mapping is not None and job.record.job is not None:
            reference = job.record.job
            if (reference.api_version, reference.kind) == (api_version, kind):
                return job.record.mapping
        return self.mappings.get((api_version, kind))

    def describe_kinds(self) -> None:
        """Note how new jobs of teams' kinds are read by now."""
        self.mappings = mappings_of(self.job_kinds.values())

    def answered(self, seq: int) -> Inbound | None:
        """Take the message at *seq* out of the inbox; None if there is none."""
        key = self.inbox_of.pop(seq, None)
        if key is None:
            return None
        messages = self.inbox[key]
        inbound = messages.pop(seq)
        if key not in self.first:
            self.backlog.remove(key)
            if messages:
                # What is left follows from this one's answer, and is no newcomer's.
                self.first[key] = None
        elif not messages:
            del self.first[key]
        if not messages:
            del self.inbox[key]
        return inbound
