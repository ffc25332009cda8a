"""Feature gates (G2): names and defaults. A Configuration's `featureGates` override them by name."""

from collections.abc import Mapping
from typing import Final

_defaults: dict[str, bool] = {}

DEFAULTS: Mapping[str, bool] = _defaults
"""Kueue's names and defaults, but for ours: the three features this project is about are on."""

NONE: Mapping[str, bool] = {}


def _gate(name: str, *, on: bool) -> str:
    """Enter a gate and its default in `DEFAULTS`, and return its name."""
    _defaults[name] = on
    return name


ADMISSION_GATED_BY: Final = _gate("AdmissionGatedBy", on=True)
CONCURRENT_ADMISSION: Final = _gate("ConcurrentAdmission", on=True)
ELASTIC_JOBS_VIA_WORKLOAD_SLICES: Final = _gate("ElasticJobsViaWorkloadSlices", on=True)
ELASTIC_JOBS_VIA_WORKLOAD_SLICES_WITH_PARTIAL_REPLICA_SCALE_UP: Final = _gate(
    "ElasticJobsViaWorkloadSlicesWithPartialReplicaScaleUp", on=False
)
FAIR_SHARING_PREEMPT_WITHIN_NOMINAL: Final = _gate("FairSharingPreemptWithinNominal", on=True)
FAIR_SHARING_PRIORITIZE_NON_BORROWING: Final = _gate("FairSharingPrioritizeNonBorrowing", on=True)
FAIR_SHARING_REEVALUATE_PREEMPTION_CANDIDATES: Final = _gate(
    "FairSharingReevaluatePreemptionCandidates", on=False
)
FINISH_ORPHANED_WORKLOADS: Final = _gate("FinishOrphanedWorkloads", on=True)
FLAVOR_FUNGIBILITY: Final = _gate("FlavorFungibility", on=True)
FLAVOR_FUNGIBILITY_PRESERVE_SCAN_PROGRESS: Final = _gate("FlavorFungibilityPreserveScanProgress", on=True)
LOCAL_QUEUE_METRICS: Final = _gate("LocalQueueMetrics", on=True)
METRICS_FOR_COHORTS: Final = _gate("MetricsForCohorts", on=True)
PARTIAL_ADMISSION: Final = _gate("PartialAdmission", on=True)
PRIORITIZE_PREEMPTOR_WORKLOADS: Final = _gate("PrioritizePreemptorWorkloads", on=False)
PRIORITY_BOOST: Final = _gate("PriorityBoost", on=False)
PRIORITY_SORTING_WITHIN_COHORT: Final = _gate("PrioritySortingWithinCohort", on=True)
QUOTA_CHECK_STRATEGY: Final = _gate("QuotaCheckStrategy", on=True)
RECLAIMABLE_PODS: Final = _gate("ReclaimablePods", on=True)
RECOMPUTE_ASSIGNMENT_UPON_PREEMPTION_TARGETS_OVERLAP: Final = _gate(
    "RecomputeAssignmentUponPreemptionTargetsOverlap", on=True
)
REJECT_UPDATES_TO_CQ_WITH_INVALID_ON_FLAVORS: Final = _gate("RejectUpdatesToCQWithInvalidOnFlavors", on=False)
SCHEDULING_EQUIVALENCE_HASHING: Final = _gate("SchedulingEquivalenceHashing", on=True)
TAS_VALIDATE_WORKLOAD_SLICE_SIZE: Final = _gate("TASValidateWorkloadSliceSize", on=True)
TOPOLOGY_AWARE_SCHEDULING: Final = _gate("TopologyAwareScheduling", on=True)
UNADMITTED_WORKLOADS_EXPLICIT_STATUS: Final = _gate("UnadmittedWorkloadsExplicitStatus", on=False)
UNADMITTED_WORKLOADS_OBSERVABILITY: Final = _gate("UnadmittedWorkloadsObservability", on=True)
VISIBILITY_ON_DEMAND: Final = _gate("VisibilityOnDemand", on=True)
WORKLOAD_ADMISSION_CONSTRAINTS: Final = _gate("WorkloadAdmissionConstraints", on=True)
WORKLOAD_IDENTIFIER_ANNOTATIONS: Final = _gate("WorkloadIdentifierAnnotations", on=True)
WORKLOAD_PRIORITY_CLASS_DEFAULTING: Final = _gate("WorkloadPriorityClassDefaulting", on=True)
WORKLOAD_VALIDATE_RESOURCES_ARE_NON_NEGATIVE: Final = _gate(
    "WorkloadValidateResourcesAreNonNegative", on=True
)
WORKLOAD_VALIDATION_FOR_POD_SET_METADATA: Final = _gate("WorkloadValidationForPodSetMetadata", on=True)

WITHOUT_EFFECT: Final = frozenset(
    {
        ELASTIC_JOBS_VIA_WORKLOAD_SLICES_WITH_PARTIAL_REPLICA_SCALE_UP,
        FINISH_ORPHANED_WORKLOADS,
        FLAVOR_FUNGIBILITY_PRESERVE_SCAN_PROGRESS,
        LOCAL_QUEUE_METRICS,
        METRICS_FOR_COHORTS,
        QUOTA_CHECK_STRATEGY,
        UNADMITTED_WORKLOADS_EXPLICIT_STATUS,
        UNADMITTED_WORKLOADS_OBSERVABILITY,
        VISIBILITY_ON_DEMAND,
        WORKLOAD_IDENTIFIER_ANNOTATIONS,
        WORKLOAD_PRIORITY_CLASS_DEFAULTING,
    }
)
"""Known, so that a Configuration of Kueue's can be taken over; nothing asks for them."""


def enabled(gates: Mapping[str, bool], name: str) -> bool:
    """Return whether the gate is on, by *gates* or else by default.

    >>> enabled({}, "ReclaimablePods"), enabled({"ReclaimablePods": False}, "ReclaimablePods")
    (True, False)
    """
    found = gates.get(name)
    return DEFAULTS.get(name, False) if found is None else found
