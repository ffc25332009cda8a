"""Order of workloads in their queue, for the scheduler and for readers alike (SC1, SC5)."""

from collections.abc import Mapping
from typing import Protocol

from sluice.api.features import PRIORITY_BOOST, enabled
from sluice.api.kueue import ConfigurationSpec
from sluice.core.workload.reasons import ADMISSION_CHECK, PODS_READY_TIMEOUT
from sluice.events.base import Micros
from sluice.events.slices import WorkloadRecord

PRIORITY_BOOST_ANNOTATION = "kueue.x-k8s.io/priority-boost"


def effective_priority(record: WorkloadRecord, config: ConfigurationSpec) -> int:
    """Return the priority that counts: with the gate PriorityBoost, raised or lowered by the annotation.

    An annotation that is no 32-bit integer counts as 0; validation refuses it elsewhere.
    """
    if not enabled(config.feature_gates, PRIORITY_BOOST):
        return record.priority
    return record.priority + priority_boost(record.annotations)


def priority_boost(annotations: Mapping[str, str]) -> int:
    """Return the boost that the annotations ask for, 0 without one."""
    text = annotations.get(PRIORITY_BOOST_ANNOTATION, "")
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit()):
        return 0
    boost = int(text)
    return boost if -(2**31) <= boost < 2**31 else 0


class _Queued(Protocol):
    """A workload, as the scheduler or a reader has it, by what says when it queues."""

    @property
    def record(self) -> WorkloadRecord: ...
    @property
    def last_evicted_at(self) -> Micros | None: ...
    @property
    def last_evicted_reason(self) -> str: ...


def queue_order_timestamp(workload: _Queued, config: ConfigurationSpec) -> Micros:
    """Return the time by which a workload queues among its equals.

    Its creation; or the eviction that sent it back to the queue because its pods were not ready in time (if
    so configured) or because a check asked for a retry, for as long as it has not been given quota again.
    """
    evicted_at, reason = workload.last_evicted_at, workload.last_evicted_reason
    if evicted_at is not None and (
        reason == ADMISSION_CHECK
        or (
            reason == PODS_READY_TIMEOUT
            and config.wait_for_pods_ready.requeuing_strategy.timestamp == "Eviction"
        )
    ):
        return evicted_at
    return workload.record.created_at


def queue_time(workload: _Queued, config: ConfigurationSpec) -> Micros:
    """Return the same, of a variant its parent's, whatever has happened to it (CA6)."""
    record = workload.record
    return record.created_at if record.parent is not None else queue_order_timestamp(workload, config)


def identity_of(record: WorkloadRecord) -> str:
    """Return what breaks ties in the queue: siblings stand together, the most preferred first (CA6)."""
    return record.uid if record.parent is None else f"{record.parent_uid}/{record.preference:04}/{record.uid}"


def queue_rank(
    workload: _Queued, priority: int, identity: str, config: ConfigurationSpec
) -> tuple[int, Micros, str]:
    """Return what orders all that wait for quota of a queue, the least first (SC1).

    *priority*: the effective one; *identity*: `identity_of` its record.
    """
    return (-priority, queue_time(workload, config), identity)


__all__ = [
    "effective_priority",
    "identity_of",
    "queue_order_timestamp",
    "queue_rank",
    "queue_time",
]
