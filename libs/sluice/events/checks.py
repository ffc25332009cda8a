"""Events of the admission-check service."""

from collections.abc import Sequence

from sluice.api.kueue import PodSetUpdate

from .base import Event, Micros, WorkloadKey


class CheckStateChanged(Event, frozen=True, kw_only=True):
    """State of one check of one workload: Pending, Ready, Retry or Rejected (AC2)."""

    workload: WorkloadKey
    check: str
    state: str
    attempt: int = 1
    message: str = ""
    requeue_after_s: int | None = None
    retry_count: int = 0
    pod_set_updates: Sequence[PodSetUpdate] = ()


class ChecksReady(Event, frozen=True, kw_only=True):
    """Every relevant check of the workload is Ready (AC1)."""

    workload: WorkloadKey


class ChecksRetry(Event, frozen=True, kw_only=True):
    """A check wants the workload requeued, not before `requeue_at` (AC3)."""

    workload: WorkloadKey
    checks: Sequence[str]
    requeue_at: Micros
    message: str = ""


class ChecksRejected(Event, frozen=True, kw_only=True):
    """A check will never let the workload run (AC3)."""

    workload: WorkloadKey
    checks: Sequence[str]
    message: str = ""


class AdmissionCheckStatusChanged(Event, frozen=True, kw_only=True):
    """The check's Active condition: whether its controller is there (AC8)."""

    check: str
    active: bool
    reason: str
    message: str = ""
