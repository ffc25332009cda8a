"""Fold of the scheduler's own decisions: reservations, evictions, who is parked and who waits for victims."""

from typing import Any

from sluice.core.cycle.requeue_filter import is_hopeless
from sluice.core.lifecycle.due import may_be_due
from sluice.core.lifecycle.fold import fold_lifecycle
from sluice.core.queueing.pending_queue import CohortQueues, EquivalenceClass, PendingQueue, Preemptor
from sluice.core.quota.tree import FlavorResource
from sluice.core.workload.charges import beyond, by_flavor
from sluice.core.workload.pending_reasons import WAITING_FOR_PODS_READY
from sluice.core.workload.reasons import PREEMPTED
from sluice.core.world.activity import blocks_admission
from sluice.core.world.charging import charge, needs
from sluice.core.world.pending_preemptions import PENDING
from sluice.core.world.reservations import change_usage, release, reorder, reserve
from sluice.core.world.variants import is_gated, siblings
from sluice.core.world.workload import Workload
from sluice.core.world.workload_slices import carry_over_execution_time, replaced_slice
from sluice.events import scheduler
from sluice.events.base import Event, Micros, WorkloadKey

from .fold_pending_preemptions import fold_issued, reserve_pending, victim_replaced, withdraw
from .marks import Mark, stands
from .queue_status import fold_local_status, fold_status
from .state import Handler, SchedulerState, is_barred


def _reserved(state: SchedulerState, event: scheduler.QuotaReserved, seq: int, at: Micros) -> None:
    """Nothing is due for a reservation before something happens to it: it is not `Mark.DUE`."""
    world = state.world
    workload = world.workloads.get(event.workload)
    if workload is None or event.cluster_queue not in world.cluster_queues:
        return
    workload.cluster_queue = event.cluster_queue
    workload.assignment = tuple(event.pod_sets)
    workload.delta = workload.record.replaces is not None and replaced_slice(world, workload) is not None
    fold_lifecycle(workload, event, at)
    workload.usage = charge(world, workload)
    is_variant = workload.record.parent is not None
    if workload.peers is None or workload.peers.waiting is None:
        workload.promised_at = None
    waited = state.pending.serve(workload, needs(world, workload) if is_variant else workload.usage)
    workload.preempted_rule = ""
    workload.preempted_at = None
    workload.blocked_on_gates = workload.tries = workload.waits_on = False
    workload.reservations += 1
    reserve(world, workload)
    if waited:
        queue = state.pending.queues[event.cluster_queue]
        state.pending.taken(queue, workload.rank, workload.usage, event.cause)
    if event.preemptions_pending:
        reserve_pending(state, workload, event)  # is looked at first, before what is charged to others
    elif (preemptor := workload.record.parent or workload.key) in world.circles.trying:
        world.circles.served(preemptor)
    state.pending.touch(state.pending.queues[event.cluster_queue])
    state.touched.append((workload, Mark.GOT_QUOTA, seq))


def _admitted(state: SchedulerState, event: scheduler.Admitted, _seq: int, at: Micros) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is None:
        return
    fold_lifecycle(workload, event, at)
    workload.changed_by = max(workload.changed_by, event.cause)  # which sets its clocks
    workload.lost_reservations = 0
    if (preemptor := workload.record.parent or workload.key) in state.world.circles.trying:
        state.world.circles.served(preemptor)
    if blocks_admission(state.world.config) and workload.pods_ready_at is None:
        state.not_ready[workload.key] = None
    if may_be_due(state.world, state.lifecycle, workload):
        state.touched.append((workload, Mark.ADMITTED, event.cause))


def _evicted(state: SchedulerState, event: scheduler.Evicted, _seq: int, at: Micros) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is not None:
        fold_lifecycle(workload, event, at)
        if event.reason == PREEMPTED and workload.admitted_at is None:
            workload.lost_reservations += 1
        withdraw(state, workload)
        reorder(state.world, workload)
        state.touched.append((workload, Mark.LEAVES, event.cause))


def _preempted(state: SchedulerState, event: scheduler.Preempted, _seq: int, at: Micros) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is not None:
        workload.preempted_rule = event.rule
        workload.preempted_at = at
        preemptor = state.world.workloads.get(event.preemptor)
        if preemptor is not None:
            beside = workload.record.parent is not None and _goes_beside_another(state, workload, at)
            state.world.circles.note(preemptor, workload, again=not beside)


