"""Preemption without fair sharing: by position in the cohort tree and by priority (SC5).

Three kinds of candidates:
- *own*: in the preemptor's queue;
- *hierarchical*: in queues over which the preemptor has an advantage, because a subtree that holds it, and
  not them, has quota for it: they use what is lent to them, and give it back whatever their priority;
- *by priority*: all others that use more than their own. Unless `borrowWithinCohort` allows it (for lower
  priorities, up to its threshold), they go only if the preemptor does not borrow in the end.
"""

from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

from sluice.core.quota.tree import FlavorResource, Node
from sluice.core.world.model import ClusterQueue
from sluice.core.world.victim_index import Rank
from sluice.core.world.workload import Workload

from .candidates import (
    IN_CLUSTER_QUEUE,
    IN_COHORT_RECLAIM_WHILE_BORROWING,
    IN_COHORT_RECLAMATION,
    Reason,
    Search,
    Target,
    fill_back,
)

_Source = tuple[ClusterQueue, Node]
"""Another queue with candidates, and the lowest cohort above it and the preemptor's queue."""


class _Sources(NamedTuple):
    hierarchical: list[_Source]
    by_priority: list[_Source]


def classical_targets(search: Search) -> list[Target]:
    """Return the workloads to preempt, or [] if nothing helps.

    1. Find the queues that may have to give.
    2. Try, with borrowing and without as the rules say, to take out one candidate after the other until the
       workload fits.
    3. Spare those that turn out not to be needed.
    """
    only_own_or_hierarchical = search.may_borrow and not _may_reclaim_by_priority(search)
    sources = _find_sources(search, by_priority=not only_own_or_hierarchical)
    if not (sources.hierarchical or sources.by_priority or search.has_own()):
        return []
    attempts = (True,) if only_own_or_hierarchical else _attempts(search, sources)
    for borrowing in attempts:
        if not borrowing and not search.can_end_within_quota():
            continue
        if not search.can_help(_everybody(search, sources, borrowing=borrowing)):
            continue
        mark = search.tree.mark()
        targets = _attempt(search, sources, borrowing=borrowing)
        search.tree.rollback(mark)
        if targets:
            return targets
    return []


def possible_victims(search: Search) -> Iterator[Workload]:
    """Yield all that any attempt would look at, some more than once: nobody else is ever a target."""
    only_own_or_hierarchical = search.may_borrow and not _may_reclaim_by_priority(search)
    sources = _find_sources(search, by_priority=not only_own_or_hierarchical)
    for borrowing in (True,) if only_own_or_hierarchical else _attempts(search, sources):
        yield from (workload for _, workload in _everybody(search, sources, borrowing=borrowing))


def _attempts(search: Search, sources: _Sources) -> tuple[bool, ...]:
    """Return with which answers to "may the preemptor borrow?" to try, in this order."""
    if not search.may_borrow:
        return (False,)
    hierarchical = _any(search, sources.hierarchical)
    if not hierarchical and not _any(search, sources.by_priority):
        return (True,)
    if not hierarchical and not _may_borrow_within_cohort(search):
        return (False, True)
    return (True, False)


def _may_reclaim_by_priority(search: Search) -> bool:
    """May it take from others over which it has no advantage? To borrow itself it needs a policy for that."""
    return _may_borrow_within_cohort(search) or search.is_below_nominal()


def _attempt(search: Search, sources: _Sources, *, borrowing: bool) -> list[Target]:
    targets: list[Target] = []
    for workload, reason in _in_order(search, sources, borrowing=borrowing):
        node = search.world.cluster_queues[workload.cluster_queue].node
        search.tree.remove(node, workload.usage)
        targets.append(Target(workload, reason))
        if search.fits(borrowing=borrowing):
            return fill_back(search, targets, borrowing=borrowing)
    return []


def _in_order(search: Search, sources: _Sources, *, borrowing: bool) -> Iterator[tuple[Workload, Reason]]:
    """Yield the candidates one by one; what was taken before decides if a queue still has to give."""
    for evicted in (True, False):
        for workload in _merged(search, sources.hierarchical, evicted=evicted):
            yield workload, IN_COHORT_RECLAMATION
        bound = _highest_while_borrowing(search)
        if not (borrowing and bound is None):
            at_most = bound if borrowing else None
            for workload in _merged(search, sources.by_priority, evicted=evicted, at_most=at_most):
                while_borrowing = bound is not None and workload.priority <= bound
                yield (
                    workload,
                    IN_COHORT_RECLAIM_WHILE_BORROWING if while_borrowing else IN_COHORT_RECLAMATION,
                )
        for _, workload in search.own(evicted=evicted):
            yield workload, IN_CLUSTER_QUEUE


