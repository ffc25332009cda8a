"""Reports of executors: readiness, ends and stops of an attempt."""

import msgspec

from sluice.api.errors import forbidden, invalid
from sluice.core.naming import NAME_LENGTH
from sluice.core.workload.charges import counts
from sluice.core.workload.reasons import NODE_FAILURES
from sluice.events import slices
from sluice.events.base import Event, JobKey, Micros
from sluice.events.job import JobFinished, JobPodsReady, JobPodsReclaimable, JobStopped

from .completions import asking, left_of
from .intake import ExecutorInput, Inbound
from .lazy_manifest import read_manifest
from .records import next_workload, recreated
from .resize import is_elastic, other_slices, out_of
from .responses import (
    DUPLICATE,
    MAX_COUNT,
    STALE,
    Events,
    ignored,
    overtaken_by,
    rejected,
    unknown,
    wrong_counts,
)
from .state import Job, Phase, State, Stop


def reported(state: State, key: JobKey, inbound: Inbound, data: ExecutorInput, at: Micros) -> Events:
    job = state.jobs.get(key)
    if job is None:
        finished = state.finished.get(key)
        if finished is None:
            return unknown(inbound, key)
        last = data.attempt in (None, finished.attempt) and data.uid in ("", finished.uid)
        return ignored(inbound, DUPLICATE if last and isinstance(data, JobFinished) else STALE)
    if data.uid and data.uid != job.uid:
        return ignored(inbound, STALE)
    if data.attempt is not None and data.attempt > job.attempt:
        detail = f"the job's present attempt is {job.attempt}"
        return rejected(inbound, (invalid("attempt", data.attempt, detail),))
    if isinstance(data, JobFinished) and data.attempt is None:
        # Whoever knows of no attempts (a system that runs jobs by itself) has the last word.
        return _finished(state, job, inbound, data)
    if job.phase is Phase.PENDING or data.attempt not in (None, job.attempt):
        return ignored(inbound, STALE)
    if job.executor and not isinstance(data, JobPodsReclaimable) and data.executor not in ("", job.executor):
        # An attempt is whose claim is the first in the log, until it is over; see decisions/0021.
        taken = f'attempt {job.attempt} was taken by "{job.executor}", not by "{data.executor}"'
        return rejected(inbound, (forbidden("executor", taken),))
    match data:
        case JobPodsReady():
            if len(data.executor.encode()) > NAME_LENGTH:
                # It would have to stand in a subject when its executor is lost.
                detail = f"must be no more than {NAME_LENGTH} bytes"
                return rejected(inbound, (invalid("executor", data.executor, detail),))
            return _pods_ready(job, inbound, data)
        case JobPodsReclaimable():
            return _reclaimable(state, job, inbound, data)
        case JobStopped():
            return stopped(state, job, inbound.seq, at, NODE_FAILURES, data.message or "The executor stopped")
        case JobFinished():
            return _finished(state, job, inbound, data)


def _pods_ready(job: Job, inbound: Inbound, data: JobPodsReady) -> Events:
    if inbound.message_id in job.heard:
        return ignored(inbound, DUPLICATE)  # what it said once may be over
    events: list[Event] = []
    if data.executor and not job.executor:
        events.append(
            slices.JobClaimed(
                cause=inbound.seq,
                job=job.key,
                attempt=job.attempt,
                executor=data.executor,
                on_loss=data.on_loss,
            )
        )
    if data.ready != job.pods_ready and job.phase is Phase.RUNNING:
        events.append(slices.WorkloadPodsReady(cause=inbound.seq, workload=job.record.key, ready=data.ready))
    return events or ignored(inbound, DUPLICATE)


def _reclaimable(state: State, job: Job, inbound: Inbound, data: JobPodsReclaimable) -> Events:
    there = counts(job.record.pod_sets)
    # Only of a job that shrinks as it runs can it be out of more than there are by now.
    sizes = data.counts if is_elastic(state, job.record) else {}
    ended = {
        name: out_of(n, sizes.get(name, 0), there[name]) if name in there and n >= 0 else n
        for name, n in data.pods.items()
    }
    errors = wrong_counts("pods", ended, there)
    errors += wrong_counts("succeeded", data.succeeded, dict.fromkeys(there, MAX_COUNT))
    if errors:
        return rejected(inbound, errors)
    events = _completions(state, job, inbound, data)
    # Pods that have ended stay ended, so a lower number is an older one.
    raised = {name: n for name, n in ended.items() if n > job.reclaimable.get(name, 0)}
    if raised:
        pods = {**job.reclaimable, **raised}
        events.append(slices.ReclaimablePodsUpdated(cause=inbound.seq, workload=job.record.key, pods=pods))
    return events or ignored(inbound, DUPLICATE)


def _completions(state: State, job: Job, inbound: Inbound, data: JobPodsReclaimable) -> list[Event]:
    """Return what follows from how many completions are done: a larger size can run fewer pods (WS3)."""
    if not data.succeeded or not is_elastic(state, job.record):
        return []
    read_manifest(state, job)
    remaining = {**job.remaining, **left_of(job.most, data.succeeded)}
    if remaining == job.remaining:
        return []
    events: list[Event] = [slices.CompletionsUpdated(cause=inbound.seq, job=job.key, remaining=remaining)]
    if job.pending is not None:
        events += asking(job, inbound.seq, job.pending.pod_sets, remaining)
    return events


def _finished(state: State, job: Job, inbound: Inbound, data: JobFinished) -> Events:
    message = data.message or ("Job finished successfully" if data.success else "Job failed")
    finished = slices.WorkloadFinished(
        cause=inbound.seq,
        workload=job.record.key,
        reason="Succeeded" if data.success else "Failed",
        message=message,
    )
    if job.phase is Phase.STOPPING and job.stop is Stop.DELETED:
        # What waits came after the deletion: it is about the next job of this name.
        others = other_slices(job, inbound.seq)
        return (*others, finished, slices.WorkloadDeleted(cause=inbound.seq, workload=job.record.key))
    events: list[Event] = [*overtaken_by(state, job.key, inbound)]
    if job.pending is not None:
        events.append(msgspec.structs.replace(finished, workload=job.pending.key))
    return (*events, finished)


def stopped(state: State, job: Job, cause: int, at: Micros, reason: str, message: str) -> Events:
    """No pod of the job's open attempt runs any more; *reason* and *message* if nobody asked for it."""
    workload = job.record.key
    if job.phase is Phase.RUNNING:
        return (slices.WorkloadStopped(cause=cause, workload=workload, reason=reason, message=message),)
    match job.stop:
        case Stop.EVICTED:
            return (slices.WorkloadStopped(cause=cause, workload=workload),)
        case Stop.DELETED:
            return (*other_slices(job, cause), slices.WorkloadDeleted(cause=cause, workload=workload))
        case Stop.REPLACED:
            created = next_workload(state, job, cause, at)
            return recreated(job, created.cause, created.workload, cause)