def _goes_beside_another(state: SchedulerState, variant: Workload, at: Micros) -> bool:
    """Was a sibling preempted by the same decision?"""
    return any(
        other.preempted_at == at and other.evicted_at is not None and other.assignment is not None
        for other in siblings(state.world, variant)
    )


def _released(state: SchedulerState, event: scheduler.QuotaReleased, _seq: int, at: Micros) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is None:
        return
    if workload.preemptions == PENDING and workload.evicted_at is None and not is_gated(workload):
        state.world.circles.give_up(workload)
    if workload.admitted_at is not None:
        # Of one that never ran a pod it was said what no completion is left for (WS3), which stays so.
        workload.reclaimable = {}
    workload.changed_by = event.cause
    workload.delta = False
    fold_lifecycle(workload, event, at)
    state.touched.append((workload, Mark.GAVE_QUOTA, event.cause))


def _slice_replaced(
    state: SchedulerState, event: scheduler.WorkloadSliceReplaced, seq: int, at: Micros
) -> None:
    """The new slice takes over the old one's quota; nothing becomes free, unless it is smaller somewhere."""
    world = state.world
    old, new = world.workloads.get(event.workload), world.workloads.get(event.by)
    if old is None or new is None or new.assignment is None:
        return
    before = {fr: amount + new.usage.get(fr, 0) for fr, amount in old.usage.items()}
    carry_over_execution_time(new, old, at)
    withdraw(state, old)
    release(world, old)
    old.assignment = None
    del world.workloads[old.key]
    new.delta = False
    usage = charge(world, new)
    change_usage(world, new, usage)
    state.pending.victim_gone(old.key)
    victim_replaced(state, old.key, new.key)
    state.touched.append((old, Mark.REPLACED, seq))
    what = Mark.DUE | Mark.FREED if beyond(before, usage) else Mark.DUE
    state.touched.append((new, what, event.cause))


def _slice_withdrawn(
    state: SchedulerState, event: scheduler.WorkloadSliceWithdrawn, _seq: int, _at: Micros
) -> None:
    workload = state.world.workloads.pop(event.workload, None)
    if workload is not None:
        state.touched.append((workload, Mark.ENDED, event.cause))


def _life(state: SchedulerState, event: Any, _seq: int, at: Micros) -> None:
    """Events of the life-cycle after which a workload may belong in its queue, or not any more."""
    workload = state.world.workloads.get(event.workload)
    if workload is not None:
        stood = stands(workload)
        fold_lifecycle(workload, event, at)
        what = Mark.DUE | Mark.QUEUES
        if stood != stands(workload):
            what |= Mark.STANDS
        state.touched.append((workload, what, event.cause))


def _requeued(state: SchedulerState, event: scheduler.Requeued, seq: int, at: Micros) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is not None:
        workload.changed_by = max(workload.changed_by, event.cause)
    _life(state, event, seq, at)


def _parked(state: SchedulerState, event: scheduler.WorkloadsParked, _seq: int, _at: Micros) -> None:
    for key in event.workloads:
        workload = state.world.workloads.get(key)
        if workload is None or workload.peers is None:
            continue
        if event.barred and not is_barred(workload.peers.key):
            continue  # what barred it has gone in this very step: it is looked at again
        state.pending.stop_waiting(workload)
        peers = workload.peers
        peers.reason, peers.message = event.reason, event.message
        peers.circling = event.circling
        if event.circling:
            state.world.circles.refused[peers.queue.name] = None
        resumed = peers.scan is not None
        state.pending.park(
            peers,
            aside=event.aside,
            reserves=event.reserves,
            hopeless=is_hopeless(workload, event.reason, resumed=resumed) or is_barred(peers.key),
        )
        if workload.tries:
            _turn_over(state, peers)


def _turn_over(state: SchedulerState, peers: EquivalenceClass) -> None:
    """Variants that may preempt cannot: those that left it to them are looked at again (CA11)."""
    for variant in list(peers):
        if variant.tries:
            variant.tries = False
            state.touched.append((variant, Mark.TURN | Mark.QUEUES, 0))


