"""Limit ranges and runtime classes applied to jobs (`limit_ranges`): to those that wait, at all times.

A workload that has quota keeps what it was given; one that waits is what the limit ranges of its namespace
make of its manifest *now*: when it is made, when a limit range or runtime class changes, when it has lost its
quota. `State.adjusting` lists those that are not, which the next decision corrects by a WorkloadUpdated.

The scheduler may reserve quota anew in the very step in which a workload loses it. So what has quota and may
not have it again as it is, is marked at once: its `misconfigured` has no effect until it is nominated again.
Of a job that runs through a variant, all variants are marked: it does not move either. A reservation by a
scheduler that had not heard of the mark is given back (`fits_limits`).

A slice that waits to replace one that runs has pods like the ones that run, whatever the defaults are by now;
but it is judged like any other.

Cells without limit ranges and runtime classes pass all this over (`State.limits_used`).
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from sluice.api.core_v1 import LimitRange
from sluice.api.node_v1 import RuntimeClass
from sluice.api.quantity import resource_value
from sluice.core.workload.limit_ranges import Judged, Rules, encode, plain
from sluice.events.base import JobKey, PodSet
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.events.slices import WorkloadUpdated

from .job_request import JobRequest, resources_of
from .lazy_manifest import read_manifest
from .responses import Events
from .state import Job, Phase, State
from .submission import Submission, encoded_resources

TO_BE_ADJUSTED: Final = (
    "limit ranges or runtime classes have changed: requests will be adjusted when the quota is released"
)
"""Of a workload with quota: what it asks for is not what it would be given. Over as soon as it has none."""

# Configuration


def limit_range_applied(state: State, event: ObjectApplied, seq: int) -> None:
    """Fold a limit range.

    Raises:
        msgspec.DecodeError: it is none.
    """
    spec = msgspec.json.decode(event.object, type=LimitRange).spec
    state.limit_ranges.setdefault(event.namespace, {})[event.name] = spec
    _rules_changed(state, event.namespace, seq)


def runtime_class_applied(state: State, event: ObjectApplied, seq: int) -> None:
    """Fold a runtime class.

    Raises:
        msgspec.DecodeError: it is none.
    """
    overhead = msgspec.json.decode(event.object, type=RuntimeClass).overhead
    fixed = overhead.pod_fixed if overhead is not None else {}
    state.overheads[event.name] = {name: resource_value(name, amount) for name, amount in fixed.items()}
    _overheads_changed(state, seq)


def limits_deleted(state: State, event: ObjectDeleted, seq: int) -> None:
    """Fold the deletion of a limit range or runtime class."""
    if event.kind == "LimitRange":
        here = state.limit_ranges.get(event.namespace, {})
        if here.pop(event.name, None) is None:
            return
        if not here:
            del state.limit_ranges[event.namespace]
        _rules_changed(state, event.namespace, seq)
    elif state.overheads.pop(event.name, None) is not None:
        _overheads_changed(state, seq)


def _rules_changed(state: State, namespace: str, seq: int) -> None:
    state.limits_used = True
    state.rules.pop(namespace, None)
    _look_at_all(state, f"{namespace}/", seq)


def _overheads_changed(state: State, seq: int) -> None:
    state.limits_used = True
    state.rules.clear()
    _look_at_all(state, "", seq)


def _look_at_all(state: State, prefix: str, seq: int) -> None:
    for key, job in state.jobs.items():
        if key.startswith(prefix):
            look_at_limits(state, job, seq)


def rules_of(state: State, namespace: str) -> Rules:
    """Return what holds in a namespace; of several limit ranges, the first by name gives the defaults."""
    found = state.rules.get(namespace)
    if found is None:
        specs = state.limit_ranges.get(namespace, {})
        items = [item for name in sorted(specs) for item in specs[name].limits]
        found = state.rules[namespace] = Rules(items, state.overheads)
    return found


# Jobs


def within_limits(state: State, request: JobRequest, submission: Submission) -> JobRequest:
    """Return what a valid manifest asks for by the limit ranges of its namespace."""
    encoded = encoded_resources(submission) or encode(resources_of(submission.manifest))
    found = rules_of(state, request.namespace).judge(encoded)
    pod_sets = with_requests(request.pod_sets, found)
    if pod_sets is request.pod_sets and not found.message:
        return request
    return msgspec.structs.replace(request, pod_sets=pod_sets, misconfigured=found.message)


def as_running(state: State, job: Job, request: JobRequest, submission: Submission) -> JobRequest:
    """Return what a manifest for a job with quota asks for: pods as it has them keep their requests."""
    said = encode(resources_of(submission.manifest))
    old = job.record
    if said != _said(state, job) or len(old.pod_sets) != len(request.pod_sets):
        return request
    kept = Judged(tuple(pods.requests for pods in old.pod_sets))
    pod_sets = with_requests(request.pod_sets, kept)
    return msgspec.structs.replace(request, pod_sets=pod_sets, misconfigured=old.misconfigured)


def with_requests(pod_sets: tuple[PodSet, ...], found: Judged) -> tuple[PodSet, ...]:
    """Return the pod sets with these requests; the same object when they have them."""
    pairs = list(zip(pod_sets, found.requests, strict=True))
    if all(pods.requests == requests for pods, requests in pairs):
        return pod_sets
    return tuple(
        pods if pods.requests == requests else msgspec.structs.replace(pods, requests=requests)
        for pods, requests in pairs
    )


def note_adjusted(state: State, job: Job, pod_sets: Sequence[PodSet]) -> None:
    """Before its workload gets *pod_sets*: note what its manifest says, if that would be lost."""
    if not state.limits_used:
        return
    read_manifest(state, job)
    if not job.resources and any(
        pods.requests != now.requests for pods, now in zip(job.record.pod_sets, pod_sets, strict=False)
    ):
        job.resources = _said(state, job)


def _said(state: State, job: Job) -> bytes:
    """Return what the job's manifest says of resources."""
    read_manifest(state, job)
    return job.resources or encode(plain(pods.requests for pods in job.record.pod_sets))


