"""Feature gates (G2): names and defaults. A Configuration's `featureGates` override them by name."""

from collections.abc import Mapping

__all__ = ["DEFAULTS", "NONE", "enabled"]

DEFAULTS: Mapping[str, bool] = {
    "AdmissionGatedBy": True,
    "ConcurrentAdmission": True,
    "ElasticJobsViaWorkloadSlices": True,
    "ElasticJobsViaWorkloadSlicesWithPartialReplicaScaleUp": False,
    "FairSharingPreemptWithinNominal": True,
    "FairSharingPrioritizeNonBorrowing": True,
    "FairSharingReevaluatePreemptionCandidates": False,
    "FinishOrphanedWorkloads": True,
    "FlavorFungibility": True,
    "FlavorFungibilityPreserveScanProgress": True,
    "LocalQueueMetrics": True,
    "MetricsForCohorts": True,
    "PartialAdmission": True,
    "PrioritizePreemptorWorkloads": False,
    "PriorityBoost": False,
    "PrioritySortingWithinCohort": True,
    "QuotaCheckStrategy": True,
    "ReclaimablePods": True,
    "RecomputeAssignmentUponPreemptionTargetsOverlap": True,
    "RejectUpdatesToCQWithInvalidOnFlavors": False,
    "SchedulingEquivalenceHashing": True,
    "TASValidateWorkloadSliceSize": True,
    "TopologyAwareScheduling": True,
    "UnadmittedWorkloadsExplicitStatus": False,
    "UnadmittedWorkloadsObservability": True,
    "VisibilityOnDemand": True,
    "WorkloadAdmissionConstraints": True,
    "WorkloadIdentifierAnnotations": True,
    "WorkloadPriorityClassDefaulting": True,
    "WorkloadValidateResourcesAreNonNegative": True,
    "WorkloadValidationForPodSetMetadata": True,
}
"""Kueue's names and defaults, but for ours: the three features this project is about are on."""

NONE: Mapping[str, bool] = {}


def enabled(gates: Mapping[str, bool], name: str) -> bool:
    """Return whether the gate is on, by *gates* or else by default.

    >>> enabled({}, "ReclaimablePods"), enabled({"ReclaimablePods": False}, "ReclaimablePods")
    (True, False)
    """
    found = gates.get(name)
    return DEFAULTS.get(name, False) if found is None else found
