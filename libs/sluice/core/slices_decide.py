"""What each message and each turn of a workload leads to. Pure: reads the state, returns events.

A message is answered by the events that name it as their cause, by Rejected, or in InputsIgnored. The
one exception are submissions, sizes and deletions that must wait for a job to stop: for them `answer`
returns nothing, and they stay in the inbox.
"""

from collections.abc import Sequence

import msgspec

from sluice.api.errors import FieldError, forbidden, invalid, not_found
from sluice.api.labels import (
    ALLOWED_RESOURCE_FLAVORS,
    CANNOT_BORROW,
    CANNOT_PREEMPT,
    PREEMPTION_GATES,
    PRIORITY_CLASS,
    QUEUE_NAME,
)
from sluice.events.base import Event, JobKey, Micros, PodSet
from sluice.events.ids import seq_of, uid
from sluice.events.job import (
    JobDeleted,
    JobFinished,
    JobPodsReady,
    JobPodsReclaimable,
    JobScaled,
    JobStopped,
)
from sluice.events.slices import (
    InputsIgnored,
    JobClaimed,
    JobReference,
    JobResumed,
    JobSuspended,
    ReclaimablePodsUpdated,
    Rejected,
    WorkloadCreated,
    WorkloadDeleted,
    WorkloadFinished,
    WorkloadPodsReady,
    WorkloadRecord,
    WorkloadStopped,
    WorkloadUpdated,
)

from .jobs import JobRequest
from .slices_intake import guarded
from .slices_naming import workload_name
from .slices_state import ExecutorInput, Inbound, Job, Phase, State, Stop, Todo
from .slices_submission import Submission, template_digest
from .slices_submission import read as read_manifest

DUPLICATE = "Duplicate"
STALE = "Stale"
SUPERSEDED = "Superseded"

DELETED = "JobDeleted"
"""Reason of a JobSuspended that makes way for the job's deletion."""

REPLACED = "NoMatchingWorkload"
"""Reason of a JobSuspended that makes way for a new workload."""

NODE_FAILURES = "NodeFailures"

MAX_COUNT = 2**31 - 1

Events = Sequence[Event]

_encode = msgspec.json.Encoder(order="deterministic").encode


def answer(state: State, key: JobKey, inbound: Inbound, at: Micros) -> Events:
    """Return what the message leads to; () when it has to wait for the job to stop."""
    match inbound.data:
        case None:
            return rejected(inbound, inbound.errors)
        case Submission() as submission:
            return _submitted(state, key, inbound, submission, at)
        case JobScaled() as scaled:
            return _scaled(state, key, inbound, scaled, at)
        case JobDeleted():
            return _deleted(state, key, inbound)
        case data:
            return _reported(state, key, inbound, data, at)


def rejected(inbound: Inbound, errors: Sequence[FieldError]) -> Events:
    return (
        Rejected(
            cause=inbound.seq, subject=inbound.subject, event_type=inbound.event_type, errors=tuple(errors)
        ),
    )


def ignored(inbound: Inbound, reason: str) -> Events:
    return (InputsIgnored(cause=inbound.seq, seqs=(inbound.seq,), reason=reason),)


# Submissions


def _submitted(state: State, key: JobKey, inbound: Inbound, submission: Submission, at: Micros) -> Events:
    job, finished = state.jobs.get(key), state.finished.get(key)
    known = job or finished
    if known is not None and known.message_id == inbound.message_id:
        return ignored(inbound, DUPLICATE)
    if job is not None and job.phase is Phase.STOPPING:
        return ()
    if job is not None and job.digest == submission.digest:
        return ignored(inbound, DUPLICATE)
    request = read(submission, state)
    if not isinstance(request, JobRequest):
        return rejected(inbound, request)
    if job is not None:
        return _edited(state, job, inbound, submission, request, at)
    record = new_record(request, priority(state, request), uid(inbound.seq), uid(inbound.seq, 1), inbound.at)
    created = WorkloadCreated(cause=inbound.seq, workload=record)
    if finished is not None:
        return (created, WorkloadDeleted(cause=inbound.seq, workload=finished.workload))
    return (created,)


