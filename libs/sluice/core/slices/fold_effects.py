"""Effects of an event on a job: its next slice, its history, its end.

The folds of single events are made of these.
"""

from collections.abc import Callable
from heapq import heappop
from typing import Any

from sluice.core.workload.charges import counts
from sluice.events.base import JobKey, Micros, WorkloadKey

from .state import Job, State, Todo

Handler = Callable[[State, Any, int, Micros], None]
"""Folds one event: state, event, sequence of its message, when it was decided."""


def succeed(state: State, job: Job, at: Micros) -> None:
    """Let the pending slice speak for the job; the old one becomes history."""
    assert job.pending is not None
    del state.by_workload[job.record.key]
    note_replaced(state, job, job.record.key, at)
    job.record, job.changes, job.switched_by = job.pending, job.pending_changes, job.pending_switched_by
    job.assignment = job.pending_assignment
    job.updates = job.pending_updates
    job.admitted = job.pending_admitted
    job.evicting = job.edited = False
    job.reclaimable = job.pending_reclaimable
    drop_pending(state, job)


def note_replaced(state: State, job: Job, key: WorkloadKey, at: Micros) -> None:
    """Keep a slice that another one has replaced, until it ages."""
    job.history.append(key)
    state.replaced[key] = job
    state.aging[key] = (job.key, at)


def prune(state: State, job: Job, seq: int) -> None:
    """Have the oldest slices of a history removed that is longer than it may be."""
    if job.todo is Todo.NONE and len(job.history) > state.config.workload_slice_history_limit:
        state.set_todo(job, Todo.PRUNE, seq)


def prune_all(state: State, seq: int) -> None:
    """The limit may be a smaller one now; in the order of `aging`, which snapshots keep."""
    for key in state.aging:
        job = state.replaced.get(key)
        if job is not None:
            prune(state, job, seq)


def drop_pending(state: State, job: Job) -> None:
    """Forget the slice that waited to replace the one that the job has."""
    job.pending, job.pending_changes, job.pending_switched_by = None, 0, 0
    state.clear_pending_todo(job)
    begin_sizes(job)
    job.pending_assignment, job.pending_updates, job.pending_admitted = (), None, False
    job.pending_reclaimable = {}


def begin_sizes(job: Job) -> None:
    """Start anew to note the sizes that a job has had: see `resize.low_since`."""
    newest, changes = (job.record, job.changes) if job.pending is None else (job.pending, job.pending_changes)
    size = counts(newest.pod_sets)
    job.sizes = [(changes, size, dict(size))]


def drop_job(state: State, job: Job) -> None:
    """Take a job that is over off all lists."""
    state.clear_todo(job)
    state.clear_pending_todo(job)
    state.set_executor(job, "")
    del state.by_workload[job.record.key]
    if job.pending is not None:
        del state.by_workload[job.pending.key]
    for key in job.history:
        del state.replaced[key]
    del state.jobs[job.key]
    state.unread.pop(job.key, None)
    state.adjusting.pop(job.key, None)
    state.touch(job)


def drop_finished(state: State, key: JobKey) -> None:
    """Forget a job that has finished."""
    finished = state.finished.pop(key, None)
    if finished is None:
        return
    del state.finished_workloads[finished.workload]
    for slice_key in finished.slices:
        del state.aging[slice_key]
    expiry = state.expiry
    while expiry and ((kept := state.finished.get(expiry[0][1])) is None or kept.due != expiry[0][0]):
        heappop(expiry)
