"""Fold of every event that the scheduler reads into its state. Nothing here decides anything.

Fields of the life-cycle are folded by `lifecycle.note`; quota, queues and verdicts here. What frees
capacity wakes the tree; what changes a workload moves it to where it now belongs.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from sluice.events.base import Event, Micros, WorkloadKey
from sluice.events.checks import (
    AdmissionCheckStatusChanged,
    ChecksPending,
    ChecksReady,
    ChecksRejected,
    ChecksRetry,
    PreemptionsAllowed,
)
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.events.scheduler import (
    Admitted,
    BlockedOnPreemptionGates,
    ClusterQueueStatusChanged,
    Evicted,
    FlavorScanAdvanced,
    LocalQueueStatusChanged,
    PendingPreemptionsIssued,
    PendingReasonChanged,
    Preempted,
    PreemptionIssued,
    PreemptionWaitEnded,
    QuotaReleased,
    QuotaReserved,
    RequeueBackoffStarted,
    Requeued,
    TreesSettled,
    WorkloadDeactivated,
    WorkloadSliceReplaced,
    WorkloadsParked,
)
from sluice.events.slices import (
    ReclaimablePodsUpdated,
    WorkloadCreated,
    WorkloadDeleted,
    WorkloadFinished,
    WorkloadPodsReady,
    WorkloadStopped,
    WorkloadUpdated,
)
from sluice.events.variants import PreemptionGateClosed, PreemptionGateOpened, VariantUpdated

from .charging import charge, recharge
from .eviction import PODS_READY_TIMEOUT, PREEMPTED
from .families import siblings
from .fold_claims import (
    claim,
    fold_allowed,
    fold_issued,
    refresh_all,
    refresh_due,
    unclaim,
    victim_gone,
    victim_replaced,
)
from .fold_config import check_changed, fold_object
from .lifecycle import forget, look, note
from .model import Workload
from .ordering import effective_priority
from .pending import TreeQueues, Waiting
from .placing import place, place_siblings
from .processing import blocks_admission
from .queues import fold_local_status, fold_status
from .quota import FlavorResource
from .reservations import change_usage, release, reorder, reserve
from .shapes import ANY
from .slicing import beyond, inherit, replaced_slice, scaled, successor
from .state import SchedulerState, is_barred
from .variant_events import as_workload_event
from .wake import is_hopeless

Handler = Callable[[SchedulerState, Any, int, Micros], None]


def fold(state: SchedulerState, event: Event, seq: int, at: Micros) -> None:
    """Fold *event*, of the message *seq*, decided at *at*. Events of no concern change nothing."""
    if at > state.at:
        state.at = at
    handler = _HANDLERS.get(type(event))
    if handler is not None:
        handler(state, event, seq, at)
    elif (same := as_workload_event(event)) is not event:
        # What is said of variants means what is said of other workloads.
        fold(state, same, seq, at)


# Configuration


def _object(state: SchedulerState, event: ObjectApplied | ObjectDeleted, seq: int, at: Micros) -> None:
    state.config_seq = seq
    fold_object(state, event)
    if state.world.claims:
        refresh_all(state, seq)
    note(state.world, state.lifecycle, event, seq, at)


def _check_status(state: SchedulerState, event: AdmissionCheckStatusChanged, seq: int, _at: Micros) -> None:
    check = state.world.checks.get(event.check)
    if check is not None and check.active != event.active:
        check.active = event.active
        state.config_seq = seq
        check_changed(state, event.check)


def _queue_status(state: SchedulerState, event: ClusterQueueStatusChanged, _seq: int, _at: Micros) -> None:
    fold_status(state, event)


def _local_status(state: SchedulerState, event: LocalQueueStatusChanged, _seq: int, _at: Micros) -> None:
    fold_local_status(state, event)


# Coming, changing, going


def _created(state: SchedulerState, event: WorkloadCreated, seq: int, _at: Micros) -> None:
    record = event.workload
    key = record.key
    parent = record.parent
    if key in state.world.workloads or (parent is not None and parent not in state.world.workloads):
        return  # its parent has gone since
    workload = Workload(
        record, key, record.uid, effective_priority(record, state.world.config), record.active
    )
    workload.changed_by = seq
    state.world.workloads[key] = workload
    _join(state, workload)
    if record.replaces is not None:
        state.world.replacements[record.replaces] = key
    if parent is not None:
        state.world.families.setdefault(parent, {})[key] = workload
    place(state, workload)
    if parent is not None:
        _ask_again(state, workload)


def _updated(state: SchedulerState, event: WorkloadUpdated, seq: int, at: Micros) -> None:
    world = state.world
    workload = world.workloads.get(event.workload)
    if workload is None:
        return
    changes = {
        name: value
        for name in event.__struct_fields__
        if name not in ("cause", "workload") and (value := getattr(event, name)) is not None
    }
    stood = _stands(workload)
    _leave(state, workload)
    record = workload.record = msgspec.structs.replace(workload.record, **changes)
    _join(state, workload)
    workload.equivalence = ""
    workload.changed_by = seq
    priority = effective_priority(record, world.config)
    if priority != workload.priority:
        workload.priority = priority
        reorder(world, workload)
    if event.pod_sets is not None and workload.assignment is not None:
        _shrink(state, workload, seq)
    note(world, state.lifecycle, event, seq, at)
    queued = workload.peers is not None
    place(state, workload, changed=True)
    if not queued:
        _ask_again(state, workload)
    if event.active is None or stood != _stands(workload):
        _tell_siblings(state, workload, seq, at)


def _reclaimable(state: SchedulerState, event: ReclaimablePodsUpdated, seq: int, _at: Micros) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is None:
        return
    workload.reclaimable = dict(event.pods)
    workload.changed_by = seq
    if workload.assignment is not None:
        _shrink(state, workload, seq)
    else:
        place(state, workload, changed=True)


def _shrink(state: SchedulerState, workload: Workload, seq: int) -> None:
    """Charge a reservation for the pods that are left only (SC7, WS3), and wake who could use the rest."""
    assert workload.assignment is not None
    counts = {pod_set.name: pod_set.count for pod_set in workload.record.pod_sets}
    workload.assignment = tuple(
        scaled(assigned, min(assigned.count, counts.get(assigned.name, assigned.count)))
        for assigned in workload.assignment
    )
    _recharge(state, workload, seq)


def _recharge(state: SchedulerState, workload: Workload, seq: int) -> None:
    """Charge what *workload*, and the slice that it is to replace, need now; wake who could use the rest."""
    alone = workload.assignment is None and workload.record.replaces is None and not state.world.replacements
    if not alone and recharge(state.world, workload):
        _wake(state, workload, seq)


def _finished(state: SchedulerState, event: WorkloadFinished, seq: int, at: Micros) -> None:
    note(state.world, state.lifecycle, event, seq, at)
    _remove(state, event.workload, seq, at)


def _deleted(state: SchedulerState, event: WorkloadDeleted, seq: int, at: Micros) -> None:
    note(state.world, state.lifecycle, event, seq, at)
    _remove(state, event.workload, seq, at)


def _remove(state: SchedulerState, key: WorkloadKey, seq: int, at: Micros) -> None:
    workload = state.world.workloads.pop(key, None)
    if workload is None:
        return
    state.pending.remove(workload)
    if workload.assignment is not None:
        unclaim(state, workload)
        release(state.world, workload)
        workload.assignment = None
        _recharge(state, workload, seq)
        _wake(state, workload, seq, _flavors(state, workload))
    _forget(state, workload)
    _family_moves(state, workload, seq, at)
    _successor_moves(state, key, seq, at)


def _forget(state: SchedulerState, workload: Workload) -> None:
    _leave(state, workload)
    _ready_or_gone(state, workload.key)
    world = state.world
    old = workload.record.replaces
    if old is not None and world.replacements.get(old) == workload.key:
        del world.replacements[old]


def _family_moves(state: SchedulerState, workload: Workload, seq: int, at: Micros) -> None:
    """No variant outlives its parent, and what may become of one depends on its siblings."""
    families = state.world.families
    for variant in list(families.get(workload.key, ())):
        forget(state.lifecycle, variant)
        _remove(state, variant, seq, at)
    parent = workload.record.parent
    if parent is not None and (family := families.get(parent)) is not None:
        family.pop(workload.key, None)
        if not family:
            del families[parent]
        for other in family.values():
            place(state, other)
            look(state.world, state.lifecycle, other, seq, state.at)


def _successor_moves(state: SchedulerState, key: WorkloadKey, seq: int, at: Micros) -> None:
    """What becomes of a slice decides where the one waits that is to replace it."""
    workload = successor(state.world, key) if state.world.replacements else None
    if workload is None:
        return
    workload.changed_by = max(workload.changed_by, seq)
    if workload.assignment is not None:
        look(state.world, state.lifecycle, workload, seq, at)
    else:
        place(state, workload, changed=True)


def _slice_replaced(state: SchedulerState, event: WorkloadSliceReplaced, seq: int, at: Micros) -> None:
    """The new slice takes over the old one's quota; nothing becomes free, unless it is smaller somewhere."""
    world = state.world
    old, new = world.workloads.get(event.workload), world.workloads.get(event.by)
    if old is None or new is None or new.assignment is None:
        return
    note(world, state.lifecycle, event, seq, at)
    before = {fr: amount + new.usage.get(fr, 0) for fr, amount in old.usage.items()}
    inherit(new, old, at)
    unclaim(state, old)
    release(world, old)
    old.assignment = None
    del world.workloads[old.key]
    new.delta = False
    usage = charge(world, new)
    change_usage(world, new, usage)
    state.pending.victim_gone(old.key)
    victim_replaced(state, old.key, new.key)
    _forget(state, old)
    _family_moves(state, old, seq, at)
    look(world, state.lifecycle, new, event.cause, at)
    if beyond(before, usage):
        _wake(state, new, event.cause)


