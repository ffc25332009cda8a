"""Decisions on each message, and on a job that needs something without one. Pure: state in, events out.

A message is answered by the events that name it as their cause, by Rejected, or in InputsIgnored. The
one exception are submissions, sizes and deletions that must wait for a job to stop, or for its growth to be
withdrawn: for them `answer` returns nothing, and they stay in the inbox.
"""

from sluice.api.constraints import ANNOTATIONS, BORROWING, FLAVORS, PREEMPTION, immutable
from sluice.api.errors import FieldError, forbidden, invalid
from sluice.api.labels import ELASTIC_JOB, PREEMPTION_GATES
from sluice.core.workload.charges import counts
from sluice.core.workload.inputs import merged
from sluice.core.workload.reasons import JOB_DELETED, NO_MATCHING_WORKLOAD
from sluice.events import slices
from sluice.events.base import Event, JobKey, Micros
from sluice.events.ids import uid
from sluice.events.job import JobActivated, JobDeactivated, JobDeleted, JobScaled

from .active import switched
from .completions import left_by
from .fields import pods_field, queue_field
from .intake import Inbound
from .job_request import JobRequest, most_pods
from .lazy_manifest import read_manifest
from .limits import as_running
from .records import (
    again,
    fits_update,
    new_record,
    next_uid,
    no_elastic_variants,
    priority,
    read,
    recreated,
    resized,
    same,
    update,
)
from .reports import reported
from .resize import (
    events_of_pending,
    grow,
    is_elastic,
    of_lineage,
    other_slices,
    pruned,
    resize,
    resizes,
    same_but_for_size,
    taken_back,
    wanted,
    was_refused,
    without_growth,
    without_pods,
)
from .responses import (
    DUPLICATE,
    SLICE_REPLACED,
    STALE,
    STOPS,
    WITHDRAWS,
    Events,
    forgotten,
    held,
    ignored,
    overtaken_by,
    rejected,
    stop_for,
    unknown,
    wrong_besides,
    wrong_sizes,
)
from .state import Job, Phase, State, Stop, Todo
from .submission import Submission, template_digest


def answer(state: State, key: JobKey, inbound: Inbound, at: Micros) -> Events:
    """Return what the message leads to; () when it has to wait for the job to stop."""
    data = inbound.data
    if key in state.unread and isinstance(data, Submission | JobScaled):
        read_manifest(state, state.jobs[key])
    match data:
        case None:
            besides = wrong_besides(state.jobs.get(key), inbound)
            return rejected(inbound, merged(inbound.errors, besides) if besides else inbound.errors)
        case Submission() as submission:
            return _submitted(state, key, inbound, submission, at)
        case JobScaled() as scaled:
            return _scaled(state, key, inbound, scaled, at)
        case JobActivated() | JobDeactivated():
            return switched(state, key, inbound, data)
        case JobDeleted():
            return _deleted(state, key, inbound)
        case _:
            return reported(state, key, inbound, data, at)


# Submissions


def _submitted(state: State, key: JobKey, inbound: Inbound, submission: Submission, at: Micros) -> Events:
    job, finished = state.jobs.get(key), state.finished.get(key)
    known = job or finished
    if known is not None and known.message_id == inbound.message_id:
        return ignored(inbound, DUPLICATE)
    if job is not None and (why := _waits_for(state, job)):
        return held(state, key, inbound, why)
    unchanged = job is not None and job.digest == submission.digest
    if job is not None and unchanged and job.record.active and not was_refused(job):
        return ignored(inbound, DUPLICATE)
    request = read(submission, state)
    if not isinstance(request, JobRequest):
        return rejected(inbound, request)
    if job is not None:
        return _edited(state, job, inbound, submission, request, at)
    if errors := no_elastic_variants(state, request):
        return rejected(inbound, errors)
    taken = finished.workload.partition("/")[2] if finished is not None else ""
    job_uid, workload_uid = uid(inbound.seq), uid(inbound.seq, 1)
    record = new_record(request, priority(state, request), job_uid, workload_uid, inbound.at, taken=taken)
    created = slices.WorkloadCreated(cause=inbound.seq, workload=record)
    if finished is not None:
        return (created, *forgotten(finished, inbound.seq))
    return (created,)


