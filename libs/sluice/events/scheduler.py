"""Events of the scheduler: quota, admission, preemption, pending reasons."""

from collections.abc import Sequence
from typing import Final

from .base import Event, Micros, PodSetAssignment, WorkloadKey

WRITER: Final = "scheduler"
"""The subject of these events, `sluice.<cell>.scheduler`: on the wire, so it outlives the module's name."""


class QuotaReserved(Event, frozen=True, kw_only=True):
    """Quota is the workload's from here on, until QuotaReleased, WorkloadFinished or WorkloadDeleted.

    With `preemptions_pending` (AC6) it will be, once others are preempted; they run on until the checks allow
    it. `pending_victims` are those chosen for now; PendingPreemptionsIssued says who they were in the end.
    """

    workload: WorkloadKey
    cluster_queue: str
    pod_sets: Sequence[PodSetAssignment]
    preemptions_pending: bool = False
    pending_victims: Sequence[WorkloadKey] = ()
    observed_generation: int = 0
    """How many changes of the workload's pods (`WorkloadUpdated`, `VariantUpdated`) it takes into account."""


class PendingPreemptionsIssued(Event, frozen=True, kw_only=True):
    """The preemptions that a reservation waited with have begun, all by this step (AC6).

    The workload is not admitted before `victims` have given up their quota. There are none if it fits by now.
    """

    workload: WorkloadKey
    victims: Sequence[WorkloadKey] = ()


class Admitted(Event, frozen=True, kw_only=True):
    """All checks are Ready (or there are none): the job may start."""

    workload: WorkloadKey


class Evicted(Event, frozen=True, kw_only=True):
    """The workload must stop (G8). If it was never Admitted, QuotaReleased follows in the same step."""

    workload: WorkloadKey
    reason: str
    message: str = ""
    underlying_cause: str = ""


class Preempted(Event, frozen=True, kw_only=True):
    """Names the victim, the preemptor and the rule; follows the victim's Evicted event (G8).

    Paths are cohort paths from the root, `/root/left/queue`.
    """

    workload: WorkloadKey
    preemptor: WorkloadKey
    rule: str
    message: str
    preemptor_path: str = ""
    preemptee_path: str = ""


class WorkloadSliceReplaced(Event, frozen=True, kw_only=True):
    """The slice is Finished: `by`, admitted in the same step, has its quota and its pods now (WS4)."""

    workload: WorkloadKey
    by: WorkloadKey
    message: str


class WorkloadSliceWithdrawn(Event, frozen=True, kw_only=True):
    """The slice is not needed any more, and gets no quota again: its growth was taken back (WS3).

    The job is to have no more than `running` has, which it was to replace. Quota that was reserved for it has
    been given up in the same step.
    """

    workload: WorkloadKey
    running: WorkloadKey
    message: str


class QuotaReleased(Event, frozen=True, kw_only=True):
    """The reservation is given up; the quota is free from here on."""

    workload: WorkloadKey


class RequeueBackoffStarted(Event, frozen=True, kw_only=True):
    """The workload may not be queued before `requeue_at`; `count` is how often this happened so far."""

    workload: WorkloadKey
    count: int
    requeue_at: Micros


class Requeued(Event, frozen=True, kw_only=True):
    """The workload is back in its queue: `reason` as Kueue's Requeued condition (BackoffFinished, ...)."""

    workload: WorkloadKey
    reason: str
    message: str = ""


class WorkloadDeactivated(Event, frozen=True, kw_only=True):
    """The system set `spec.active` to false, e.g. after the requeuing limit or the maximum execution time.

    It does not hold for readers that have heard of a later switch, which the system learns of next.
    """

    workload: WorkloadKey
    reason: str
    message: str = ""
    observed_switch: int | None = None
    """Cause of the last `WorkloadUpdated` with `active` that came before this; 0: none, None: not known."""


class PendingReasonChanged(Event, frozen=True, kw_only=True):
    """Why these workloads have no quota (G6). Recorded when it changes, not each time it is found (G7)."""

    workloads: Sequence[WorkloadKey]
    reason: str
    message: str


class WorkloadsParked(Event, frozen=True, kw_only=True):
    """These were looked at and cannot be admitted until something changes (SC2).

    Each stands for all workloads of its cluster queue that are equal to it to the scheduler, those still to
    come included: ten thousand identical jobs cost one evaluation. Reason and message are those of
    QuotaReserved=False (G6).
    """

    workloads: Sequence[WorkloadKey]
    reason: str
    message: str
    aside: bool = False
    """StrictFIFO only: later workloads need not wait behind these (namespaceSelector does not match)."""
    reserves: bool = False
    """StrictFIFO only: what it waits for may not be lent meanwhile, as its queue could not reclaim it."""
    circling: bool = False
    """They could preempt, but it would go round in a circle (decision 0018)."""
    barred: bool = False
    """A sibling bars them (CA10, CA11): it counts for as long as that is so, and not if this step ends it."""


class PreemptionIssued(Event, frozen=True, kw_only=True):
    """The workload waits at the head of its queue for these workloads to give up their quota (SC5).

    Meanwhile `usage` ("flavor/resource" -> amount) stays reserved for it, at borrowing height `borrowing`.
    """

    workload: WorkloadKey
    victims: Sequence[WorkloadKey]
    usage: dict[str, int]
    borrowing: int = 0
    reason: str = "WaitingForPreemptedWorkloads"
    message: str = ""
    more: bool = False
    """They are too many for one step: some are told in the next ones, and this is said again."""
    flavors: dict[str, dict[str, str]] = {}
    """Of several pod sets with a choice of flavors: pod set -> resource -> flavor of what is reserved."""


class PreemptionWaitEnded(Event, frozen=True, kw_only=True):
    """The workload waits for its victims no more: another one gets what they leave. It is looked at anew."""

    workload: WorkloadKey


class FlavorScanAdvanced(Event, frozen=True, kw_only=True):
    """Not all flavors were tried: the next attempt starts after these (SC4).

    `tried`: per pod set, resource -> index of the last flavor tried in its group, -1 when that was the last.
    """

    workload: WorkloadKey
    tried: Sequence[dict[str, int]]


class BlockedOnPreemptionGates(Event, frozen=True, kw_only=True):
    """The workload could be admitted by preemption, but a gate is closed (SC7, CA11).

    `after`: of a variant, the more preferred siblings that queue. They were looked at before it.
    """

    workload: WorkloadKey
    message: str
    after: Sequence[WorkloadKey] = ()


class TreesSettled(Event, frozen=True, kw_only=True):
    """After capacity was freed in these trees, their waiting workloads were considered.

    `cohorts`: names of root cohorts; `cluster_queues`: those without a cohort. `open`: cluster queues of
    these trees that still have workloads to be considered, as the head of the queue has gone.
    """

    cohorts: Sequence[str] = ()
    cluster_queues: Sequence[str] = ()
    open: Sequence[str] = ()


class ClusterQueueStatusChanged(Event, frozen=True, kw_only=True):
    """A cluster queue became active or inactive; `reason` and `message` are those of its condition."""

    cluster_queue: str
    active: bool
    reason: str
    message: str


class LocalQueueStatusChanged(Event, frozen=True, kw_only=True):
    """A local queue became active or inactive, mostly with its cluster queue."""

    local_queue: str
    """`namespace/name`."""
    active: bool
    reason: str
    message: str