def read(submission: Submission, state: State) -> JobRequest | tuple[FieldError, ...]:
    """Return what the manifest asks of admission, or what is wrong with it here and now."""
    request = guarded(lambda: read_manifest(submission, state.config.feature_gates))
    if not isinstance(request, JobRequest):
        return request
    if request.priority_class and request.priority_class not in state.priorities:
        # Kueue would wait for the class to appear; here whoever submitted is told.
        return (not_found(f"metadata.labels[{PRIORITY_CLASS}]", request.priority_class),)
    return request


def priority(state: State, request: JobRequest) -> int:
    """Return the value to schedule by."""
    if request.priority_class:
        return state.priorities.get(request.priority_class, 0)
    return request.priority or 0


def new_record(
    request: JobRequest,
    value: int,
    job_uid: str,
    workload_uid: str,
    created_at: Micros,
    revision: int = 1,
) -> WorkloadRecord:
    """Return the *revision*-th workload of a job, of priority *value*."""
    api_version, kind, namespace = request.api_version, request.kind, request.namespace
    group = api_version.rpartition("/")[0]
    key = JobKey(f"{namespace}/{request.name}")
    return WorkloadRecord(
        namespace=namespace,
        name=workload_name(kind, group, request.name, job_uid, revision),
        uid=workload_uid,
        queue_name=request.queue_name,
        created_at=created_at,
        pod_sets=request.pod_sets,
        job=JobReference(api_version=api_version, kind=kind, key=key, uid=job_uid),
        priority=value,
        priority_class=request.priority_class,
        active=request.active,
        maximum_execution_time_s=request.maximum_execution_time_s,
        preemption_gates=request.preemption_gates,
        allowed_flavors=request.allowed_flavors,
        cannot_preempt=request.cannot_preempt,
        cannot_borrow=request.cannot_borrow,
        labels=dict(request.labels),
        annotations=dict(request.annotations),
    )


def _edited(
    state: State, job: Job, inbound: Inbound, submission: Submission, request: JobRequest, at: Micros
) -> Events:
    """A manifest for a live job: change it in place, stop it for a new workload, or refuse."""
    errors = _immutable(job, submission, request)
    if errors:
        return rejected(inbound, errors)
    revision = job.revision + 1
    record = new_record(request, priority(state, request), job.uid, _next_uid(job, inbound.seq), at, revision)
    if job.phase is Phase.PENDING:
        if job.reserved or not _fits_update(job.record, record):
            return _recreated(job, inbound.seq, record)
        return (_update(job.record, record, inbound.seq),)
    if not _same(job.record.pod_sets, record.pod_sets):
        return (_stop_for(job, inbound.seq, REPLACED, "No matching Workload"),)
    return (_update(job.record, record, inbound.seq),)


def _immutable(job: Job, submission: Submission, new: JobRequest) -> list[FieldError]:
    """Return which fields must not be what the manifest says, while the job is where it is."""
    old = job.record
    errors = []
    if old.job is not None and (old.job.api_version, old.job.kind) != (new.api_version, new.kind):
        errors.append(invalid("kind", new.kind, "field is immutable"))
    if job.reserved and new.queue_name != old.queue_name:
        errors.append(invalid(f"metadata.labels[{QUEUE_NAME}]", new.queue_name, "field is immutable"))
    # AX1; gates and flavors likewise shape an assignment that is already made.
    if job.reserved:
        errors += [
            invalid(f"metadata.annotations[{label}]", str(getattr(new, name)), "field is immutable")
            for name, label in _FIXED_WITH_QUOTA
            if not _same(getattr(new, name), getattr(old, name))
        ]
    if job.phase is Phase.RUNNING and template_digest(submission, new.pod_sets) != job.template:
        errors.append(forbidden("spec.template", "field is immutable while the job is running"))
    return errors


