"""Quota arithmetic of the view: what a reservation charges, and running totals."""

from .records import FlavorResource, WorkloadView


def charge_of(workload: WorkloadView) -> dict[FlavorResource, int]:
    """Return what the reservation charges now: pods that have ended, or were cut, count no longer (SC7)."""
    charge: dict[FlavorResource, int] = {}
    counts = None
    for assigned in workload.assignment or ():
        gone = workload.reclaimable.get(assigned.name, 0) if workload.reclaimable else 0
        if workload.generation != workload.reserved_generation:
            if counts is None:
                counts = {pod_set.name: pod_set.count for pod_set in workload.record.pod_sets}
            gone = max(gone, assigned.count - min(assigned.count, counts.get(assigned.name, assigned.count)))
        for resource, flavor in assigned.flavors.items():
            amount = assigned.usage.get(resource, 0)
            if gone:
                amount -= amount // assigned.count * min(gone, assigned.count)
            key = (flavor, resource)
            charge[key] = charge.get(key, 0) + amount
    return charge


def add(totals: dict[FlavorResource, int], charge: dict[FlavorResource, int]) -> None:
    """Add *charge* to running totals."""
    for key, amount in charge.items():
        totals[key] = totals.get(key, 0) + amount


def subtract(totals: dict[FlavorResource, int], charge: dict[FlavorResource, int]) -> None:
    """Take *charge* from running totals; what is left without use is dropped."""
    for key, amount in charge.items():
        left = totals.get(key, 0) - amount
        if left:
            totals[key] = left
        else:
            totals.pop(key, None)