def _join(state: SchedulerState, workload: Workload) -> None:
    local = _local_key(workload)
    members = state.members.get(local)
    if members is None:
        members = state.members[local] = {}
    members[workload.key] = None


def _leave(state: SchedulerState, workload: Workload) -> None:
    local = _local_key(workload)
    members = state.members.get(local)
    if members is not None:
        members.pop(workload.key, None)
        if not members:
            del state.members[local]


def _local_key(workload: Workload) -> str:
    return f"{workload.record.namespace}/{workload.record.queue_name}"


def _wake(state: SchedulerState, workload: Workload, cause: int, flavors: Iterable[str] = (ANY,)) -> None:
    """Quota of *workload* was freed: tell its tree, and the preemptor that waits for it."""
    queue = state.pending.queues.get(workload.cluster_queue)
    if queue is not None:
        state.pending.wake(queue, cause, flavors)
    if workload.assignment is None:
        state.pending.victim_gone(workload.key)
        if state.world.claims:
            victim_gone(state, workload.key, cause)


def _flavors(state: SchedulerState, workload: Workload) -> Iterable[str]:
    """Return the flavors that a workload which gives all of its quota up makes room in; ANY: perhaps in all.

    What may be preempted by fair share, and what is promised to whom, depends on more than one flavor.
    """
    world = state.world
    if world.claims or world.config.fair_sharing.enable or not workload.usage:
        return (ANY,)
    return [flavor for flavor, _ in workload.usage]


