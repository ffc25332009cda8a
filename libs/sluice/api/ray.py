"""KubeRay's `ray.io/v1` RayCluster and RayJob, as far as admission looks at them."""

from typing import Any

from .core_v1 import PodTemplateSpec
from .kueue import AdmissionConstraints
from .meta import Int32, Manifest, ObjectMeta, Seconds, always
from .quantity import Quantity

API_VERSION = "ray.io/v1"

_ODD = {"runtime_env_yaml": "runtimeEnvYAML"}


def wire_name(name: str) -> str:
    """Camel case, but for the name that KubeRay spells otherwise."""
    head, *rest = name.split("_")
    return _ODD.get(name) or head + "".join(part.title() for part in rest)


class HeadGroupSpec(Manifest, frozen=True):
    """The head of a Ray cluster: always one pod."""

    template: PodTemplateSpec = PodTemplateSpec()
    ray_start_params: dict[str, str] = {}
    service_type: str = ""
    head_service: dict[str, Any] | None = None
    enable_ingress: bool | None = None
    resources: dict[str, Quantity] = {}
    labels: dict[str, str] = {}


class WorkerGroupSpec(Manifest, frozen=True):
    """`replicas` None means 1 (or `min_replicas`); each replica is `num_of_hosts` pods."""

    group_name: str = ""
    replicas: Int32 | None = None
    min_replicas: Int32 | None = None
    max_replicas: Int32 | None = None
    num_of_hosts: Int32 | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    ray_start_params: dict[str, str] = {}
    suspend: bool | None = None
    idle_timeout_seconds: Seconds | None = None
    scale_strategy: dict[str, Any] | None = None
    resources: dict[str, Quantity] = {}
    labels: dict[str, str] = {}


class RayClusterSpec(Manifest, frozen=True):
    """A head and groups of workers."""

    head_group_spec: HeadGroupSpec = HeadGroupSpec()
    worker_group_specs: list[WorkerGroupSpec] = []
    suspend: bool | None = None
    ray_version: str = ""
    enable_in_tree_autoscaling: bool | None = None
    autoscaler_options: dict[str, Any] | None = None
    head_service_annotations: dict[str, str] = {}
    gcs_fault_tolerance_options: dict[str, Any] | None = None
    auth_options: dict[str, Any] | None = None
    upgrade_strategy: dict[str, Any] | None = None
    managed_by: str | None = None
    admission_constraints: AdmissionConstraints | None = None
    """Ours: what the annotations say, as a field, for jobs of every kind (AX1)."""


class RayCluster(Manifest, frozen=True):
    """A RayCluster (`ray.io/v1`), for as long as it is there."""

    api_version: str = always(API_VERSION)
    kind: str = always("RayCluster")
    metadata: ObjectMeta = ObjectMeta()
    spec: RayClusterSpec = RayClusterSpec()
    status: dict[str, Any] = {}


class RayJobSpec(Manifest, frozen=True, rename=wire_name):
    """`submission_mode` '' is K8sJobMode: a submitter pod of its own."""

    entrypoint: str = ""
    ray_cluster_spec: RayClusterSpec | None = None
    cluster_selector: dict[str, str] = {}
    submission_mode: str = ""
    submitter_pod_template: PodTemplateSpec | None = None
    submitter_config: dict[str, Any] | None = None
    suspend: bool | None = None
    shutdown_after_job_finishes: bool | None = None
    ttl_seconds_after_finished: Seconds | None = None
    active_deadline_seconds: Seconds | None = None
    pre_running_deadline_seconds: Seconds | None = None
    backoff_limit: Int32 | None = None
    job_id: str = ""
    metadata: dict[str, str] = {}
    runtime_env_yaml: str = ""
    entrypoint_num_cpus: float | None = None
    entrypoint_num_gpus: float | None = None
    entrypoint_resources: str = ""
    deletion_policy: Any = None
    deletion_strategy: dict[str, Any] | None = None
    managed_by: str | None = None
    admission_constraints: AdmissionConstraints | None = None
    """Ours: what the annotations say, as a field, for jobs of every kind (AX1)."""


class RayJob(Manifest, frozen=True):
    """A RayJob (`ray.io/v1`): a cluster, and what is run on it."""

    api_version: str = always(API_VERSION)
    kind: str = always("RayJob")
    metadata: ObjectMeta = ObjectMeta()
    spec: RayJobSpec = RayJobSpec()
    status: dict[str, Any] = {}