def _waits_for(state: State, job: Job) -> str:
    """Return what must come before the job's manifest or size changes again; "" if nothing."""
    # What holds it back, and its place, are its workload's, which is changed in place once it has stopped.
    if job.stops:
        return STOPS
    return WITHDRAWS if taken_back(state, job) else ""


def _edited(
    state: State, job: Job, inbound: Inbound, submission: Submission, request: JobRequest, at: Micros
) -> Events:
    """A manifest for a live job: change it in place, stop it for a new workload, or refuse."""
    if 0 < submission.generation < job.generation:
        return ignored(inbound, STALE)
    if state.limits_used and job.keeps_quota:
        request = as_running(state, job, request, submission)
    errors = _immutable(job, submission, request)
    if request.queue_name != job.record.queue_name:
        errors += no_elastic_variants(state, request)
    if errors:
        return rejected(inbound, errors)
    value, workload_uid = priority(state, request, job.record), next_uid(job, inbound.seq)
    record = new_record(request, value, job.uid, workload_uid, at, job.revision + 1, job.record.name)
    like_now = of_lineage(record, job.record)
    sized = same_but_for_size(job.record.pod_sets, record.pod_sets)
    if sized and resizes(state, job) and fits_update(job.record, like_now):
        remaining = left_by(job, most_pods(submission.manifest))
        return resize(state, job, inbound.seq, at, record.pod_sets, record, remaining)
    alike = same(job.record.pod_sets, record.pod_sets)
    if job.phase is Phase.PENDING:
        # Quota was reserved for these pods, and checks have approved them; of other ones nothing is known.
        moved = job.keeps_quota and not (alike and template_digest(submission) == job.template)
        if moved or not fits_update(job.record, like_now):
            return recreated(job, inbound.seq, record)
        return (update(job.record, like_now, inbound.seq),)
    if not alike:
        return (stop_for(job, inbound.seq, NO_MATCHING_WORKLOAD, "No matching Workload"),)
    return (update(job.record, like_now, inbound.seq),)


def _immutable(job: Job, submission: Submission, new: JobRequest) -> list[FieldError]:
    """Return which fields must not be what the manifest says, while the job is where it is."""
    old = job.record
    errors = []
    if old.job is not None and (old.job.api_version, old.job.kind) != (new.api_version, new.kind):
        errors.append(invalid("kind", new.kind, "field is immutable"))
    if job.keeps_quota and new.queue_name != old.queue_name:
        errors.append(invalid(queue_field(submission.manifest), new.queue_name, "field is immutable"))
    toggled = [record.annotations.get(ELASTIC_JOB) == "true" for record in (old, new)]
    if toggled[0] != toggled[1]:
        # WS1.
        value = new.annotations.get(ELASTIC_JOB, "")
        errors.append(invalid(f"metadata.annotations[{ELASTIC_JOB}]", value, "field is immutable"))
    elif toggled[1]:
        errors += without_pods(new.pod_sets)
    # AX1; gates and flavors likewise shape an assignment that is already made.
    if job.keeps_quota:
        errors += [
            immutable(submission.manifest, part, by_annotation=ANNOTATIONS[part] in old.annotations)
            for name, part in _FIXED_WITH_QUOTA
            if not same(getattr(new, name), getattr(old, name))
        ]
        if not same(new.preemption_gates, old.preemption_gates):
            text = submission.manifest.metadata.annotations.get(PREEMPTION_GATES, "")
            errors.append(invalid(f"metadata.annotations[{PREEMPTION_GATES}]", text, "field is immutable"))
    if job.phase is Phase.RUNNING and template_digest(submission) != job.template:
        field = pods_field(submission.manifest)
        what = "what its pods are" if field == "spec" else "field"
        errors.append(forbidden(field, f"{what} is immutable while the job is running"))
    return errors


_FIXED_WITH_QUOTA = (
    ("cannot_preempt", PREEMPTION),
    ("cannot_borrow", BORROWING),
    ("allowed_flavors", FLAVORS),
)
"""Of JobRequest, and as a part of the constraints."""


# Sizes


