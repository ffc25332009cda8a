"""Records of the view: each object, as folded from the events of all writers.

Counters and lists are kept as events come; conditions and manifests are made when somebody asks
(`workload_status`, `queue_status`), for most objects nobody does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sluice.api import kueue
from sluice.core.workload.admission_checks import CheckState
from sluice.core.workload.reasons import FLAVOR_MIGRATION
from sluice.events.base import Event, JobKey, Micros, PodSetAssignment, WorkloadKey
from sluice.events.slices import JobReference, WorkloadRecord

__all__ = ["ClusterQueueView", "Migration", "WorkloadView"]

FlavorResource = tuple[str, str]

HISTORY_LIMIT = 20
"""Transitions kept per workload."""


def _empty() -> dict[Any, Any]:
    """One for all, as most workloads never get an entry: replaced, never written to."""
    return _EMPTY


_EMPTY: dict[Any, Any] = {}


class Transition(NamedTuple):
    """An event of a workload's history: log sequence and time of the step that decided it."""

    seq: int
    at: Micros
    event: Event


class ShownCondition(NamedTuple):
    """A condition as it was recorded; `since` is when `status` last changed."""

    status: bool
    reason: str
    message: str
    since: Micros
    generation: int


@dataclass(slots=True)
class WorkloadView:
    """One workload. None means not (any more), times are microseconds.

    Dictionaries are replaced when they change, never written to.
    """

    record: WorkloadRecord
    key: WorkloadKey
    local_queue: "LocalQueueView"
    created_at: Micros = 0
    """Of a variant, when it was made; its record has its parent's time, by which it queues (CA6)."""
    active: bool = True
    inactive_because: str = ""
    """Why it is not active, where anybody has said so."""
    switched_by: int = 0
    """Cause of the last change of `active` by its job or its people, 0 if there was none."""
    generation: int = 1
    cluster_queue: "ClusterQueueView | None" = None
    """The queue whose quota it holds, or held when it finished."""
    assignment: Sequence[PodSetAssignment] | None = None
    charge: dict[FlavorResource, int] = field(default_factory=_empty)
    beside: "WorkloadView | None" = None
    """The slice that this one is to replace, while both hold quota."""
    reserved_at: Micros | None = None
    reserved_generation: int = 0
    preemptions_pending: bool = False
    """Its `victims` are preempted when its checks allow it (AC6), others perhaps."""
    victims: Sequence[WorkloadKey] = ()
    """Who is to be, or was, preempted for its reservation, and has quota still."""
    promised_to: dict[WorkloadKey, None] = field(default_factory=_empty)
    """Those of whose pending preemptions it is a victim."""
    released_at: Micros | None = None
    admitted_at: Micros | None = None
    started_at: Micros | None = None
    """When its job was last started: with its admission, or with that of the first slice that it follows."""
    unadmitted_at: Micros | None = None
    finished_at: Micros | None = None
    evicted: bool = False
    """Told to stop, and not stopped yet."""
    pending: "PendingReason | None" = None
    conditions: dict[str, ShownCondition] = field(default_factory=_empty)
    """All but QuotaReserved and Admitted, which follow from the fields above."""
    checks: dict[str, CheckState] = field(default_factory=_empty)
    check_attempt: int = 0
    """The latest of its reservations whose checks were asked for, from 1."""
    requeue_count: int = 0
    requeue_at: Micros | None = None
    class_key: tuple[object, ...] | None = None
    """What it shares with those that are equal to it to the scheduler; made when needed."""
    last_evicted_at: Micros | None = None
    """Of the eviction that it has not been given quota again since."""
    last_evicted_reason: str = ""
    past_execution_us: Micros = 0
    ran_us: Micros = 0
    """How long it was admitted, before the present admission."""
    reclaimable: dict[str, int] = field(default_factory=_empty)
    evictions: dict[tuple[str, str], int] = field(default_factory=_empty)
    """(reason, underlying cause) -> how often."""
    transitions: "list[Transition] | Callable[[], list[Transition]]" = field(default_factory=list)
    """Its history, or what reads it: see `history`."""
    remembered: int = 0
    """How many events its history has had, those that are not kept among them."""
    parent: bool = False
    """It has variants instead of queueing itself (CA4)."""
    variants: dict[WorkloadKey, "WorkloadView"] = field(default_factory=_empty)
    variant: str = ""
    """Of a variant: the flavor, or the explicit variant, that it is for."""
    admitted_message: str = ""
    gates: dict[str, tuple[bool, Micros]] = field(default_factory=_empty)
    """Preemption gate -> whether it is open, since when; others are closed since the creation."""
    turn: int = 0
    """Of a variant: since which sequence it waits for its gate, or preempts (CA11); 0: it does neither."""
    spent: bool = False
    """Of a variant: it has had its turn to preempt, and others have not yet (CA11)."""
    migrations: "tuple[Migration, ...]" = ()
    """Of a parent: each time its job had to stop, the latest last."""

    @property
    def held_for(self) -> str:
        """Why it may not queue yet, as its eviction said; "" if it may."""
        requeued = self.conditions.get("Requeued")
        return requeued.reason if requeued is not None and not requeued.status else ""

    @property
    def history(self) -> list[Transition]:
        """What has happened to it, as far as it is remembered; the first entry is its creation."""
        found = self.transitions
        return found if isinstance(found, list) else self.read_history()

    def read_history(self) -> list[Transition]:
        """Return the history, from where it lies if it has not been read yet."""
        if not isinstance(self.transitions, list):
            self.transitions = self.transitions()
        return self.transitions

    @property
    def holds_quota(self) -> bool:
        return self.assignment is not None and self.finished_at is None

    @property
    def open_gates(self) -> Sequence[str]:
        return [gate for gate in sorted(self.gates) if self.gates[gate][0]]

    @property
    def queue(self) -> "ClusterQueueView | None":
        """The cluster queue whose quota it has, else the one that it queues in."""
        return self.cluster_queue or self.local_queue.cluster_queue

    @property
    def cluster_queue_name(self) -> str:
        """The name of `queue`, "" where its local queue leads nowhere."""
        queue = self.queue
        return "" if queue is None else queue.name


