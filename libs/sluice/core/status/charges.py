"""Quota arithmetic of the view: what a reservation charges, and running totals."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from sluice.events.base import PodSet, PodSetAssignment

from .records import FlavorResource, WorkloadView


def charge_of(workload: WorkloadView) -> dict[FlavorResource, int]:
    """Return what the reservation charges now: pods that have ended count no longer (SC7)."""
    charge: dict[FlavorResource, int] = {}
    reclaimable = workload.reclaimable
    counts = _counts(workload.record.pod_sets) if reclaimable else {}
    for assigned in workload.assignment or ():
        count = total = assigned.count
        if reclaimable:
            # Pods that have ended count against the spec's count, of which fewer may have been admitted.
            left = counts.get(assigned.name, total) - reclaimable.get(assigned.name, 0)
            count = max(0, min(total, left))
        for resource, flavor in assigned.flavors.items():
            amount = assigned.usage.get(resource, 0)
            if count != total:
                amount = amount * count // total
            key = (flavor, resource)
            charge[key] = charge.get(key, 0) + amount
    return charge


def shrunk(
    assignment: Sequence[PodSetAssignment], pod_sets: Iterable[PodSet]
) -> tuple[PodSetAssignment, ...]:
    """Return the assignment for counts that were cut in place (WS3); it never grows."""
    counts = _counts(pod_sets)
    return tuple(_scaled(a, min(a.count, counts.get(a.name, a.count))) for a in assignment)


def _scaled(assigned: PodSetAssignment, count: int) -> PodSetAssignment:
    if count == assigned.count:
        return assigned
    usage = {resource: amount * count // assigned.count for resource, amount in assigned.usage.items()}
    return msgspec.structs.replace(assigned, count=count, usage=usage)


def _counts(pod_sets: Iterable[PodSet]) -> dict[str, int]:
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


__all__ = ["add", "beyond", "charge_of", "shrunk", "subtract"]
