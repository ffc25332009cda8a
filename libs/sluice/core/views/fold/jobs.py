"""Fold of what jobs are told to do, who does it, and what becomes of growth that they take back."""

from collections.abc import Callable
from typing import Any

from sluice.core.views.records import Transition, WorkloadView
from sluice.core.views.state import State
from sluice.core.workload.reasons import NO_MATCHING_WORKLOAD
from sluice.events.base import Event, Micros
from sluice.events.scheduler import WorkloadSliceWithdrawn
from sluice.events.slices import JobClaimed, JobResumed, JobSuspended, Rejected
from sluice.protocol.subjects import job_of

from .common import remember


def _resumed(state: State, event: JobResumed, _seq: int, at: Micros) -> None:
    job = state.jobs.get(event.job)
    if job is not None:
        job.attempt, job.running, job.changed_at = event.attempt, True, at
        job.reason = job.message = job.executor = ""


def _claimed(state: State, event: JobClaimed, _seq: int, _at: Micros) -> None:
    job = state.jobs.get(event.job)
    if job is not None:
        job.executor = event.executor


def _suspended(state: State, event: JobSuspended, seq: int, at: Micros) -> None:
    job = state.jobs.get(event.job)
    if job is None:
        return
    job.attempt, job.running, job.changed_at = event.attempt, False, at
    job.reason, job.message = event.reason, event.message
    if event.reason == NO_MATCHING_WORKLOAD and (stopped := state.live(event.workload)) is not None:
        remember(stopped, event, seq, at)


def tell_why_stopped(before: WorkloadView, after: WorkloadView) -> None:
    """Tell of the workload that a changed job gets why its job was stopped: the one before goes next."""
    for told in before.history:
        if isinstance(told.event, JobSuspended):
            remember(after, told.event, told.seq, told.at)


def _slice_withdrawn(state: State, event: WorkloadSliceWithdrawn, seq: int, at: Micros) -> None:
    """It is deleted next; what is left to tell of it is told of the slice that runs on."""
    running = state.workloads.get(event.running)
    if running is not None:
        remember(running, event, seq, at)


def _rejected(state: State, event: Rejected, seq: int, at: Micros) -> None:
    """An edit of the job was refused: told of the workload that goes on as it was, once if it is repeated."""
    key = job_of(event.subject) if event.event_type in _EDITS else None
    job = state.jobs.get(key) if key is not None else None
    own = [] if job is None else [w for w in job.workloads.values() if w.record.parent is None]
    live = [w for w in own if w.finished_at is None]
    if not live:
        return
    # Of slices, the one that runs, else the newest: whatever order a snapshot leaves them in.
    workload = max(live, key=lambda w: (w.admitted_at is not None, w.record.uid))
    last = workload.history[-1] if workload.history else None
    if (
        last is not None
        and isinstance(last.event, Rejected)
        and list(last.event.errors) == list(event.errors)
    ):
        workload.history[-1] = Transition(seq, at, event)
    else:
        remember(workload, event, seq, at)


_EDITS = ("JobSubmitted", "JobScaled", "JobActivated", "JobDeactivated")
"""What people ask of a job; what executors report is not told to them if it comes to nothing."""


JOB_FOLDS: dict[type[Event], Callable[[State, Any, int, Micros], None]] = {
    JobClaimed: _claimed,
    JobResumed: _resumed,
    JobSuspended: _suspended,
    Rejected: _rejected,
    WorkloadSliceWithdrawn: _slice_withdrawn,
}