# Variants


def _tell_siblings(state: SchedulerState, workload: Workload, cause: int, at: Micros) -> None:
    """What may become of a variant depends on which of its siblings is admitted (CA10)."""
    if workload.record.parent is None:
        return
    place_siblings(state, workload)
    for other in siblings(state.world, workload):
        if other.assignment is not None:
            look(state.world, state.lifecycle, other, cause, at)


def _stands(workload: Workload) -> tuple[bool, bool, bool, bool]:
    """Return what siblings depend on: see `families.standing` and `families.backs_off`."""
    return (
        workload.assignment is not None,
        workload.admitted_at is not None,
        workload.evicted_at is not None,
        workload.held_for == PODS_READY_TIMEOUT and workload.active,
    )


def _ask_again(state: SchedulerState, workload: Workload) -> None:
    """A variant has come to its queue: those behind it may be blocked on their gates, but not before it.

    They are looked at again, after it, and said to be blocked again if they are (CA11).
    """
    if workload.record.parent is None or workload.peers is None:
        return
    for other in siblings(state.world, workload):
        if other.blocked_on_gates and other.record.preference > workload.record.preference:
            other.blocked_on_gates = False
            place(state, other)


def _variant_updated(state: SchedulerState, event: VariantUpdated, seq: int, at: Micros) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is not None and event.preference is not None:
        workload.record = msgspec.structs.replace(workload.record, preference=event.preference)
        workload.identity = ""
    fold(state, as_workload_event(event), seq, at)


