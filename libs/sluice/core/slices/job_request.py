"""Request of a job manifest for admission: its pod sets, queue, priority and constraints.

This runs for every submitted job, so it reads each field once and copies nothing that is empty.
"""

from collections.abc import Mapping, Sequence

import msgspec

from sluice.api import batch_v1, constraints, jobset, kueue, labels, ray, sluice_v1
from sluice.api.core_v1 import (
    Affinity,
    Container,
    NodeSelectorTerm,
    PodSpec,
    PodTemplateSpec,
    ResourceRequirements,
)
from sluice.api.mapped import MappedJob, OwnJob, pods_of
from sluice.api.mapped import Mapping as Rules
from sluice.api.meta import Manifest
from sluice.api.quantity import resource_value
from sluice.api.validation.job import pods_count, sync_completions
from sluice.core.workload.pod_resources import PodResources, plain_resources, pod_resources, requests_of
from sluice.events.base import PodSet

from .fields import named_class, named_queue, suspended

__all__ = ["JobRequest", "job_request"]

Requests = dict[str, int]

_SUBMITTER = PodTemplateSpec(
    spec=PodSpec(
        containers=[
            Container(
                name="ray-job-submitter",
                resources=ResourceRequirements(requests={"cpu": "500m", "memory": "200Mi"}),
            )
        ]
    )
)
"""What KubeRay's submitter pod asks for, unless the RayJob has a template of its own."""


class JobRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A job as admission sees it. Names are '' where the manifest says nothing.

    `priority` is set only where the manifest gives a number instead of a class. `labels` and
    `annotations` are those under Kueue's prefix. `elastic` is the opt-in to workload slices (WS1).
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    queue_name: str
    pod_sets: tuple[PodSet, ...]
    priority_class: str = ""
    priority: int | None = None
    suspend: bool | None = None
    active: bool = True
    maximum_execution_time_s: int | None = None
    preemption_gates: tuple[str, ...] = ()
    allowed_flavors: tuple[str, ...] = ()
    cannot_preempt: bool = False
    cannot_borrow: bool = False
    elastic: bool = False
    misconfigured: str = ""
    """Why its resources are inadmissible, by the limit ranges of its namespace."""
    generation: int = 0
    mapping: Rules | None = None
    """Of a job of a team's kind: how it was read."""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


def job_request(manifest: Manifest) -> JobRequest:
    """Return what admission needs of a valid job or workload manifest.

    Raises:
        TypeError: *manifest* is no kind of job.
        QuantityError, ValueError: it has not been validated.
    """
    match manifest:
        case batch_v1.Job():
            return _from_labels(manifest, _batch_pod_sets(manifest))
        case sluice_v1.Job(spec=spec):
            pod_sets = tuple(_group_pod_set(group, spec.completions) for group in sluice_v1.groups(spec))
            return _from_labels(manifest, pod_sets, spec.maximum_execution_time_seconds, spec.priority)
        case ray.RayCluster():
            return _from_labels(manifest, _ray_pod_sets(manifest.spec))
        case ray.RayJob():
            return _from_labels(manifest, _ray_job_pod_sets(manifest.spec))
        case jobset.JobSet():
            return _from_labels(manifest, _jobset_pod_sets(manifest.spec))
        case MappedJob():
            return _from_labels(manifest, _mapped_pod_sets(manifest))
        case kueue.Workload():
            return _workload(manifest)
        case _:
            raise TypeError(f"{type(manifest).__name__} is no job")


def _from_labels(
    manifest: batch_v1.Job | sluice_v1.Job | ray.RayCluster | ray.RayJob | jobset.JobSet | MappedJob,
    pod_sets: tuple[PodSet, ...],
    longest: int | None = None,
    priority: int | None = None,
) -> JobRequest:
    """Return what labels and annotations say; *longest*: seconds that it may run, if a field says that."""
    metadata = manifest.metadata
    marks, notes = metadata.labels, metadata.annotations
    if longest is None and marks.get(labels.MAX_EXEC_TIME_SECONDS):
        longest = int(marks[labels.MAX_EXEC_TIME_SECONDS])
    return JobRequest(
        api_version=manifest.api_version,
        kind=manifest.kind,
        namespace=metadata.namespace or "default",
        name=metadata.name,
        queue_name=named_queue(manifest),
        pod_sets=pod_sets,
        priority_class=named_class(manifest),
        priority=priority,
        suspend=suspended(manifest),
        maximum_execution_time_s=longest,
        preemption_gates=_names(notes.get(labels.PREEMPTION_GATES, "")),
        allowed_flavors=constraints.allowed_flavors(manifest),
        cannot_preempt=constraints.forbids(manifest, constraints.PREEMPTION),
        cannot_borrow=constraints.forbids(manifest, constraints.BORROWING),
        elastic=notes.get(labels.ELASTIC_JOB) == "true",
        generation=metadata.generation,
        mapping=manifest.mapping if isinstance(manifest, OwnJob) else None,
        labels=_ours(marks),
        annotations=_ours(notes),
    )


