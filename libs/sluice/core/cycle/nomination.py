"""Nomination: flavors that a workload could get as things are, and its preemption targets (SC1, phase 3)."""

from collections.abc import Callable, Sequence
from copy import copy

import msgspec

from sluice.api.features import PARTIAL_ADMISSION, enabled
from sluice.api.meta import LabelSelector
from sluice.api.selectors import matches
from sluice.core.flavors.assigner import Pinned, assign, assign_like
from sluice.core.flavors.assignment import Assignment, Mode, Possibility
from sluice.core.flavors.memo import is_plain, remembered
from sluice.core.flavors.podset_reducer import reduce_counts
from sluice.core.preemption.targets import Target, get_targets, possibility_of
from sluice.core.quota.tree import FlavorResource
from sluice.core.workload.pending_reasons import MISCONFIGURED, NAMESPACE_MISMATCH
from sluice.core.world.model import ClusterQueue, World
from sluice.core.world.reservations import without
from sluice.core.world.variants import family_usage, why_barred
from sluice.core.world.workload import Workload
from sluice.core.world.workload_slices import charged, replaced_slice

from .entry import Entry, Outcome, Proposal


class NoPreemption:
    """The oracle that says no to every preemption: what is not free is not to be had."""

    deferred = False

    def possibility(
        self, _cq: ClusterQueue, _workload: Workload, _fr: FlavorResource, _amount: int
    ) -> tuple[Possibility, int]:
        """See `flavors.Oracle`."""
        return Possibility.NO_CANDIDATES, 0

    def targets(self, _workload: Workload, _assignment: Assignment) -> Sequence[Target]:
        """Return nobody."""
        return ()


class Oracle:
    """Answers flavor assignment's questions about preemption; remembers the targets, for `targets`.

    `may_defer`: a search whose outcome matters to nobody before the entry is processed is left till then.
    """

    __slots__ = ("_found", "_may_defer", "_world", "deferred")

    def __init__(self, world: World, *, may_defer: bool) -> None:
        self._world = world
        self._may_defer = may_defer and not world.config.fair_sharing.enable
        self.deferred = False
        self._found: dict[tuple[FlavorResource, int], list[Target]] = {}

    def possibility(
        self, cq: ClusterQueue, workload: Workload, fr: FlavorResource, amount: int
    ) -> tuple[Possibility, int]:
        """See `flavors.Oracle`."""
        if self._may_defer and _takes_back(cq, fr, amount):
            self.deferred = True
            return Possibility.RECLAIM, 0
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


def _takes_back(cq: ClusterQueue, fr: FlavorResource, amount: int) -> bool:
    """Does the queue only take back what it lent, with no other flavor to choose?

    It stays within its own quota whoever has to go, so the height is 0 in any case.
    """
    policy = cq.spec.preemption
    return (
        policy is not None
        and policy.reclaim_within_cohort not in ("", "Never")
        and len(cq.group_of[fr[1]].flavors) == 1
        and cq.node.used(fr) + amount <= cq.node.subtree_quota(fr)
    )


def nominate(world: World, entry: Entry, *, may_defer: bool = True) -> bool:
    """Fill in the entry's assignment and targets; False when it is finished, as inadmissible.

    `may_defer`: a search for targets that can wait until the entry is processed may be left till then.
    """
    workload, cq = entry.workload, entry.cq
    if not matches_namespace(world, workload, cq.spec.namespace_selector):
        entry.finish(Outcome.ASIDE, MISCONFIGURED, NAMESPACE_MISMATCH)
        return False
    if workload.record.misconfigured:
        entry.finish(Outcome.PARKED, MISCONFIGURED, workload.record.misconfigured)
        return False
    if workload.record.parent is not None:
        why = why_barred(world, workload)
        if why:
            entry.finish_barred(Outcome.PARKED, why)
            return False
    propose(world, entry, may_defer=may_defer)
    return True


def matches_namespace(world: World, workload: Workload, selector: LabelSelector | None) -> bool:
    """Does the queue take workloads of this namespace? Without a selector it takes none."""
    if selector is None:
        return False
    if not selector.match_labels and not selector.match_expressions:
        return True
    return matches(selector, world.namespaces.get(workload.record.namespace, {}))


