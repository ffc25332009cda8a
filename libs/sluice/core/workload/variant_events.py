"""A variant is an ordinary workload: its events, in the words that readers of workloads know."""

from collections.abc import Callable
from typing import Any

from sluice.events.base import Event
from sluice.events.slices import (
    ReclaimablePodsUpdated,
    WorkloadCreated,
    WorkloadDeleted,
    WorkloadPodsReady,
    WorkloadStopped,
    WorkloadUpdated,
)
from sluice.events.variants import (
    VariantActivated,
    VariantCreated,
    VariantDeactivated,
    VariantDeleted,
    VariantPodsReady,
    VariantPodsReclaimed,
    VariantStopped,
    VariantUpdated,
)


def as_workload_event(event: Event) -> Event:
    """Return the event of the slice-aggregator that means the same; *event* itself if there is none."""
    translate = TRANSLATIONS.get(type(event))
    return event if translate is None else translate(event)


def updated_as_workload(event: VariantUpdated) -> WorkloadUpdated:
    """Return what an update of a variant says of it as a workload."""
    return WorkloadUpdated(
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


def _stopped(event: VariantStopped) -> WorkloadStopped:
    return WorkloadStopped(
        cause=event.cause, workload=event.workload, reason=event.reason, message=event.message
    )


TRANSLATIONS: dict[type[Event], Callable[[Any], Event]] = {
    VariantActivated: lambda e: WorkloadUpdated(cause=e.cause, workload=e.workload, active=True),
    VariantCreated: lambda e: WorkloadCreated(cause=e.cause, workload=e.workload),
    VariantDeactivated: lambda e: WorkloadUpdated(cause=e.cause, workload=e.workload, active=False),
    VariantDeleted: lambda e: WorkloadDeleted(cause=e.cause, workload=e.workload),
    VariantPodsReady: lambda e: WorkloadPodsReady(cause=e.cause, workload=e.workload, ready=e.ready),
    VariantPodsReclaimed: lambda e: ReclaimablePodsUpdated(cause=e.cause, workload=e.workload, pods=e.pods),
    VariantStopped: _stopped,
    VariantUpdated: updated_as_workload,
}
"""Events of variants, and what makes the same event of a workload of each."""