_FIXED_WITH_QUOTA = (
    ("cannot_preempt", CANNOT_PREEMPT),
    ("cannot_borrow", CANNOT_BORROW),
    ("allowed_flavors", ALLOWED_RESOURCE_FLAVORS),
    ("preemption_gates", PREEMPTION_GATES),
)

_UPDATABLE = frozenset(
    {"name", "uid", "created_at", "job", "replaces"}
    | {"queue_name", "priority", "priority_class", "active", "maximum_execution_time_s", "pod_sets"}
    | {"labels", "annotations"}
)


def _fits_update(old: WorkloadRecord, new: WorkloadRecord) -> bool:
    """Tell whether a WorkloadUpdated can say the difference."""
    return all(
        _same(getattr(old, name), getattr(new, name))
        for name in WorkloadRecord.__struct_fields__
        if name not in _UPDATABLE
    ) and (old.maximum_execution_time_s is None or new.maximum_execution_time_s is not None)


def _update(old: WorkloadRecord, new: WorkloadRecord, cause: int) -> WorkloadUpdated:
    """Return the difference; without any, the event says that another manifest is in force."""
    return WorkloadUpdated(
        cause=cause,
        workload=old.key,
        queue_name=_changed(old.queue_name, new.queue_name),
        priority=_changed(old.priority, new.priority),
        priority_class=_changed(old.priority_class, new.priority_class),
        active=_changed(old.active, new.active),
        maximum_execution_time_s=_changed(old.maximum_execution_time_s, new.maximum_execution_time_s),
        pod_sets=_changed(old.pod_sets, new.pod_sets),
        labels=_changed(old.labels, new.labels),
        annotations=_changed(old.annotations, new.annotations),
    )


def _changed[T](old: T, new: T) -> T | None:
    return None if _same(old, new) else new


def _same(old: object, new: object) -> bool:
    """Compare as the log does: what was read from it has lists where what was made here has tuples."""
    return old == new or _encode(old) == _encode(new)


def _recreated(job: Job, cause: int, record: WorkloadRecord) -> Events:
    """Exchange the workload. The new one comes first, so that the job is never without one."""
    return (
        WorkloadCreated(cause=cause, workload=record),
        WorkloadDeleted(cause=cause, workload=job.record.key),
    )


def _next_uid(job: Job, cause: int) -> str:
    """Return the uid of the job's next workload; one message may bring about those of several jobs."""
    return uid(cause, seq_of(job.uid) << 8 | job.revision & 0xFF)


def again(
    job: Job, cause: int, created_at: Micros, pod_sets: Sequence[PodSet] | None = None
) -> WorkloadRecord:
    """Return the job's next workload, as its present one but for the pod sets given."""
    old = job.record
    revision = job.revision + 1
    reference = old.job
    assert reference is not None
    group = reference.api_version.rpartition("/")[0]
    name = workload_name(reference.kind, group, job.key.partition("/")[2], job.uid, revision)
    return msgspec.structs.replace(
        old,
        name=name,
        uid=_next_uid(job, cause),
        created_at=created_at,
        pod_sets=old.pod_sets if pod_sets is None else pod_sets,
    )


# Sizes


