"""Validation of changes to a Workload: mutable fields, and when they may change."""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from sluice.api import constraints
from sluice.api.errors import IMMUTABLE, FieldError, invalid, required
from sluice.api.features import (
    ADMISSION_GATED_BY,
    ELASTIC_JOBS_VIA_WORKLOAD_SLICES,
    NONE,
    TOPOLOGY_AWARE_SCHEDULING,
    enabled,
)
from sluice.api.kueue import Admission, Workload, WorkloadPodSet
from sluice.api.labels import SLICE_REPLACEMENT_FOR

from .gated_by import check_gated_by
from .workload import check_any_workload, has_quota_reservation, is_elastic, missing_admission


def check_workload_update(new: Workload, old: Workload, gates: Mapping[str, bool] = NONE) -> list[FieldError]:
    """Check a changed workload."""
    found = check_any_workload(new, gates, _tolerated_reclaimable(new, old, gates))
    had, has = has_quota_reservation(old), has_quota_reservation(new)
    if has and new.status.admission is None and not (had and old.status.admission is None):
        # One that is in that state already must stay editable, or it could never be removed.
        found.append(missing_admission())
    if had:
        found += _check_pod_sets(new, old, gates)
        found += constraints.changes(new, old)  # AX1
    if had and has:
        found += _check_reclaimable(new, old, gates)
    found += _check_admission(new.status.admission, old.status.admission, gates)
    found += _check_pod_set_updates(new, old)
    found += _check_cluster_name(new, old, gates)
    if enabled(gates, ADMISSION_GATED_BY):
        found += check_gated_by(new.metadata.annotations, before=old.metadata.annotations)
    return found


def _check_pod_sets(new: Workload, old: Workload, gates: Mapping[str, bool]) -> list[FieldError]:
    before, after = old.spec.pod_sets, new.spec.pod_sets
    if len(before) != len(after):
        return [invalid("spec.podSets", after, IMMUTABLE)]
    elastic = enabled(gates, ELASTIC_JOBS_VIA_WORKLOAD_SLICES)
    return [
        invalid(f"spec.podSets.{i}", part, IMMUTABLE)
        for i, part in enumerate(after)
        if not _same_pods(part, before[i], shrinking_is_fine=elastic)
    ]


def _same_pods(new: WorkloadPodSet, old: WorkloadPodSet, *, shrinking_is_fine: bool) -> bool:
    if shrinking_is_fine and new.count < old.count:
        # WS3: a scale-down happens in place.
        new = replace(new, count=old.count)
    return new == old


def _scaled_down(new: Workload, gates: Mapping[str, bool]) -> frozenset[str]:
    """Return the pod sets of a slice that are smaller now than when they were admitted."""
    admission = new.status.admission
    if admission is None or not is_elastic(new, gates):
        return frozenset()
    admitted = {assigned.name: assigned.count for assigned in admission.pod_set_assignments}
    return frozenset(
        part.name for part in new.spec.pod_sets if part.count < (admitted.get(part.name) or part.count)
    )


def _tolerated_reclaimable(new: Workload, old: Workload, gates: Mapping[str, bool]) -> dict[str, int]:
    if not is_elastic(new, gates):
        return {}
    return {pod.name: pod.count for pod in old.status.reclaimable_pods}


def _check_reclaimable(new: Workload, old: Workload, gates: Mapping[str, bool]) -> Iterator[FieldError]:
    """Check that pods which have ended stay ended, but for those of a slice that shrank."""
    before = {pod.name: pod.count for pod in old.status.reclaimable_pods}
    after = {pod.name: pod.count for pod in new.status.reclaimable_pods}
    shrunk = _scaled_down(new, gates)
    yield from [
        invalid(f"status.reclaimablePods[{name}].count", count, f"cannot be less than {before[name]}")
        for name, count in after.items()
        if name not in shrunk and count < before.get(name, 0)
    ]
    yield from (
        required(f"status.reclaimablePods[{name}]", "cannot be removed")
        for name in before
        if name not in after and name not in shrunk
    )


def _check_admission(
    new: Admission | None, old: Admission | None, gates: Mapping[str, bool]
) -> list[FieldError]:
    """Check that an admission is set and unset as a whole; only its topology may change."""
    if new is None or old is None:
        return []
    bare = enabled(gates, TOPOLOGY_AWARE_SCHEDULING)
    same = _without_topology(new) == _without_topology(old) if bare else new == old
    return [] if same else [invalid("status.admission", new, IMMUTABLE)]


def _without_topology(admission: Admission) -> Admission:
    return replace(
        admission,
        pod_set_assignments=[
            replace(assigned, topology_assignment=None, delayed_topology_request=None)
            for assigned in admission.pod_set_assignments
        ],
    )


def _check_pod_set_updates(new: Workload, old: Workload) -> Iterator[FieldError]:
    after = {check.name: check for check in new.status.admission_checks}
    for i, check in enumerate(old.status.admission_checks):
        changed = after.get(check.name)
        if changed is None or check.state != "Ready" or changed.state != "Ready":
            continue
        if changed.pod_set_updates != check.pod_set_updates:
            place = f"status.admissionChecks[{i}].podSetUpdates"
            yield invalid(place, changed.pod_set_updates, IMMUTABLE)


def _check_cluster_name(new: Workload, old: Workload, gates: Mapping[str, bool]) -> list[FieldError]:
    name = new.status.cluster_name
    if name is None or old.status.cluster_name is not None or name in old.status.nominated_cluster_names:
        return []
    if SLICE_REPLACEMENT_FOR in new.metadata.annotations and enabled(gates, ELASTIC_JOBS_VIA_WORKLOAD_SLICES):
        # A slice goes where the slice that it replaces is.
        return []
    text = "when setting clusterName it must be one of the nominatedClusterNames"
    return [invalid("status.clusterName", name, text)]