def _workload(workload: kueue.Workload) -> JobRequest:
    spec, metadata = workload.spec, workload.metadata
    marks, notes = metadata.labels, metadata.annotations
    return JobRequest(
        api_version=workload.api_version,
        kind=workload.kind,
        namespace=metadata.namespace or "default",
        name=metadata.name,
        queue_name=spec.queue_name,
        pod_sets=manifest_requests(workload),
        priority_class=spec.priority_class_ref.name if spec.priority_class_ref else "",
        priority=spec.priority,
        active=spec.active is not False,
        maximum_execution_time_s=spec.maximum_execution_time_seconds,
        preemption_gates=tuple(gate.name for gate in spec.preemption_gates),
        allowed_flavors=constraints.allowed_flavors(workload),
        cannot_preempt=constraints.forbids(workload, constraints.PREEMPTION),
        cannot_borrow=constraints.forbids(workload, constraints.BORROWING),
        elastic=notes.get(labels.ELASTIC_JOB) == "true",
        generation=metadata.generation,
        labels=_ours(marks),
        annotations=_ours(notes),
    )


def manifest_requests(workload: kueue.Workload) -> tuple[PodSet, ...]:
    """Return the pod sets of a Workload manifest, requests computed from its pod templates."""
    return tuple(
        pod_set(
            part.name,
            part.count,
            part.template,
            min_count=part.min_count,
            group=(part.topology_request.pod_set_group_name or "") if part.topology_request else "",
        )
        for part in workload.spec.pod_sets
    )


def pod_set(
    name: str, count: int, template: PodTemplateSpec, *, min_count: int | None = None, group: str = ""
) -> PodSet:
    """Return *count* pods made of *template*."""
    pod, notes = template.spec, template.metadata.annotations
    return PodSet(
        name=name,
        count=count,
        requests=pod_requests(pod),
        min_count=min_count,
        node_selector=pod.node_selector,
        node_affinity=_required_terms(pod.affinity) if pod.affinity is not None else (),
        tolerations=pod.tolerations or (),
        labels=template.metadata.labels,
        annotations=notes,
        group=group or (notes.get(labels.POD_SET_GROUP_NAME, "") if notes else ""),
    )


def pod_requests(pod: PodSpec) -> Requests:
    """Return what one pod needs, in base units, resources in order of name: see `pod_resources`."""
    containers = pod.containers
    if len(containers) == 1 and not pod.init_containers and pod.resources is None and not pod.overhead:
        return _sorted(_container_requests(containers[0].resources))
    return requests_of(pod_resources(pod))


def _container_requests(resources: ResourceRequirements) -> Requests:
    found = {name: resource_value(name, quantity) for name, quantity in resources.requests.items()}
    if resources.limits:
        for name, quantity in resources.limits.items():
            if name not in found:
                found[name] = resource_value(name, quantity)
    return found


def _sorted(requests: Requests) -> Requests:
    return requests if len(requests) < 2 else dict(sorted(requests.items()))


def _required_terms(affinity: Affinity) -> Sequence[NodeSelectorTerm]:
    node = affinity.node_affinity
    required = node.required_during_scheduling_ignored_during_execution if node is not None else None
    return required.node_selector_terms if required is not None else ()


def most_pods(manifest: Manifest) -> dict[str, int]:
    """Return pod set -> how many of its pods there can ever be at once, where completions say so.

    More than must complete never run, whatever size is asked for. Completions that follow the job's size
    bound nothing.
    """
    match manifest:
        case batch_v1.Job():
            completions = manifest.spec.completions
            if completions is None and manifest.spec.parallelism is None:
                completions = 1  # Kubernetes' default
            return {} if completions is None or sync_completions(manifest) else {"main": completions}
        case sluice_v1.Job():
            most = manifest.spec.completions
            return {} if most is None else {group.name: most for group in sluice_v1.groups(manifest.spec)}
        case jobset.JobSet():
            return {
                part.name: _or_one(part.replicas) * part.template.spec.completions
                for part in manifest.spec.replicated_jobs
                if part.template.spec.completions is not None
            }
        case _:
            return {}


def _or_one(count: int | None) -> int:
    return 1 if count is None else count


def _batch_pod_sets(job: batch_v1.Job) -> tuple[PodSet, ...]:
    least = job.metadata.annotations.get(labels.JOB_MIN_PARALLELISM)
    count = pods_count(job.spec)
    return (pod_set("main", count, job.spec.template, min_count=int(least) if least else None),)