class Migration(NamedTuple):
    """A stop of a job that runs through variants, and how it went on. Times are microseconds."""

    seq: int
    evicted_at: Micros
    reason: str
    """FlavorMigration, or why else the variant that ran was evicted."""
    source: str
    target: str = ""
    variant: str = ""
    admitted_at: Micros | None = None
    ready_at: Micros | None = None
    more_pods: int = 0
    """How many more it went on with; negative: fewer. Of one that has not gone on: less what it ran with."""

    @property
    def is_move(self) -> bool:
        """Was it stopped to move to a better variant (CA10), and not by others, a check or a person?

        Who goes on where it was has not moved: the better one was given up before it ran.
        """
        return self.reason == FLAVOR_MIGRATION and (self.target != self.source or self.more_pods > 0)


class PendingReason(NamedTuple):
    """Why the scheduler gave no quota; shared by all workloads of one verdict."""

    reason: str
    message: str
    seq: int
    at: Micros
    preempts: bool = False
    """It waits for those whom it preempts, or, these having gone, for the pods of others: what it needs is
    kept for it (CA6)."""
    aside: bool = False
    """Those behind it in a StrictFIFO queue do not wait for it."""


@dataclass(slots=True)
class LocalQueueView:
    """A local queue; exists as soon as a workload names it, `spec` None while no manifest does."""

    key: str
    spec: kueue.LocalQueueSpec | None = None
    cluster_queue: "ClusterQueueView | None" = None
    """The one that `spec` names."""
    changed_seq: int = 0
    users: int = 0
    """Workloads that name it; without any, and without a manifest, it is gone."""
    pending: dict[WorkloadKey, None] = field(default_factory=dict)
    """Who waits here; by key, so that a queue can be had without them."""
    families: dict[WorkloadKey, int] = field(default_factory=dict)
    """Parent -> how many of `pending` are its variants."""
    reserving: int = 0
    admitted: int = 0
    version: int = 0
    """Changes with `pending`."""
    active: "ActiveState | None" = None
    running_parents: dict[WorkloadKey, None] = field(default_factory=dict)
    """Parents one of whose variants runs."""

    @property
    def name(self) -> str:
        return self.key.partition("/")[2]


@dataclass(slots=True)
class ClusterQueueView:
    """A cluster queue; `spec` None while no manifest exists."""

    name: str
    spec: kueue.ClusterQueueSpec | None = None
    changed_seq: int = 0
    terminating: bool = False
    local_queues: dict[str, LocalQueueView] = field(default_factory=dict)
    workloads: dict[WorkloadKey, None] = field(default_factory=dict)
    """Those that hold its quota, by key."""
    admitted: int = 0
    reservation: dict[FlavorResource, int] = field(default_factory=dict)
    usage: dict[FlavorResource, int] = field(default_factory=dict)
    """Of `reservation`, what is admitted."""
    preemptors: dict[WorkloadKey, None] = field(default_factory=dict)
    """Those whose quota was reserved beside that of others, who were to be preempted first (AC6)."""
    active: "ActiveState | None" = None
    reserved_message: str = ""
    """Made once: every reservation shares it."""
    verdicts: dict[object, "PendingReason"] = field(default_factory=dict)
    """The scheduler's latest word on each class of equal workloads, those included that came later (SC2)."""
    order: "tuple[tuple[int, int], dict[WorkloadKey, int]] | None" = None
    """(versions of settings and queue, key -> position) of those that wait, while nothing has changed."""

    @property
    def pending(self) -> int:
        return sum(len(queue.pending) for queue in self.local_queues.values())


class ActiveState(NamedTuple):
    active: bool
    reason: str
    message: str
    since: Micros


@dataclass(slots=True)
class JobView:
    """A job and its workloads, oldest first; it goes with the last of them."""

    key: JobKey
    reference: JobReference
    workloads: dict[WorkloadKey, WorkloadView] = field(default_factory=dict)
    attempt: int = 0
    ran_us: Micros = 0
    """How long its workloads were admitted, before the present one's present admission."""
    running: bool = False
    """Told to run, by the latest JobResumed."""
    executor: str = ""
    """Who has taken the present attempt, if anybody has said so."""
    reason: str = ""
    message: str = ""
    changed_at: Micros = 0
