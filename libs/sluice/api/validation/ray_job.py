"""RayCluster, RayJob and JobSet."""

from collections.abc import Iterator, Mapping, Sequence

from sluice.api import jobset, labels, ray
from sluice.api.errors import FieldError, duplicate, forbidden, invalid, required, too_many
from sluice.api.features import ELASTIC_JOBS_VIA_WORKLOAD_SLICES, NONE, enabled
from sluice.api.meta import ObjectMeta

from . import names, quotas
from .job import (
    MAX_POD_SETS,
    annotation_field,
    check_job_metadata,
    check_job_spec,
    check_template,
    no_constraints_here,
)

_RESERVED = ("head", "submitter")


def check_ray_cluster(cluster: ray.RayCluster, gates: Mapping[str, bool] = NONE) -> list[FieldError]:
    """Check a new RayCluster."""
    found = check_job_metadata(cluster.metadata, gates, cluster.spec.admission_constraints)
    own = _check_cluster("spec", cluster.spec, cluster.metadata, gates, most=MAX_POD_SETS - 1)
    return [*found, *own]


def check_ray_job(job: ray.RayJob, gates: Mapping[str, bool] = NONE) -> list[FieldError]:
    """Check a new RayJob: it brings its own cluster and takes it down again."""
    spec = job.spec
    found = check_job_metadata(job.metadata, gates, spec.admission_constraints)
    if spec.cluster_selector:
        text = "a kueue managed job should not use an existing cluster"
        found.append(invalid("spec.clusterSelector", spec.cluster_selector, text))
    elif spec.ray_cluster_spec is None:
        found.append(required("spec.rayClusterSpec"))
    if not spec.shutdown_after_job_finishes:
        text = "a kueue managed job should delete the cluster after finishing"
        found.append(invalid("spec.shutdownAfterJobFinishes", False, text))
    submitter = spec.submission_mode in ("", "K8sJobMode")
    if spec.ray_cluster_spec is not None:
        most = MAX_POD_SETS - (2 if submitter else 1)
        found += no_constraints_here("spec.rayClusterSpec", spec.ray_cluster_spec.admission_constraints)
        found += _check_cluster("spec.rayClusterSpec", spec.ray_cluster_spec, job.metadata, gates, most=most)
    if submitter and spec.submitter_pod_template is not None:
        found += check_template("spec.submitterPodTemplate", spec.submitter_pod_template, gates)
    return found


def _check_cluster(
    field: str, spec: ray.RayClusterSpec, metadata: ObjectMeta, gates: Mapping[str, bool], *, most: int
) -> Iterator[FieldError]:
    elastic = metadata.annotations.get(labels.ELASTIC_JOB) == "true"
    if spec.enable_in_tree_autoscaling and not (elastic and enabled(gates, ELASTIC_JOBS_VIA_WORKLOAD_SLICES)):
        text = "a kueue managed job should not use autoscaling"
        yield invalid(f"{field}.enableInTreeAutoscaling", True, text)
    if len(spec.worker_group_specs) > most:
        yield too_many(f"{field}.workerGroupSpecs", len(spec.worker_group_specs), most)
    yield from check_template(f"{field}.headGroupSpec.template", spec.head_group_spec.template, gates)
    yield from _check_groups(f"{field}.workerGroupSpecs", spec.worker_group_specs, gates)


def _check_groups(
    field: str, groups: Sequence[ray.WorkerGroupSpec], gates: Mapping[str, bool]
) -> Iterator[FieldError]:
    seen: dict[str, None] = {}
    for i, group in enumerate(groups):
        place, name = f"{field}[{i}]", group.group_name.lower()
        if name in _RESERVED:
            yield forbidden(f"{place}.groupName", f'"{name}" is reserved for the {name} group')
        elif name in seen:
            yield duplicate(f"{place}.groupName", group.group_name)
        else:
            yield from names.check_name(f"{place}.groupName", group.group_name, names.dns_label(name))
        seen[name] = None
        for word, count in (("replicas", group.replicas), ("numOfHosts", group.num_of_hosts)):
            if count is not None and count < 0:
                yield invalid(f"{place}.{word}", count, quotas.NOT_NEGATIVE)
        yield from check_template(f"{place}.template", group.template, gates)


def check_jobset(job: jobset.JobSet, gates: Mapping[str, bool] = NONE) -> list[FieldError]:
    """Check a new JobSet."""
    found = check_job_metadata(job.metadata, gates, job.spec.admission_constraints)
    if job.metadata.annotations.get(labels.ELASTIC_JOB) == "true":
        field = annotation_field(labels.ELASTIC_JOB)
        found.append(forbidden(field, "is not supported for JobSet: its pod sets cannot be resized"))
    parts = job.spec.replicated_jobs
    if not parts:
        found.append(required("spec.replicatedJobs", "must name at least one job"))
    if len(parts) > MAX_POD_SETS:
        found.append(too_many("spec.replicatedJobs", len(parts), MAX_POD_SETS))
    seen: dict[str, None] = {}
    for i, part in enumerate(parts):
        place = f"spec.replicatedJobs[{i}]"
        found += names.check_name(f"{place}.name", part.name, names.dns_label(part.name))
        if part.name in seen:
            found.append(duplicate(f"{place}.name", part.name))
        seen[part.name] = None
        if part.replicas is not None and part.replicas < 0:
            found.append(invalid(f"{place}.replicas", part.replicas, quotas.NOT_NEGATIVE))
        found += check_job_spec(f"{place}.template.spec", part.template.spec, gates)
    return found
