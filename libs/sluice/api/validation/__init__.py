"""Validation of manifests: all that Kueue's webhooks and CRD schemas check, and the rules of our own kinds.

What refers to other objects (does the flavor exist?) is no error here: the queue becomes inactive and
says why, as in Kueue. Errors come in the order of the checks: metadata, schema, rules.
"""

from collections.abc import Callable, Mapping
from typing import Any

from sluice.api import (
    batch_v1,
    check_parameters,
    constraints,
    core_v1,
    jobset,
    kueue,
    node_v1,
    ray,
    sluice_v1,
)
from sluice.api import custom as custom_api
from sluice.api.errors import FieldError, InvalidError
from sluice.api.features import NONE
from sluice.api.mapped import JobKind, MappedJob, OwnJob
from sluice.api.meta import Manifest, ObjectMeta
from sluice.api.scheme import kind_of

from . import (
    cells,
    clusterqueue,
    cohort,
    configuration,
    custom,
    family,
    flavor,
    ineffective,
    job,
    limit_range,
    mapped_job,
    parameters,
    ray_job,
    small,
    workload,
    workload_update,
)
from .job_update import check_job_update
from .meta import check_metadata

__all__ = [
    "check_job_update",
    "custom",
    "everything",
    "flavor",
    "job",
    "names",
    "require_valid",
    "small",
    "validate",
    "validate_update",
    "warnings",
]

Gates = Mapping[str, bool]
_Check = Callable[[Any, Gates], list[FieldError]]


def _gateless(check: Callable[[Any], list[FieldError]]) -> _Check:
    return lambda manifest, _gates: check(manifest)


def _check_constraints(manifest: kueue.Workload) -> list[FieldError]:
    field = manifest.spec.admission_constraints
    return [] if field is None else list(constraints.contradictions(manifest.metadata, field))


_RULES: dict[type[Manifest], tuple[_Check, ...]] = {
    kueue.ResourceFlavor: (_gateless(flavor.schema_flavor), _gateless(flavor.check_flavor)),
    kueue.ClusterQueue: (
        _gateless(clusterqueue.schema_cluster_queue),
        _gateless(clusterqueue.check_cluster_queue),
    ),
    kueue.Cohort: (_gateless(cohort.schema_cohort), _gateless(cohort.check_cohort)),
    kueue.LocalQueue: (_gateless(small.check_local_queue),),
    kueue.AdmissionCheck: (_gateless(small.check_admission_check),),
    kueue.ProvisioningRequestConfig: (_gateless(parameters.check_provisioning_config),),
    check_parameters.Budget: (_gateless(parameters.check_budget),),
    check_parameters.WebhookCheckConfig: (_gateless(parameters.check_webhook_config),),
    kueue.MultiKueueCluster: (_gateless(cells.check_cluster),),
    kueue.MultiKueueConfig: (_gateless(cells.check_config),),
    kueue.Topology: (_gateless(small.check_topology),),
    check_parameters.CellLadder: (_gateless(cells.check_ladder),),
    kueue.WorkloadPriorityClass: (_gateless(small.check_priority_class),),
    kueue.Configuration: (_gateless(configuration.check_configuration),),
    kueue.Workload: (
        _gateless(workload.schema_workload),
        workload.check_workload,
        _gateless(family.check_not_of_family),
        _gateless(_check_constraints),
    ),
    core_v1.Namespace: (_gateless(small.check_namespace),),
    core_v1.LimitRange: (_gateless(limit_range.check_limit_range),),
    node_v1.RuntimeClass: (_gateless(limit_range.check_runtime_class),),
    custom_api.CustomResourceDefinition: (_gateless(custom.check_definition),),
    custom_api.CustomObject: (),
    batch_v1.Job: (job.check_batch_job,),
    sluice_v1.Job: (job.check_own_job,),
    ray.RayCluster: (ray_job.check_ray_cluster,),
    ray.RayJob: (ray_job.check_ray_job,),
    jobset.JobSet: (ray_job.check_jobset,),
    MappedJob: (mapped_job.check_mapped_job,),
    OwnJob: (mapped_job.check_mapped_job,),
    JobKind: (_gateless(mapped_job.check_job_kind),),
}


def validate(manifest: Manifest, gates: Gates = NONE) -> list[FieldError]:
    """Return all that is wrong with a new object; [] when it may be created.

    >>> from sluice.api.yaml import manifests
    >>> (cohort,) = manifests("{apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort, metadata: {name: A_b}}")
    >>> [error.field for error in validate(cohort)]
    ['metadata.name']

    Raises:
        KeyError: *manifest* is a part of a manifest and no manifest itself.
    """
    found = _check_metadata(manifest)
    for check in _RULES[type(manifest)]:
        found += check(manifest, gates)
    return found if len(found) < 2 else _once(found)


def _check_metadata(manifest: Manifest) -> list[FieldError]:
    kind = kind_of(manifest)
    metadata: ObjectMeta = manifest.metadata  # type: ignore[attr-defined]
    return check_metadata(metadata, namespaced=kind.namespaced, relaxed_name=kind.kind == "ResourceFlavor")


def validate_update(new: Manifest, old: Manifest, gates: Gates = NONE) -> list[FieldError]:
    """Return all that is wrong with *new* in place of *old*, of the same kind and name.

    Of jobs only the new manifest is checked; what may change while they run is `check_job_update`.
    """
    match new, old:
        case kueue.ClusterQueue(), kueue.ClusterQueue():
            found = _check_metadata(new) + clusterqueue.schema_cluster_queue(new)
            found += clusterqueue.check_cluster_queue_update(new, old, gates)
        case kueue.Workload(), kueue.Workload():
            found = _check_metadata(new) + workload.schema_workload(new)
            found += workload_update.check_workload_update(new, old, gates)
        case kueue.LocalQueue(), kueue.LocalQueue():
            found = validate(new, gates) + small.check_local_queue_update(new, old)
        case kueue.AdmissionCheck(), kueue.AdmissionCheck():
            found = validate(new, gates) + small.check_admission_check_update(new, old)
        case custom_api.CustomResourceDefinition(), custom_api.CustomResourceDefinition():
            found = validate(new, gates) + custom.check_definition_update(new, old)
        case JobKind(), JobKind():
            found = validate(new, gates) + mapped_job.check_job_kind_update(new, old)
        case _:
            return validate(new, gates)
    return _once(found)


def _once(found: list[FieldError]) -> list[FieldError]:
    """Drop repetitions: the schema and a rule may object to the same value."""
    kept: dict[tuple[str, str, str], FieldError] = {}
    for error in found:
        kept.setdefault((error.field, error.type, error.detail), error)
    return list(kept.values())


def warnings(manifest: Manifest) -> list[str]:
    """Return what is accepted but probably not meant."""
    if isinstance(manifest, kueue.Workload):
        return workload.warnings(manifest)
    if isinstance(manifest, MappedJob):
        return list(mapped_job.no_effect(manifest))
    return list(ineffective.ineffective(manifest))


def require_valid(manifest: Manifest, gates: Gates = NONE) -> None:
    """Check a new object.

    Raises:
        InvalidError: with all field errors.
    """
    found = validate(manifest, gates)
    if found:
        kind = kind_of(manifest)
        metadata: ObjectMeta = manifest.metadata  # type: ignore[attr-defined]
        dotted = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
        raise InvalidError(found, f'{dotted} "{metadata.name}"')
