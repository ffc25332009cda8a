"""Candidates of a preemption: the question, its rules, and where they are found (SC5).

Candidates in the preemptor's own queue follow `withinClusterQueue`, those in other queues of the cohort tree
`reclaimWithinCohort`. Of other queues only those count that use more than their own of what is needed; the
quota tree knows them, so queues within their quota cost nothing.
"""

from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from sluice.api.kueue import ClusterQueuePreemption
from sluice.core.quota.tree import Cell, FlavorResource, Node, cell_of
from sluice.core.workload.admission_constraints import may_borrow
from sluice.core.world.model import ClusterQueue, World
from sluice.core.world.preemption_history import actor
from sluice.core.world.queue_order import queue_time
from sluice.core.world.victim_index import Entry
from sluice.core.world.workload import Workload
from sluice.events.base import WorkloadKey

Reason = Literal[
    "InClusterQueue", "InCohortReclamation", "InCohortFairSharing", "InCohortReclaimWhileBorrowing"
]

IN_CLUSTER_QUEUE: Final = "InClusterQueue"
IN_COHORT_RECLAMATION: Final = "InCohortReclamation"
IN_COHORT_FAIR_SHARING: Final = "InCohortFairSharing"
IN_COHORT_RECLAIM_WHILE_BORROWING: Final = "InCohortReclaimWhileBorrowing"

_NO_PREEMPTION: Final = ClusterQueuePreemption()
_NOBODY: Final = -(2**63)
"""Below every priority."""


@dataclass(frozen=True, slots=True)
class Target:
    """A workload to be preempted, and the rule that allows it."""

    workload: Workload
    reason: Reason


