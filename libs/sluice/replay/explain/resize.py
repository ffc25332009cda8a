"""What `simulate` asks of an elastic job that runs: its manifest with another size is a resize."""

import msgspec

from sluice.api.features import enabled
from sluice.api.labels import ELASTIC_JOB, WORKLOAD_SLICE_NAME
from sluice.core.scheduler.state import SchedulerState
from sluice.core.slices.resize import GATE, grows, same_but_for_size
from sluice.core.workload.charges import counts
from sluice.core.world.workload import Workload
from sluice.events.base import Event
from sluice.events.slices import WorkloadCreated, WorkloadDeleted, WorkloadRecord


def workload_of(state: SchedulerState, job: str) -> Workload | None:
    """Return the job's workload, one with quota before one that waits; None if it has none, or is over."""
    found = [
        w
        for w in state.world.workloads.values()
        if w.record.job is not None and w.record.job.key == job and not w.finished and w.record.parent is None
    ]
    return min(found, key=lambda w: (w.assignment is None, w.uid), default=None)


def is_resize(state: SchedulerState, running: Workload, record: WorkloadRecord) -> bool:
    """Would *record* change the size of the job while it runs (WS3)?"""
    elastic = all(r.annotations.get(ELASTIC_JOB) == "true" for r in (running.record, record))
    return (
        elastic
        and enabled(state.world.config.feature_gates, GATE)
        and running.assignment is not None
        and running.evicted_at is None
        and same_but_for_size(running.record.pod_sets, record.pod_sets)
    )


def growth(
    state: SchedulerState, running: Workload, record: WorkloadRecord, cause: int
) -> tuple[WorkloadRecord, tuple[Event, ...]] | None:
    """Return the slice that would ask for the size of *record*, with its events; None if it needs no quota.

    A growth that waits already goes for it: there are never more than two slices.
    """
    if not grows(counts(running.record.pod_sets), counts(record.pod_sets)):
        return None
    of_lineage = {
        **record.annotations,
        WORKLOAD_SLICE_NAME: running.record.annotations.get(WORKLOAD_SLICE_NAME, running.record.name),
    }
    grown = msgspec.structs.replace(
        record, replaces=running.key, job=running.record.job, annotations=of_lineage
    )
    before = tuple(
        WorkloadDeleted(cause=cause, workload=w.key)
        for w in state.world.workloads.values()
        if w.record.replaces == running.key and not w.finished
    )
    return grown, (*before, WorkloadCreated(cause=cause, workload=grown))


__all__ = ["growth", "is_resize", "workload_of"]
