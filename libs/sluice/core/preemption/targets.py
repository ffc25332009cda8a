"""Preemption: who has to go so that a workload fits (SC5, SC6).

    targets = get_targets(world, workload, usage, frs_need_preemption)
    possibility, height = possibility_of(world, queue, fr, amount, targets)

Both look at the world as it is, trials included (`reservations.Trial`), and leave it as it was. A workload
that must not preempt (AX1) has no targets at all; for one that must not borrow (AX6), only what leaves its
queue within its own quota is a result. Candidates hold quota now; those that are evicted already
go first, as they are leaving anyway.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import IntEnum
from typing import Final

from sluice.core.quota.tree import FlavorResource, Node, find_height_of_lowest_subtree_that_fits
from sluice.core.workload.admission_constraints import may_preempt
from sluice.core.world.charging import inherited
from sluice.core.world.model import ClusterQueue, World
from sluice.core.world.reservations import without
from sluice.core.world.workload import Workload
from sluice.events.base import WorkloadKey

from . import classical, fair_sharing
from .candidates import (
    IN_CLUSTER_QUEUE,
    IN_COHORT_FAIR_SHARING,
    IN_COHORT_RECLAIM_WHILE_BORROWING,
    IN_COHORT_RECLAMATION,
    Reason,
    Search,
    Target,
)
from .classical import classical_targets
from .fair_sharing import FINAL_SHARE, INITIAL_SHARE, ShareComparison, ShareComparisons, fair_targets

JOB_UID_LABEL: Final = "kueue.x-k8s.io/job-uid"

_DUE_TO: Final[Mapping[Reason, str]] = {
    IN_CLUSTER_QUEUE: "prioritization in the ClusterQueue",
    IN_COHORT_RECLAMATION: "reclamation within the cohort",
    IN_COHORT_FAIR_SHARING: "Fair Sharing within the cohort",
    IN_COHORT_RECLAIM_WHILE_BORROWING: "reclamation within the cohort while borrowing",
}

RULES: Final = tuple(_DUE_TO)
"""By which rules workloads are preempted."""


class Possibility(IntEnum):
    """What preemption can do for one flavor and resource; higher is better."""

    NO_CANDIDATES = 0
    PREEMPT = 1
    """A victim at least is in the preemptor's own queue."""
    RECLAIM = 2
    """All victims are in other queues, which use more than is theirs."""


def get_targets(
    world: World,
    workload: Workload,
    usage: Mapping[FlavorResource, int],
    frs_need_preemption: Collection[FlavorResource],
) -> list[Target]:
    """Return the workloads to preempt so that *workload* can use *usage*, or [] if nothing helps.

    `usage` is all that it would charge to `workload.cluster_queue`; `frs_need_preemption` is the part of it
    that is short. Evicted workloads that still hold quota may be among the targets.
    """
    if not frs_need_preemption or not may_preempt(world.config, workload.record):
        return []
    queue = world.cluster_queues[workload.cluster_queue]
    return _asked(world, workload, lambda: _found(Search(world, queue, workload, usage, frs_need_preemption)))


def possible_victims(
    world: World, workload: Workload, usage: Mapping[FlavorResource, int], frs: Collection[FlavorResource]
) -> frozenset[WorkloadKey]:
    """Return all whom the rules let *workload* preempt for the question of `get_targets`, enough or not.

    For those who explain: the search itself stops at the first that suffice.
    """
    search = Search(world, world.cluster_queues[workload.cluster_queue], workload, usage, frs)
    find = fair_sharing.possible_victims if world.config.fair_sharing.enable else classical.possible_victims
    found = frozenset(victim.key for victim in find(search))
    promised = _promised(search)
    if not promised:
        return found
    with without(world, promised):
        return found.union((w.key for w in promised), (victim.key for victim in find(search)))


def refusals(
    world: World, workload: Workload, usage: Mapping[FlavorResource, int], frs: Collection[FlavorResource]
) -> ShareComparisons:
    """Return which of the `possible_victims` only their shares keep (SC6); {} without fair sharing."""
    if not world.config.fair_sharing.enable:
        return {}
    queue = world.cluster_queues[workload.cluster_queue]
    return _asked(world, workload, lambda: fair_sharing.refusals(Search(world, queue, workload, usage, frs)))


def could_preempt(world: World, workload: Workload, other: Workload) -> bool:
    """Will *workload* be let to preempt *other*, which waits in the same queue, once that one holds quota?"""
    if not may_preempt(world.config, workload.record):
        return False
    return Search(world, world.cluster_queues[workload.cluster_queue], workload, {}, ()).lets_preempt(other)


def possibility_of(
    world: World, queue: ClusterQueue, fr: FlavorResource, amount: int, targets: Sequence[Target]
) -> tuple[Possibility, int]:
    """Return what preempting *targets*, found for *amount* of *fr*, could do, and how far up it then borrows.

    The height is that of `quota.find_height_of_lowest_subtree_that_fits`, after the preemptions.
    """
    if not targets:
        return Possibility.NO_CANDIDATES, find_height_of_lowest_subtree_that_fits(queue.node, fr, amount)[0]
    with without(world, [target.workload for target in targets]):
        height, _ = find_height_of_lowest_subtree_that_fits(queue.node, fr, amount)
    if any(target.workload.cluster_queue == queue.name for target in targets):
        return Possibility.PREEMPT, height
    return Possibility.RECLAIM, height


