"""Preemption without fair sharing: by position in the cohort tree and by priority (SC5).

Three kinds of candidates:
- *own*: in the preemptor's queue;
- *hierarchical*: in queues over which the preemptor has an advantage, because a subtree that holds it, and
  not them, has quota for it: they use what is lent to them, and give it back whatever their priority;
- *by priority*: all others that use more than their own. Unless `borrowWithinCohort` allows it (for lower
  priorities, up to its threshold), they go only if the preemptor does not borrow in the end.
"""

from collections.abc import Iterator
from heapq import merge
from typing import NamedTuple

from .candidates import Rank
from .model import ClusterQueue, Workload
from .preemption_candidates import (
    IN_CLUSTER_QUEUE,
    IN_COHORT_RECLAIM_WHILE_BORROWING,
    IN_COHORT_RECLAMATION,
    Reason,
    Search,
    Target,
    fill_back,
)
from .quota import FlavorResource, Node


class _Source(NamedTuple):
    """Another queue with candidates, and the lowest cohort above it and the preemptor's queue."""

    queue: ClusterQueue
    common: Node


_Found = tuple[Rank, Workload, _Source]


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
    sources = _find_sources(search)
    for borrowing in _attempts(search, sources):
        if not search.can_help(_everybody(search, sources, borrowing=borrowing)):
            continue
        mark = search.tree.mark()
        targets = _attempt(search, sources, borrowing=borrowing)
        search.tree.rollback(mark)
        if targets:
            return targets
    return []


def _attempts(search: Search, sources: _Sources) -> tuple[bool, ...]:
    """Return with which answers to "may the preemptor borrow?" to try, in this order."""
    if not search.may_borrow:
        return (False,)
    hierarchical = _any(search, sources.hierarchical)
    others = hierarchical or _any(search, sources.by_priority)
    may_borrow = _may_borrow_within_cohort(search)
    if not others or (not may_borrow and not search.is_below_nominal()):
        return (True,)
    if not may_borrow and not hierarchical:
        return (False, True)
    return (True, False)


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
        for _, workload, source in _merged(search, sources.hierarchical, evicted=evicted):
            if _must_give(search, source):
                yield workload, IN_COHORT_RECLAMATION
        bound = _highest_while_borrowing(search)
        if not (borrowing and bound is None):
            for _, workload, source in _merged(
                search, sources.by_priority, evicted=evicted, at_most=bound if borrowing else None
            ):
                if _must_give(search, source):
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
    for evicted in (True, False):
        yield from search.own(evicted=evicted)
        for source in sources.hierarchical:
            yield from search.others(source.queue, evicted=evicted)
        if not (borrowing and bound is None):
            for source in sources.by_priority:
                yield from search.others(source.queue, evicted=evicted, at_most=bound if borrowing else None)


def _merged(
    search: Search, sources: list[_Source], *, evicted: bool, at_most: int | None = None
) -> Iterator[_Found]:
    """Yield the candidates of several queues, the first to go first."""
    streams = [_stream(search, source, evicted=evicted, at_most=at_most) for source in sources]
    return streams[0] if len(streams) == 1 else merge(*streams, key=_rank)


def _stream(search: Search, source: _Source, *, evicted: bool, at_most: int | None) -> Iterator[_Found]:
    for rank, workload in search.others(source.queue, evicted=evicted, at_most=at_most):
        # Usage only falls while candidates are taken out: a queue that need not give any more never will.
        if not _must_give(search, source):
            return
        yield rank, workload, source


def _any(search: Search, sources: list[_Source]) -> bool:
    return any(
        next(search.others(source.queue, evicted=evicted), None) is not None
        for source in sources
        for evicted in (False, True)
    )


def _must_give(search: Search, source: _Source) -> bool:
    """Does the queue, and every cohort between it and the common one, still use more than its own?"""
    node: Node | None = source.queue.node
    while node is not None and node is not source.common:
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


def _find_sources(search: Search) -> _Sources:
    """Walk up from the preemptor's queue, and at each cohort into the subtrees that use more than their own.

    The advantage begins above the first node that has quota for what is left of the request.
    """
    sources = _Sources([], [])
    if not search.may_reclaim:
        return sources
    advantage, remaining = _fits_in_quota(search.node, dict(search.usage))
    below: Node = search.node
    for cohort in search.node.path_to_root():
        found = sources.hierarchical if advantage else sources.by_priority
        _collect(search, cohort, cohort, below, found)
        fits, remaining = _fits_in_quota(cohort, remaining)
        advantage = advantage or fits
        below = cohort
    return sources


def _collect(search: Search, cohort: Node, common: Node, done: Node, found: list[_Source]) -> None:
    for child in search.borrowers(cohort):
        if child is done:
            continue
        if not child.is_cluster_queue:
            _collect(search, child, common, done, found)
        elif (queue := search.world.cluster_queues.get(child.name)) is not None:
            found.append(_Source(queue, common))


def _fits_in_quota(node: Node, requests: dict[FlavorResource, int]) -> tuple[bool, dict[FlavorResource, int]]:
    """Say if *requests* are within the subtree's own quota, and what of them its parent has to bear."""
    fits = not any(node.used(fr) + amount > node.subtree_quota(fr) for fr, amount in requests.items())
    return fits, {fr: max(0, amount - node.local_available(fr)) for fr, amount in requests.items()}


def _rank(found: _Found) -> Rank:
    return found[0]


__all__ = ["classical_targets"]