def _scaled(state: State, key: JobKey, inbound: Inbound, scaled: JobScaled, at: Micros) -> Events:
    job = state.jobs.get(key)
    if job is None:
        return ignored(inbound, STALE) if key in state.finished else _unknown(inbound, key)
    if job.phase is Phase.STOPPING:
        return ()
    if scaled.generation is not None and scaled.generation < job.generation:
        return ignored(inbound, STALE)
    errors = _wrong_counts("podSets", scaled.pod_sets, {pods.name: MAX_COUNT for pods in job.record.pod_sets})
    if not scaled.pod_sets:
        errors = (*errors, FieldError(field="podSets", detail="", type="FieldValueRequired"))
    if errors:
        return rejected(inbound, errors)
    pod_sets = tuple(_resized(pods, scaled.pod_sets.get(pods.name)) for pods in job.record.pod_sets)
    if all(new is old for new, old in zip(pod_sets, job.record.pod_sets, strict=True)):
        return ignored(inbound, DUPLICATE)
    if job.phase is Phase.RUNNING:
        return (_stop_for(job, inbound.seq, REPLACED, "No matching Workload"),)
    if job.reserved:
        return _recreated(job, inbound.seq, again(job, inbound.seq, at, pod_sets))
    return (WorkloadUpdated(cause=inbound.seq, workload=job.record.key, pod_sets=pod_sets),)


def _resized(pods: PodSet, count: int | None) -> PodSet:
    if count is None or count == pods.count:
        return pods
    # A minimum above the new size would ask for more than the job wants.
    least = None if pods.min_count is None else min(pods.min_count, count)
    return msgspec.structs.replace(pods, count=count, min_count=least)


def _wrong_counts(field: str, given: dict[str, int], most: dict[str, int]) -> tuple[FieldError, ...]:
    errors = []
    for name, count in given.items():
        path = f"{field}[{name}]"
        if name not in most:
            errors.append(not_found(path, name))
        elif not 0 <= count <= most[name]:
            errors.append(invalid(path, count, f"must be between 0 and {most[name]}"))
    return tuple(errors)


# Deletion


def _deleted(state: State, key: JobKey, inbound: Inbound) -> Events:
    job = state.jobs.get(key)
    if job is None:
        finished = state.finished.get(key)
        if finished is None:
            return _unknown(inbound, key)
        return (WorkloadDeleted(cause=inbound.seq, workload=finished.workload),)
    overtaken = _overtaken(state, key, inbound)
    if job.phase is Phase.PENDING:
        return (*overtaken, WorkloadDeleted(cause=inbound.seq, workload=job.record.key))
    if job.phase is Phase.STOPPING and job.stop is Stop.DELETED:
        return (*overtaken, *ignored(inbound, DUPLICATE))
    return (*overtaken, _stop_for(job, inbound.seq, DELETED, "The job was deleted"))


def _overtaken(state: State, key: JobKey, inbound: Inbound) -> Events:
    """Submissions and sizes that waited while this message came need not be taken any more."""
    seqs = tuple(
        held.seq
        for held in state.inbox.get(key, {}).values()
        if held.seq < inbound.seq and isinstance(held.data, Submission | JobScaled)
    )
    return (InputsIgnored(cause=inbound.seq, seqs=seqs, reason=SUPERSEDED),) if seqs else ()


def _stop_for(job: Job, cause: int, reason: str, message: str) -> JobSuspended:
    return JobSuspended(
        cause=cause,
        job=job.key,
        workload=job.record.key,
        attempt=job.attempt,
        reason=reason,
        message=message,
    )


def _unknown(inbound: Inbound, key: JobKey) -> Events:
    return rejected(inbound, (not_found("subject", key),))


# Reports of executors


def _reported(state: State, key: JobKey, inbound: Inbound, data: ExecutorInput, at: Micros) -> Events:
    job = state.jobs.get(key)
    if job is None:
        finished = state.finished.get(key)
        if finished is None:
            return _unknown(inbound, key)
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
    match data:
        case JobPodsReady():
            return _pods_ready(job, inbound, data)
        case JobPodsReclaimable():
            return _reclaimable(job, inbound, data)
        case JobStopped():
            return stopped(state, job, inbound.seq, at, NODE_FAILURES, data.message or "The executor stopped")
        case JobFinished():
            return _finished(state, job, inbound, data)