def _preempting(state: SchedulerState, event: scheduler.PreemptionIssued, _seq: int, at: Micros) -> None:
    world = state.world
    workload = world.workloads.get(event.workload)
    if workload is None or workload.peers is None:
        return
    peers, usage = workload.peers, by_flavor(event.usage)
    victims = [
        key for key in event.victims if key in world.workloads and world.workloads[key].assignment is not None
    ]
    if peers.queue.strict or peers.waiting is not None:
        # Else its equals stay as they are: they would preempt for the same capacity.
        state.pending.activate(peers)
    peers.scan = None
    waiting = Preemptor(workload, victims, usage, event.borrowing, event.flavors)
    waiting.recheck = event.more  # the next cycle tells the others
    waiting.held = event.reason == WAITING_FOR_PODS_READY
    workload.promised_at = at
    state.pending.wait(waiting)
    workload.peers.reason, workload.peers.message = event.reason, event.message
    _wake_for_the_rest(state, peers.queue, usage, victims, event.cause)


def _wake_for_the_rest(
    state: SchedulerState,
    queue: PendingQueue,
    usage: dict[FlavorResource, int],
    victims: list[WorkloadKey],
    cause: int,
) -> None:
    """What victims have beyond *usage* may be all that others lacked, as what is free is promised twice.

    Where nobody else waits, whoever lacks something lacks what is really free, which is as it was.
    """
    world, tree = state.world, queue.tree
    if tree is None or not (world.pending_preemptions or len(queue.waiting) > 1 or len(tree.waiting) > 1):
        return
    held: dict[FlavorResource, int] = {}
    for key in victims:
        for fr, amount in world.workloads[key].usage.items():
            held[fr] = held.get(fr, 0) + amount
    if rest := beyond(held, usage):
        state.pending.wake(queue, cause, [flavor for flavor, _ in rest])


def _wait_ended(state: SchedulerState, event: scheduler.PreemptionWaitEnded, _seq: int, _at: Micros) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is not None and workload.peers is not None:
        workload.changed_by = max(workload.changed_by, event.cause)
        state.pending.stop_waiting(workload)
        state.pending.activate(workload.peers)


def _scanned(state: SchedulerState, event: scheduler.FlavorScanAdvanced, _seq: int, _at: Micros) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is None or workload.peers is None:
        return
    state.pending.stop_waiting(workload)
    state.pending.search_on(workload.peers, event.tried)


def _blocked(
    state: SchedulerState, event: scheduler.BlockedOnPreemptionGates, _seq: int, _at: Micros
) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is not None:
        workload.blocked_on_gates = True
        state.touched.append((workload, Mark.QUEUES | Mark.TURN, event.cause))


def _reason(state: SchedulerState, event: scheduler.PendingReasonChanged, _seq: int, _at: Micros) -> None:
    """The reason of single workloads is shown by projections; no decision rests on it."""


def _settled(state: SchedulerState, event: scheduler.TreesSettled, _seq: int, _at: Micros) -> None:
    world, pending = state.world, state.pending
    trees: list[CohortQueues | None] = [
        pending.trees.get(world.tree.cohorts[name]) for name in event.cohorts if name in world.tree.cohorts
    ]
    trees += [pending.queues[name].tree for name in event.cluster_queues if name in pending.queues]
    still_open = [pending.queues[name] for name in event.open if name in pending.queues]
    for tree in trees:
        if tree is not None:
            left = [queue for queue in still_open if queue.tree is tree]
            if left and not tree.fresh:
                tree.brought_about_by(event.cause)  # nothing was freed, but those before them have gone
            pending.settled(tree, left)


VERDICT_FOLDS: dict[type[Event], Handler] = {
    scheduler.Admitted: _admitted,
    scheduler.BlockedOnPreemptionGates: _blocked,
    scheduler.ClusterQueueStatusChanged: fold_status,
    scheduler.Evicted: _evicted,
    scheduler.FlavorScanAdvanced: _scanned,
    scheduler.LocalQueueStatusChanged: fold_local_status,
    scheduler.PendingPreemptionsIssued: fold_issued,
    scheduler.PendingReasonChanged: _reason,
    scheduler.Preempted: _preempted,
    scheduler.PreemptionIssued: _preempting,
    scheduler.PreemptionWaitEnded: _wait_ended,
    scheduler.QuotaReleased: _released,
    scheduler.QuotaReserved: _reserved,
    scheduler.RequeueBackoffStarted: _life,
    scheduler.Requeued: _requeued,
    scheduler.TreesSettled: _settled,
    scheduler.WorkloadDeactivated: _life,
    scheduler.WorkloadSliceReplaced: _slice_replaced,
    scheduler.WorkloadSliceWithdrawn: _slice_withdrawn,
    scheduler.WorkloadsParked: _parked,
}
