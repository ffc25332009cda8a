"""Requests and limits of a pod's containers, and what they make of the pod.

A pod set's requests are computed from it. Where a namespace has limit ranges, more is: what containers do not
say is filled in, and what they say is judged (`limit_ranges`).
"""

from collections.abc import Mapping, Sequence

import msgspec

from sluice.api.core_v1 import Container, PodSpec, ResourceRequirements
from sluice.api.quantity import Quantity, resource_value, saturate

Amounts = dict[str, int]
"""Resource -> amount: cpu in milli-units, all else in whole units (G3)."""


class ContainerResources(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """`sidecar`: an init container that runs beside the others."""

    requests: Amounts = {}
    limits: Amounts = {}
    sidecar: bool = False

    def asked(self) -> Amounts:
        """Return the requests; a limit stands in for one that is not given."""
        return {**self.limits, **self.requests} if self.limits else dict(self.requests)


class PodResources(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """`whole`: what is asked for the pod as a whole. `overhead`: on top of all."""

    containers: tuple[ContainerResources, ...] = ()
    init_containers: tuple[ContainerResources, ...] = ()
    whole: ContainerResources | None = None
    overhead: Amounts = {}
    runtime_class: str = ""


def pod_resources(pod: PodSpec) -> PodResources:
    """Return what *pod* says of resources.

    Raises:
        QuantityError: it has not been validated.
    """
    return PodResources(
        containers=tuple(map(_container, pod.containers)),
        init_containers=tuple(map(_container, pod.init_containers)),
        whole=None if pod.resources is None else _resources(pod.resources),
        overhead=_amounts(pod.overhead),
        runtime_class=pod.runtime_class_name or "",
    )


def plain_resources(requests: Mapping[str, Quantity]) -> PodResources:
    """Return a pod of one container that has these requests and no limits."""
    return PodResources(containers=(ContainerResources(_amounts(requests)),))


def _container(container: Container) -> ContainerResources:
    return _resources(container.resources, sidecar=container.restart_policy == "Always")


def _resources(resources: ResourceRequirements, *, sidecar: bool = False) -> ContainerResources:
    return ContainerResources(_amounts(resources.requests), _amounts(resources.limits), sidecar)


def _amounts(quantities: Mapping[str, Quantity]) -> Amounts:
    return {name: resource_value(name, quantity) for name, quantity in quantities.items()}


def requests_of(pod: PodResources) -> Amounts:
    """Return what one pod needs, resources in order of name.

    The most it needs at any time: all containers and sidecars together, or one init container and the
    sidecars started before it; a request on the pod as a whole replaces that; overhead comes on top.
    """
    total: Amounts = {}
    for container in pod.containers:
        _add(total, container.asked())
    if pod.init_containers:
        _raise_to_init(total, pod.init_containers)
    if pod.whole is not None:
        total.update(pod.whole.asked())
    _add(total, pod.overhead)
    return total if len(total) < 2 else dict(sorted(total.items()))


def _raise_to_init(total: Amounts, init_containers: Sequence[ContainerResources]) -> None:
    sidecars: Amounts = {}
    most: Amounts = {}
    for container in init_containers:
        requests = container.asked()
        if container.sidecar:
            _add(sidecars, requests)
            _add(total, requests)
            _raise_to(most, sidecars)
        else:
            _add(requests, sidecars)
            _raise_to(most, requests)
    _raise_to(total, most)


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = saturate(total.get(name, 0) + value)


def _raise_to(total: Amounts, floor: Mapping[str, int]) -> None:
    for name, value in floor.items():
        if value > total.get(name, -1):
            total[name] = value


__all__ = ["Amounts", "PodResources", "plain_resources", "pod_resources", "requests_of"]
