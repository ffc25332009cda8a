"""Events of the scheduler: quota, admission, preemption, pending reasons."""

from collections.abc import Sequence

from .base import Event, Micros, PodSetAssignment, WorkloadKey


class QuotaReserved(Event, frozen=True, kw_only=True):
    """Quota is the workload's from here on, until QuotaReleased, WorkloadFinished or WorkloadDeleted."""

    workload: WorkloadKey
    cluster_queue: str
    pod_sets: Sequence[PodSetAssignment]


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
    """The system set `spec.active` to false, e.g. after the requeuing limit or the maximum execution time."""

    workload: WorkloadKey
    reason: str
    message: str = ""


class PendingReasonChanged(Event, frozen=True, kw_only=True):
    """Why these workloads have no quota (G6). Recorded when it changes, not each time it is found (G7)."""

    workloads: Sequence[WorkloadKey]
    reason: str
    message: str


class ClusterQueueStatusChanged(Event, frozen=True, kw_only=True):
    cluster_queue: str
    active: bool
    reason: str
    message: str


class LocalQueueStatusChanged(Event, frozen=True, kw_only=True):
    local_queue: str
    """`namespace/name`."""
    active: bool
    reason: str
    message: str