def propose(
    world: World,
    entry: Entry,
    pinned: Pinned | None = None,
    *,
    may_defer: bool = False,
    may_preempt: bool = True,
) -> None:
    """Assign flavors, in full or else in part (SC7), and find the targets that this needs.

    `pinned`: keep to these flavors, in a second look within the same cycle. `may_preempt`: else look for what
    is free only, in all flavors.
    """
    workload, cq = entry.workload, entry.cq
    scan = entry.peers.resumes_at() if pinned is None and may_preempt else None
    plain = pinned is None and scan is None and is_plain(workload)
    if plain and workload.record.parent is not None:
        plain = not family_usage(world, workload, cq.name)
    like: Assignment | None = None
    if plain:
        memory = remembered(world, cq)
        known = memory.find(workload, cq)
        if known is not None:
            entry.proposal = Proposal(known[0], pod_sets=known[1])
            return
        like = memory.like(workload)
    reducible = _reducible(world, workload)
    oracle = Oracle(world, may_defer=may_defer and not reducible) if may_preempt else NoPreemption()
    old = None if workload.record.replaces is None else replaced_slice(world, workload)
    replaced = None if old is None else charged(world, old)

    def at(counts: Sequence[int] | None) -> Assignment:
        return assign(world, workload, cq, oracle, counts=counts, scan=scan, replaced=replaced, pinned=pinned)

    circles = world.circles
    circles.stopped = False
    full = (None if like is None else assign_like(world, workload, cq, oracle, like)) or at(None)
    targets: Sequence[Target] = ()
    chosen = full
    deferred = full.mode is Mode.PREEMPT and oracle.deferred
    if full.mode is Mode.PREEMPT and not deferred:
        targets = oracle.targets(workload, full)
    if full.mode is not Mode.FIT and not targets and reducible:
        reduced = _in_part(world, workload, cq, oracle, at)
        if reduced is not None:
            chosen, targets = reduced
    proposal = entry.proposal = Proposal(chosen, targets)
    proposal.deferred = deferred
    proposal.circling = circles.stopped and chosen.mode is not Mode.FIT and not targets
    if old is not None:
        # Pods that a slice gives up are free only when it has replaced the old one.
        proposal.usage = {fr: n for fr, n in chosen.usage.items() if n > 0}
    if chosen.mode is Mode.FIT:
        proposal.pod_sets = chosen.pod_set_assignments()
        if plain and chosen is full:
            remembered(world, cq).remember(workload, cq, chosen, proposal.pod_sets)


_Oracle = Oracle | NoPreemption
_Reduced = tuple[Assignment, Sequence[Target]]


def _in_part(
    world: World,
    workload: Workload,
    cq: ClusterQueue,
    oracle: _Oracle,
    at: Callable[[Sequence[int]], Assignment],
) -> _Reduced | None:
    """Return what *workload* could have with fewer pods; `at`: its assignment for given counts.

    AX4: it gets no fewer for its own constraints than it would without them. If it would get those by what it
    forbids itself, it waits, with an assignment that says so.
    """
    pod_sets, record = workload.record.pod_sets, workload.record
    if not (record.cannot_borrow or record.cannot_preempt):
        return reduce_counts(pod_sets, lambda counts: _possible(oracle, workload, at(counts)))
    free = copy(workload)
    free.record = msgspec.structs.replace(record, cannot_borrow=False, cannot_preempt=False)
    asked = Oracle(world, may_defer=False)

    def counts_if_possible(counts: Sequence[int] | None) -> Sequence[int] | None:
        freely = assign(world, free, cq, asked, counts=counts)
        full = [pod_set.count for pod_set in pod_sets] if counts is None else counts
        return full if _possible(asked, free, freely) is not None else None

    def in_part() -> _Reduced | None:
        if counts_if_possible(None) is not None:
            return None
        counts = reduce_counts(pod_sets, counts_if_possible)
        if counts is None:
            return None
        proposed = at(counts)
        return _possible(oracle, workload, proposed) or (proposed, ())

    found = in_part()
    if found is None or not found[1]:
        return found
    # What its victims leave can be enough for more without its constraints. Then it would wait when they have
    # gone, they would come back, and be preempted again, for ever.
    with without(world, [target.workload for target in found[1]]):
        then = in_part()
    if then is not None and then[0].mode is Mode.FIT:
        return found
    found[0].blame_borrowing()
    return found[0], ()


def _reducible(world: World, workload: Workload) -> bool:
    return may_be_reduced(workload) and enabled(world.config.feature_gates, PARTIAL_ADMISSION)


def may_be_reduced(workload: Workload) -> bool:
    """Would the workload run with fewer pods than it asks for?"""
    for pod_set in workload.record.pod_sets:  # noqa: SIM110 - asked of every entry
        if pod_set.min_count is not None:
            return True
    return False


def _possible(
    oracle: _Oracle, workload: Workload, assignment: Assignment
) -> tuple[Assignment, Sequence[Target]] | None:
    if assignment.mode is Mode.FIT:
        return assignment, ()
    if assignment.mode is Mode.PREEMPT:
        targets = oracle.targets(workload, assignment)
        if targets:
            return assignment, targets
    return None


__all__ = ["Oracle", "matches_namespace", "nominate"]