def _pods_ready(job: Job, inbound: Inbound, data: JobPodsReady) -> Events:
    events: list[Event] = []
    if data.executor and data.executor != job.executor:
        events.append(JobClaimed(cause=inbound.seq, job=job.key, attempt=job.attempt, executor=data.executor))
    if data.ready != job.pods_ready and job.phase is Phase.RUNNING:
        events.append(WorkloadPodsReady(cause=inbound.seq, workload=job.record.key, ready=data.ready))
    return events or ignored(inbound, DUPLICATE)


def _reclaimable(job: Job, inbound: Inbound, data: JobPodsReclaimable) -> Events:
    counts = {pods.name: pods.count for pods in job.record.pod_sets}
    errors = _wrong_counts("pods", data.pods, counts)
    if errors:
        return rejected(inbound, errors)
    # Pods that have ended stay ended, so a lower number is an older one.
    raised = {name: n for name, n in data.pods.items() if n > job.reclaimable.get(name, 0)}
    if not raised:
        return ignored(inbound, DUPLICATE)
    pods = {**job.reclaimable, **raised}
    return (ReclaimablePodsUpdated(cause=inbound.seq, workload=job.record.key, pods=pods),)


def _finished(state: State, job: Job, inbound: Inbound, data: JobFinished) -> Events:
    message = data.message or ("Job finished successfully" if data.success else "Job failed")
    finished = WorkloadFinished(
        cause=inbound.seq,
        workload=job.record.key,
        reason="Succeeded" if data.success else "Failed",
        message=message,
    )
    overtaken = _overtaken(state, job.key, inbound)
    if job.phase is Phase.STOPPING and job.stop is Stop.DELETED:
        return (*overtaken, finished, WorkloadDeleted(cause=inbound.seq, workload=job.record.key))
    return (*overtaken, finished)


def stopped(state: State, job: Job, cause: int, at: Micros, reason: str, message: str) -> Events:
    """No pod of the job's open attempt runs any more; *reason* and *message* if nobody asked for it."""
    workload = job.record.key
    if job.phase is Phase.RUNNING:
        return (WorkloadStopped(cause=cause, workload=workload, reason=reason, message=message),)
    match job.stop:
        case Stop.EVICTED:
            return (WorkloadStopped(cause=cause, workload=workload),)
        case Stop.DELETED:
            return (WorkloadDeleted(cause=cause, workload=workload),)
        case Stop.REPLACED:
            created = _next(state, job, cause, at)
            return (created, WorkloadDeleted(cause=cause, workload=workload))


def _next(state: State, job: Job, cause: int, at: Micros) -> WorkloadCreated:
    """Return the new workload of a job that was stopped for one: as the first waiting message wants it."""
    for held in state.inbox.get(job.key, {}).values():
        if isinstance(held.data, JobScaled):
            sizes = held.data.pod_sets
            pod_sets = tuple(_resized(pods, sizes.get(pods.name)) for pods in job.record.pod_sets)
            return WorkloadCreated(cause=held.seq, workload=again(job, held.seq, at, pod_sets))
        if isinstance(held.data, Submission):
            request = read(held.data, state)
            if isinstance(request, JobRequest):
                value, new_uid = priority(state, request), _next_uid(job, held.seq)
                record = new_record(request, value, job.uid, new_uid, at, job.revision + 1)
                return WorkloadCreated(cause=held.seq, workload=record)
    return WorkloadCreated(cause=cause, workload=again(job, cause, at))


# Turns of a workload


def turn(job: Job, at: Micros) -> Events:
    """Return what the job's workload asks for."""
    workload = job.record.key
    match job.todo:
        case Todo.RESUME:
            return (JobResumed(cause=job.cause, job=job.key, workload=workload, attempt=job.attempt + 1),)
        case Todo.SUSPEND:
            return (_stop_for(job, job.cause, job.reason, job.message),)
        case Todo.CONFIRM_STOP:
            return (WorkloadStopped(cause=job.cause, workload=workload),)
        case Todo.RECREATE:
            return _recreated(job, job.cause, again(job, job.cause, at))
        case Todo.NONE:
            return ()
