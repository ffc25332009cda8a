"""Workload: spec, and the status that others report about it."""

from collections.abc import Iterator, Mapping

from sluice.api.errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
    too_many,
)
from sluice.api.features import (
    ADMISSION_GATED_BY,
    ELASTIC_JOBS_VIA_WORKLOAD_SLICES,
    ELASTIC_JOBS_VIA_WORKLOAD_SLICES_WITH_PARTIAL_REPLICA_SCALE_UP,
    NONE,
    TAS_VALIDATE_WORKLOAD_SLICE_SIZE,
    enabled,
)
from sluice.api.features import (
    PRIORITY_BOOST as PRIORITY_BOOST_GATE,
)
from sluice.api.kueue import Admission, Workload, WorkloadPodSet
from sluice.api.labels import ELASTIC_JOB, PRIORITY_BOOST
from sluice.api.quantity import QuantityError, resource_value

from . import names, pods
from .conditions import check_conditions
from .flavor import check_toleration_keys
from .gated_by import check_gated_by

PARTIAL_AND_ELASTIC = "partial admission and elastic job cannot be used together"
_BOOST = f"metadata.annotations[{PRIORITY_BOOST}]"


def has_quota_reservation(workload: Workload) -> bool:
    return any(
        found.type == "QuotaReserved" and found.status == "True" for found in workload.status.conditions
    )


def is_elastic(workload: Workload, gates: Mapping[str, bool]) -> bool:
    """Return whether the workload is a slice of an elastic job (WS1)."""
    opted_in = workload.metadata.annotations.get(ELASTIC_JOB) == "true"
    return opted_in and enabled(gates, ELASTIC_JOBS_VIA_WORKLOAD_SLICES)


def check_workload(workload: Workload, gates: Mapping[str, bool] = NONE) -> list[FieldError]:
    """Check a new workload."""
    found = check_any_workload(workload, gates, tolerated_reclaimable={})
    if enabled(gates, ADMISSION_GATED_BY):
        found += check_gated_by(workload.metadata.annotations)
    if has_quota_reservation(workload) and workload.status.admission is None:
        found.append(missing_admission())
    return found


def missing_admission() -> FieldError:
    return required("status.admission", "must be set while the QuotaReserved condition is true")


def check_any_workload(
    workload: Workload, gates: Mapping[str, bool], tolerated_reclaimable: Mapping[str, int]
) -> list[FieldError]:
    """Check what holds for new and changed workloads.

    *tolerated_reclaimable*: pod set -> reclaimable count that may exceed the pod set's, as it did before.
    """
    found = [*_check_pod_sets(workload, gates)]
    if enabled(gates, PRIORITY_BOOST_GATE):
        found += _check_boost(workload.metadata.annotations)
    if has_quota_reservation(workload) and workload.status.admission is not None:
        found += _check_admission(workload, workload.status.admission)
    found += check_conditions("status.conditions", workload.status.conditions)
    found += _check_reclaimable(workload, tolerated_reclaimable)
    return [*found, *_check_admission_checks(workload)]


def warnings(workload: Workload) -> list[str]:
    """Return what is accepted but probably not meant."""
    return [
        f"spec.podSets[{i}].topologyRequest.subGroupCount: {request.sub_group_count} is negative"
        for i, part in enumerate(workload.spec.pod_sets)
        if (request := part.topology_request) is not None and (request.sub_group_count or 0) < 0
    ]


def _check_pod_sets(workload: Workload, gates: Mapping[str, bool]) -> Iterator[FieldError]:
    variable = 0
    for i, part in enumerate(workload.spec.pod_sets):
        place = f"spec.podSets[{i}]"
        yield from pods.check_pod(f"{place}.template.spec", part.template.spec, gates)
        yield from pods.check_template_metadata(f"{place}.template", part.template, gates)
        if enabled(gates, TAS_VALIDATE_WORKLOAD_SLICE_SIZE):
            yield from _check_topology(f"{place}.topologyRequest", part)
        variable += part.min_count is not None
    if variable > 1:
        yield invalid("spec.podSets", variable, "at most one podSet can use minCount")
    partial_scale_up = enabled(gates, ELASTIC_JOBS_VIA_WORKLOAD_SLICES_WITH_PARTIAL_REPLICA_SCALE_UP)
    if variable and is_elastic(workload, gates) and not partial_scale_up:
        yield invalid("spec.podSets", variable, PARTIAL_AND_ELASTIC)