def _scaled(state: State, key: JobKey, inbound: Inbound, scaled: JobScaled, at: Micros) -> Events:
    job = state.jobs.get(key)
    if job is None:
        return ignored(inbound, STALE) if key in state.finished else unknown(inbound, key)
    if why := _waits_for(state, job):
        return held(state, key, inbound, why)
    if scaled.generation is not None and scaled.generation < job.generation:
        return ignored(inbound, STALE)
    if errors := wrong_sizes(job, scaled):
        return rejected(inbound, errors)
    now = wanted(job)
    pod_sets = resized(state, job, scaled.pod_sets)
    if all(new is old for new, old in zip(pod_sets, now, strict=True)) and not was_refused(job):
        return ignored(inbound, DUPLICATE)
    if is_elastic(state, job.record) and (errors := without_pods(pod_sets)):
        return rejected(inbound, errors)
    if resizes(state, job):
        return resize(state, job, inbound.seq, at, pod_sets)
    if job.phase is Phase.RUNNING:
        return (stop_for(job, inbound.seq, NO_MATCHING_WORKLOAD, "No matching Workload"),)
    if job.keeps_quota:
        return recreated(job, inbound.seq, again(job, inbound.seq, at, pod_sets))
    return (slices.WorkloadUpdated(cause=inbound.seq, workload=job.record.key, pod_sets=pod_sets),)


# Deletion


def _deleted(state: State, key: JobKey, inbound: Inbound) -> Events:
    job = state.jobs.get(key)
    if job is None:
        finished = state.finished.get(key)
        if finished is None:
            return unknown(inbound, key)
        return forgotten(finished, inbound.seq)
    overtaken = overtaken_by(state, key, inbound)
    if job.phase is Phase.PENDING:
        gone = slices.WorkloadDeleted(cause=inbound.seq, workload=job.record.key)
        return (*overtaken, *other_slices(job, inbound.seq), gone)
    if job.phase is Phase.STOPPING and job.stop is Stop.DELETED:
        return (*overtaken, *ignored(inbound, DUPLICATE))
    stops = stop_for(job, inbound.seq, JOB_DELETED, "The job was deleted")
    return (*overtaken, stops, *without_growth(job, inbound.seq))


# What follows for a job without a message


def job_events(state: State, job: Job, at: Micros) -> Events:
    """Return what the job's workload asks for."""
    if job.pending_todo is not Todo.NONE:
        return events_of_pending(state, job, at)
    workload = job.record.key
    match job.todo:
        case Todo.RESUME:
            return (
                slices.JobResumed(cause=job.cause, job=job.key, workload=workload, attempt=job.attempt + 1),
            )
        case Todo.SUSPEND:
            return (stop_for(job, job.cause, job.reason, job.message),)
        case Todo.CONFIRM_STOP:
            return (slices.WorkloadStopped(cause=job.cause, workload=workload),)
        case Todo.RECREATE:
            return recreated(job, job.cause, again(job, job.cause, at))
        case Todo.FORGET_SLICE:
            return _without_old(job)
        case Todo.RESIZE:
            pods = counts(job.placement)
            said = slices.JobResized(
                cause=job.cause, job=job.key, workload=workload, attempt=job.attempt, pods=pods
            )
            if not job.pods_ready:
                return (said,)
            # Its growth was taken back at the last moment: no pod starts, so no executor says that they run.
            return (said, slices.WorkloadPodsReady(cause=job.cause, workload=workload))
        case Todo.GROW:
            return grow(state, job, job.cause, at)
        case Todo.PRUNE:
            return pruned(state, job, job.cause)
        case Todo.NONE | Todo.WITHDRAW | Todo.REACTIVATE:
            return ()


def _without_old(job: Job) -> Events:
    """The job has stopped as a whole: its newest slice asks for all of its pods (WS6)."""
    assert job.pending is not None
    message = "Replaced to accommodate a new workload slice"
    finished = slices.WorkloadFinished(
        cause=job.cause, workload=job.record.key, reason=SLICE_REPLACED, message=message
    )
    events: list[Event] = [finished]
    if job.pending_reclaimable:
        # What was done in the attempt that is over is to be done again.
        events.insert(0, slices.ReclaimablePodsUpdated(cause=job.cause, workload=job.pending.key, pods={}))
    if not job.record.active:
        events.append(slices.WorkloadUpdated(cause=job.cause, workload=job.pending.key, active=False))
    return events
