"""Fold of what jobs are told to do, who does it, and what becomes of growth that they take back."""

from collections.abc import Callable
from typing import Any

from sluice.core.views.state import State
from sluice.events.base import Event, Micros
from sluice.events.scheduler import WorkloadSliceWithdrawn
from sluice.events.slices import JobClaimed, JobResumed, JobSuspended

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


def _suspended(state: State, event: JobSuspended, _seq: int, at: Micros) -> None:
    job = state.jobs.get(event.job)
    if job is not None:
        job.attempt, job.running, job.changed_at = event.attempt, False, at
        job.reason, job.message = event.reason, event.message


def _slice_withdrawn(state: State, event: WorkloadSliceWithdrawn, seq: int, at: Micros) -> None:
    """It is deleted next; what is left to tell of it is told of the slice that runs on."""
    running = state.workloads.get(event.running)
    if running is not None:
        remember(running, event, seq, at)


JOB_FOLDS: dict[type[Event], Callable[[State, Any, int, Micros], None]] = {
    JobClaimed: _claimed,
    JobResumed: _resumed,
    JobSuspended: _suspended,
    WorkloadSliceWithdrawn: _slice_withdrawn,
}
