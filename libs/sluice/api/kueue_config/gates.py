"""Feature gates that Kueue has and Sluice does not: so a misspelt gate is told from a foreign one."""

from typing import Final

DISABLE_WAIT_FOR_PODS_READY: Final = "DisableWaitForPodsReady"
"""Set, it takes `waitForPodsReady` back: here, too."""

_NAMES: Final = """
    AdmissionFairSharing AssignQueueLabelsForPods CleanupProvisioningRequestsOnEviction
    ConfigurableResourceTransformations CustomMetricLabels DRAExtendedResources
    DeferRayServiceFinalizationForRedisCleanup DynamicQuotaOrchestration DynamicResourceAllocation
    ElasticJobsViaWorkloadSlicesWithTAS ExposeFlavorsInLocalQueue FailureRecoveryPolicy
    FastQuotaReleaseInPodIntegration FlavorFungibilityImplicitPreferenceDefault HierarchicalCohorts
    KeepQuotaForProvReqRetry KubeRayAccountForRedisCleanup KueueDRAIntegration
    KueueDRAIntegrationConsumableCapacity KueueDRAIntegrationExtendedResource
    KueueDRAIntegrationPartitionableDevices KueueDRARejectWorkloadsWhenDRADisabled LWSImmutableGroupSize
    LendingLimit LocalQueueDefaulting ManagedJobsNamespaceSelector
    ManagedJobsNamespaceSelectorAlwaysRespected MetricForWorkloadCreationLatency MultiKueue
    MultiKueueAdaptersForCustomJobs MultiKueueAllowInsecureKubeconfigs
    MultiKueueBatchJobClearingTTLSecondsAfterFinishedOnWorkerCluster MultiKueueBatchJobWithManagedBy
    MultiKueueClusterProfile MultiKueueIncrementalDispatcherConfig
    MultiKueueIncrementalDispatcherRespectConfigOrder MultiKueueKubeConfigPathValidation
    MultiKueueManagerQuotaAutomation MultiKueueOrchestratedPreemption MultiKueueRemoteSpecSync
    MultiplePreemptions ObjectRetentionPolicies PodIntegrationValidateGroupOwner
    PropagateBatchJobLabelsToWorkload ProvisioningACC QueueVisibility RemoveFinalizersWithStrictPatch
    ReservedResourceNameValidation SanitizePodSets SchedulerLibraryIntegration
    SchedulerTimestampPreemptionBuffer SchedulingEquivalenceHashingIgnorePodSetName ShortWorkloadNames
    SkipAncestorCheckForDeletedWorkloads SkipReassignmentForPodOwnedWorkloads SparkApplicationIntegration
    TASAssignmentsEncodingByHostnamePrefix TASBalancedPlacement TASCacheNodeMatchResults
    TASCacheTopologyTree TASCachingRemainingResources TASFailedNodeReplacement
    TASFailedNodeReplacementFailFast TASHandleOverlappingFlavors TASMultiLayerTopology
    TASNodeFeasibilityForAllLevels TASProfileLeastFreeCapacity TASProfileMixed TASProfileMostFreeCapacity
    TASRecomputeAssignmentWithinSchedulingCycle TASReplaceNodeDueToNotReadyOverFixedTime
    TASReplaceNodeOnNodeTaints TASReplaceNodeOnPodTermination TASRespectNodeAffinityPreferred TLSOptions
    ValidateRayAndSparkJobUpdates VectorizedResourceRequests WaitForPodsReadyUnscheduledTimeout
    WorkloadLevelWaitForPodsReady WorkloadRequestUseMergePatch WorkloadResourceRequestsSummary
"""

FOREIGN: Final = frozenset(_NAMES.split())
"""Accepted with a warning; those of Kueue that mean something here are in `sluice.api.features`."""
