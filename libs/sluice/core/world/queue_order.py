"""Priority and queue time, as queueing, scheduling and preemption see them (SC1, SC5)."""

from collections.abc import Mapping

from sluice.api.features import PRIORITY_BOOST, enabled
from sluice.api.kueue import ConfigurationSpec
from sluice.core.workload.reasons import ADMISSION_CHECK, PODS_READY_TIMEOUT
from sluice.events.base import Micros
from sluice.events.slices import WorkloadRecord

from .workload import Workload

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


def queue_order_timestamp(workload: Workload, config: ConfigurationSpec) -> Micros:
    """Return the time by which a workload queues among its equals.

    Its creation; or the eviction that sent it back to the queue because its pods were not ready in time (if
    so configured) or because a check asked for a retry, for as long as it has not been given quota again.
    """
    evicted_at = workload.evicted_at
    reason = workload.evicted_reason
    if evicted_at is None and workload.reserved_at is None:
        evicted_at = workload.last_evicted_at
        reason = workload.last_evicted_reason
    if evicted_at is not None and (
        reason == ADMISSION_CHECK
        or (
            reason == PODS_READY_TIMEOUT
            and config.wait_for_pods_ready.requeuing_strategy.timestamp == "Eviction"
        )
    ):
        return evicted_at
    return workload.record.created_at


__all__ = ["effective_priority", "queue_order_timestamp"]
