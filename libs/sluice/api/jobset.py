"""JobSet, `jobset.x-k8s.io/v1alpha2`, as far as admission looks at it."""

from typing import Any

from .batch_v1 import JobTemplateSpec
from .kueue import AdmissionConstraints
from .meta import Int32, Manifest, ObjectMeta, Seconds, always

API_VERSION = "jobset.x-k8s.io/v1alpha2"


class ReplicatedJob(Manifest, frozen=True):
    """`replicas` jobs of the same template; None means 1."""

    name: str = ""
    template: JobTemplateSpec = JobTemplateSpec()
    replicas: Int32 | None = None
    group_name: str = ""
    depends_on: list[dict[str, Any]] = []


class JobSetSpec(Manifest, frozen=True):
    """Jobs that run together, of several templates."""

    replicated_jobs: list[ReplicatedJob] = []
    suspend: bool | None = None
    network: dict[str, Any] | None = None
    success_policy: dict[str, Any] | None = None
    failure_policy: dict[str, Any] | None = None
    startup_policy: dict[str, Any] | None = None
    coordinator: dict[str, Any] | None = None
    managed_by: str | None = None
    ttl_seconds_after_finished: Seconds | None = None
    volume_claim_policies: list[dict[str, Any]] = []
    admission_constraints: AdmissionConstraints | None = None
    """Ours: what the annotations say, as a field, for jobs of every kind (AX1)."""


class JobSet(Manifest, frozen=True):
    """A JobSet (`jobset.x-k8s.io/v1alpha2`)."""

    api_version: str = always(API_VERSION)
    kind: str = always("JobSet")
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSetSpec = JobSetSpec()
    status: dict[str, Any] = {}
