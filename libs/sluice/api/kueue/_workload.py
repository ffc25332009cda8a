"""Workloads with their status, and classes of priority."""

from typing import Literal

from sluice.api.core_v1 import PodTemplateSpec, Toleration
from sluice.api.meta import Condition, Int32, Manifest, Seconds, always
from sluice.api.quantity import Quantity

from ._object import KueueObject

__all__ = [
    "Admission",
    "AdmissionCheckState",
    "AdmissionConstraints",
    "PodSetAssignment",
    "PodSetRequest",
    "PodSetTopologyRequest",
    "PodSetUpdate",
    "PreemptionGate",
    "PriorityClassRef",
    "ReclaimablePod",
    "RequeueState",
    "SliceTopologyConstraint",
    "Workload",
    "WorkloadPodSet",
    "WorkloadPriorityClass",
    "WorkloadSpec",
    "WorkloadStatus",
    "WorkloadVariantStatus",
]


class WorkloadPriorityClass(KueueObject, frozen=True):
    """A priority with a name, for the order of workloads only."""

    kind: str = always("WorkloadPriorityClass")
    value: Int32 = 0
    description: str = ""


class SliceTopologyConstraint(Manifest, frozen=True):
    """Pods in one domain of a topology; kept as written, not obeyed."""

    topology: str = ""
    size: Int32 = 0


class PodSetTopologyRequest(Manifest, frozen=True):
    """Topology that a pod set asks for; kept as written, not obeyed."""

    required: str | None = None
    preferred: str | None = None
    unconstrained: bool | None = None
    pod_index_label: str | None = None
    sub_group_index_label: str | None = None
    sub_group_count: Int32 | None = None
    pod_set_group_name: str | None = None
    pod_set_slice_required_topology: str | None = None
    pod_set_slice_size: Int32 | None = None
    podset_slice_required_topology_constraints: list[SliceTopologyConstraint] = []


class WorkloadPodSet(Manifest, frozen=True):
    """Pods of a workload that are alike. With `min_count`, fewer may be admitted (SC7)."""

    name: str = "main"
    template: PodTemplateSpec = PodTemplateSpec()
    count: Int32 = 1
    min_count: Int32 | None = None
    topology_request: PodSetTopologyRequest | None = None


class PreemptionGate(Manifest, frozen=True):
    """Keeps a workload from preempting while it is closed."""

    name: str


class AdmissionConstraints(Manifest, frozen=True):
    """What a job forgoes: flavors, preempting, borrowing (AX1)."""

    allowed_resource_flavors: list[str] = []
    preemption: Literal["Never"] | None = None
    borrowing: Literal["Never"] | None = None


class PriorityClassRef(Manifest, frozen=True):
    """The class that a workload has its priority from."""

    group: str = ""
    kind: str = ""
    name: str = ""


class WorkloadSpec(Manifest, frozen=True):
    """What is to be admitted, in which queue."""

    pod_sets: list[WorkloadPodSet] = []
    queue_name: str = ""
    priority_class_ref: PriorityClassRef | None = None
    priority: Int32 | None = None
    active: bool | None = None
    maximum_execution_time_seconds: Seconds | None = None
    preemption_gates: list[PreemptionGate] = []
    admission_constraints: AdmissionConstraints | None = None


class PodSetAssignment(Manifest, frozen=True):
    """Flavors and usage that a pod set was given; usage is of all its pods together."""

    name: str = "main"
    flavors: dict[str, str] = {}
    resource_usage: dict[str, Quantity] = {}
    count: Int32 | None = None
    topology_assignment: dict[str, object] | None = None
    delayed_topology_request: str | None = None


class Admission(Manifest, frozen=True):
    """The quota that a workload holds."""

    cluster_queue: str
    pod_set_assignments: list[PodSetAssignment] = []


class PodSetUpdate(Manifest, frozen=True):
    """What a check adds to the pods of a set; two checks may not disagree (AC2)."""

    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    tolerations: list[Toleration] = []


class AdmissionCheckState(Manifest, frozen=True):
    """What a check says of a workload's present attempt."""

    name: str = ""
    state: Literal["Pending", "Ready", "Retry", "Rejected", ""] = ""
    last_transition_time: str | None = None
    message: str = ""
    requeue_after_seconds: Seconds | None = None
    retry_count: Int32 | None = None
    pod_set_updates: list[PodSetUpdate] = []


class RequeueState(Manifest, frozen=True):
    """How often a workload was requeued, and until when it waits."""

    count: Int32 | None = None
    requeue_at: str | None = None


class ReclaimablePod(Manifest, frozen=True):
    """How many pods of a set have ended for good, so that their quota is free."""

    name: str
    count: Int32


class PodSetRequest(Manifest, frozen=True):
    """What a pod set of a waiting workload asks for, all its pods together."""

    name: str
    resources: dict[str, Quantity] = {}


class WorkloadVariantStatus(Manifest, frozen=True):
    """What a parent says of one of its variants (CA8)."""

    name: str
    resource_flavors: list[str] = []
    active: bool = always(True)
    """Written also when true: people and programs ask for it."""
    conditions: list[Condition] = []


class WorkloadStatus(Manifest, frozen=True):
    """What is known of a workload; unknown extra status fields are the API service's to add."""

    admission: Admission | None = None
    conditions: list[Condition] = []
    reclaimable_pods: list[ReclaimablePod] = []
    admission_checks: list[AdmissionCheckState] = []
    requeue_state: RequeueState | None = None
    resource_requests: list[PodSetRequest] = []
    accumulated_past_execution_time_seconds: Seconds | None = None
    scheduling_stats: dict[str, object] | None = None
    preemption_gates: list[dict[str, object]] = []
    cluster_name: str | None = None
    nominated_cluster_names: list[str] = []
    unhealthy_nodes: list[dict[str, object]] = []
    variants: list[WorkloadVariantStatus] = []
    """Of a concurrent-admission parent, the most preferred first."""


class Workload(KueueObject, frozen=True):
    """What is admitted of a job."""

    kind: str = always("Workload")
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()