class Search:
    """One question: who has to go so that `workload` can use `usage`, of which `frs` are short?"""

    __slots__ = (
        "_cells",
        "_queued_at",
        "frs",
        "may_borrow",
        "node",
        "policy",
        "queue",
        "spared",
        "spares",
        "tree",
        "usage",
        "workload",
        "world",
    )

    def __init__(
        self,
        world: World,
        queue: ClusterQueue,
        workload: Workload,
        usage: Mapping[FlavorResource, int],
        frs: Collection[FlavorResource],
    ) -> None:
        self.world = world
        self.spared: Container[WorkloadKey] = (
            world.circles.spared_by(actor(workload)) if world.circles else ()
        )
        """Whom it must not preempt, or preemptions would go round in a circle (`World.circles`)."""
        self.spares = False
        """One of them would have been a candidate."""
        self.tree = world.tree
        self.queue = queue
        self.node: Node = queue.node
        self.workload = workload
        self.usage = usage
        self.frs = tuple(frs)
        self.may_borrow = may_borrow(world.config, workload.record)
        """AX1, AX6: else only what leaves it within its queue's own quota helps."""
        self.policy = queue.spec.preemption or _NO_PREEMPTION
        self._queued_at: int | None = None
        self._cells: list[tuple[Cell, int]] = [
            (cell_of(queue.node, fr), amount) for fr, amount in usage.items()
        ]

    # Does it fit?

    def fits(self, *, borrowing: bool) -> bool:
        """Is all of the usage available now? Without *borrowing* it must be within the queue's own quota."""
        for cell, amount in self._cells:
            if not borrowing and cell.usage + amount > cell.subtree:
                return False
            if cell.available() < amount:
                return False
        return True

    def fits_already_charged(self) -> bool:
        """As `fits`, borrowing if it may, while the usage is charged to the queue: nothing is overdrawn.

        Charging an amount to a node lowers what is available to it by exactly that amount.
        """
        for cell, _ in self._cells:
            if cell.available() < 0 or (not self.may_borrow and cell.usage > cell.subtree):
                return False
        return True

    def can_help(self, entries: Iterator[Entry]) -> bool:
        """Would it suffice to remove all of *entries*, if all of what they use became available?

        It never becomes more, so False is final; looking at usage alone is cheaper than trying.
        """
        short: dict[FlavorResource, int] = {}
        for cell, amount in self._cells:
            missing = amount - cell.available()
            if missing > 0:
                short[cell.fr] = missing
        if not short:
            return True
        for _, workload in entries:
            for fr, amount in workload.usage.items():
                if fr in short:
                    short[fr] -= amount
                    if short[fr] <= 0:
                        del short[fr]
                        if not short:
                            return True
        return False

    def can_end_within_quota(self) -> bool:
        """Would the queue be within its own quota with all of its own candidates gone?"""
        excess: dict[FlavorResource, int] = {}
        for cell, amount in self._cells:
            over = cell.usage + amount - cell.subtree
            if over > 0:
                excess[cell.fr] = over
        if not excess:
            return True
        for evicted in (False, True):
            for _, workload in self.own(evicted=evicted):
                for fr in [fr for fr in excess if fr in workload.usage]:
                    excess[fr] -= workload.usage[fr]
                    if excess[fr] <= 0:
                        del excess[fr]
                if not excess:
                    return True
        return False

    # Who may go?

    def has_own(self) -> bool:
        """Is there any candidate in the preemptor's queue?"""
        index = self.queue.candidates
        for evicted, entries in ((False, index.running), (True, index.evicted)):
            if not entries or entries[0][0][0] > self.workload.priority:
                continue
            if next(self.own(evicted=evicted), None) is not None:
                return True
        return False

    def own(self, *, evicted: bool) -> Iterator[Entry]:
        """Yield the candidates in the preemptor's queue, the first to go first."""
        bound, priority = self._own_bound(), self.workload.priority
        if bound is None:
            return iter(())
        entries = self._usable(self.queue.candidates.below(bound, evicted=evicted))
        if bound < priority:
            return entries
        return (e for e in entries if e[1].priority < priority or self._is_newer(e[1]))

    def lets_preempt(self, candidate: Workload) -> bool:
        """May it preempt *candidate* of its own queue, if that one holds what is short?"""
        bound = self._own_bound()
        if bound is None or candidate.priority > bound or self._is_spared(candidate):
            return False
        return candidate.priority < self.workload.priority or self._is_newer(candidate)

    def _own_bound(self) -> int | None:
        """Return up to which priority those of its own queue may be preempted; of equals, the newer ones."""
        policy = self.policy.within_cluster_queue
        if policy == "LowerPriority":
            return self.workload.priority - 1
        return self.workload.priority if policy == "LowerOrNewerEqualPriority" else None

    def others(self, queue: ClusterQueue, *, evicted: bool, at_most: int | None = None) -> Iterator[Entry]:
        """Yield the candidates in another queue, of at most the given priority; the first to go first."""
        return self._usable(queue.candidates.below(self.reclaim_bound(at_most), evicted=evicted))

    def reclaim_bound(self, at_most: int | None = None) -> int | None:
        """Return up to which priority others may be preempted at all, and at most *at_most*; None: any."""
        policy = self.policy.reclaim_within_cohort
        if policy == "Any":
            return at_most
        if policy != "LowerPriority":
            return _NOBODY
        below = self.workload.priority - 1
        return below if at_most is None or at_most > below else at_most

    def is_usable(self, candidate: Workload) -> bool:
        """Does it use anything of what is short? Not if a trial has taken it out, or it is the preemptor."""
        key, usage = candidate.key, candidate.usage
        for fr in self.frs:
            if fr in usage:
                if key in self.world.absent or key == self.workload.key:
                    return False
                return not (self.spared and self._is_spared(candidate))
        return False

    def _is_spared(self, candidate: Workload) -> bool:
        if candidate.evicted_at is not None or actor(candidate) not in self.spared:
            return False  # who is leaving anyway is waited for, and not preempted
        self.spares = True
        return True

    def _usable(self, entries: Iterator[Entry]) -> Iterator[Entry]:
        if len(self.frs) == 1 and not self.spared:  # nearly always
            fr, absent, own_key = self.frs[0], self.world.absent, self.workload.key
            return (e for e in entries if fr in e[1].usage and e[1].key not in absent and e[1].key != own_key)
        is_usable = self.is_usable
        return (entry for entry in entries if is_usable(entry[1]))

    def _is_newer(self, candidate: Workload) -> bool:
        parent = self.workload.record.parent
        if parent is not None and candidate.record.parent == parent:
            return False  # a variant takes its sibling's place by migration only (CA10)
        config = self.world.config
        if self._queued_at is None:
            self._queued_at = queue_time(self.workload, config)
        return queue_time(candidate, config) > self._queued_at

    # Where are they?

    @property
    def may_reclaim(self) -> bool:
        """May it preempt in other queues at all?"""
        return self.node.parent is not None and self.policy.reclaim_within_cohort in ("Any", "LowerPriority")

    def borrowers(self, cohort: Node) -> list[Node]:
        """Return the children of *cohort* that use more than their own of anything that is short.

        In no meaningful order: candidates are ranked among all of them.
        """
        cells = cohort.cells
        if len(self.frs) == 1:
            cell = cells.get(self.frs[0])
            found = cell.borrowers if cell is not None else {}
        else:
            found = {}
            for fr in self.frs:
                if (cell := cells.get(fr)) is not None:
                    found |= cell.borrowers
        return list(found)

    def is_over_quota(self, node: Node) -> bool:
        """Does *node* use more than its own of anything that is short?"""
        borrowed = node.borrowed
        if borrowed:
            for fr in self.frs:
                if fr in borrowed:
                    return True
        return False

    def is_below_nominal(self) -> bool:
        """Does the preemptor's queue use less than its nominal quota of everything that is short?"""
        node = self.node
        for fr in self.frs:  # noqa: SIM110 - asked for every head in every cycle
            if node.used(fr) >= node.nominal(fr):
                return False
        return True


def fill_back(search: Search, targets: list[Target], *, borrowing: bool) -> list[Target]:
    """Spare every target without which the workload fits too, the last one taken first.

    All targets are out of the quota tree when this is called; those that are returned still are.
    """
    world = search.world
    for i in range(len(targets) - 2, -1, -1):
        workload = targets[i].workload
        node = world.cluster_queues[workload.cluster_queue].node
        search.tree.add(node, workload.usage)
        if search.fits(borrowing=borrowing):
            targets[i] = targets[-1]
            targets.pop()
        else:
            search.tree.remove(node, workload.usage)
    return targets
