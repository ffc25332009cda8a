"""A change of a job, as its workloads have it: all variants and slices of a job change with it (CA6, WS3)."""

from collections.abc import Iterator

import msgspec

from sluice.core.scheduler.state import SchedulerState
from sluice.core.world.variants import RETAIN_FIRST, admitted_sibling, parent_holds, siblings
from sluice.core.world.workload import Workload
from sluice.core.world.workload_slices import replaced_slice
from sluice.events.base import Event, WorkloadKey
from sluice.events.slices import WorkloadCreated, WorkloadDeleted, WorkloadUpdated


def has_quota(state: SchedulerState, workload: Workload) -> bool:
    """Has the job quota, by another workload of its than this one? Then its manifest is fixed in part (AX1).

    What a race has reserved beside others is none yet: the job has quota when a variant is admitted (CA7).
    """
    world = state.world
    if workload.assignment is not None or replaced_slice(world, workload) is not None:
        return True
    return admitted_sibling(world, workload) is not None or parent_holds(world, workload)


def moves_from(state: SchedulerState, workload: Workload, sibling: str) -> bool:
    """Does the job leave that sibling for this variant, when there is room for it (CA9, CA10)?"""
    local = state.world.local_queues.get(f"{workload.record.namespace}/{workload.record.queue_name}")
    queue = state.world.cluster_queues.get(local.cluster_queue) if local is not None else None
    policy = queue.spec.concurrent_admission_policy if queue is not None else None
    other = state.world.workloads.get(WorkloadKey(sibling))
    if policy is None or other is None or policy.migration.mode == RETAIN_FIRST:
        return False
    return workload.record.preference < other.record.preference


def updated(state: SchedulerState, workload: Workload, **changes: object) -> tuple[Event, ...]:
    """Return what is said of its job's workloads when a manifest that is edited in place has such a value.

    A trial that changed one variant only would have it overtake its siblings, which never happens.
    """
    keys = [workload.key, *(other.key for other in _others(state, workload))]
    return tuple(WorkloadUpdated(cause=0, workload=key, **changes) for key in keys)  # type: ignore[arg-type]


def without_annotation(state: SchedulerState, workload: Workload, name: str) -> tuple[Event, ...]:
    """Return what is said of its job's workloads when a manifest without this annotation is submitted."""
    found = []
    for member in (workload, *_others(state, workload)):
        left = {key: value for key, value in member.record.annotations.items() if key != name}
        found.append(WorkloadUpdated(cause=0, workload=member.key, annotations=left))
    return tuple(found)


def recreated(state: SchedulerState, workload: Workload, **changes: object) -> tuple[Event, ...]:
    """Return what is said when its job gets other workloads in their place, with such values."""
    parent = workload.record.parent
    former = state.world.workloads.get(parent) if parent is not None else None
    family = (
        [former, *state.world.families.get(former.key, {}).values()] if former is not None else [workload]
    )
    # A parent takes its variants with it.
    gone = WorkloadDeleted(cause=0, workload=family[0].key)
    made = (msgspec.structs.replace(member.record, active=member.active, **changes) for member in family)
    return gone, *(WorkloadCreated(cause=0, workload=record) for record in made)


def _others(state: SchedulerState, workload: Workload) -> Iterator[Workload]:
    parent = workload.record.parent
    former = state.world.workloads.get(parent) if parent is not None else None
    if former is not None:
        yield former
    yield from siblings(state.world, workload)
    if (old := replaced_slice(state.world, workload)) is not None:
        yield old
