"""Quota arithmetic of the view: what a reservation charges, and running totals."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from sluice.events.base import PodSet, PodSetAssignment

from .records import FlavorResource, WorkloadView


def charge_of(workload: WorkloadView) -> dict[FlavorResource, int]:
    """Return what the reservation charges now: pods that have ended count no longer (SC7)."""
    reclaimable = workload.reclaimable
    return charge(
        workload.assignment or (), counts(workload.record.pod_sets) if reclaimable else {}, reclaimable
    )


def charge(
    assignment: Sequence[PodSetAssignment], specified: Mapping[str, int], reclaimable: Mapping[str, int]
) -> dict[FlavorResource, int]:
    """Return what an assignment charges when of the *specified* pods so many have ended."""
    total: dict[FlavorResource, int] = {}
    for assigned in assignment:
        count = granted = assigned.count
        if reclaimable:
            # Pods that have ended count against the spec's count, of which fewer may have been admitted.
            left = specified.get(assigned.name, granted) - reclaimable.get(assigned.name, 0)
            count = max(0, min(granted, left))
        for resource, flavor in assigned.flavors.items():
            amount = assigned.usage.get(resource, 0)
            if count != granted:
                amount = amount * count // granted
            key = (flavor, resource)
            total[key] = total.get(key, 0) + amount
    return total


def shrunk(
    assignment: Sequence[PodSetAssignment], pod_sets: Iterable[PodSet]
) -> tuple[PodSetAssignment, ...]:
    """Return the assignment for counts that were cut in place (WS3); it never grows."""
    specified = counts(pod_sets)
    return tuple(_scaled(a, min(a.count, specified.get(a.name, a.count))) for a in assignment)


def _scaled(assigned: PodSetAssignment, count: int) -> PodSetAssignment:
    if count == assigned.count:
        return assigned
    usage = {resource: amount * count // assigned.count for resource, amount in assigned.usage.items()}
    return msgspec.structs.replace(assigned, count=count, usage=usage)


def counts(pod_sets: Iterable[PodSet]) -> dict[str, int]:
    """Return pod set -> pods."""
    return {pod_set.name: pod_set.count for pod_set in pod_sets}


def add(totals: dict[FlavorResource, int], charge: Mapping[FlavorResource, int]) -> None:
    """Add *charge* to running totals."""
    for key, amount in charge.items():
        totals[key] = totals.get(key, 0) + amount


def subtract(totals: dict[FlavorResource, int], charge: Mapping[FlavorResource, int]) -> None:
    """Take *charge* from running totals; what is left without use is dropped."""
    for key, amount in charge.items():
        left = totals.get(key, 0) - amount
        if left:
            totals[key] = left
        else:
            totals.pop(key, None)


def beyond(
    charge: Mapping[FlavorResource, int], other: Mapping[FlavorResource, int]
) -> dict[FlavorResource, int]:
    """Return what *charge* is more than *other*."""
    return {key: more for key, amount in charge.items() if (more := amount - other.get(key, 0)) > 0}


__all__ = ["add", "beyond", "charge", "charge_of", "counts", "shrunk", "subtract"]
