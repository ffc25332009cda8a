"""Resizes of elastic jobs: which workload slices there are to be (WS1-WS4, WS8).

A job whose workload has quota keeps it, and with it its processes, while its size changes:

- fewer pods: the slice shrinks in place;
- more pods: a second slice asks for all of them; the scheduler admits it in the first one's place;
- another size while the second slice waits: that one is changed in place. When it becomes no larger than
  the first, it needs nothing more: the scheduler withdraws it, and it is deleted. That is the scheduler's
  to say, since it may have admitted it meanwhile; so whatever it decides, the newest slice has the newest
  size. Until it has, the next size waits: growth that comes after is another one, whatever was reserved
  and approved for the first.
"""

from collections.abc import Mapping, Sequence

import msgspec

from sluice.api import labels
from sluice.api.errors import FieldError, invalid
from sluice.api.features import ELASTIC_JOBS_VIA_WORKLOAD_SLICES, enabled
from sluice.core.workload.charges import asks_for_more, counts, grows
from sluice.events.base import Event, Micros, PodSet, PodSetAssignment, WorkloadKey
from sluice.events.slices import (
    ReclaimablePodsUpdated,
    WorkloadDeleted,
    WorkloadRecord,
    WorkloadUpdated,
)

from .completions import edited, made, not_needed, resized_pending
from .limits import of_growth
from .records import next_name, next_uid, same, update
from .responses import Events
from .state import Job, State, Todo

__all__ = ["is_elastic", "of_lineage", "out_of", "same_but_for_size"]

MAX_SIZES = 64
"""How many sizes of a waiting slice are told apart."""


def is_elastic(state: State, record: WorkloadRecord) -> bool:
    """Tell whether the workload is a slice of an elastic job (WS1)."""
    opted_in = record.annotations.get(labels.ELASTIC_JOB) == "true"
    return opted_in and enabled(state.config.feature_gates, ELASTIC_JOBS_VIA_WORKLOAD_SLICES)


def resizes(state: State, job: Job) -> bool:
    """Does the job change its size without stopping? It must have quota of its own, and be about to keep it.

    Concurrent admission and slices do not go together: with a variant's quota, the job is stopped instead.
    """
    return job.keeps_quota and not job.through_variant and is_elastic(state, job.record)


def wanted(job: Job) -> Sequence[PodSet]:
    """Return the pods that the job is to have: those of its newest slice."""
    return (job.record if job.pending is None else job.pending).pod_sets


def was_refused(job: Job) -> bool:
    """Tell whether a check has rejected the growth that the job asks for; whoever asks again means it."""
    return job.pending is not None and job.record.active and not job.pending.active


def taken_back(state: State, job: Job) -> bool:
    """Tell whether the job's growth was taken back, and the scheduler has yet to say what becomes of it.

    It withdraws the pending slice, or has admitted it already, or the running one loses its quota.
    """
    if job.pending is None or asks_for_more(job.pending.pod_sets, job.record.pod_sets):
        return False
    return resizes(state, job)


def same_but_for_size(old: Sequence[PodSet], new: Sequence[PodSet]) -> bool:
    """Tell whether pod sets differ at most in their counts."""
    return same([_sizeless(pods) for pods in old], [_sizeless(pods) for pods in new])


def _sizeless(pods: PodSet) -> PodSet:
    return msgspec.structs.replace(pods, count=0, min_count=None)


def without_pods(pod_sets: Sequence[PodSet]) -> tuple[FieldError, ...]:
    """An elastic job with no pod at all would neither end nor run."""
    if any(pods.count for pods in pod_sets):
        return ()
    return (invalid("podSets", 0, "an elastic job keeps at least one pod: delete or deactivate it instead"),)


_LINEAGE = (labels.WORKLOAD_SLICE_NAME, labels.SLICE_REPLACEMENT_FOR)


def of_lineage(record: WorkloadRecord, old: WorkloadRecord) -> WorkloadRecord:
    """Return *record* with the lineage of *old*, for comparing or changing it in place."""
    lineage = {name: old.annotations[name] for name in _LINEAGE if name in old.annotations}
    return msgspec.structs.replace(
        record, replaces=old.replaces, annotations={**record.annotations, **lineage}
    )


