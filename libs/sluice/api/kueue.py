"""Kueue's kinds, `kueue.x-k8s.io/v1beta2`, and Sluice's own `Configuration` beside them.

Names, fields and enums are Kueue's. Quantities stay as written (`"500m"`, `9`, `"1Gi"`) and are
parsed where they are used (`sluice.api.quantity`), so that a manifest reads back as it was applied.
"""

from typing import Any, Literal

from .core_v1 import PodTemplateSpec, Taint, Toleration
from .meta import Condition, Int32, LabelSelector, Manifest, ObjectMeta, Seconds, always
from .quantity import Quantity

__all__ = [
    "API_VERSION",
    "Admission",
    "AdmissionCheck",
    "AdmissionCheckParametersReference",
    "AdmissionCheckSpec",
    "AdmissionCheckState",
    "AdmissionCheckStrategyRule",
    "AdmissionChecksConfig",
    "AdmissionChecksStrategy",
    "AdmissionConstraints",
    "AdmissionScope",
    "BorrowWithinCohort",
    "ClusterQueue",
    "ClusterQueuePreemption",
    "ClusterQueueSpec",
    "Cohort",
    "CohortSpec",
    "ConcurrentAdmissionMigration",
    "ConcurrentAdmissionPolicy",
    "Configuration",
    "ConfigurationSpec",
    "ExplicitVariant",
    "FairSharing",
    "FairSharingConfig",
    "FlavorFungibility",
    "FlavorQuotas",
    "KueueObject",
    "LocalQueue",
    "LocalQueueSpec",
    "MigrationConstraints",
    "NodeSelectorUpdate",
    "PodSetAssignment",
    "PodSetMergePolicy",
    "PodSetRequest",
    "PodSetTopologyRequest",
    "PodSetUpdate",
    "PreemptionGate",
    "PreemptionPolicy",
    "PriorityClassRef",
    "ProvisioningPodSetUpdates",
    "ProvisioningRequestConfig",
    "ProvisioningRequestConfigSpec",
    "QueueingStrategy",
    "ReclaimPolicy",
    "ReclaimablePod",
    "RequeueState",
    "RequeuingStrategy",
    "ResourceFlavor",
    "ResourceFlavorSpec",
    "ResourceGroup",
    "ResourceQuota",
    "RetryStrategy",
    "SliceTopologyConstraint",
    "StopPolicy",
    "WaitForPodsReady",
    "Workload",
    "WorkloadPodSet",
    "WorkloadPriorityClass",
    "WorkloadSpec",
    "WorkloadStatus",
    "WorkloadVariantStatus",
]

API_VERSION = "kueue.x-k8s.io/v1beta2"

StopPolicy = Literal["None", "Hold", "HoldAndDrain"]
QueueingStrategy = Literal["StrictFIFO", "BestEffortFIFO"]


class KueueObject(Manifest, frozen=True):
    """Base of Kueue's kinds and Sluice's own: apiVersion, kind, metadata."""

    api_version: str = always(API_VERSION)
    kind: str = always("")
    metadata: ObjectMeta = ObjectMeta()


# ResourceFlavor


class ResourceFlavorSpec(Manifest, frozen=True):
    """Labels and taints of the nodes that a flavor stands for."""

    node_labels: dict[str, str] = {}
    node_taints: list[Taint] = []
    tolerations: list[Toleration] = []
    topology_name: str | None = None


class ResourceFlavor(KueueObject, frozen=True):
    """A kind of capacity: machines of a zone, a price, a model of GPU."""

    kind: str = always("ResourceFlavor")
    spec: ResourceFlavorSpec = ResourceFlavorSpec()


# ClusterQueue and Cohort


class ResourceQuota(Manifest, frozen=True):
    """Quota of one resource in one flavor. An absent limit means no limit."""

    name: str
    nominal_quota: Quantity
    borrowing_limit: Quantity | None = None
    lending_limit: Quantity | None = None


class FlavorQuotas(Manifest, frozen=True):
    """Quotas of one flavor in a resource group."""

    name: str
    resources: list[ResourceQuota] = []


class ResourceGroup(Manifest, frozen=True):
    """Resources that get their flavor together, and the flavors in the order of trying (SC4)."""

    covered_resources: list[str] = []
    flavors: list[FlavorQuotas] = []


class FlavorFungibility(Manifest, frozen=True):
    """Whether the search goes on to the next flavor when this one would borrow, or preempt (SC4)."""

    when_can_borrow: Literal["Borrow", "TryNextFlavor", "MayStopSearch", ""] = ""
    when_can_preempt: Literal["Preempt", "TryNextFlavor", "MayStopSearch", ""] = ""
    preference: Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"] | None = None


class BorrowWithinCohort(Manifest, frozen=True):
    """Whether a workload that borrows may preempt in other queues, and below which priority."""

    policy: Literal["Never", "LowerPriority", ""] = ""
    max_priority_threshold: Int32 | None = None


