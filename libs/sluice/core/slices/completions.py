"""Completions of an elastic job: no more pods run than completions are left to do (WS3, SC7).

Kubernetes runs `min(parallelism, completions - succeeded)` pods. So a larger size needs quota for as many
only, and the others are reclaimable in the slice that asks for it, from when it is made: nobody is preempted
for them. The size itself stays what was asked for, since the next attempt has everything to do again.

Executors say what is done (`JobPodsReclaimable.succeeded`). Without that, all pods are taken to be needed,
until they say what has ended.
"""

from collections.abc import Mapping, Sequence

from sluice.core.workload.charges import counts, grows
from sluice.events import slices
from sluice.events.base import Event, JobKey, PodSet

from .job_request import most_pods
from .lazy_manifest import read_manifest
from .state import Job, State
from .submission import Submission

__all__ = ["left_in", "made"]


def left_of(most: Mapping[str, int], succeeded: Mapping[str, int]) -> dict[str, int]:
    """Return pod set -> how many of its pods may still run when of *most* completions so many are done."""
    return {name: max(0, most[name] - n) for name, n in succeeded.items() if name in most}


def left_by(job: Job, most: Mapping[str, int]) -> dict[str, int]:
    """Return the same for a running job whose new manifest has *most* completions (`most_pods`).

    Of fewer, nobody knows which are among those that are done; the executor will say.
    """
    return {
        name: n + most[name] - job.most[name]
        for name, n in job.remaining.items()
        if name in job.most and most.get(name, 0) >= job.most[name]
    }


def left_in(state: State, key: JobKey, submission: Submission) -> dict[str, int]:
    """Return the same for a job of which a manifest is thought of."""
    job = state.jobs.get(key)
    if job is None or not job.remaining:
        return {}
    read_manifest(state, job)
    return left_by(job, most_pods(submission.manifest))


def edited(job: Job, cause: int, remaining: dict[str, int]) -> Sequence[Event]:
    """Return what a new manifest leaves to do, if that is news."""
    if remaining == job.remaining:
        return ()
    return (slices.CompletionsUpdated(cause=cause, job=job.key, remaining=remaining),)


def not_needed(remaining: Mapping[str, int], pod_sets: Sequence[PodSet]) -> dict[str, int]:
    """Return pod set -> how many of *pod_sets* can never run."""
    return {
        name: count - remaining[name]
        for name, count in counts(pod_sets).items()
        if remaining.get(name, count) < count
    }


def made(cause: int, record: slices.WorkloadRecord, remaining: Mapping[str, int]) -> Sequence[Event]:
    """Return the beginning of the slice *record* that is to replace the job's present one."""
    created = slices.WorkloadCreated(cause=cause, workload=record)
    ended = not_needed(remaining, record.pod_sets)
    if not ended:
        return (created,)
    return (created, slices.ReclaimablePodsUpdated(cause=cause, workload=record.key, pods=ended))


def resized_pending(
    job: Job, change: slices.WorkloadUpdated, pod_sets: Sequence[PodSet], remaining: Mapping[str, int]
) -> Sequence[Event]:
    """Return the change of the pending slice to *pod_sets*, with how many of these can never run."""
    assert job.pending is not None
    said = asking(job, change.cause, pod_sets, remaining)
    # In this order it is charged for no more than before in between.
    grown = grows(counts(job.pending.pod_sets), counts(pod_sets))
    return (*said, change) if grown else (change, *said)


def asking(
    job: Job, cause: int, pod_sets: Sequence[PodSet], remaining: Mapping[str, int]
) -> Sequence[slices.ReclaimablePodsUpdated]:
    """Return how many pods of the pending slice can never run, if that is news."""
    assert job.pending is not None
    ended = not_needed(remaining, pod_sets)
    if ended == job.pending_reclaimable:
        return ()
    return (slices.ReclaimablePodsUpdated(cause=cause, workload=job.pending.key, pods=ended),)
