"""Flavors, queues, cohorts, and the policies of queues."""

from typing import Any, Literal

from sluice.api.core_v1 import Taint, Toleration
from sluice.api.meta import Int32, LabelSelector, Manifest, Seconds, always
from sluice.api.quantity import Quantity

from ._object import KueueObject

__all__ = [
    "AdmissionCheckStrategyRule",
    "AdmissionChecksStrategy",
    "AdmissionScope",
    "BorrowWithinCohort",
    "ClusterQueue",
    "ClusterQueuePreemption",
    "ClusterQueueSpec",
    "Cohort",
    "CohortSpec",
    "ConcurrentAdmissionMigration",
    "ConcurrentAdmissionPolicy",
    "ExplicitVariant",
    "FairSharing",
    "FlavorFungibility",
    "FlavorQuotas",
    "LocalQueue",
    "LocalQueueSpec",
    "MigrationConstraints",
    "PreemptionPolicy",
    "QueueingStrategy",
    "ReclaimPolicy",
    "ResourceFlavor",
    "ResourceFlavorSpec",
    "ResourceGroup",
    "ResourceQuota",
    "StopPolicy",
    "Topology",
    "TopologyLevel",
    "TopologySpec",
]

StopPolicy = Literal["None", "Hold", "HoldAndDrain"]
QueueingStrategy = Literal["StrictFIFO", "BestEffortFIFO"]


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


class TopologyLevel(Manifest, frozen=True):
    """One level of a topology: the label by which nodes belong to the same domain."""

    node_label: str = ""


class TopologySpec(Manifest, frozen=True):
    """The levels, the widest first."""

    levels: list[TopologyLevel] = []


class Topology(KueueObject, frozen=True):
    """How nodes lie to each other; stored, so that manifests apply, and not obeyed."""

    kind: str = always("Topology")
    spec: TopologySpec = TopologySpec()


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