def preemption_message(
    preemptor: Workload,
    reason: Reason,
    preemptor_node: Node,
    victim_node: Node,
    parent: Workload | None = None,
) -> str:
    """Return the message of the victim's Preempted and Evicted conditions.

    The nodes are those of the two cluster queues. *parent*: of a variant, whose job it is.
    """
    job = (parent or preemptor).record.job
    job_uid = preemptor.record.labels.get(JOB_UID_LABEL) or (job.uid if job is not None else "")
    return (
        f"Preempted to accommodate a workload (UID: {preemptor.uid or 'UNKNOWN'}, "
        f"JobUID: {job_uid or 'UNKNOWN'}) due to {_DUE_TO[reason]}; "
        f"preemptor path: {preemptor_node.path()}; preemptee path: {victim_node.path()}"
    )


def _asked[T](world: World, workload: Workload, ask: Callable[[], T]) -> T:
    own = workload.record.replaces
    if own is None or own not in world.workloads or own in world.absent:
        return ask()
    # WS6: a slice never preempts the one that it replaces; taking its place is no preemption.
    world.absent.add(own)
    try:
        return ask()
    finally:
        world.absent.discard(own)


def _found(search: Search) -> list[Target]:
    """Return whom the search finds; note when it finds nobody only so that nothing goes round in a circle."""
    world = search.world
    find = fair_targets if world.config.fair_sharing.enable else classical_targets
    targets = find(search)
    if world.pending_preemptions and (promised := _promised(search)):
        targets = _taking_promises_over(search, find, promised, targets)
    if search.spares and not targets and not world.circles.stopped:
        search.spared = ()
        world.circles.stopped = bool(find(search))
    if any(target.workload.record.parent is not None for target in targets):
        return _with_siblings(search, targets)
    return targets


def _taking_promises_over(
    search: Search,
    find: Callable[[Search], list[Target]],
    promised: Sequence[Workload],
    targets: list[Target],
) -> list[Target]:
    """Look again as if nothing were promised in the queue to those whom the workload may preempt (AC6).

    Nothing of theirs runs. Charged beside that of its victims, a promise makes the queue seem to have had its
    quota already, so that nobody in it could take back what others borrow, and who runs in it would go
    instead. *targets*, found before, stand if that does not help.
    """
    world = search.world
    with without(world, promised) as trial:
        found = [] if search.fits(borrowing=search.may_borrow) else find(search)
        if not (found or search.fits(borrowing=search.may_borrow)):
            return targets
        for target in found:
            trial.remove(target.workload)
        borrowing = not search.fits(borrowing=False)
        taken = []
        for workload in promised:
            trial.restore(workload)
            if not search.fits(borrowing=borrowing):
                trial.remove(workload)
                taken.append(Target(workload, IN_CLUSTER_QUEUE))
    return [*taken, *found] or targets


def _promised(search: Search) -> list[Workload]:
    """Return those of the queue that wait with a reservation for others to go, and may be preempted."""
    waiting = search.world.pending_preemptions.by_queue.get(search.queue.name)
    found = [w for w in (waiting or {}).values() if search.lets_preempt(w) and search.is_usable(w)]
    return sorted(found, key=lambda workload: (-workload.priority, workload.uid))


def _with_siblings(search: Search, targets: list[Target]) -> list[Target]:
    """Add those siblings of victims that would go on to hold what these give up, where that is needed.

    What the variants of a family share is charged once (CA10), so nothing of it is free before the last of
    them that holds it has gone.
    """
    world = search.world
    found = list(targets)
    with without(world, [target.workload for target in targets]) as trial:
        borrowing = not search.fits(borrowing=False)
        while heirs := _heirs(world, found):
            for heir, more in heirs:
                trial.charge(world.cluster_queues[heir.workload.cluster_queue].node, more)
            if search.fits(borrowing=borrowing):
                break
            for heir, more in heirs:
                trial.discharge(world.cluster_queues[heir.workload.cluster_queue].node, more)
            # What the next sibling holds of it shows when this one has gone.
            heir, _ = heirs[0]
            trial.remove(heir.workload)
            found.append(heir)
    return found


def _heirs(world: World, targets: list[Target]) -> list[tuple[Target, dict[FlavorResource, int]]]:
    """Return who would go on to hold what of that which *targets*, which a trial has taken out, give up."""
    found = {
        other.key: (Target(other, target.reason), more)
        for target in targets
        for other, more in inherited(world, target.workload)
    }
    return list(found.values())


__all__ = [
    "FINAL_SHARE",
    "INITIAL_SHARE",
    "IN_COHORT_RECLAIM_WHILE_BORROWING",
    "RULES",
    "Possibility",
    "ShareComparison",
    "Target",
    "could_preempt",
    "get_targets",
    "possibility_of",
    "possible_victims",
    "preemption_message",
    "refusals",
]
