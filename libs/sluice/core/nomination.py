"""What a workload could get as things are: flavors, and whom it would have to preempt (SC1, phase 2)."""

from collections.abc import Sequence

from sluice.api.meta import LabelSelector

from .assignment import Assignment, Mode, Possibility
from .entry import MISCONFIGURED, PENDING_EVALUATION, Entry, Outcome
from .families import Standing, standing
from .flavors import Pinned, assign
from .model import ClusterQueue, Workload, World
from .partial import reduce_counts
from .preemption import Target, get_targets, possibility_of
from .quota import FlavorResource
from .selectors import matches


class Oracle:
    """Answers flavor assignment's questions about preemption; remembers the targets, for `targets`."""

    __slots__ = ("_found", "_world")

    def __init__(self, world: World) -> None:
        self._world = world
        self._found: dict[tuple[FlavorResource, int], list[Target]] = {}

    def possibility(
        self, cq: ClusterQueue, workload: Workload, fr: FlavorResource, amount: int
    ) -> tuple[Possibility, int]:
        """See `flavors.Oracle`."""
        targets = get_targets(self._world, workload, {fr: amount}, (fr,))
        self._found[fr, amount] = targets
        found, height = possibility_of(self._world, cq, fr, amount, targets)
        return Possibility(found), height

    def targets(self, workload: Workload, assignment: Assignment) -> Sequence[Target]:
        """Return whom to preempt for all of *assignment*."""
        usage = assignment.usage
        if len(usage) == 1:
            # What was found for the only resource is what is to be found now.
            ((fr, amount),) = usage.items()
            known = self._found.get((fr, amount))
            if known is not None:
                return known
        return get_targets(self._world, workload, usage, assignment.needs_preemption())


def nominate(world: World, entry: Entry) -> bool:
    """Fill in the entry's assignment and targets; False when it is finished, as inadmissible."""
    workload, cq = entry.workload, entry.cq
    if not matches_namespace(world, workload, cq.spec.namespace_selector):
        entry.finish(Outcome.ASIDE, MISCONFIGURED, "Workload namespace doesn't match ClusterQueue selector")
        return False
    if workload.record.parent is not None:
        how, _, why = standing(world, workload)
        if how is Standing.BARRED:
            entry.finish(Outcome.PARKED, PENDING_EVALUATION, why)
            return False
    propose(world, entry)
    return True


def matches_namespace(world: World, workload: Workload, selector: LabelSelector | None) -> bool:
    """Does the queue take workloads of this namespace? Without a selector it takes none."""
    if selector is None:
        return False
    if not selector.match_labels and not selector.match_expressions:
        return True
    return matches(selector, world.namespaces.get(workload.record.namespace, {}))


def propose(world: World, entry: Entry, pinned: Pinned | None = None) -> None:
    """Assign flavors, in full or else in part (SC7), and find the targets that this needs.

    `pinned`: keep to these flavors, in a second look within the same cycle.
    """
    workload, cq = entry.workload, entry.cq
    oracle = Oracle(world)
    scan = None if pinned is not None else entry.peers.scan

    def at(counts: Sequence[int] | None) -> Assignment:
        return assign(world, workload, cq, oracle, counts=counts, scan=scan, pinned=pinned)

    full = at(None)
    targets: Sequence[Target] = ()
    chosen = full
    if full.mode is Mode.PREEMPT:
        targets = oracle.targets(workload, full)
    if full.mode is not Mode.FIT and not targets and _reducible(world, workload):
        reduced = reduce_counts(
            workload.record.pod_sets, lambda counts: _possible(oracle, workload, at(counts))
        )
        if reduced is not None:
            chosen, targets = reduced
    entry.assignment = chosen
    entry.usage = chosen.usage
    entry.targets = targets


def _reducible(world: World, workload: Workload) -> bool:
    return world.config.feature_gates.get("PartialAdmission", True) and any(
        pod_set.min_count is not None for pod_set in workload.record.pod_sets
    )


def _possible(
    oracle: Oracle, workload: Workload, assignment: Assignment
) -> tuple[Assignment, Sequence[Target]] | None:
    if assignment.mode is Mode.FIT:
        return assignment, ()
    if assignment.mode is Mode.PREEMPT:
        targets = oracle.targets(workload, assignment)
        if targets:
            return assignment, targets
    return None


__all__ = ["matches_namespace", "nominate", "propose"]
