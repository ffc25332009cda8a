"""Workloads as jobs ask for them: made from a manifest, compared, changed, exchanged."""

from collections.abc import Mapping, Sequence

import msgspec

from sluice.api.errors import FieldError, forbidden, not_found
from sluice.api.features import CONCURRENT_ADMISSION, ELASTIC_JOBS_VIA_WORKLOAD_SLICES, enabled
from sluice.api.labels import ELASTIC_JOB, SLICE_REPLACEMENT_FOR, WORKLOAD_SLICE_NAME
from sluice.core.workload.inputs import guarded
from sluice.events import slices
from sluice.events.base import Event, JobKey, Micros, PodSet
from sluice.events.ids import seq_of, uid
from sluice.events.job import JobScaled

from .fields import class_field, named_class
from .job_request import JobRequest
from .lazy_manifest import read_manifest
from .limits import within_limits
from .naming import workload_name
from .responses import Events, wrong_sizes
from .state import Job, State
from .submission import Submission
from .submission import read as read_submission

_encode = msgspec.json.Encoder(order="deterministic").encode


def read(submission: Submission, state: State) -> JobRequest | tuple[FieldError, ...]:
    """Return what the manifest asks of admission, or what is wrong with it here and now."""
    request = guarded(lambda: read_submission(submission, state.config.feature_gates))
    named = named_class(submission.manifest)
    if named and named not in state.priorities:
        # Kueue would wait for the class to appear; here whoever submitted is told.
        missing = not_found(class_field(submission.manifest), named)
        return (missing,) if isinstance(request, JobRequest) else (*request, missing)
    if not isinstance(request, JobRequest):
        return request
    return within_limits(state, request, submission) if state.limits_used else request


def no_elastic_variants(state: State, request: JobRequest) -> list[FieldError]:
    """A job that runs through variants cannot be one of slices too; see docs/decisions/0013."""
    gates = state.config.feature_gates
    queue = state.cluster_queues.get(f"{request.namespace}/{request.queue_name}", "")
    if not request.elastic or queue not in state.concurrent:
        return []
    if not (enabled(gates, ELASTIC_JOBS_VIA_WORKLOAD_SLICES) and enabled(gates, CONCURRENT_ADMISSION)):
        return []
    text = (
        f'ClusterQueue "{queue}" has a concurrentAdmissionPolicy: its jobs run through variants, '
        "which cannot grow; submit to another queue, or without the annotation"
    )
    return [forbidden(f"metadata.annotations[{ELASTIC_JOB}]", text)]


def priority(state: State, request: JobRequest, now: slices.WorkloadRecord | None = None) -> int:
    """Return the value to schedule by; *now*: the workload of the live job that the manifest is for.

    A class is looked up when a job names it, as in Kueue: whatever becomes of its value later, the job
    keeps the one that it has, until its manifest names another class.
    """
    if now is not None and request.priority_class and request.priority_class == now.priority_class:
        return now.priority
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
    taken: str = "",
) -> slices.WorkloadRecord:
    """Return the *revision*-th workload of a job, of priority *value*; *taken*: name of its last one."""
    api_version, kind, namespace = request.api_version, request.kind, request.namespace
    group = api_version.rpartition("/")[0]
    key = JobKey(f"{namespace}/{request.name}")
    name = workload_name(kind, group, request.name, job_uid, revision, taken)
    return slices.WorkloadRecord(
        namespace=namespace,
        name=name,
        uid=workload_uid,
        queue_name=request.queue_name,
        created_at=created_at,
        pod_sets=request.pod_sets,
        job=slices.JobReference(api_version=api_version, kind=kind, key=key, uid=job_uid),
        priority=value,
        priority_class=request.priority_class,
        active=request.active,
        maximum_execution_time_s=request.maximum_execution_time_s,
        preemption_gates=request.preemption_gates,
        allowed_flavors=request.allowed_flavors,
        cannot_preempt=request.cannot_preempt,
        cannot_borrow=request.cannot_borrow,
        misconfigured=request.misconfigured,
        mapping=request.mapping,
        labels=dict(request.labels),
        annotations=first_of_lineage(dict(request.annotations), name),
    )


_UPDATABLE = frozenset(
    {"name", "uid", "created_at", "job", "replaces"}
    | {"queue_name", "priority", "priority_class", "active", "maximum_execution_time_s", "pod_sets"}
    | {"labels", "annotations", "misconfigured"}
)


def fits_update(old: slices.WorkloadRecord, new: slices.WorkloadRecord) -> bool:
    """Tell whether a WorkloadUpdated can say the difference."""
    return all(
        same(getattr(old, name), getattr(new, name))
        for name in slices.WorkloadRecord.__struct_fields__
        if name not in _UPDATABLE
    ) and (old.maximum_execution_time_s is None or new.maximum_execution_time_s is not None)


