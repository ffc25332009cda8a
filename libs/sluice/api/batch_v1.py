"""Kubernetes' `batch/v1` Job; fields that admission ignores are accepted by name and kept as they are."""

from typing import Any

from .core_v1 import PodTemplateSpec
from .kueue import AdmissionConstraints
from .meta import Int32, LabelSelector, Manifest, ObjectMeta, Seconds, always

API_VERSION = "batch/v1"


class JobSpec(Manifest, frozen=True):
    """`parallelism` None means 1; `completions` None means any pod's success ends the job."""

    parallelism: Int32 | None = None
    completions: Int32 | None = None
    suspend: bool | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    completion_mode: str | None = None
    active_deadline_seconds: Seconds | None = None
    backoff_limit: Int32 | None = None
    backoff_limit_per_index: Int32 | None = None
    max_failed_indexes: Int32 | None = None
    ttl_seconds_after_finished: Seconds | None = None
    selector: LabelSelector | None = None
    manual_selector: bool | None = None
    pod_failure_policy: dict[str, Any] | None = None
    success_policy: dict[str, Any] | None = None
    pod_replacement_policy: str | None = None
    managed_by: str | None = None
    admission_constraints: AdmissionConstraints | None = None
    """Ours: what the annotations say, as a field, for jobs of every kind (AX1)."""


class Job(Manifest, frozen=True):
    """A Job of `batch/v1`, as Kubernetes has it."""

    api_version: str = always(API_VERSION)
    kind: str = always("Job")
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: dict[str, Any] = {}


class JobTemplateSpec(Manifest, frozen=True):
    """What a JobSet makes its jobs of."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