def worker_count(group: ray.WorkerGroupSpec) -> int:
    """Return how many pods a worker group runs: replicas times hosts."""
    replicas = group.replicas if group.replicas is not None else (group.min_replicas or 1)
    return replicas * (group.num_of_hosts or 1)


def _ray_pod_sets(spec: ray.RayClusterSpec) -> tuple[PodSet, ...]:
    head = pod_set("head", 1, spec.head_group_spec.template)
    return (
        head,
        *(
            pod_set(group.group_name.lower(), worker_count(group), group.template)
            for group in spec.worker_group_specs
        ),
    )


def _ray_job_pod_sets(spec: ray.RayJobSpec) -> tuple[PodSet, ...]:
    cluster = spec.ray_cluster_spec
    pod_sets = _ray_pod_sets(cluster) if cluster is not None else ()
    if spec.submission_mode in ("", "K8sJobMode"):
        return (*pod_sets, pod_set("submitter", 1, spec.submitter_pod_template or _SUBMITTER))
    return pod_sets


def _jobset_pod_sets(spec: jobset.JobSetSpec) -> tuple[PodSet, ...]:
    return tuple(
        pod_set(
            part.name,
            _or_one(part.replicas) * pods_count(part.template.spec),
            part.template.spec.template,
        )
        for part in spec.replicated_jobs
    )


def _mapped_pod_sets(job: MappedJob) -> tuple[PodSet, ...]:
    return tuple(
        pod_set(part.name, part.count, part.template, min_count=part.min_count) for part in pods_of(job)
    )


def _group_pod_set(group: sluice_v1.PodGroup, completions: int | None) -> PodSet:
    count = 1 if group.replicas is None else group.replicas
    if completions is not None and completions < count:
        count = completions
    return PodSet(
        name=group.name,
        count=count,
        requests=_sorted({name: resource_value(name, value) for name, value in group.resources.items()}),
        min_count=group.min_replicas,
        node_selector=group.node_selector,
        node_affinity=group.node_affinity or (),
        tolerations=group.tolerations or (),
        labels=group.labels,
        annotations=group.annotations,
        group=group.annotations.get(labels.POD_SET_GROUP_NAME, ""),
    )


def resources_of(manifest: Manifest) -> tuple[PodResources, ...]:
    """Return what one pod of each pod set says of resources, in the order of `JobRequest.pod_sets`.

    Raises:
        TypeError: *manifest* is no kind of job.
        QuantityError: it has not been validated.
    """
    if isinstance(manifest, sluice_v1.Job):
        return tuple(plain_resources(group.resources) for group in sluice_v1.groups(manifest.spec))
    return tuple(pod_resources(template.spec) for template in _templates(manifest))


def is_plain(manifest: Manifest) -> bool:
    """Do the requests of its pod sets say all that the manifest says of resources? Of most jobs they do.

    Each pod is one container then, and has requests only.
    """
    if isinstance(manifest, batch_v1.Job):
        return _is_plain(manifest.spec.template.spec)
    if isinstance(manifest, sluice_v1.Job):
        return True
    return all(_is_plain(template.spec) for template in _templates(manifest))


def _is_plain(pod: PodSpec) -> bool:
    return (
        len(pod.containers) == 1
        and not pod.containers[0].resources.limits
        and not pod.init_containers
        and pod.resources is None
        and not pod.overhead
        and not pod.runtime_class_name
    )


def _templates(manifest: Manifest) -> Sequence[PodTemplateSpec]:
    match manifest:
        case batch_v1.Job():
            return (manifest.spec.template,)
        case ray.RayCluster():
            return _ray_templates(manifest.spec)
        case ray.RayJob():
            cluster, submitter = manifest.spec.ray_cluster_spec, manifest.spec.submission_mode
            found = _ray_templates(cluster) if cluster is not None else ()
            if submitter in ("", "K8sJobMode"):
                return (*found, manifest.spec.submitter_pod_template or _SUBMITTER)
            return found
        case jobset.JobSet():
            return [part.template.spec.template for part in manifest.spec.replicated_jobs]
        case MappedJob():
            return [part.template for part in pods_of(manifest)]
        case kueue.Workload():
            return [part.template for part in manifest.spec.pod_sets]
        case _:
            raise TypeError(f"{type(manifest).__name__} is no job")


def _ray_templates(spec: ray.RayClusterSpec) -> tuple[PodTemplateSpec, ...]:
    return (spec.head_group_spec.template, *(group.template for group in spec.worker_group_specs))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip())) if text else ()


def _ours(marks: Mapping[str, str]) -> Mapping[str, str]:
    if not marks:
        return marks
    return {key: value for key, value in marks.items() if key.startswith(labels.PREFIX)}