def _gate_moved(
    state: SchedulerState, event: PreemptionGateOpened | PreemptionGateClosed, seq: int, _at: Micros
) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is None:
        return
    gates = [gate for gate in workload.open_gates if gate != event.gate]
    if isinstance(event, PreemptionGateOpened):
        gates.append(event.gate)
    workload.open_gates = tuple(sorted(gates))
    workload.blocked_on_gates = False
    workload.changed_by = seq
    place(state, workload, changed=True)


# Quota


def _reserved(state: SchedulerState, event: QuotaReserved, seq: int, at: Micros) -> None:
    """The life-cycle has no interest in a reservation before it is admitted, so it is not told."""
    world = state.world
    workload = world.workloads.get(event.workload)
    if workload is None or event.cluster_queue not in world.cluster_queues:
        return
    workload.cluster_queue = event.cluster_queue
    workload.assignment = tuple(event.pod_sets)
    workload.delta = workload.record.replaces is not None and replaced_slice(world, workload) is not None
    workload.usage = charge(world, workload)
    state.pending.serve(workload, workload.usage)
    workload.reserved_at = at
    workload.requeue_at = None
    workload.preempted_rule = ""
    workload.preempted_at = None
    workload.blocked_on_gates = False
    workload.reservations += 1
    reserve(world, workload)
    if event.preemptions_pending:
        claim(state, workload, event)
    if world.replacements or workload.record.replaces is not None:
        recharge(world, workload)
    state.pending.touch(state.pending.queues[event.cluster_queue])
    if world.replacements:
        _successor_moves(state, workload.key, seq, at)


def _admitted(state: SchedulerState, event: Admitted, seq: int, at: Micros) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is None:
        return
    workload.admitted_at = at
    workload.ousted = 0
    if blocks_admission(state.world.config) and workload.pods_ready_at is None:
        state.not_ready[workload.key] = None
    note(state.world, state.lifecycle, event, seq, at)
    _tell_siblings(state, workload, event.cause, at)


def _evicted(state: SchedulerState, event: Evicted, seq: int, at: Micros) -> None:
    note(state.world, state.lifecycle, event, seq, at)
    workload = state.world.workloads.get(event.workload)
    if workload is not None:
        if event.reason == PREEMPTED and workload.admitted_at is None:
            workload.ousted += 1
        unclaim(state, workload)
        reorder(state.world, workload)
        place(state, workload)
        _successor_moves(state, workload.key, event.cause, at)
        _tell_siblings(state, workload, event.cause, at)


