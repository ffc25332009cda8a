"""Limit ranges of a namespace, and runtime classes, applied to pods: defaults first, then constraints.

As Kueue does it, for workloads that have no quota yet:

1. A pod of a runtime class that says nothing of overhead has the class's.
2. A container's limit stands in for a request that it does not give, as in Kubernetes; the limit ranges'
   `default` and `defaultRequest` stand in for what is still missing.
3. Requests above limits, or amounts outside of `min` and `max` of a Container or Pod, make the workload
   inadmissible. `maxLimitRequestRatio` is for whoever creates the pods to enforce: it is summarized, and not
   judged.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from sluice.api.core_v1 import LimitRangeItem
from sluice.api.errors import FieldError, aggregate, invalid
from sluice.api.quantity import Quantity, resource_value

from .pod_resources import Amounts, ContainerResources, PodResources, requests_of

CONTAINER = "Container"
POD = "Pod"

REQUESTS_ABOVE_LIMITS = "requests must not exceed its limits"
ABOVE_MAX = "requests must not be above the limitRange max"
BELOW_MIN = "requests must not be below the limitRange min"
INVALID_RESOURCES = "resources validation failed"
OUT_OF_RANGE = "resources didn't satisfy LimitRange constraints"

_REMEMBERED = 4096


class Summary(msgspec.Struct, frozen=True):
    """What all limit ranges of a namespace say together of one type."""

    max: Amounts = {}
    min: Amounts = {}
    default: Amounts = {}
    default_request: Amounts = {}
    max_limit_request_ratio: Amounts = {}


def summarize(items: Iterable[LimitRangeItem]) -> dict[str, Summary]:
    """Return the summary of each type: the lowest max and ratio, the highest min, the first defaults.

    Raises:
        QuantityError: they have not been validated.
    """
    found: dict[str, Summary] = {}
    for item in items:
        so_far = found.get(item.type, Summary())
        ratio = _amounts(item.max_limit_request_ratio)
        found[item.type] = Summary(
            max=_merged(so_far.max, _amounts(item.max), min),
            min=_merged(so_far.min, _amounts(item.min), max),
            default={**_amounts(item.default), **so_far.default},
            default_request={**_amounts(item.default_request), **so_far.default_request},
            max_limit_request_ratio=_merged(so_far.max_limit_request_ratio, ratio, min),
        )
    return found


def _amounts(quantities: Mapping[str, Quantity]) -> Amounts:
    return {name: resource_value(name, quantity) for name, quantity in quantities.items()}


def _merged(one: Amounts, other: Amounts, choose: Callable[[int, int], int]) -> Amounts:
    merged = dict(one)
    for name, value in other.items():
        merged[name] = choose(merged[name], value) if name in merged else value
    return merged


class Judged(msgspec.Struct, frozen=True):
    """`requests`: of one pod of each pod set. `message`: why they are inadmissible, "" if they are not."""

    requests: tuple[Amounts, ...]
    message: str = ""


class Rules:
    """The limit ranges of one namespace, with the runtime classes of the cell."""

    __slots__ = ("_known", "_overheads", "_summary")

    def __init__(self, items: Iterable[LimitRangeItem] = (), overheads: Mapping[str, Amounts] = {}) -> None:
        self._summary = summarize(items)
        self._overheads = overheads
        self._known: dict[bytes, Judged] = {}

    def judge(self, encoded: bytes) -> Judged:
        """Return what becomes of pod sets whose resources are *encoded* (`encode`)."""
        found = self._known.get(encoded)
        if found is None:
            if len(self._known) >= _REMEMBERED:
                del self._known[next(iter(self._known))]
            found = self._known[encoded] = self.judged(decode(encoded))
        return found

    def judged(self, pod_sets: Sequence[PodResources]) -> Judged:
        """Return what becomes of pod sets: what one pod of each asks for, and whether that is admissible."""
        effective = [self.effective(pod) for pod in pod_sets]
        requests = tuple(map(requests_of, effective))
        for title, check in ((INVALID_RESOURCES, above_limits), (OUT_OF_RANGE, self.out_of_range)):
            errors = [
                error
                for i, pod in enumerate(effective)
                for error in check(pod, f"spec.podSets[{i}].template.spec")
            ]
            if errors:
                return Judged(requests, f"{title}: {aggregate(errors)}")
        return Judged(requests)

    def effective(self, pod: PodResources) -> PodResources:
        """Return *pod* with what it does not say filled in."""
        overhead = pod.overhead
        if pod.runtime_class and not overhead:
            overhead = self._overheads.get(pod.runtime_class, overhead)
        default = self._summary.get(CONTAINER, Summary())
        return msgspec.structs.replace(
            pod,
            containers=tuple(_filled(container, default) for container in pod.containers),
            init_containers=tuple(_filled(container, default) for container in pod.init_containers),
            overhead=overhead,
        )

    def out_of_range(self, pod: PodResources, field: str) -> Iterator[FieldError]:
        """Yield what is not between the least and the most that a container or a pod may ask for."""
        each = self._summary.get(CONTAINER)
        if each is not None:
            yield from _containers_out_of_range(each, pod.init_containers, f"{field}.initContainers")
            yield from _containers_out_of_range(each, pod.containers, f"{field}.containers")
        whole = self._summary.get(POD)
        if whole is not None:
            total = requests_of(pod)
            yield from _out_of_range(whole, total, total, field)


def _filled(container: ContainerResources, default: Summary) -> ContainerResources:
    limits = {**default.default, **container.limits}
    requests = {**default.default, **default.default_request, **container.limits, **container.requests}
    return ContainerResources(requests, limits, container.sidecar)


def above_limits(pod: PodResources, field: str) -> Iterator[FieldError]:
    """Yield what asks for more than it may have."""
    parts = [(f"{field}.initContainers[{i}]", part) for i, part in enumerate(pod.init_containers)]
    parts += [(f"{field}.containers[{i}]", part) for i, part in enumerate(pod.containers)]
    if pod.whole is not None:
        parts.append((f"{field}.resources", pod.whole))
    for place, part in parts:
        if names := _greater(part.requests, part.limits):
            yield invalid(place, names, REQUESTS_ABOVE_LIMITS)


def _containers_out_of_range(
    summary: Summary, containers: Sequence[ContainerResources], field: str
) -> Iterator[FieldError]:
    for i, container in enumerate(containers):
        least = _merged(container.requests, container.limits, min)
        most = _merged(container.requests, container.limits, max)
        yield from _out_of_range(summary, least, most, f"{field}[{i}]")


def _out_of_range(summary: Summary, least: Amounts, most: Amounts, field: str) -> Iterator[FieldError]:
    if names := _greater(most, summary.max):
        yield invalid(field, names, ABOVE_MAX)
    if names := _greater(summary.min, least):
        yield invalid(field, names, BELOW_MIN)


def _greater(amounts: Amounts, others: Amounts) -> list[str]:
    """Return the resources of both of which *amounts* has more, in order of name."""
    return sorted(name for name, value in amounts.items() if name in others and value > others[name])


def plain(requests: Iterable[Amounts]) -> tuple[PodResources, ...]:
    """Return pods of one container each that say nothing but their requests."""
    return tuple(PodResources(containers=(ContainerResources(dict(asked)),)) for asked in requests)


encode = msgspec.msgpack.Encoder(order="deterministic").encode
"""Pod sets' resources as bytes, equal for equal ones."""

decode = msgspec.msgpack.Decoder(tuple[PodResources, ...]).decode


__all__ = ["Judged", "Rules", "encode", "plain"]
