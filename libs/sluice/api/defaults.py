"""Defaults, as Kueue's CRDs and webhooks fill them in. Pure: new frozen structs, nothing changed in place.

Idempotent, and silent about what does not matter: an absent optional part stays absent.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from . import batch_v1, jobset, kueue, ray, sluice_v1
from .core_v1 import LimitRange, LimitRangeItem, Namespace
from .features import NONE, PARTIAL_ADMISSION, enabled
from .meta import Manifest, ObjectMeta
from .scheme import kind_of

NAMESPACE = "default"
NAMESPACE_LABEL = "kubernetes.io/metadata.name"


def default[M: Manifest](manifest: M, gates: Mapping[str, bool] = NONE) -> M:
    """Return *manifest* with defaults filled in; a status that only the system writes is dropped.

    Raises:
        KeyError: *manifest* is a part of a manifest and no manifest itself.
    """
    kind = kind_of(manifest)
    metadata: ObjectMeta = manifest.metadata  # type: ignore[attr-defined]
    if kind.namespaced and not metadata.namespace:
        manifest = replace(manifest, metadata=replace(metadata, namespace=NAMESPACE))
    fill = _DEFAULTS.get(type(manifest))
    return manifest if fill is None else fill(manifest, gates)


def _cluster_queue(queue: kueue.ClusterQueue, _gates: Mapping[str, bool]) -> kueue.ClusterQueue:
    spec = queue.spec
    fungibility = spec.flavor_fungibility or kueue.FlavorFungibility()
    preemption = spec.preemption or kueue.ClusterQueuePreemption()
    borrow = preemption.borrow_within_cohort or kueue.BorrowWithinCohort()
    return replace(
        queue,
        spec=replace(
            spec,
            queueing_strategy=spec.queueing_strategy or "BestEffortFIFO",
            flavor_fungibility=replace(
                fungibility,
                when_can_borrow=fungibility.when_can_borrow or "MayStopSearch",
                when_can_preempt=fungibility.when_can_preempt or "TryNextFlavor",
            ),
            preemption=replace(
                preemption,
                within_cluster_queue=preemption.within_cluster_queue or "Never",
                reclaim_within_cohort=preemption.reclaim_within_cohort or "Never",
                borrow_within_cohort=replace(borrow, policy=borrow.policy or "Never"),
            ),
            stop_policy=spec.stop_policy or "None",
            fair_sharing=_fair_sharing(spec.fair_sharing),
        ),
        status={},
    )


def _fair_sharing(fair_sharing: kueue.FairSharing | None) -> kueue.FairSharing | None:
    if fair_sharing is None or fair_sharing.weight is not None:
        return fair_sharing
    return replace(fair_sharing, weight=1)


def _cohort(cohort: kueue.Cohort, _gates: Mapping[str, bool]) -> kueue.Cohort:
    spec = replace(cohort.spec, fair_sharing=_fair_sharing(cohort.spec.fair_sharing))
    return replace(cohort, spec=spec, status={})


def _local_queue(queue: kueue.LocalQueue, _gates: Mapping[str, bool]) -> kueue.LocalQueue:
    spec = replace(
        queue.spec,
        stop_policy=queue.spec.stop_policy or "None",
        fair_sharing=_fair_sharing(queue.spec.fair_sharing),
    )
    return replace(queue, spec=spec, status={})


def _admission_check(check: kueue.AdmissionCheck, _gates: Mapping[str, bool]) -> kueue.AdmissionCheck:
    policy = check.spec.preemption_policy or "Anytime"
    return replace(check, spec=replace(check.spec, preemption_policy=policy), status={})


def _workload(workload: kueue.Workload, gates: Mapping[str, bool]) -> kueue.Workload:
    spec = workload.spec
    pod_sets = [replace(part, name=part.name or "main") for part in spec.pod_sets]
    if not enabled(gates, PARTIAL_ADMISSION):
        pod_sets = [replace(part, min_count=None) for part in pod_sets]
    active = True if spec.active is None else spec.active
    return replace(workload, spec=replace(spec, pod_sets=pod_sets, active=active))


def _batch_job(job: batch_v1.Job, _gates: Mapping[str, bool]) -> batch_v1.Job:
    spec = job.spec
    parallelism = spec.parallelism
    # As Kubernetes: neither given means one pod; parallelism alone is a work queue.
    completions = 1 if spec.completions is None and parallelism is None else spec.completions
    return replace(
        job,
        spec=replace(
            spec,
            parallelism=1 if parallelism is None else parallelism,
            completions=completions,
            completion_mode=spec.completion_mode or "NonIndexed",
            backoff_limit=6 if spec.backoff_limit is None else spec.backoff_limit,
            suspend=True if spec.suspend is None else spec.suspend,
        ),
    )


def _own_job(job: sluice_v1.Job, _gates: Mapping[str, bool]) -> sluice_v1.Job:
    spec = job.spec
    if spec.pod_sets:
        pod_sets = [
            replace(group, replicas=1 if group.replicas is None else group.replicas)
            for group in spec.pod_sets
        ]
        return replace(job, spec=replace(spec, pod_sets=pod_sets))
    replicas = spec.replicas if spec.parallelism is None else spec.parallelism
    return replace(job, spec=replace(spec, replicas=1 if replicas is None else replicas, parallelism=None))


def _ray_cluster(cluster: ray.RayCluster, _gates: Mapping[str, bool]) -> ray.RayCluster:
    return replace(cluster, spec=_ray_spec(cluster.spec))


def _ray_spec(spec: ray.RayClusterSpec) -> ray.RayClusterSpec:
    groups = [
        replace(
            group,
            replicas=(group.min_replicas or 1) if group.replicas is None else group.replicas,
            num_of_hosts=group.num_of_hosts or 1,
        )
        for group in spec.worker_group_specs
    ]
    return replace(spec, worker_group_specs=groups)


def _ray_job(job: ray.RayJob, _gates: Mapping[str, bool]) -> ray.RayJob:
    spec = job.spec
    cluster = spec.ray_cluster_spec
    return replace(
        job,
        spec=replace(
            spec,
            submission_mode=spec.submission_mode or "K8sJobMode",
            ray_cluster_spec=None if cluster is None else _ray_spec(cluster),
        ),
    )


def _jobset(job: jobset.JobSet, _gates: Mapping[str, bool]) -> jobset.JobSet:
    parts = [
        replace(part, replicas=1 if part.replicas is None else part.replicas)
        for part in job.spec.replicated_jobs
    ]
    return replace(job, spec=replace(job.spec, replicated_jobs=parts))


def _namespace(namespace: Namespace, _gates: Mapping[str, bool]) -> Namespace:
    metadata = namespace.metadata
    labels = {**metadata.labels, NAMESPACE_LABEL: metadata.name}
    return replace(namespace, metadata=replace(metadata, labels=labels), status={})


def _limit_range(limit_range: LimitRange, _gates: Mapping[str, bool]) -> LimitRange:
    items = [_limit_range_item(item) for item in limit_range.spec.limits]
    return replace(limit_range, spec=replace(limit_range.spec, limits=items))


def _limit_range_item(item: LimitRangeItem) -> LimitRangeItem:
    """As Kubernetes: a container's default limit is its max, its default request that limit, or its min."""
    if item.type != "Container":
        return item
    limit = {**item.max, **item.default}
    return replace(item, default=limit, default_request={**item.min, **limit, **item.default_request})


def _configuration(configuration: kueue.Configuration, _gates: Mapping[str, bool]) -> kueue.Configuration:
    metadata = configuration.metadata
    sharing = configuration.spec.fair_sharing
    if sharing.enable and not sharing.preemption_strategies:
        both = ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
        sharing = replace(sharing, preemption_strategies=both)
    return replace(
        configuration,
        metadata=replace(metadata, name=metadata.name or "default"),
        spec=replace(configuration.spec, fair_sharing=sharing),
    )


_DEFAULTS: Mapping[type[Manifest], Callable[[Any, Mapping[str, bool]], Any]] = {
    kueue.ClusterQueue: _cluster_queue,
    kueue.Cohort: _cohort,
    kueue.LocalQueue: _local_queue,
    kueue.AdmissionCheck: _admission_check,
    kueue.Workload: _workload,
    kueue.Configuration: _configuration,
    Namespace: _namespace,
    LimitRange: _limit_range,
    batch_v1.Job: _batch_job,
    sluice_v1.Job: _own_job,
    ray.RayCluster: _ray_cluster,
    ray.RayJob: _ray_job,
    jobset.JobSet: _jobset,
}