def _preempted(state: SchedulerState, event: Preempted, _seq: int, at: Micros) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is not None:
        workload.preempted_rule = event.rule
        workload.preempted_at = at


def _released(state: SchedulerState, event: QuotaReleased, seq: int, at: Micros) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is None:
        return
    if workload.assignment is not None:
        unclaim(state, workload)
        release(state.world, workload)
        workload.assignment = None
        _recharge(state, workload, event.cause)
        _wake(state, workload, event.cause, _flavors(state, workload))
    workload.usage = {}
    workload.reclaimable = {}
    workload.changed_by = event.cause
    note(state.world, state.lifecycle, event, seq, at)
    workload.delta = False
    _ready_or_gone(state, workload.key)
    place(state, workload)
    _ask_again(state, workload)
    _successor_moves(state, workload.key, event.cause, at)
    _tell_siblings(state, workload, event.cause, at)


def _pods_ready(state: SchedulerState, event: WorkloadPodsReady, seq: int, at: Micros) -> None:
    note(state.world, state.lifecycle, event, seq, at)
    if event.ready:
        _ready_or_gone(state, event.workload)
    elif blocks_admission(state.world.config):
        workload = state.world.workloads.get(event.workload)
        if workload is not None and workload.admitted_at is not None:
            state.not_ready[workload.key] = None


def _ready_or_gone(state: SchedulerState, key: WorkloadKey) -> None:
    """One less to wait for: when it was the last, admission is open again (waitForPodsReady)."""
    if key in state.not_ready:
        del state.not_ready[key]
        if not state.not_ready:
            for name in sorted(state.pending.queues):
                state.pending.wake(state.pending.queues[name])


# The way back to the queue


def _life(state: SchedulerState, event: Any, seq: int, at: Micros) -> None:
    """Events of the life-cycle after which a workload may belong in its queue, or not any more."""
    workload = state.world.workloads.get(event.workload)
    stood = _stands(workload) if workload is not None else None
    note(state.world, state.lifecycle, event, seq, at)
    if workload is not None:
        queued = workload.peers is not None
        place(state, workload)
        if not queued:
            _ask_again(state, workload)
        if stood != _stands(workload):
            _tell_siblings(state, workload, event.cause, at)


def _requeued(state: SchedulerState, event: Requeued, seq: int, at: Micros) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is not None:
        workload.changed_by = max(workload.changed_by, event.cause)
    _life(state, event, seq, at)


# Verdicts


def _parked(state: SchedulerState, event: WorkloadsParked, _seq: int, _at: Micros) -> None:
    for key in event.workloads:
        workload = state.world.workloads.get(key)
        if workload is None or workload.peers is None:
            continue
        peers = workload.peers
        peers.reason, peers.message = event.reason, event.message
        state.pending.park(
            peers,
            aside=event.aside,
            reserves=event.reserves,
            hopeless=is_hopeless(workload, event.reason) or is_barred(peers.key),
        )


def _preempting(state: SchedulerState, event: PreemptionIssued, _seq: int, _at: Micros) -> None:
    world = state.world
    workload = world.workloads.get(event.workload)
    if workload is None or workload.peers is None:
        return
    peers = workload.peers
    usage: dict[FlavorResource, int] = {}
    for name, amount in event.usage.items():
        flavor, _, resource = name.partition("/")
        usage[flavor, resource] = amount
    victims = [
        key for key in event.victims if key in world.workloads and world.workloads[key].assignment is not None
    ]
    peers.reason, peers.message = event.reason, event.message
    state.pending.activate(peers)
    before = peers.queue.waiting
    first = any(_goes_first(workload, world.workloads[key]) for key in victims) or (
        before is not None and before.workload is workload and before.first
    )
    state.pending.wait(peers.queue, Waiting(workload, victims, usage, event.borrowing, first=first))