def judged(state: State, job: Job) -> Judged:
    """Return what limit ranges and runtime classes make of the job's manifest by now."""
    return rules_of(state, job.record.namespace).judge(_said(state, job))


def look_at_limits(state: State, job: Job, seq: int) -> None:
    """Note whether what waits of the job is as limit ranges make it; *seq*: of what may have changed that."""
    if not state.limits_used:
        return
    if correction(state, job, 0) is None:
        state.adjusting.pop(job.key, None)
    else:
        state.adjusting[job.key] = seq


def adjusted(state: State, key: JobKey) -> Events:
    """Return what makes the workload of a job what limit ranges make of it, or marks what has quota."""
    found = correction(state, state.jobs[key], state.adjusting[key])
    return () if found is None else (found,)


def correction(state: State, job: Job, cause: int) -> WorkloadUpdated | None:
    """Return what the job's workloads lack of what limit ranges make of them, the waiting slice first."""
    pending = job.pending
    if pending is not None:
        # Its pods are like those that run, whatever the defaults are by now.
        message = rules_of(state, pending.namespace).judge(_said(state, job)).message
        if message != pending.misconfigured:
            return WorkloadUpdated(cause=cause, workload=pending.key, misconfigured=message)
    record = job.record
    found = judged(state, job)
    had = tuple(record.pod_sets)
    pod_sets = with_requests(had, found)
    message = found.message
    if pending is not None or job.reserved or job.phase is not Phase.PENDING:
        if pod_sets is not had:
            message = message or TO_BE_ADJUSTED
        pod_sets = had
    if pod_sets is had and message == record.misconfigured:
        return None
    return WorkloadUpdated(
        cause=cause,
        workload=record.key,
        pod_sets=None if pod_sets is had else pod_sets,
        misconfigured=None if message == record.misconfigured else message,
    )


def fits_limits(state: State, job: Job) -> bool:
    """Is the job's workload what limit ranges make of it, and admissible by them?

    If it is not when quota is reserved for it, the scheduler had not heard of that.
    """
    if not state.limits_used or job.pending is not None:
        return True
    had, found = tuple(job.record.pod_sets), judged(state, job)
    return not found.message and with_requests(had, found) is had


def of_growth(message: str) -> str:
    """Return what the marking *message* of the slice that runs means for the one that is to replace it."""
    return "" if message == TO_BE_ADJUSTED else message


__all__ = ["judged"]