def _everybody(search: Search, sources: _Sources, *, borrowing: bool) -> Iterator[tuple[Rank, Workload]]:
    """Yield all candidates of an attempt in no particular order."""
    bound = _highest_while_borrowing(search)
    at_most = bound if borrowing else None
    by_priority = () if borrowing and bound is None else sources.by_priority
    for evicted in (False, True):
        yield from search.own(evicted=evicted)
        for found, highest in ((sources.hierarchical, None), (by_priority, at_most)):
            for queue, _ in found:
                if queue.candidates.evicted if evicted else queue.candidates.running:
                    yield from search.others(queue, evicted=evicted, at_most=highest)


def _merged(
    search: Search, sources: list[_Source], *, evicted: bool, at_most: int | None = None
) -> Iterator[Workload]:
    """Yield the candidates of several queues, the first to go first, for as long as their queue must give.

    A heap of the queues' next candidates: those that are not reached cost nothing.
    """
    bound = search.reclaim_bound(at_most)
    # Ranks are unique, so comparing never comes to the rest. Most queues are asked in vain: no call for each.
    heap = [
        (entries[0][0], 0, source, entries)
        for source in sources
        if (entries := source[0].candidates.evicted if evicted else source[0].candidates.running)
        and (bound is None or entries[0][0][0] <= bound)
    ]
    heapify(heap)
    while heap:
        _, place, source, entries = heap[0]
        # Usage only falls while candidates are taken out: a queue that need not give any more never will.
        if not _must_give(search, source):
            heappop(heap)
            continue
        workload = entries[place][1]
        place += 1
        if place < len(entries) and (bound is None or entries[place][0][0] <= bound):
            heapreplace(heap, (entries[place][0], place, source, entries))
        else:
            heappop(heap)
        if search.is_usable(workload):
            yield workload


def _any(search: Search, sources: list[_Source]) -> bool:
    return any(
        next(search.others(queue, evicted=evicted), None) is not None
        for queue, _ in sources
        for evicted in (False, True)
    )


def _must_give(search: Search, source: _Source) -> bool:
    """Does the queue, and every cohort between it and the common one, still use more than its own?"""
    queue, common = source
    node: Node | None = queue.node
    while node is not None and node is not common:
        if not search.is_over_quota(node):
            return False
        node = node.parent
    return True


def _may_borrow_within_cohort(search: Search) -> bool:
    policy = search.policy.borrow_within_cohort
    return policy is not None and policy.policy == "LowerPriority"


def _highest_while_borrowing(search: Search) -> int | None:
    """Return up to which priority others may be preempted while borrowing; None: nobody may."""
    policy = search.policy.borrow_within_cohort
    if policy is None or not _may_borrow_within_cohort(search):
        return None
    below = search.workload.priority - 1
    threshold = policy.max_priority_threshold
    return below if threshold is None else min(below, threshold)


# Where candidates are


def _find_sources(search: Search, *, by_priority: bool) -> _Sources:
    """Walk up from the preemptor's queue, and at each cohort into the subtrees that use more than their own.

    The advantage begins above the first node that has quota for what is left of the request. Who has none
    is looked for only if asked.
    """
    sources = _Sources([], [])
    if not search.may_reclaim:
        return sources
    advantage = False
    remaining = search.usage
    node = search.node
    while (cohort := node.parent) is not None:
        if not advantage:
            advantage, remaining = _fits_in_quota(node, remaining)
        if advantage or by_priority:
            found = sources.hierarchical if advantage else sources.by_priority
            _collect(search, cohort, cohort, node, found)
        node = cohort
    return sources


def _collect(search: Search, cohort: Node, common: Node, done: Node, found: list[_Source]) -> None:
    queues = search.world.cluster_queues
    for child in search.borrowers(cohort):
        if child is done:
            continue
        if not child.is_cluster_queue:
            _collect(search, child, common, done, found)
        elif (queue := queues.get(child.name)) is not None:
            found.append((queue, common))


def _fits_in_quota(
    node: Node, requests: Mapping[FlavorResource, int]
) -> tuple[bool, dict[FlavorResource, int]]:
    """Say if *requests* are within the subtree's own quota, and what of them its parent has to bear."""
    fits = True
    above: dict[FlavorResource, int] = {}
    for fr, amount in requests.items():
        if node.borrowing_with(fr, amount):
            fits = False
        above[fr] = max(0, amount - node.local_available(fr))
    return fits, above