PreemptionPolicy = Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority", ""]
ReclaimPolicy = Literal["Never", "LowerPriority", "Any", ""]


class ClusterQueuePreemption(Manifest, frozen=True):
    """Whom workloads of the queue may preempt: in it, and in its cohort (SC5)."""

    reclaim_within_cohort: ReclaimPolicy = ""
    borrow_within_cohort: BorrowWithinCohort | None = None
    within_cluster_queue: PreemptionPolicy = ""


class FairSharing(Manifest, frozen=True):
    """Weight of a queue or cohort among its siblings; none: 1."""

    weight: Quantity | None = None


class AdmissionScope(Manifest, frozen=True):
    """How usage of local queues orders workloads (`UsageBasedAdmissionFairSharing`)."""

    admission_mode: str = ""


class AdmissionCheckStrategyRule(Manifest, frozen=True):
    """A check, and for which flavors it is asked; none: for all."""

    name: str
    on_flavors: list[str] = []


class AdmissionChecksStrategy(Manifest, frozen=True):
    """Checks of a cluster queue (AC1)."""

    admission_checks: list[AdmissionCheckStrategyRule] = []


class MigrationConstraints(Manifest, frozen=True):
    """Least preferred flavor or variant that a running job may still migrate to."""

    last_acceptable_flavor_name: str | None = None
    last_acceptable_variant_name: str | None = None


class ConcurrentAdmissionMigration(Manifest, frozen=True):
    """Whether a running job moves to a better variant once that has quota: the mode (CA2)."""

    mode: str = ""
    constraints: MigrationConstraints | None = None


class ExplicitVariant(Manifest, frozen=True):
    """A variant that the policy names: its flavors, and how long it waits to be made and to be deleted."""

    name: str
    allowed_resource_flavors: list[str] = []
    create_delay_seconds: Seconds | None = None
    delete_delay_seconds: Seconds | None = None


class ConcurrentAdmissionPolicy(Manifest, frozen=True):
    """Concurrent admission of a queue: a variant of each job for each flavor (CA1)."""

    migration: ConcurrentAdmissionMigration = ConcurrentAdmissionMigration()
    explicit_variants: list[ExplicitVariant] = []


class ClusterQueueSpec(Manifest, frozen=True):
    """Quota, checks and policies of a cluster queue."""

    resource_groups: list[ResourceGroup] = []
    cohort_name: str = ""
    queueing_strategy: QueueingStrategy | Literal[""] = ""
    namespace_selector: LabelSelector | None = None
    flavor_fungibility: FlavorFungibility | None = None
    preemption: ClusterQueuePreemption | None = None
    admission_checks_strategy: AdmissionChecksStrategy | None = None
    stop_policy: StopPolicy | Literal[""] | None = None
    fair_sharing: FairSharing | None = None
    admission_scope: AdmissionScope | None = None
    concurrent_admission_policy: ConcurrentAdmissionPolicy | None = None


class ClusterQueue(KueueObject, frozen=True):
    """Quota that jobs of many namespaces are admitted to; cluster-wide."""

    kind: str = always("ClusterQueue")
    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: dict[str, Any] = {}


class CohortSpec(Manifest, frozen=True):
    """Parent of a cohort, and quota of its own that its members may borrow."""

    parent_name: str = ""
    resource_groups: list[ResourceGroup] = []
    fair_sharing: FairSharing | None = None


class Cohort(KueueObject, frozen=True):
    """A group of queues and cohorts that lend each other what they do not use."""

    kind: str = always("Cohort")
    spec: CohortSpec = CohortSpec()
    status: dict[str, Any] = {}


# LocalQueue, AdmissionCheck, WorkloadPriorityClass


class LocalQueueSpec(Manifest, frozen=True):
    """Which cluster queue a local queue leads to."""

    cluster_queue: str = ""
    stop_policy: StopPolicy | Literal[""] | None = None
    fair_sharing: FairSharing | None = None


class LocalQueue(KueueObject, frozen=True):
    """The queue of a namespace that its jobs name."""

    kind: str = always("LocalQueue")
    spec: LocalQueueSpec = LocalQueueSpec()
    status: dict[str, Any] = {}


class AdmissionCheckParametersReference(Manifest, frozen=True):
    """The object that a check's controller is to read."""

    api_group: str
    kind: str
    name: str


class AdmissionCheckSpec(Manifest, frozen=True):
    """Who answers a check, with which parameters, and whether preemptions wait for the answer."""

    controller_name: str = ""
    parameters: AdmissionCheckParametersReference | None = None
    preemption_policy: Literal["Anytime", "AfterCheckPassedOrOnDemand"] | None = None


class AdmissionCheck(KueueObject, frozen=True):
    """Something beyond quota that must say Ready before jobs start (AC1)."""

    kind: str = always("AdmissionCheck")
    spec: AdmissionCheckSpec = AdmissionCheckSpec()
    status: dict[str, Any] = {}


