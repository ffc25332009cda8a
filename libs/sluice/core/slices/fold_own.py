"""Fold of the slice-aggregator's own decisions. No choices are left here."""

from heapq import heappush

import msgspec

from sluice.core.timing import MICROS_PER_S
from sluice.core.workload.charges import counts, grows
from sluice.core.workload.reasons import JOB_DELETED, NO_MATCHING_WORKLOAD
from sluice.events import slices
from sluice.events.base import Event, Micros

from .dispatch import cut, placement
from .fold_effects import (
    Handler,
    begin_sizes,
    drop_finished,
    drop_job,
    drop_pending,
    note_replaced,
    prune,
    succeed,
)
from .intake import Inbound
from .lazy_manifest import note_before_end, note_manifest
from .limits import look_at_limits, note_adjusted
from .resize import note_size
from .responses import SLICE_REPLACED
from .state import Finished, Job, Phase, State, Stop, Todo

MAX_HEARD = 8
"""How many messages of readiness are remembered of an attempt."""

MAX_LOST = 4096
"""How many agents are remembered after they were lost."""


def _created(state: State, event: slices.WorkloadCreated, _seq: int, _at: Micros) -> None:
    record = event.workload
    reference = record.job
    if reference is None:
        return
    key = reference.key
    inbound = state.answered(event.cause)
    job = state.jobs.get(key)
    if job is None:
        drop_finished(state, key)
        job = Job(key=key, uid=reference.uid, record=record, manifest_seq=event.cause)
        begin_sizes(job)
        state.jobs[key] = job
    elif record.replaces == job.record.key:
        job.pending, job.pending_changes, job.pending_switched_by = record, 0, 0
        begin_sizes(job)
        job.revision += 1
        state.by_workload[record.key] = job
        if job.todo is Todo.GROW:
            state.clear_todo(job)
        _changed(state, job, inbound, event.cause)
        return
    else:
        del state.by_workload[job.record.key]
        if job.pending is not None:
            del state.by_workload[job.pending.key]
            drop_pending(state, job)
        state.clear_todo(job)
        state.set_executor(job, "")
        job.record, job.changes, job.switched_by = record, 0, 0
        job.revision += 1
        job.phase = Phase.PENDING
        job.reserved = job.admitted = job.edited = job.pods_ready = job.evicting = False
        job.through_variant = False
        job.assignment, job.updates, job.reclaimable, job.remaining = (), None, {}, {}
        begin_sizes(job)
    state.by_workload[record.key] = job
    _changed(state, job, inbound, event.cause)


def _changed(state: State, job: Job, inbound: Inbound | None, cause: int) -> None:
    """What the job asks for is another: by the manifest *inbound*, if it comes from one."""
    if inbound is not None:
        note_manifest(state, job, inbound)
    look_at_limits(state, job, cause)
    state.touch(job)


def _updated(state: State, event: slices.WorkloadUpdated, _seq: int, _at: Micros) -> None:
    job = state.by_workload.get(event.workload)
    if job is None:
        return
    changes = event.changes
    if job.pending is not None and job.pending.key == event.workload:
        if event.active is not None:
            job.pending_switched_by = event.cause
        job.pending = msgspec.structs.replace(job.pending, **changes)
        if event.pod_sets is not None:
            job.pending_changes += 1
            note_size(job, job.pending_changes, counts(event.pod_sets))
        if job.pending_todo is Todo.REACTIVATE and event.active:
            state.clear_pending_todo(job)
    elif changes:
        if event.active is not None:
            job.switched_by = event.cause
        if event.pod_sets is not None:
            job.changes += 1
            note_adjusted(state, job, event.pod_sets)
        job.record = msgspec.structs.replace(job.record, **changes)
        if event.pod_sets is not None and job.phase is Phase.RUNNING:
            job.placement = cut(job.placement, counts(event.pod_sets))
        if event.pod_sets is not None and job.pending is None:
            note_size(job, job.changes, counts(event.pod_sets))
    waits = job.phase is Phase.PENDING and not job.keeps_quota
    if waits and ("pod_sets" in changes or "queue_name" in changes):
        job.edited = True
    _changed(state, job, state.answered(event.cause), event.cause)