def resize(
    state: State,
    job: Job,
    cause: int,
    at: Micros,
    pod_sets: Sequence[PodSet],
    record: WorkloadRecord | None = None,
    remaining: dict[str, int] | None = None,
) -> Events:
    """Return what brings the job to *pod_sets*; *record* has its other new properties, if any changed.

    *remaining*: how many pods of each set may still run by its new manifest, if there is one.
    """
    if remaining is None:
        remaining = job.remaining
    old = job.record
    grown = grows(counts(old.pod_sets), counts(pod_sets))
    events: list[Event] = []
    kept = old if record is None else of_lineage(record, old)
    if not grown:
        kept = msgspec.structs.replace(kept, pod_sets=pod_sets)
    else:
        kept = msgspec.structs.replace(kept, pod_sets=old.pod_sets)
    shrinks = not grown and not (job.pending is not None and counts(old.pod_sets) == counts(pod_sets))
    if record is not None or shrinks:
        events.append(update(old, kept, cause))
        events += _still_reclaimable(job, cause, counts(kept.pod_sets))
    if job.pending is not None:
        base = job.pending
        if record is not None:
            judged = job.pending.misconfigured  # what *record* says of that is about the slice that runs
            base = msgspec.structs.replace(of_lineage(record, job.pending), misconfigured=judged)
        if grown and was_refused(job):
            base = msgspec.structs.replace(base, active=True)
        change = update(job.pending, msgspec.structs.replace(base, pod_sets=pod_sets), cause)
        events += resized_pending(job, change, pod_sets, remaining)
    elif grown:
        events += made(cause, next_slice(job, cause, at, kept, pod_sets), remaining)
        events += pruned(state, job, cause, coming=1)
    events += edited(job, cause, remaining)
    return events


def _still_reclaimable(job: Job, cause: int, size: Mapping[str, int]) -> Sequence[Event]:
    """Return how many pods of the smaller slice are not needed any more, if some were (SC7).

    Nobody knows yet whether it is those that had ended that have gone. As many run as may: of the old size
    all that had not ended, of the new size all. Executors may say more later.
    """
    had = counts(job.record.pod_sets)
    left = {name: out_of(n, had[name], size[name]) for name, n in job.reclaimable.items()}
    if left == job.reclaimable:
        return ()
    return (ReclaimablePodsUpdated(cause=cause, workload=job.record.key, pods=left),)


def out_of(ended: int, size: int, now: int) -> int:
    """Return how many of *now* pods are sure not to be needed, when *ended* of *size* were not."""
    return max(0, ended - max(0, size - now))


def without_growth(job: Job, cause: int) -> Sequence[Event]:
    """Take back the growth of a job that is to stop for good: nobody is to be preempted for it meanwhile.

    The scheduler withdraws it, since it may have admitted it already. *cause* must have been answered:
    what the growth's manifest was stays so.
    """
    if job.pending is None or not asks_for_more(job.pending.pod_sets, job.record.pod_sets):
        return ()
    kept = job.record.pod_sets
    change = WorkloadUpdated(cause=cause, workload=job.pending.key, pod_sets=kept)
    return resized_pending(job, change, kept, job.remaining)


def next_slice(
    job: Job, cause: int, at: Micros, like: WorkloadRecord, pod_sets: Sequence[PodSet]
) -> WorkloadRecord:
    """Return the slice that is to replace the job's present one."""
    old = job.record
    annotations = {
        **like.annotations,
        labels.WORKLOAD_SLICE_NAME: old.annotations.get(labels.WORKLOAD_SLICE_NAME, old.name),
        labels.SLICE_REPLACEMENT_FOR: old.key,
    }
    return msgspec.structs.replace(
        like,
        name=next_name(job, old),
        uid=next_uid(job, cause),
        created_at=at,
        pod_sets=pod_sets,
        annotations=annotations,
        misconfigured=of_growth(like.misconfigured),
        replaces=old.key,
    )


def note_size(job: Job, changes: int, size: Mapping[str, int]) -> None:
    """Note that the newest slice has another size by its last change, of which the scheduler hears later.

    If it reserves quota for an earlier one meanwhile, only the smallest size since then is left of that.
    """
    for _, _, low in job.sizes:
        for name, n in size.items():
            low[name] = min(n, low.get(name, n))
    if len(job.sizes) >= MAX_SIZES:
        del job.sizes[1]
    job.sizes.append((changes, dict(size), dict(size)))