class RetryStrategy(Manifest, frozen=True):
    """Wait base * 2^(n-1) seconds before the n-th retry, at most the maximum; give up after the limit."""

    backoff_limit_count: Int32 = 3
    backoff_base_seconds: Seconds = 60
    backoff_max_seconds: Seconds = 1800


class NodeSelectorUpdate(Manifest, frozen=True):
    """The pods' node selector gets `key` with a value that the provider has answered under another key."""

    key: str
    value_from_provisioning_class_detail: str


class ProvisioningPodSetUpdates(Manifest, frozen=True):
    """What of a provider's answer goes into the pods."""

    node_selector: list[NodeSelectorUpdate] = []


PodSetMergePolicy = Literal["IdenticalPodTemplates", "IdenticalWorkloadSchedulingRequirements"]


class ProvisioningRequestConfigSpec(Manifest, frozen=True):
    """What a capacity provider is asked for. `managed_resources`: () means all."""

    provisioning_class_name: str = ""
    parameters: dict[str, str] = {}
    managed_resources: list[str] = []
    retry_strategy: RetryStrategy = RetryStrategy()
    pod_set_updates: ProvisioningPodSetUpdates | None = None
    pod_set_merge_policy: PodSetMergePolicy | None = None


class ProvisioningRequestConfig(KueueObject, frozen=True):
    """Parameters of a check's controller, kept as written; `ProvisioningRequestConfigSpec` is its shape.

    A dict, because logs hold such objects from before their shape was checked.
    """

    kind: str = always("ProvisioningRequestConfig")
    spec: dict[str, Any] = {}


class WorkloadPriorityClass(KueueObject, frozen=True):
    """A priority with a name, for the order of workloads only."""

    kind: str = always("WorkloadPriorityClass")
    value: Int32 = 0
    description: str = ""


# Workload


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


# Sluice's own


class RequeuingStrategy(Manifest, frozen=True):
    """Backoff after a PodsReady timeout: base * 2^(n-1) seconds, at most the maximum."""

    timestamp: Literal["Eviction", "Creation"] = "Eviction"
    backoff_limit_count: Int32 | None = None
    backoff_base_seconds: Seconds = 60
    backoff_max_seconds: Seconds = 3600


class WaitForPodsReady(Manifest, frozen=True):
    """How long pods may take to become ready, and whether others wait for them (SC7)."""

    enable: bool = False
    timeout_seconds: Seconds = 300
    recovery_timeout_seconds: Seconds | None = None
    block_admission: bool = False
    requeuing_strategy: RequeuingStrategy = RequeuingStrategy()


class AdmissionChecksConfig(Manifest, frozen=True):
    """A check that answers Retry without a delay waits base * 2^(n-1) seconds, at most the maximum (AC3).

    A check stays active for the grace period after the heartbeat of its controller has stopped (AC8). One
    that its controller has not answered after the answer timeout is Retry (None or 0: it waits for ever);
    an AdmissionCheck may say otherwise in an annotation.
    """

    backoff_base_seconds: Seconds = 60
    backoff_max_seconds: Seconds = 1800
    controller_grace_seconds: Seconds = 30
    answer_timeout_seconds: Seconds | None = None


class FairSharingConfig(Manifest, frozen=True):
    """Fair sharing for the whole cell, and whom it may preempt."""

    enable: bool = False
    preemption_strategies: list[Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]] = []


class ConfigurationSpec(Manifest, frozen=True):
    """Settings of a cell (G2). In the log, so that a replay knows what was on when.

    `feature_gates` overrides defaults by name; see `docs/configuration.md` for the gates.
    Finished jobs are forgotten after `retain_finished_jobs_seconds` (None: not for their age), and the
    oldest of them when there are more than `retain_finished_jobs_count`. Replaced workload slices are deleted
    likewise, by `workload_slice_retention_seconds` and `workload_slice_history_limit` per job (WS8).
    """

    feature_gates: dict[str, bool] = {}
    fair_sharing: FairSharingConfig = FairSharingConfig()
    wait_for_pods_ready: WaitForPodsReady = WaitForPodsReady()
    admission_checks: AdmissionChecksConfig = AdmissionChecksConfig()
    workload_slice_history_limit: Int32 = 10
    workload_slice_retention_seconds: Seconds | None = None
    preemption_gate_timeout_seconds: Seconds = 300
    retain_finished_jobs_seconds: Seconds | None = None
    retain_finished_jobs_count: Int32 = 100_000
    queue_visibility_max_count: Int32 | None = None
    quota_check_strategy: Literal["BlockUndeclared", "IgnoreUndeclared"] = "BlockUndeclared"
    """What a request of a resource without quota in the queue does: keep the workload out, or nothing."""


class Configuration(KueueObject, frozen=True):
    """At most one per cell, named `default`, apiVersion `sluice.dev/v1alpha1`."""

    api_version: str = always("sluice.dev/v1alpha1")
    kind: str = always("Configuration")
    spec: ConfigurationSpec = ConfigurationSpec()
