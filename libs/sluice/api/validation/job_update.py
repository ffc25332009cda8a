"""Validation of changes to a job: mutable fields, and when they may change."""

from collections.abc import Iterator

from sluice.api import batch_v1, constraints, labels, sluice_v1
from sluice.api.errors import IMMUTABLE, FieldError, forbidden, invalid
from sluice.api.meta import Manifest, ObjectMeta

from .job import annotation_field, label_field, sync_completions


def check_job_update(
    new: Manifest, old: Manifest, *, running: bool, reserved: bool = False
) -> list[FieldError]:
    """Check a job that is submitted again under the same name.

    *running*: its pods may exist. *reserved*: its workload holds quota (implied by *running*).
    """
    after, before = _metadata(new), _metadata(old)
    fixed_labels = [labels.PREBUILT_WORKLOAD]
    fixed_annotations = [labels.ELASTIC_JOB]
    if running:
        fixed_labels += [labels.QUEUE_NAME, labels.PRIORITY_CLASS, labels.MAX_EXEC_TIME_SECONDS]
    found = [
        invalid(label_field(key), after.labels.get(key), IMMUTABLE)
        for key in fixed_labels
        if after.labels.get(key) != before.labels.get(key)
    ]
    found += [
        invalid(annotation_field(key), after.annotations.get(key), IMMUTABLE)
        for key in fixed_annotations
        if _flag(after, key) != _flag(before, key)
    ]
    if running or reserved:
        # AX1: constraints took part in the decision that gave the quota.
        found += constraints.changes(new, old)
    if isinstance(new, batch_v1.Job) and isinstance(old, batch_v1.Job) and running:
        found += _check_running_batch_job(new, old)
    if isinstance(new, sluice_v1.Job) and isinstance(old, sluice_v1.Job):
        found += _check_own_job(new.spec, old.spec, running=running)
    return found


def _metadata(job: Manifest) -> ObjectMeta:
    metadata = getattr(job, "metadata", None)
    return metadata if isinstance(metadata, ObjectMeta) else ObjectMeta()


def _check_own_job(new: sluice_v1.JobSpec, old: sluice_v1.JobSpec, *, running: bool) -> list[FieldError]:
    """Check the fields that stand for what labels and annotations say of other kinds."""
    fields: list[tuple[str, object, object]] = []
    if running:
        fields += [
            ("queueName", new.queue_name, old.queue_name),
            ("priorityClassName", new.priority_class_name, old.priority_class_name),
            (
                "maximumExecutionTimeSeconds",
                new.maximum_execution_time_seconds,
                old.maximum_execution_time_seconds,
            ),
        ]
    return [invalid(f"spec.{name}", after, IMMUTABLE) for name, after, before in fields if after != before]


def _flag(metadata: ObjectMeta, key: str) -> bool:
    return metadata.annotations.get(key) == "true"


def _check_running_batch_job(new: batch_v1.Job, old: batch_v1.Job) -> Iterator[FieldError]:
    before = 1 if old.spec.parallelism is None else old.spec.parallelism
    after = 1 if new.spec.parallelism is None else new.spec.parallelism
    if labels.JOB_MIN_PARALLELISM in old.metadata.annotations and before != after:
        text = "cannot change when partial admission is enabled and the job is not suspended"
        yield forbidden("spec.parallelism", text)
    if sync_completions(new) != sync_completions(old):
        field = annotation_field(labels.JOB_COMPLETIONS_EQUAL_PARALLELISM)
        yield forbidden(field, f"{IMMUTABLE} while the job is not suspended")
