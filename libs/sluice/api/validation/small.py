"""LocalQueue, AdmissionCheck, WorkloadPriorityClass, Topology and Namespace."""

from collections.abc import Iterator

from sluice.api.core_v1 import Namespace
from sluice.api.errors import IMMUTABLE, FieldError, duplicate, invalid, required, too_many
from sluice.api.kueue import (
    AdmissionCheck,
    AdmissionCheckParametersReference,
    LocalQueue,
    Topology,
    WorkloadPriorityClass,
)
from sluice.api.labels import ANSWER_TIMEOUT_SECONDS

from . import names, quotas

MAX_CONTROLLER_NAME = 153
MAX_LEVELS = 16
MAX_ANSWER_TIMEOUT_S = 10 * 366 * 86_400


def check_local_queue(queue: LocalQueue) -> list[FieldError]:
    """Check a new or changed LocalQueue; its ClusterQueue need not exist (yet)."""
    name = queue.spec.cluster_queue
    if not name:
        found = [required("spec.clusterQueue")]
    else:
        found = names.check_name("spec.clusterQueue", name, names.dns_subdomain(name))
    return found + quotas.check_fair_sharing("spec.fairSharing", queue.spec.fair_sharing)


def check_local_queue_update(new: LocalQueue, old: LocalQueue) -> list[FieldError]:
    """Check a local queue in place of another: its cluster queue stays."""
    if new.spec.cluster_queue == old.spec.cluster_queue:
        return []
    return [invalid("spec.clusterQueue", new.spec.cluster_queue, IMMUTABLE)]


def check_admission_check(check: AdmissionCheck) -> list[FieldError]:
    """Check a new or changed AdmissionCheck; parameters are passed through (AC8)."""
    spec = check.spec
    found: list[FieldError] = []
    if not spec.controller_name:
        found.append(required("spec.controllerName"))
    elif len(spec.controller_name) > MAX_CONTROLLER_NAME:
        text = f"may not be more than {MAX_CONTROLLER_NAME} characters"
        found.append(invalid("spec.controllerName", spec.controller_name, text))
    if spec.parameters is not None:
        for word, value in (
            ("apiGroup", spec.parameters.api_group),
            ("kind", spec.parameters.kind),
            ("name", spec.parameters.name),
        ):
            if not value:
                found.append(required(f"spec.parameters.{word}"))
        found += _check_parameters(spec.parameters)
    limit = check.metadata.annotations.get(ANSWER_TIMEOUT_SECONDS, "0")
    if not (limit.isascii() and limit.isdecimal() and int(limit[:20]) <= MAX_ANSWER_TIMEOUT_S):
        text = f"must be a number of seconds between 0 and {MAX_ANSWER_TIMEOUT_S}"
        found.append(invalid(f"metadata.annotations[{ANSWER_TIMEOUT_SECONDS}]", limit, text))
    return found


def _check_parameters(reference: AdmissionCheckParametersReference) -> Iterator[FieldError]:
    """Check a reference's words, as Kueue's schema does; what they name need not exist (yet)."""
    if reference.api_group:
        group = reference.api_group
        yield from names.check_name("spec.parameters.apiGroup", group, names.dns_subdomain(group))
    if reference.kind:
        kind = reference.kind
        yield from names.check_name("spec.parameters.kind", kind, names.dns_label(kind.lower()))
    if reference.name:
        name = reference.name
        yield from names.check_name("spec.parameters.name", name, names.dns_subdomain(name))


def check_admission_check_update(new: AdmissionCheck, old: AdmissionCheck) -> list[FieldError]:
    """Check AC8: another controller would be another check."""
    if new.spec.controller_name == old.spec.controller_name:
        return []
    return [invalid("spec.controllerName", new.spec.controller_name, IMMUTABLE)]


def check_priority_class(priority_class: WorkloadPriorityClass) -> list[FieldError]:
    """Check a priority class. Its value may change: workloads keep the one they were made with."""
    if -(2**31) <= priority_class.value < 2**31:
        return []
    return [invalid("value", priority_class.value, "must be a 32-bit integer")]


def check_topology(topology: Topology) -> list[FieldError]:
    """Check a new or changed Topology: 1 to 16 levels, each by a label of nodes."""
    levels = topology.spec.levels
    if not levels:
        return [required("spec.levels")]
    if len(levels) > MAX_LEVELS:
        return [too_many("spec.levels", len(levels), MAX_LEVELS)]
    seen: dict[str, None] = {}
    found: list[FieldError] = []
    for i, level in enumerate(levels):
        field = f"spec.levels[{i}].nodeLabel"
        if not level.node_label:
            found.append(required(field))
        elif level.node_label in seen:
            found.append(duplicate(field, level.node_label))
        seen[level.node_label] = None
    return found


def check_namespace(namespace: Namespace) -> list[FieldError]:
    """Check a Namespace: its name is a label, not a subdomain."""
    name = namespace.metadata.name
    return names.check_name("metadata.name", name, names.dns_label(name)) if name else []
