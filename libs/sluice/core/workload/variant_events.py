"""A variant is an ordinary workload: its events, in the words that readers of workloads know."""

from collections.abc import Callable
from typing import Any

from sluice.events import slices, variants
from sluice.events.base import Event


def as_workload_event(event: Event) -> Event:
    """Return the event of the slice-aggregator that means the same; *event* itself if there is none."""
    translate = TRANSLATIONS.get(type(event))
    return event if translate is None else translate(event)


def updated_as_workload(event: variants.VariantUpdated) -> slices.WorkloadUpdated:
    """Return what an update of a variant says of it as a workload."""
    return slices.WorkloadUpdated(
        cause=event.cause,
        workload=event.workload,
        queue_name=event.queue_name,
        priority=event.priority,
        priority_class=event.priority_class,
        maximum_execution_time_s=event.maximum_execution_time_s,
        pod_sets=event.pod_sets,
        labels=event.labels,
        annotations=event.annotations,
        misconfigured=event.misconfigured,
    )


def _stopped(event: variants.VariantStopped) -> slices.WorkloadStopped:
    return slices.WorkloadStopped(
        cause=event.cause, workload=event.workload, reason=event.reason, message=event.message
    )


TRANSLATIONS: dict[type[Event], Callable[[Any], Event]] = {
    variants.VariantActivated: lambda e: slices.WorkloadUpdated(
        cause=e.cause, workload=e.workload, active=True
    ),
    variants.VariantCreated: lambda e: slices.WorkloadCreated(cause=e.cause, workload=e.workload),
    variants.VariantDeactivated: lambda e: slices.WorkloadUpdated(
        cause=e.cause, workload=e.workload, active=False
    ),
    variants.VariantDeleted: lambda e: slices.WorkloadDeleted(cause=e.cause, workload=e.workload),
    variants.VariantPodsReady: lambda e: slices.WorkloadPodsReady(
        cause=e.cause, workload=e.workload, ready=e.ready
    ),
    variants.VariantPodsReclaimed: lambda e: slices.ReclaimablePodsUpdated(
        cause=e.cause, workload=e.workload, pods=e.pods
    ),
    variants.VariantStopped: _stopped,
    variants.VariantUpdated: updated_as_workload,
}
"""Events of variants, and what makes the same event of a workload of each."""
