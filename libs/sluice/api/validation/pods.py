"""Pod templates, as far as admission depends on them."""

from collections.abc import Iterator, Mapping, Sequence

from sluice.api.core_v1 import Container, PodSpec, PodTemplateSpec, ResourceRequirements
from sluice.api.errors import FieldError, invalid
from sluice.api.errors import required as missing
from sluice.api.features import (
    NONE,
    WORKLOAD_VALIDATE_RESOURCES_ARE_NON_NEGATIVE,
    WORKLOAD_VALIDATION_FOR_POD_SET_METADATA,
    enabled,
)
from sluice.api.quantity import Quantity, QuantityError, parse, resource_value

from . import names, quotas
from .flavor import check_toleration_keys, schema_tolerations
from .limit_range import above_limits


def check_pod(field: str, pod: PodSpec, gates: Mapping[str, bool] = NONE) -> list[FieldError]:
    """Check what containers and the pod as a whole ask for."""
    strict = enabled(gates, WORKLOAD_VALIDATE_RESOURCES_ARE_NON_NEGATIVE)
    found: list[FieldError] = []
    if pod.init_containers:
        found += _check_containers(f"{field}.initContainers", pod.init_containers, strict=strict)
    found += _check_containers(f"{field}.containers", pod.containers, strict=strict)
    if pod.resources is not None:
        found += _check_resources(f"{field}.resources", pod.resources, strict=strict)
    return found


def _check_containers(field: str, containers: Sequence[Container], *, strict: bool) -> Iterator[FieldError]:
    for i, container in enumerate(containers):
        resources = container.resources
        if resources.requests or resources.limits:
            yield from _check_resources(f"{field}[{i}].resources", resources, strict=strict)


def _check_resources(field: str, resources: ResourceRequirements, *, strict: bool) -> Iterator[FieldError]:
    if resources.requests:
        yield from _check_amounts(f"{field}.requests", resources.requests, strict=strict)
    if resources.limits:
        yield from _check_amounts(f"{field}.limits", resources.limits, strict=strict)


def _check_amounts(field: str, amounts: Mapping[str, Quantity], *, strict: bool) -> list[FieldError]:
    found: list[FieldError] = []
    for name, quantity in amounts.items():
        if name == "pods":
            found.append(invalid(f"{field}[pods]", "pods", "the key is reserved for internal kueue use"))
        try:
            # The cached value says it for nearly all; only what rounds to zero needs a closer look.
            good = not quotas.too_long(quantity) and (
                resource_value(name, quantity) > 0 or parse(quantity) >= 0 or not strict
            )
        except QuantityError:
            good = False
        if not good:
            found += quotas.check_quantity(f"{field}[{name}]", quantity)
    return sorted(found, key=lambda error: error.field) if len(found) > 1 else found


def check_limits(field: str, pod: PodSpec) -> list[FieldError]:
    """Check that no container asks for more than it may have, as Kubernetes does when a job is made."""
    found: list[FieldError] = []
    for word, containers in (("initContainers", pod.init_containers), ("containers", pod.containers)):
        for i, container in enumerate(containers):
            if container.resources.limits:
                found += _above_limits(f"{field}.{word}[{i}].resources", container.resources)
    if pod.resources is not None:
        found += _above_limits(f"{field}.resources", pod.resources)
    return found


def _above_limits(field: str, resources: ResourceRequirements) -> list[FieldError]:
    return above_limits(f"{field}.requests", resources.requests, resources.limits)


def check_template_metadata(
    field: str, template: PodTemplateSpec, gates: Mapping[str, bool] = NONE
) -> list[FieldError]:
    """Check labels and annotations of the pods-to-be; what is wrong here would fail when they are made."""
    metadata = template.metadata
    if not (metadata.labels or metadata.annotations) or not enabled(
        gates, WORKLOAD_VALIDATION_FOR_POD_SET_METADATA
    ):
        return []
    return names.check_labels(f"{field}.metadata.labels", metadata.labels) + names.check_annotations(
        f"{field}.metadata.annotations", metadata.annotations
    )


def schema_pod(field: str, pod: PodSpec) -> list[FieldError]:
    """Check node selectors, affinity and tolerations, as Kubernetes does when a pod is made."""
    found: list[FieldError] = []
    if pod.node_selector:
        found += names.check_labels(f"{field}.nodeSelector", pod.node_selector)
    if pod.tolerations:
        found += check_toleration_keys(f"{field}.tolerations", pod.tolerations)
        found += schema_tolerations(f"{field}.tolerations", pod.tolerations)
    node = pod.affinity.node_affinity if pod.affinity is not None else None
    required = node.required_during_scheduling_ignored_during_execution if node is not None else None
    if required is not None:
        place = f"{field}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        if not required.node_selector_terms:
            text = "must have at least one node selector term"
            found.append(missing(f"{place}.nodeSelectorTerms", text))
        for i, term in enumerate(required.node_selector_terms):
            for j, requirement in enumerate(term.match_expressions):
                found += names.check_node_requirement(
                    f"{place}.nodeSelectorTerms[{i}].matchExpressions[{j}]", requirement
                )
    return found