def low_since(job: Job, assignment: Sequence[PodSetAssignment], observed: int) -> dict[str, int]:
    """Return what is left of an assignment, per pod set, after all changes that it did not take into account.

    *observed*: how many it did. If that is 0, it may be that nobody has said it; then it goes by the size.
    """
    assigned = counts(assignment)
    if observed:
        lows = (low for changes, _, low in reversed(job.sizes) if changes <= observed)
    else:
        # In part it may have been for any larger size: the oldest of those has seen all that came since.
        in_part = any(pods.min_count is not None for pods in job.record.pod_sets)
        lows = (
            low for _, size, low in job.sizes if size == assigned or (in_part and not grows(size, assigned))
        )
    low = next(lows, None)
    if low is None and observed:
        return dict.fromkeys(assigned, 0)  # of what came since, something may not be remembered
    if low is None:
        # Not a size that is remembered: the smallest of all is safe.
        low = job.sizes[0][2] if job.sizes else {}
    return {name: min(n, low.get(name, n)) for name, n in assigned.items()}


def granted(
    job: Job, assignment: Sequence[PodSetAssignment], pod_sets: Sequence[PodSet], observed: int
) -> Sequence[PodSet]:
    """Return the pods for which there is quota: what was assigned, less what was given up since."""
    had = low_since(job, assignment, observed)
    return tuple(
        pods
        if pods.count <= had.get(pods.name, pods.count)
        else msgspec.structs.replace(pods, count=had[pods.name])
        for pods in pod_sets
    )


def placed(job: Job) -> list[int]:
    """Return how many pods of each set were dispatched."""
    given = counts(job.placement)
    return [min(pods.count, given.get(pods.name, pods.count)) for pods in job.record.pod_sets]


def grow(state: State, job: Job, cause: int, at: Micros) -> Events:
    """The slice was admitted as it was before its last growth: that becomes a further slice."""
    had = [
        msgspec.structs.replace(pods, count=count)
        for pods, count in zip(job.record.pod_sets, placed(job), strict=True)
    ]
    events: list[Event] = [WorkloadUpdated(cause=cause, workload=job.record.key, pod_sets=had)]
    ended = not_needed(job.remaining, had)
    if ended != job.reclaimable:
        events.append(ReclaimablePodsUpdated(cause=cause, workload=job.record.key, pods=ended))
    record = next_slice(job, cause, at, job.record, job.record.pod_sets)
    events += made(cause, record, job.remaining)
    return (*events, *pruned(state, job, cause, coming=1))


def events_of_pending(state: State, job: Job, at: Micros) -> Events:
    """Return what the pending slice asks for.

    It gets no quota any more: it goes, and a size that was asked for meanwhile begins anew. Or it was
    rejected with another size than it has by now: with this one it may try.
    """
    pending, cause = job.pending, job.pending_cause
    assert pending is not None
    if job.pending_todo is Todo.REACTIVATE:
        return (WorkloadUpdated(cause=cause, workload=pending.key, active=True),)
    gone = WorkloadDeleted(cause=cause, workload=pending.key)
    if was_refused(job) or not grows(counts(job.record.pod_sets), counts(pending.pod_sets)):
        return (gone,)
    if not job.reserved:
        return (gone, WorkloadUpdated(cause=cause, workload=job.record.key, pod_sets=pending.pod_sets))
    record = next_slice(job, cause, at, pending, pending.pod_sets)
    begun = made(cause, record, job.remaining)
    return (gone, *begun, *pruned(state, job, cause, coming=1))


def pruned(state: State, job: Job, cause: int, *, coming: int = 0) -> Sequence[Event]:
    """Return the deletion of the oldest finished slices beyond the limit, *coming* ones counted (WS8)."""
    most = max(0, state.config.workload_slice_history_limit - coming)
    excess = len(job.history) - most
    return tuple(WorkloadDeleted(cause=cause, workload=key) for key in job.history[: max(0, excess)])


def other_slices(job: Job, cause: int) -> Sequence[Event]:
    """Return the deletion of all slices of the job but the one that speaks for it."""
    keys: list[WorkloadKey] = list(job.history)
    if job.pending is not None:
        keys.append(job.pending.key)
    return tuple(WorkloadDeleted(cause=cause, workload=key) for key in keys)
