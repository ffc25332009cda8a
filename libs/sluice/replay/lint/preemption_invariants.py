"""Invariants of preemption and of partial admission in any log (DB6), as the scheduler saw it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import ClassVar

import msgspec

from sluice.core.cycle.nomination import Oracle
from sluice.core.cycle.pending_preemptions import issue
from sluice.core.flavors.assigner import assign
from sluice.core.flavors.assignment import Mode
from sluice.core.quota.tree import FlavorResource, Node
from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.state import SchedulerState
from sluice.core.workload.admission_constraints import may_borrow
from sluice.core.workload.charges import by_flavor, counts, given_back
from sluice.core.world.model import ClusterQueue, World
from sluice.core.world.reservations import without
from sluice.core.world.workload import Workload
from sluice.events.base import Micros, WorkloadKey
from sluice.events.scheduler import (
    Evicted,
    PendingPreemptionsIssued,
    Preempted,
    PreemptionIssued,
    QuotaReserved,
    TreesSettled,
    WorkloadsParked,
)
from sluice.events.slices import WorkloadDeleted, WorkloadFinished

from .observer import Observer, hears


class NeededObserver(Observer):
    """Nobody is preempted for capacity that the preemptor does not need: with any one of its victims still
    there it would not fit (SC5, Kueue's fill-back).

    Judged where nothing else plays a part: for the first decision of a step in its tree, in which nobody
    waits for victims of others, and nobody keeps what it waits for. A set that leaves its preemptor within
    its own quota may be what the rules ask for although fewer would do if it borrowed.
    """

    name: ClassVar[str] = "needed-victims"
    decider = Scheduler

    def __init__(self) -> None:
        self.victims: dict[WorkloadKey, list[WorkloadKey]] = {}
        """Preemptor -> whom it has preempted in this step."""
        self.decided: set[Node] = set()
        """Roots of trees in which something was given in this step."""

    def settled(self, state: SchedulerState) -> Iterable[str]:  # noqa: ARG002
        if self.victims:
            self.victims.clear()
        if self.decided:
            self.decided.clear()
        return ()

    @hears
    def _preempted(self, _: SchedulerState, event: Preempted) -> None:
        self.victims.setdefault(event.preemptor, []).append(event.workload)

    @hears
    def _reserved(self, state: SchedulerState, event: QuotaReserved) -> None:
        queue = state.world.cluster_queues.get(event.cluster_queue)
        if queue is not None:
            self.decided.add(queue.node.root())

    @hears
    def _issued(self, state: SchedulerState, event: PreemptionIssued) -> Iterator[str]:
        usage = by_flavor(event.usage)
        yield from self._judge(state, event.workload, event.victims, usage, charged=False)

    @hears
    def _claimed(self, state: SchedulerState, event: PendingPreemptionsIssued) -> Iterator[str]:
        preemptor = state.world.workloads.get(event.workload)
        if preemptor is not None:
            yield from self._judge(state, event.workload, event.victims, preemptor.usage, charged=True)

    def _judge(
        self,
        state: SchedulerState,
        key: WorkloadKey,
        all_victims: Sequence[WorkloadKey],
        usage: Mapping[FlavorResource, int],
        *,
        charged: bool,
    ) -> Iterator[str]:
        world = state.world
        preemptor = world.workloads.get(key)
        mine = self.victims.pop(key, [])
        queue = world.cluster_queues.get(preemptor.cluster_queue) if preemptor is not None else None
        if preemptor is None or queue is None:
            return
        root = queue.node.root()
        first = root not in self.decided
        self.decided.add(root)
        record = preemptor.record
        if not first or not mine or record.parent is not None or record.replaces is not None:
            return
        if not _undisturbed(state, preemptor, queue):
            return
        victims = [found for name in all_victims if (found := world.workloads.get(name)) is not None]
        for victim in victims:
            if victim.record.parent is not None or victim.record.replaces is not None:
                return  # what it is charged depends on who else of its job has quota
        if charged:
            victims.append(preemptor)  # out of the tree, as it is to be tried
        with without(world, victims):
            within = _fits(queue.node, usage, borrowing=False)
        borrowing = may_borrow(world.config, record) and (world.config.fair_sharing.enable or not within)
        for name in mine:
            with without(world, [other for other in victims if other.key != name]):
                if _fits(queue.node, usage, borrowing=borrowing):
                    yield f"{key} preempted {name}, and would fit without that"


def _undisturbed(state: SchedulerState, preemptor: Workload, queue: ClusterQueue) -> bool:
    """Does nobody else of the tree wait for victims, or keep what it waits for?"""
    pending, world = state.pending.queues.get(queue.name), state.world
    tree = pending.tree if pending is not None else None
    if tree is None:
        return False
    for waits in tree.waiting.values():
        if any(one.workload is not preemptor for one in waits.holding()):
            return False
    for name, other in tree.members.items():
        if any(other != preemptor.key for other in world.pending_preemptions.by_queue.get(name, ())):
            return False
        policy = world.cluster_queues[name].spec.preemption
        if other.classes and (policy is None or policy.reclaim_within_cohort != "Any"):
            waiting = [each for each in other.classes.values() if each.waiting is None]
            if waiting or name != queue.name:
                return False
    return True


def _fits(node: Node, usage: Mapping[FlavorResource, int], *, borrowing: bool) -> bool:
    return all(
        amount <= node.available(fr) and (borrowing or node.used(fr) + amount <= node.subtree_quota(fr))
        for fr, amount in usage.items()
    )


def _is_first(state: SchedulerState, workload: Workload, queue: ClusterQueue) -> bool:
    """Has nobody else of the tree got quota in the same step? Whoever has is nobody's target in it."""
    pending = state.pending.queues.get(queue.name)
    members = () if pending is None or pending.tree is None else pending.tree.members
    return not any(
        other is not workload and other.reserved_at == workload.reserved_at
        for name in members
        for other in state.world.cluster_queues[name].workloads.values()
    )


class PartialObserver(Observer):
    """A constraint never leads to fewer pods than the workload would have had without it (AX4)."""

    name: ClassVar[str] = "constraints-keep-pods"
    decider = Scheduler

    def __init__(self) -> None:
        self._sent_back: dict[WorkloadKey, tuple[Micros, str]] = {}
        """When and why those were evicted who have not been given quota since: then it is forgotten."""

    def begun(self, state: SchedulerState) -> None:
        for key, workload in state.world.workloads.items():
            if workload.last_evicted_at is not None:
                self._sent_back[key] = (workload.last_evicted_at, workload.last_evicted_reason)

    @hears
    def _evicted(self, _: SchedulerState, event: Evicted) -> None:
        self._sent_back[event.workload] = (self.at, event.reason)

    @hears
    def _over(self, _: SchedulerState, event: WorkloadDeleted | WorkloadFinished) -> None:
        self._sent_back.pop(event.workload, None)

    @hears
    def _reserved(self, state: SchedulerState, event: QuotaReserved) -> Iterator[str]:
        world = state.world
        sent_back = self._sent_back.pop(event.workload, None)
        workload = world.workloads.get(event.workload)
        if workload is None or not (workload.record.cannot_borrow or workload.record.cannot_preempt):
            return
        given = counts(event.pod_sets)
        ended = given_back(world.config, workload.reclaimable)
        asked = {pods.name: pods.count - ended.get(pods.name, 0) for pods in workload.record.pod_sets}
        queue = world.cluster_queues.get(event.cluster_queue)
        if queue is None or all(given.get(name, 0) >= count for name, count in asked.items()):
            return
        alone = _is_first(state, workload, queue) and _undisturbed(state, workload, queue)
        if workload.record.replaces is None and alone:
            with without(world, [workload]):
                if _free(world, workload, queue, sent_back):
                    had = ", ".join(f"{count} of {asked[name]} {name}" for name, count in given.items())
                    yield f"{workload.key} has {had}, and would have all without its constraints"


def _free(
    world: World, workload: Workload, queue: ClusterQueue, sent_back: tuple[Micros, str] | None
) -> bool:
    """Would all of the workload fit, or get in by preemption, if it had no constraints?"""
    free = copy(workload)
    # As it was in the queue: among equals it came by its eviction, if that sent it back (SC5).
    free.reserved_at = None
    if sent_back is not None:
        free.last_evicted_at, free.last_evicted_reason = sent_back
    free.record = msgspec.structs.replace(workload.record, cannot_borrow=False, cannot_preempt=False)
    oracle = Oracle(world, may_defer=False)
    found = assign(world, free, queue, oracle)
    return found.mode is Mode.FIT or (found.mode is Mode.PREEMPT and bool(oracle.targets(free, found)))


class PromiseObserver(Observer):
    """No preemption stays pending that nobody needs: what is charged fits, with all who were to go (AC6).

    A log does not tell a scheduler that has nothing to say from one that is late (its process stood still, or
    was started again). What it would say next by itself is held against it once it has run a cycle without.
    """

    name: ClassVar[str] = "needed-promise"
    decider = Scheduler

    def __init__(self) -> None:
        self._late: set[WorkloadKey] = set()
        """Whom the scheduler is to see to before it runs another cycle."""
        self._cycled = False
        """Has it run one since?"""

    @hears
    def _cycle(
        self, _: SchedulerState, __: QuotaReserved | WorkloadsParked | TreesSettled | PreemptionIssued
    ) -> None:
        self._cycled = bool(self._late)

    def stood(self, state: SchedulerState, folded: int) -> Iterator[str]:  # noqa: ARG002
        found = dict(unneeded(state))
        if found and issue(state.world, state.pending):
            self._late, self._cycled = set(found), False
        else:
            yield from found.values()

    def settled(self, state: SchedulerState) -> Iterator[str]:
        if not self._cycled:
            return
        found = {key: text for key, text in unneeded(state) if key in self._late}
        if found and issue(state.world, state.pending):
            yield from found.values()
        self._late, self._cycled = set(), False


def unneeded(state: SchedulerState) -> Iterator[tuple[WorkloadKey, str]]:
    """Yield who waits with a reservation for others to go and needs nobody to, each with what is wrong.

    Judged where nobody waits in the queues of the tree for what is kept for him; and not of one without pods,
    as not even that gets in where more is in use than there is.
    """
    world = state.world
    for name, preemptors in world.pending_preemptions.by_queue.items():
        queue, pending = world.cluster_queues.get(name), state.pending.queues.get(name)
        if queue is None or pending is None or pending.tree is None or pending.tree.waiting:
            continue
        for preemptor in preemptors.values():
            asks = any(preemptor.usage.values())
            overdrawn = any(queue.node.available(fr) < 0 for fr in preemptor.usage)
            if asks and not preemptor.record.cannot_borrow and not overdrawn:
                victims = ", ".join(preemptor.victims) or "nobody"
                text = f"{preemptor.key} waits for {victims} to go, and all that is reserved fits beside it"
                yield preemptor.key, text


PREEMPTION_OBSERVERS: tuple[type[Observer], ...] = (NeededObserver, PartialObserver, PromiseObserver)
