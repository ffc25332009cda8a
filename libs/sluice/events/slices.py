"""Events of the slice-aggregator: workload life-cycle, and what each job should be doing."""

from collections.abc import Sequence
from typing import Any, Final

from sluice.api.mapped import Mapping

from .base import Event, FieldError, JobKey, Micros, PodSet, Value, WorkloadKey
from .job import OnLoss

WRITER: Final = "slices"
"""The subject of these events, `sluice.<cell>.slices`: on the wire, so it outlives the module's name."""


class JobReference(Value, frozen=True, kw_only=True):
    """The job that a workload was made of."""

    api_version: str
    kind: str
    key: JobKey
    uid: str


class WorkloadRecord(Value, frozen=True, kw_only=True):
    """A workload as the deciders see it; the job's full manifest stays in its JobSubmitted message.

    `priority` is the resolved value. `created_at` orders the queue (FIFO), ties by `uid`, which grows
    with the log. `labels` and `annotations` are those that Kueue copies or reads.
    """

    namespace: str
    name: str
    uid: str
    queue_name: str
    created_at: Micros
    pod_sets: Sequence[PodSet]
    job: JobReference | None = None
    priority: int = 0
    priority_class: str = ""
    active: bool = True
    maximum_execution_time_s: int | None = None
    preemption_gates: Sequence[str] = ()
    allowed_flavors: Sequence[str] = ()
    """Resource flavors it may use; () means any (admissionConstraints.allowedResourceFlavors)."""
    cannot_preempt: bool = False
    cannot_borrow: bool = False
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    parent: WorkloadKey | None = None
    """The concurrent-admission parent whose variant this is."""
    parent_uid: str = ""
    preference: int = 0
    """Of a variant: its place among its siblings, 0 is the most preferred."""
    replaces: WorkloadKey | None = None
    """The workload slice that this one replaces."""
    misconfigured: str = ""
    """Why its resources are inadmissible, by the limit ranges of its namespace; "" when they are not.

    While it has quota it keeps that, and this says what it is when it is nominated again.
    """
    mapping: Mapping | None = None
    """Of a job of a team's kind: how its manifests are read for as long as it lives, whatever becomes of
    the JobKind meanwhile."""

    @property
    def key(self) -> WorkloadKey:
        """`namespace/name`."""
        return WorkloadKey(f"{self.namespace}/{self.name}")


class WorkloadCreated(Event, frozen=True, kw_only=True):
    """A job has become a workload, which may be queued."""

    workload: WorkloadRecord


class WorkloadUpdated(Event, frozen=True, kw_only=True):
    """A change of the spec; None means unchanged. `pod_sets` changes only where that is allowed in place.

    Caused by a limit range, a runtime class or an eviction, it is what the limit ranges of the namespace now
    make of a workload that waits.
    """

    workload: WorkloadKey
    queue_name: str | None = None
    priority: int | None = None
    priority_class: str | None = None
    active: bool | None = None
    maximum_execution_time_s: int | None = None
    pod_sets: Sequence[PodSet] | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    misconfigured: str | None = None
    message: str = ""
    """Why `active` has changed, in the words of whoever changed it."""

    @property
    def changes(self) -> dict[str, Any]:
        """Return the fields of the record that have other values now."""
        return {name: value for name in _CHANGEABLE if (value := getattr(self, name)) is not None}


_CHANGEABLE = tuple(
    name for name in WorkloadUpdated.__struct_fields__ if name not in ("cause", "workload", "message")
)


class ReclaimablePodsUpdated(Event, frozen=True, kw_only=True):
    """`pods`: pod set name -> how many of its pods need no quota, as they have ended (SC7).

    Of a slice that is to replace another one: as no completion is left for them (WS3).
    """

    workload: WorkloadKey
    pods: dict[str, int]


class CompletionsUpdated(Event, frozen=True, kw_only=True):
    """Of an elastic job: `remaining`: pod set name -> how many completions its attempt has left to do.

    No more pods can run, whatever size the job is to have (WS3). Without a name nothing is known of the set.
    """

    job: JobKey
    remaining: dict[str, int]


class WorkloadPodsReady(Event, frozen=True, kw_only=True):
    """All pods run (`ready`), or some do not any more."""

    workload: WorkloadKey
    ready: bool = True


class WorkloadStopped(Event, frozen=True, kw_only=True):
    """No pod of the workload runs any more: the end of the eviction handshake (G9).

    `reason` is set when nobody had asked for it, e.g. NodeFailures when its agent was lost.
    """

    workload: WorkloadKey
    reason: str = ""
    message: str = ""


class WorkloadFinished(Event, frozen=True, kw_only=True):
    """`reason`: Succeeded, Failed, or why else it ended."""

    workload: WorkloadKey
    reason: str = "Succeeded"
    message: str = ""


class WorkloadDeleted(Event, frozen=True, kw_only=True):
    """The workload is gone, with all that it held."""

    workload: WorkloadKey


class JobResumed(Event, frozen=True, kw_only=True):
    """The job should run, as its workload's assignment says. `attempt` counts its starts from 1."""

    job: JobKey
    workload: WorkloadKey
    attempt: int


class JobSuspended(Event, frozen=True, kw_only=True):
    """The job should stop (or not start yet); executors answer with JobStopped for this attempt."""

    job: JobKey
    workload: WorkloadKey
    attempt: int
    reason: str
    message: str = ""


class JobResized(Event, frozen=True, kw_only=True):
    """A running job has got another slice: so many `pods` of each set may run, in the same attempt (WS7)."""

    job: JobKey
    workload: WorkloadKey
    attempt: int
    pods: dict[str, int]


class Rejected(Event, frozen=True, kw_only=True):
    """A message of ours to read that could not be taken; `cause` is its sequence."""

    subject: str
    event_type: str = ""
    errors: Sequence[FieldError] = ()


class JobClaimed(Event, frozen=True, kw_only=True):
    """An executor has said that it has taken this attempt; if it is lost, so is the attempt."""

    job: JobKey
    attempt: int
    executor: str
    on_loss: OnLoss | None = None
    """What the executor has asked for, should it be away."""


class ExecutorSeen(Event, frozen=True, kw_only=True):
    """An agent has come (back)."""

    executor: str


class ExecutorLost(Event, frozen=True, kw_only=True):
    """An agent's heartbeat has stopped: the attempts that it had claimed are over."""

    executor: str


class ExecutorAway(Event, frozen=True, kw_only=True):
    """An agent's heartbeat has stopped; the attempts that it has claimed stay with it, as it has asked."""

    executor: str


class InputsIgnored(Event, frozen=True, kw_only=True):
    """Messages that change nothing, by sequence; `cause` is the last of them.

    `reason`: Duplicate (said before), Stale (of an attempt or a size that is over), Superseded (overtaken
    while it waited for the job to stop).
    """

    seqs: Sequence[int]
    reason: str
