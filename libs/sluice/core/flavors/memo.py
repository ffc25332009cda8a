"""Assignments that fitted before: equal workloads get equal flavors, so there is little to look for again.

Where a queue has one flavor for each resource, or a workload may have only one, all that can change from it
to an equal one is whether it fits and how far up the tree it borrows. Both are asked anew; what is remembered
saves time and never changes a result.
"""

from typing import Final

from sluice.core.quota.tree import find_height_of_lowest_subtree_that_fits
from sluice.core.world.model import ClusterQueue, World
from sluice.core.world.variants import allowed_flavors
from sluice.core.world.workload import Workload
from sluice.events.base import PodSetAssignment

from .assignment import Assignment, Mode

MOST: Final = 256
"""Kinds of workloads remembered per queue; when there are more, all are forgotten."""

_Known = tuple[Assignment, tuple[PodSetAssignment, ...]]


class AssignmentMemo:
    """What fitted in one cluster queue, while its spec, its flavors and the settings stay as they are."""

    __slots__ = ("_assignments", "_config", "_flavors", "_spec", "single")

    def __init__(self, world: World, cq: ClusterQueue) -> None:
        self._spec = cq.spec
        self._config = world.config
        self._flavors = [world.flavors.get(name) for group in cq.groups for name in group.flavors]
        self.single = all(len(group.flavors) == 1 for group in cq.groups)
        self._assignments: dict[str, dict[int, _Known]] = {}
        """Equivalence key -> borrowing height -> what fitted. The height is all that differs."""

    def holds(self, world: World, cq: ClusterQueue) -> bool:
        """Is everything that it rests on still the same?"""
        if cq.spec is not self._spec or world.config is not self._config:
            return False
        flavors = world.flavors
        index = 0
        for group in cq.groups:
            for name in group.flavors:
                if flavors.get(name) is not self._flavors[index]:
                    return False
                index += 1
        return True

    def find(self, workload: Workload, cq: ClusterQueue) -> _Known | None:
        """Return what an equal workload got, if it fits now at the same borrowing height."""
        known = self._assignments.get(workload.equivalence)
        if known is None:
            return None
        node = cq.node
        height = 0
        for fr, amount in next(iter(known.values()))[0].usage.items():
            if node.available(fr) < amount:
                return None
            height = max(height, find_height_of_lowest_subtree_that_fits(node, fr, amount)[0])
        return known.get(height)

    def like(self, workload: Workload) -> Assignment | None:
        """Return what an equal workload got whenever it fitted, if it could not have got other flavors."""
        known = self._assignments.get(workload.equivalence) if self.single else None
        return None if known is None else next(iter(known.values()))[0]

    def remember(
        self,
        workload: Workload,
        cq: ClusterQueue,
        assignment: Assignment,
        pod_sets: tuple[PodSetAssignment, ...],
    ) -> None:
        """Remember what *workload* gets, if it is fit to be remembered."""
        if assignment.mode is Mode.FIT and (self.single or self._has_no_choice(workload, cq)):
            if len(self._assignments) >= MOST:
                self._assignments.clear()
            known = self._assignments.setdefault(workload.equivalence, {})
            known[assignment.borrowing] = (assignment, pod_sets)

    def _has_no_choice(self, workload: Workload, cq: ClusterQueue) -> bool:
        """Is the workload, as a variant, restricted to one flavor of each resource?"""
        allowed = allowed_flavors(self._config, workload.record)
        if not allowed:
            return False
        return all(sum(flavor in allowed for flavor in group.flavors) == 1 for group in cq.groups)


def remembered(world: World, cq: ClusterQueue) -> AssignmentMemo:
    """Return what is remembered of *cq*, or a fresh start when anything about it has changed."""
    found: AssignmentMemo | None = cq.remembered
    if found is None or not found.holds(world, cq):
        found = cq.remembered = AssignmentMemo(world, cq)
    return found


def is_plain(workload: Workload) -> bool:
    """Is the workload's assignment determined by its record alone, and by what fits?"""
    record = workload.record
    return not (
        workload.reclaimable or record.cannot_borrow or record.cannot_preempt or record.replaces is not None
    )


__all__ = ["is_plain", "remembered"]