def _goes_first(workload: Workload, victim: Workload) -> bool:
    """May nobody come before *workload* while it waits for *victim*? See `pending.Waiting.first`."""
    parent = workload.record.parent
    return victim.admitted_at is None or (parent is not None and parent == victim.record.parent)


def _wait_ended(state: SchedulerState, event: PreemptionWaitEnded, _seq: int, _at: Micros) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is not None and workload.peers is not None:
        queue = workload.peers.queue
        if queue.waiting is not None and queue.waiting.workload is workload:
            state.pending.stop_waiting(queue)


def _scanned(state: SchedulerState, event: FlavorScanAdvanced, _seq: int, _at: Micros) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is None or workload.peers is None:
        return
    peers = workload.peers
    state.pending.activate(peers)
    peers.scan = tuple(event.tried)
    queue = peers.queue
    if queue.waiting is not None and queue.waiting.workload is workload:
        state.pending.stop_waiting(queue)


def _blocked(state: SchedulerState, event: BlockedOnPreemptionGates, _seq: int, _at: Micros) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is not None:
        workload.blocked_on_gates = True
        place(state, workload)


def _reason(state: SchedulerState, event: PendingReasonChanged, _seq: int, _at: Micros) -> None:
    """The reason of single workloads is shown by projections; no decision rests on it."""


def _settled(state: SchedulerState, event: TreesSettled, _seq: int, _at: Micros) -> None:
    world, pending = state.world, state.pending
    trees: list[TreeQueues | None] = [
        pending.trees.get(world.tree.cohorts[name]) for name in event.cohorts if name in world.tree.cohorts
    ]
    trees += [pending.queues[name].tree for name in event.cluster_queues if name in pending.queues]
    still_open = [pending.queues[name] for name in event.open if name in pending.queues]
    for tree in trees:
        if tree is not None:
            pending.settled(tree, [queue for queue in still_open if queue.tree is tree])


def _checks(state: SchedulerState, event: ChecksReady | ChecksPending, seq: int, at: Micros) -> None:
    note(state.world, state.lifecycle, event, seq, at)
    workload = state.world.workloads.get(event.workload)
    if workload is not None and workload.preemptions:
        refresh_due(state, workload, seq)


def _note_only(state: SchedulerState, event: Event, seq: int, at: Micros) -> None:
    note(state.world, state.lifecycle, event, seq, at)


_HANDLERS: dict[type[Event], Handler] = {
    Admitted: _admitted,
    AdmissionCheckStatusChanged: _check_status,
    BlockedOnPreemptionGates: _blocked,
    ChecksPending: _checks,
    ChecksReady: _checks,
    ChecksRejected: _note_only,
    ChecksRetry: _note_only,
    ClusterQueueStatusChanged: _queue_status,
    Evicted: _evicted,
    FlavorScanAdvanced: _scanned,
    LocalQueueStatusChanged: _local_status,
    ObjectApplied: _object,
    ObjectDeleted: _object,
    PendingPreemptionsIssued: fold_issued,
    PendingReasonChanged: _reason,
    Preempted: _preempted,
    PreemptionGateClosed: _gate_moved,
    PreemptionGateOpened: _gate_moved,
    PreemptionIssued: _preempting,
    PreemptionWaitEnded: _wait_ended,
    PreemptionsAllowed: fold_allowed,
    QuotaReleased: _released,
    QuotaReserved: _reserved,
    ReclaimablePodsUpdated: _reclaimable,
    RequeueBackoffStarted: _life,
    Requeued: _requeued,
    TreesSettled: _settled,
    VariantUpdated: _variant_updated,
    WorkloadCreated: _created,
    WorkloadDeactivated: _life,
    WorkloadDeleted: _deleted,
    WorkloadFinished: _finished,
    WorkloadPodsReady: _pods_ready,
    WorkloadSliceReplaced: _slice_replaced,
    WorkloadStopped: _note_only,
    WorkloadUpdated: _updated,
    WorkloadsParked: _parked,
}

__all__ = ["fold"]