def _resumed(state: State, event: slices.JobResumed, seq: int, _at: Micros) -> None:
    job = state.jobs.get(event.job)
    if job is None:
        return
    state.clear_todo(job)
    job.phase = Phase.RUNNING
    job.attempt, job.since = event.attempt, seq
    job.pods_ready = False
    job.heard = []
    job.reclaimable, job.remaining = {}, {}
    job.reason = job.message = ""
    job.placement = cut(placement(state, job), counts(job.record.pod_sets))
    state.touch(job)


def _resized(state: State, event: slices.JobResized, _seq: int, _at: Micros) -> None:
    job = state.jobs.get(event.job)
    if job is None:
        return
    state.clear_todo(job)
    if grows(event.pods, counts(job.record.pod_sets)):
        state.set_todo(job, Todo.GROW, event.cause)
    else:
        prune(state, job, event.cause)
    state.touch(job)


_STOPS = {JOB_DELETED: Stop.DELETED, NO_MATCHING_WORKLOAD: Stop.REPLACED}


def _suspended(state: State, event: slices.JobSuspended, _seq: int, _at: Micros) -> None:
    job = state.jobs.get(event.job)
    if job is None:
        return
    state.clear_todo(job)
    job.phase = Phase.STOPPING
    job.reason, job.message = event.reason, event.message
    job.stop = _STOPS.get(event.reason, Stop.EVICTED)
    if job.stop is Stop.DELETED:
        state.answered(event.cause)
    state.touch(job)


def _claimed(state: State, event: slices.JobClaimed, _seq: int, _at: Micros) -> None:
    inbound = state.answered(event.cause)
    job = state.jobs.get(event.job)
    if job is not None:
        state.set_executor(job, event.executor, event.on_loss)
        _note_heard(job, inbound)


def _pods_ready(state: State, event: slices.WorkloadPodsReady, _seq: int, _at: Micros) -> None:
    inbound = state.answered(event.cause)
    job = state.by_workload.get(event.workload)
    if job is not None:
        job.pods_ready = event.ready
        _note_heard(job, inbound)


def _note_heard(job: Job, inbound: Inbound | None) -> None:
    """A copy of the message that comes late, when the server forgets ids, must not count once more."""
    if inbound is not None and inbound.message_id:
        job.heard = [*job.heard[1 - MAX_HEARD :], inbound.message_id]


def _reclaimable(state: State, event: slices.ReclaimablePodsUpdated, _seq: int, _at: Micros) -> None:
    job = state.by_workload.get(event.workload)
    if job is not None and job.record.key != event.workload:
        job.pending_reclaimable = event.pods
        return  # it goes with another event, which answers the message
    state.answered(event.cause)
    if job is not None:
        job.reclaimable = event.pods


def _completions(state: State, event: slices.CompletionsUpdated, _seq: int, _at: Micros) -> None:
    state.answered(event.cause)
    job = state.jobs.get(event.job)
    if job is not None:
        job.remaining = event.remaining


def _stopped(state: State, event: slices.WorkloadStopped, _seq: int, _at: Micros) -> None:
    state.answered(event.cause)
    job = state.by_workload.get(event.workload)
    if job is None:
        return
    state.clear_todo(job)
    state.set_executor(job, "")
    job.phase = Phase.PENDING
    job.admitted = job.pods_ready = False
    job.evicting = job.reserved  # its quota will be released
    job.placement, job.reclaimable, job.remaining = (), {}, {}
    if event.reason:
        job.reason, job.message = event.reason, event.message
    look_at_limits(state, job, event.cause)
    state.touch(job)