def update(old: slices.WorkloadRecord, new: slices.WorkloadRecord, cause: int) -> slices.WorkloadUpdated:
    """Return the difference; without any, the event says that another manifest is in force."""
    return slices.WorkloadUpdated(
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
        misconfigured=_changed(old.misconfigured, new.misconfigured),
    )


def _changed[T](old: T, new: T) -> T | None:
    return None if same(old, new) else new


def same(old: object, new: object) -> bool:
    """Compare as the log does: what was read from it has lists where what was made here has tuples."""
    return old == new or _encode(old) == _encode(new)


def recreated(job: Job, cause: int, record: slices.WorkloadRecord, why: int | None = None) -> Events:
    """Exchange the workload. The new one comes first, so that the job is never without one.

    *why*: cause of the old one's end, if another one.
    """
    why = cause if why is None else why
    made: list[Event] = [slices.WorkloadCreated(cause=cause, workload=record)]
    if job.pending is not None:
        made.append(slices.WorkloadDeleted(cause=why, workload=job.pending.key))
    return (*made, slices.WorkloadDeleted(cause=why, workload=job.record.key))


def next_uid(job: Job, cause: int) -> str:
    """Return the uid of the job's next workload; one message may bring about those of several jobs."""
    return uid(cause, seq_of(job.uid) << 8 | job.revision & 0xFF)


def next_name(job: Job, old: slices.WorkloadRecord) -> str:
    """Return the name of the job's next workload, which is not that of *old*."""
    reference = old.job
    assert reference is not None
    group, job_name = reference.api_version.rpartition("/")[0], job.key.partition("/")[2]
    return workload_name(reference.kind, group, job_name, job.uid, job.revision + 1, old.name)


def again(
    job: Job, cause: int, created_at: Micros, pod_sets: Sequence[PodSet] | None = None
) -> slices.WorkloadRecord:
    """Return the job's next workload, as its present one but for the pod sets given."""
    old = job.record
    if job.pending is not None:
        # The size that was wanted last; the present slice is the smaller one.
        old = msgspec.structs.replace(old, pod_sets=job.pending.pod_sets)
    name = next_name(job, old)
    return msgspec.structs.replace(
        old,
        name=name,
        replaces=None,
        annotations=first_of_lineage(old.annotations, name),
        uid=next_uid(job, cause),
        created_at=created_at,
        pod_sets=old.pod_sets if pod_sets is None else pod_sets,
    )


def first_of_lineage(annotations: dict[str, str], name: str) -> dict[str, str]:
    """Return the annotations of a workload that begins a job's slices anew (WS2)."""
    if annotations.get(ELASTIC_JOB) != "true":
        return annotations
    kept = {key: value for key, value in annotations.items() if key != SLICE_REPLACEMENT_FOR}
    return {**kept, WORKLOAD_SLICE_NAME: name}


def resized(state: State, job: Job, sizes: Mapping[str, int]) -> tuple[PodSet, ...]:
    """Return the pods that the job is to have with these sizes: the very same ones where none changes.

    As by its manifest, never more than its completions leave to do.
    """
    read_manifest(state, job)
    newest = job.record if job.pending is None else job.pending
    return tuple(_resized(pods, sizes.get(pods.name), job.most.get(pods.name)) for pods in newest.pod_sets)


def _resized(pods: PodSet, count: int | None, most: int | None) -> PodSet:
    if count is not None and most is not None:
        count = min(count, most)
    if count is None or count == pods.count:
        return pods
    # A minimum above the new size would ask for more than the job wants.
    least = None if pods.min_count is None else min(pods.min_count, count)
    return msgspec.structs.replace(pods, count=count, min_count=least)


def next_workload(state: State, job: Job, cause: int, at: Micros) -> slices.WorkloadCreated:
    """Return the new workload of a job that was stopped for one: as the first waiting message wants it."""
    for held in state.inbox.get(job.key, {}).values():
        if isinstance(held.data, JobScaled) and not wrong_sizes(job, held.data):
            pod_sets = resized(state, job, held.data.pod_sets)
            return slices.WorkloadCreated(cause=held.seq, workload=again(job, held.seq, at, pod_sets))
        if isinstance(held.data, Submission):
            request = read(held.data, state)
            if isinstance(request, JobRequest):
                value, new_uid = priority(state, request, job.record), next_uid(job, held.seq)
                record = new_record(request, value, job.uid, new_uid, at, job.revision + 1, job.record.name)
                return slices.WorkloadCreated(cause=held.seq, workload=record)
    return slices.WorkloadCreated(cause=cause, workload=again(job, cause, at))


__all__ = ["fits_update", "new_record", "no_elastic_variants", "priority", "read"]