def _check_topology(field: str, part: WorkloadPodSet) -> Iterator[FieldError]:
    request = part.topology_request
    if request is None:
        return
    size = request.pod_set_slice_size
    if size is not None:
        if request.pod_set_slice_required_topology is None:
            text = "may only be set together with podSetSliceRequiredTopology"
            yield forbidden(f"{field}.podSetSliceSize", text)
        elif size <= 0:
            yield invalid(f"{field}.podSetSliceSize", size, "must be greater than 0")
    for i, constraint in enumerate(request.podset_slice_required_topology_constraints):
        if constraint.size <= 0:
            place = f"{field}.podsetSliceRequiredTopologyConstraints[{i}].size"
            yield invalid(place, constraint.size, "must be greater than 0")


def _check_boost(annotations: Mapping[str, str]) -> list[FieldError]:
    boost = annotations.get(PRIORITY_BOOST)
    if boost is None:
        return []
    if boost == "":
        text = 'must be a valid signed integer; use "0" explicitly, empty string is not allowed'
        return [invalid(_BOOST, boost, text)]
    if not names.is_integer(boost) or not -(2**31) <= int(boost) < 2**31:
        return [invalid(_BOOST, boost, "must be a valid signed integer")]
    return []


def _check_admission(workload: Workload, admission: Admission) -> Iterator[FieldError]:
    known = {part.name: None for part in workload.spec.pod_sets}
    for i, assigned in enumerate(admission.pod_set_assignments):
        place = f"status.admission.podSetAssignments[{i}]"
        if assigned.name not in known:
            yield not_found(f"{place}.name", assigned.name)
        count = assigned.count or 0
        for resource in sorted(assigned.resource_usage) if count > 0 else ():
            usage = assigned.resource_usage[resource]
            try:
                divisible = resource_value(resource, usage) % count == 0
            except QuantityError:
                divisible = False
            if not divisible:
                field = f"{place}.resourceUsage[{resource}]"
                yield invalid(field, usage, f"is not a multiple of {count}")


def _check_reclaimable(workload: Workload, tolerated: Mapping[str, int]) -> Iterator[FieldError]:
    counts = {part.name: part.count for part in workload.spec.pod_sets}
    for pod in workload.status.reclaimable_pods:
        place = f"status.reclaimablePods[{pod.name}]"
        if pod.name not in counts:
            yield not_supported(f"{place}.name", pod.name, counts)
        elif pod.count > counts[pod.name] and tolerated.get(pod.name) != pod.count:
            text = f"should be less or equal to {counts[pod.name]}"
            yield invalid(f"{place}.count", pod.count, text)


def _check_admission_checks(workload: Workload) -> Iterator[FieldError]:
    known = sorted(part.name for part in workload.spec.pod_sets)
    for i, check in enumerate(workload.status.admission_checks):
        for j, update in enumerate(check.pod_set_updates):
            place = f"status.admissionChecks[{i}].podSetUpdates[{j}]"
            if update.name not in known:
                yield not_supported(f"{place}.name", update.name, known)
            yield from check_toleration_keys(f"{place}.tolerations", update.tolerations)
            yield from names.check_annotations(f"{place}.annotations", update.annotations)
            yield from names.check_labels(f"{place}.nodeSelector", update.node_selector)
            yield from names.check_labels(f"{place}.labels", update.labels)


MAX_POD_SETS = 8


def schema_workload(workload: Workload) -> list[FieldError]:
    """Check what the CRD's schema says."""
    spec = workload.spec
    found: list[FieldError] = []
    if len(spec.pod_sets) > MAX_POD_SETS:
        found.append(too_many("spec.podSets", len(spec.pod_sets), MAX_POD_SETS))
    seen: dict[str, None] = {}
    for i, part in enumerate(spec.pod_sets):
        place = f"spec.podSets[{i}]"
        found += names.check_name(f"{place}.name", part.name, names.dns_label(part.name))
        if part.name in seen:
            found.append(duplicate(f"{place}.name", part.name))
        seen[part.name] = None
        if part.count < 0:
            found.append(invalid(f"{place}.count", part.count, "must be greater than or equal to 0"))
        if part.min_count is not None and not 0 < part.min_count <= part.count:
            text = "minCount should be positive and less or equal to count"
            found.append(invalid(f"{place}.minCount", part.min_count, text))
        found += pods.schema_pod(f"{place}.template.spec", part.template.spec)
    if spec.queue_name:
        found += names.check_name("spec.queueName", spec.queue_name, names.dns_subdomain(spec.queue_name))
    longest = spec.maximum_execution_time_seconds
    if longest is not None and longest < 1:
        text = "must be greater than or equal to 1"
        found.append(invalid("spec.maximumExecutionTimeSeconds", longest, text))
    return found