def _finished(state: State, event: slices.WorkloadFinished, _seq: int, at: Micros) -> None:
    state.answered(event.cause)
    job = state.by_workload.get(event.workload)
    if job is None:
        return
    if job.pending is not None and job.pending.key == event.workload:
        # It ends with its job, of which more is said next.
        del state.by_workload[event.workload]
        note_replaced(state, job, event.workload, at)
        drop_pending(state, job)
        return
    if event.reason == SLICE_REPLACED and job.pending is not None:
        state.clear_todo(job)
        succeed(state, job, at)
        job.reserved = False
        look_at_limits(state, job, event.cause)
        state.touch(job)
        return
    note_before_end(state, job)
    drop_job(state, job)
    key = job.key
    due = None if job.ttl_s is None else at + job.ttl_s * MICROS_PER_S
    state.finished[key] = Finished(
        key=key,
        uid=job.uid,
        workload=event.workload,
        finished_at=at,
        attempt=job.attempt,
        message_id=job.message_id,
        slices=job.history,
        due=due,
    )
    state.finished_workloads[event.workload] = key
    if due is not None:
        heappush(state.expiry, (due, key))


def _deleted(state: State, event: slices.WorkloadDeleted, _seq: int, _at: Micros) -> None:
    state.answered(event.cause)
    job = state.by_workload.get(event.workload)
    if job is not None and job.pending is not None and job.pending.key == event.workload:
        del state.by_workload[event.workload]
        drop_pending(state, job)
        if job.todo is Todo.FORGET_SLICE:
            state.clear_todo(job)
        look_at_limits(state, job, event.cause)
        state.touch(job)
    elif job is not None:
        for key in job.history:
            del state.aging[key]
        drop_job(state, job)
    elif (owner := state.replaced.pop(event.workload, None)) is not None:
        del state.aging[event.workload]
        owner.history.remove(event.workload)
        if owner.todo is Todo.PRUNE:
            state.clear_todo(owner)
            prune(state, owner, event.cause)
    elif (whose := state.finished_workloads.get(event.workload)) is not None:
        drop_finished(state, whose)
    elif (aging := state.aging.pop(event.workload, None)) is not None:
        state.finished[aging[0]].slices.remove(event.workload)


def _rejected(state: State, event: slices.Rejected, _seq: int, _at: Micros) -> None:
    if state.answered(event.cause) is None:
        _presence_answered(state, event.cause)


def _ignored(state: State, event: slices.InputsIgnored, _seq: int, _at: Micros) -> None:
    for seq in event.seqs:
        if state.answered(seq) is None:
            _presence_answered(state, seq)


def _presence_answered(state: State, seq: int) -> None:
    if state.presence and state.presence[0].seq == seq:
        state.presence.popleft()


def _executor_seen(state: State, event: slices.ExecutorSeen, _seq: int, _at: Micros) -> None:
    _presence_answered(state, event.cause)
    state.executors.pop(event.executor, None)
    state.executors[event.executor] = True
    state.away.pop(event.executor, None)


def _executor_lost(state: State, event: slices.ExecutorLost, _seq: int, _at: Micros) -> None:
    _presence_answered(state, event.cause)
    executors = state.executors
    state.away.pop(event.executor, None)
    executors.pop(event.executor, None)
    executors[event.executor] = False
    if len(executors) > MAX_LOST:
        oldest = next((name for name, present in executors.items() if not present), None)
        if oldest is not None:
            del executors[oldest]


def _executor_away(state: State, event: slices.ExecutorAway, _seq: int, _at: Micros) -> None:
    _presence_answered(state, event.cause)
    state.away[event.executor] = None


OWN_FOLDS: dict[type[Event], Handler] = {
    slices.WorkloadCreated: _created,
    slices.WorkloadUpdated: _updated,
    slices.JobResumed: _resumed,
    slices.JobResized: _resized,
    slices.JobSuspended: _suspended,
    slices.JobClaimed: _claimed,
    slices.WorkloadPodsReady: _pods_ready,
    slices.CompletionsUpdated: _completions,
    slices.ReclaimablePodsUpdated: _reclaimable,
    slices.WorkloadStopped: _stopped,
    slices.WorkloadFinished: _finished,
    slices.WorkloadDeleted: _deleted,
    slices.Rejected: _rejected,
    slices.InputsIgnored: _ignored,
    slices.ExecutorSeen: _executor_seen,
    slices.ExecutorAway: _executor_away,
    slices.ExecutorLost: _executor_lost,
}
