"""The arithmetic of charges: what an assignment takes from quota, for as many of its pods as are left (SC7).

The scheduler, what people see, and what budgets count all take it from here.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from sluice.api.features import RECLAIMABLE_PODS, enabled
from sluice.api.kueue import ConfigurationSpec
from sluice.events.base import PodSet, PodSetAssignment

_FlavorResource = tuple[str, str]


def named(amounts: Mapping[_FlavorResource, int]) -> dict[str, int]:
    """Return amounts by `flavor/resource`, as events have them."""
    return {f"{flavor}/{resource}": amount for (flavor, resource), amount in amounts.items()}


def by_flavor(amounts: Mapping[str, int]) -> dict[_FlavorResource, int]:
    """Return what `named` was made of."""
    split = ((name.partition("/"), amount) for name, amount in amounts.items())
    return {(flavor, resource): amount for (flavor, _, resource), amount in split}


def gives_back(config: ConfigurationSpec) -> bool:
    """Do pods that have ended give their quota back, while others of their workload run?"""
    return enabled(config.feature_gates, RECLAIMABLE_PODS)


def given_back(config: ConfigurationSpec, reclaimable: Mapping[str, int]) -> Mapping[str, int]:
    """Return how many of the *reclaimable* pods, which have ended, give their quota back."""
    return reclaimable if not reclaimable or gives_back(config) else {}


def left(assigned: PodSetAssignment, specified: Mapping[str, int], ended: Mapping[str, int]) -> int:
    """Return for how many pods an assignment is charged, when of the *specified* ones so many have *ended*.

    These count against the spec's count, of which fewer may have been admitted.
    """
    granted = assigned.count
    return max(0, min(granted, specified.get(assigned.name, granted) - ended.get(assigned.name, 0)))


def usage_of(
    assignment: Sequence[PodSetAssignment], pod_sets: Sequence[PodSet], ended: Mapping[str, int]
) -> dict[_FlavorResource, int]:
    """Return what an assignment charges, by flavor and resource, less what its *ended* pods give back."""
    return charge(assignment, counts(pod_sets) if ended else {}, ended)


def charge(
    assignment: Sequence[PodSetAssignment], specified: Mapping[str, int], ended: Mapping[str, int]
) -> dict[_FlavorResource, int]:
    """Return the same from the *specified* counts alone."""
    total: dict[_FlavorResource, int] = {}
    for assigned in assignment:
        count = granted = assigned.count
        if ended:
            count = left(assigned, specified, ended)
        for resource, flavor in assigned.flavors.items():
            amount = assigned.usage.get(resource, 0)
            if count != granted:
                amount = amount * count // granted
            fr = (flavor, resource)
            total[fr] = total.get(fr, 0) + amount
    return total


def shrunk(
    assignment: Sequence[PodSetAssignment], specified: Mapping[str, int]
) -> tuple[PodSetAssignment, ...]:
    """Return the assignment for counts that were cut in place (WS3); it never grows."""
    return tuple(scaled(a, min(a.count, specified.get(a.name, a.count))) for a in assignment)


def scaled(assigned: PodSetAssignment, count: int) -> PodSetAssignment:
    """Return the assignment of *count* of its pods."""
    if count == assigned.count or not assigned.count:
        return assigned
    usage = {resource: amount * count // assigned.count for resource, amount in assigned.usage.items()}
    return msgspec.structs.replace(assigned, count=count, usage=usage)


class _Counted(Protocol):
    """Pods of a set: asked for, assigned or dispatched."""

    @property
    def name(self) -> str: ...

    @property
    def count(self) -> int: ...


def counts(pod_sets: Iterable[_Counted]) -> dict[str, int]:
    """Return pod set -> pods."""
    return {pod_set.name: pod_set.count for pod_set in pod_sets}


def size_text(pods: Mapping[str, int]) -> str:
    """Return pods by set (`counts`) for people: `1 x driver, 3 x worker`."""
    return ", ".join(f"{count} x {name}" for name, count in pods.items())


def grows(old: Mapping[str, int], new: Mapping[str, int]) -> bool:
    """Tell whether some pod set has more pods than before."""
    return any(new.get(name, n) > n for name, n in old.items())


def asks_for_more(pod_sets: Iterable[PodSet], than: Iterable[PodSet]) -> bool:
    """Tell whether a slice has pods that the one which it is to replace has not (WS3)."""
    had = {pods.name: pods for pods in than}
    return any(
        (kept := had.get(pods.name)) is None or pods.count > kept.count or pods.requests != kept.requests
        for pods in pod_sets
    )


def add(totals: dict[_FlavorResource, int], charged: Mapping[_FlavorResource, int]) -> None:
    """Add a charge to running totals."""
    for fr, amount in charged.items():
        totals[fr] = totals.get(fr, 0) + amount


def subtract(totals: dict[_FlavorResource, int], charged: Mapping[_FlavorResource, int]) -> None:
    """Take a charge from running totals; what is left without use is dropped."""
    for fr, amount in charged.items():
        rest = totals.get(fr, 0) - amount
        if rest:
            totals[fr] = rest
        else:
            totals.pop(fr, None)


def beyond(
    charged: Mapping[_FlavorResource, int], other: Mapping[_FlavorResource, int]
) -> dict[_FlavorResource, int]:
    """Return what *charged* is more than *other*."""
    return {fr: more for fr, amount in charged.items() if (more := amount - other.get(fr, 0)) > 0}
