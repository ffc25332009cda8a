"""Fold of what others say into the scheduler's state: configuration, workloads that come and go, checks."""

import msgspec

from sluice.core.lifecycle.due import workloads_affected_by
from sluice.core.lifecycle.fold import begin_anew, fold_lifecycle
from sluice.core.workload.charges import counts, shrunk
from sluice.core.workload.variant_events import updated_as_workload
from sluice.core.world.activity import blocks_admission, is_asked_by
from sluice.core.world.preemption_turns import gate_moved
from sluice.core.world.queue_order import effective_priority
from sluice.core.world.reservations import reorder
from sluice.core.world.variants import siblings
from sluice.core.world.workload import Workload
from sluice.core.world.workload_slices import successor, take_place
from sluice.events import checks, slices, variants
from sluice.events.base import Event, Micros
from sluice.events.config import ObjectApplied, ObjectDeleted

from .fold_config import check_changed, fold_object
from .fold_pending_preemptions import fold_allowed
from .marks import Edit, Mark, stands
from .state import Handler, SchedulerState, join_members, leave_members


def _object(state: SchedulerState, event: ObjectApplied | ObjectDeleted, seq: int, _at: Micros) -> None:
    state.config_seq = seq
    fold_object(state, event)
    _forget_preemptions(state)
    for preemptors in state.world.pending_preemptions.by_queue.values():
        state.touched += [(preemptor, Mark.PREEMPTIONS, seq) for preemptor in preemptors.values()]
    state.touched += [
        (each, Mark.DUE, seq) for each in workloads_affected_by(state.world, state.lifecycle, event)
    ]


def _check_status(
    state: SchedulerState, event: checks.AdmissionCheckStatusChanged, seq: int, _at: Micros
) -> None:
    check = state.world.checks.get(event.check)
    if check is not None and check.active != event.active:
        check.active = event.active
        state.config_seq = seq
        check_changed(state, event.check)
        _forget_preemptions(state)


def _forget_preemptions(state: SchedulerState) -> None:
    circles = state.world.circles
    circles.clear()
    for name in circles.refused:
        state.edit(name, Edit.REFUSED)
    circles.refused.clear()


def _created(state: SchedulerState, event: slices.WorkloadCreated, seq: int, _at: Micros) -> None:
    record = event.workload
    key = record.key
    parent = record.parent
    if key in state.world.workloads or (parent is not None and parent not in state.world.workloads):
        return  # its parent has gone since
    priority = effective_priority(record, state.world.config)
    workload = Workload(record, key, record.uid, priority, active=record.active)
    workload.changed_by = seq
    state.world.workloads[key] = workload
    join_members(state, workload)
    if record.replaces is not None:
        state.world.replacements[record.replaces] = key
    if parent is not None:
        state.world.families.setdefault(parent, {})[key] = workload
        # Where its variants queue instead; what it has kept for them it gives up.
        state.touched.append((state.world.workloads[parent], Mark.QUEUES | Mark.DUE, seq))
    state.touched.append((workload, Mark.QUEUES | Mark.INPUT if parent is None else Mark.QUEUES, seq))


def _updated(state: SchedulerState, event: slices.WorkloadUpdated, seq: int, at: Micros) -> None:
    world = state.world
    workload = world.workloads.get(event.workload)
    if workload is None:
        return
    stood, what = stands(workload), Mark.ASKS | Mark.DUE
    leave_members(state, workload)
    record = workload.record = msgspec.structs.replace(workload.record, **event.changes)
    join_members(state, workload)
    workload.equivalence = ""
    if workload.assignment is None or event.maximum_execution_time_s is not None:
        workload.changed_by = seq  # other changes are not what ends what has quota, once its time has come
    priority = effective_priority(record, world.config)
    if priority != workload.priority:
        if priority < workload.priority and workload.assignment is not None:
            what |= Mark.LOWERED
        workload.priority = priority
        reorder(world, workload)
    if event.pod_sets is not None:
        workload.generation += 1
        what |= Mark.SLICE
        if workload.assignment is not None:
            _shrink(workload)
            what |= Mark.RESIZED | Mark.TURN
    fold_lifecycle(workload, event, at)
    if event.active is not None:
        # Switched on again, it is looked at anew: the variant-controller has forgotten the verdict (CA11).
        workload.blocked_on_gates = False
        if event.active:
            for variant in world.families.get(workload.key, {}).values():
                begin_anew(variant)
    if event.active is None or stood != stands(workload):
        what |= Mark.STANDS
    if record.parent is None:  # variants are changed for what they do, too
        what |= Mark.INPUT
    state.touched.append((workload, what, seq))


def _parent_deactivated(
    state: SchedulerState, event: variants.ParentDeactivated, seq: int, at: Micros
) -> None:
    """Nobody queues it now, but it may be no parent later."""
    workload = state.world.workloads.get(event.workload)
    if workload is not None:
        fold_lifecycle(workload, event, at)
        state.touched.append((workload, Mark.DUE | Mark.QUEUES, seq))


def _variant_updated(state: SchedulerState, event: variants.VariantUpdated, seq: int, at: Micros) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is not None and event.preference is not None:
        workload.record = msgspec.structs.replace(workload.record, preference=event.preference)
        workload.identity = ""
    if workload is not None and event.allowed_flavors is not None:
        workload.record = msgspec.structs.replace(workload.record, allowed_flavors=event.allowed_flavors)
    _updated(state, updated_as_workload(event), seq, at)


def _gate_moved(
    state: SchedulerState,
    event: variants.PreemptionGateOpened | variants.PreemptionGateClosed,
    seq: int,
    _at: Micros,
) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is None:
        return
    gates = [gate for gate in workload.open_gates if gate != event.gate]
    if isinstance(event, variants.PreemptionGateOpened):
        gates.append(event.gate)
    workload.open_gates = tuple(sorted(gates))
    workload.blocked_on_gates = False
    workload.changed_by = seq
    workload.tries = isinstance(event, variants.PreemptionGateOpened) and workload.assignment is None
    gate_moved(workload, siblings(state.world, workload), event)
    # Whom it has preempted by then goes for it: who it is whose turn is next has others to go.
    waits = workload.peers is not None and workload.peers.waiting is not None
    workload.waits_on = waits and isinstance(event, variants.PreemptionGateClosed) and event.spent
    what = Mark.TURN if workload.waits_on else Mark.ASKS | Mark.TURN
    state.touched.append((workload, what | Mark.DUE if workload.preemptions else what, seq))


def _reclaimable(state: SchedulerState, event: slices.ReclaimablePodsUpdated, seq: int, _at: Micros) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is None:
        return
    workload.reclaimable = dict(event.pods)
    workload.changed_by = seq
    if workload.assignment is None:
        state.touched.append((workload, Mark.ASKS, seq))
    else:
        _shrink(workload)
        state.touched.append((workload, Mark.RESIZED | Mark.TURN | Mark.INPUT, seq))


def _shrink(workload: Workload) -> None:
    """Have a reservation for the pods that are left only (SC7, WS3)."""
    assert workload.assignment is not None
    workload.assignment = shrunk(workload.assignment, counts(workload.record.pod_sets))


def _pods_ready(state: SchedulerState, event: slices.WorkloadPodsReady, seq: int, at: Micros) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is None:
        return
    had_them = workload.pods_ready_at is not None
    fold_lifecycle(workload, event, at)
    if had_them and workload.pods_lost_at is not None:
        workload.changed_by = seq  # from here on its recovery is timed
    config = state.world.config
    what = Mark.DUE if config.wait_for_pods_ready.enable else 0
    if event.ready:
        what |= Mark.READY
    elif blocks_admission(config) and workload.admitted_at is not None:
        state.not_ready[workload.key] = None
    state.touched.append((workload, what, seq))


def _ended(
    state: SchedulerState, event: slices.WorkloadFinished | slices.WorkloadDeleted, seq: int, at: Micros
) -> None:
    workload = state.world.workloads.pop(event.workload, None)
    if workload is not None:
        after = successor(state.world, event.workload) if state.world.replacements else None
        if after is not None and after.assignment is None:
            take_place(after, workload, at)
        fold_lifecycle(workload, event, at)
        state.touched.append((workload, Mark.ENDED, seq))


def _checks(
    state: SchedulerState, event: checks.ChecksReady | checks.ChecksPending, seq: int, at: Micros
) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is not None:
        fold_lifecycle(workload, event, at)
        state.touched.append((workload, Mark.DUE | Mark.PREEMPTIONS | Mark.STANDS, seq))


def _checks_failed(
    state: SchedulerState, event: checks.ChecksRejected | checks.ChecksRetry, seq: int, at: Micros
) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is not None and is_asked_by(state.world, workload, event.checks):
        fold_lifecycle(workload, event, at)
        state.touched.append((workload, Mark.DUE, seq))


def _stopped(state: SchedulerState, event: slices.WorkloadStopped, seq: int, at: Micros) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is None:
        return
    fold_lifecycle(workload, event, at)
    by_itself = workload.assignment is not None and workload.evicted_at is None
    state.touched.append((workload, Mark.DUE | Mark.INPUT if by_itself else Mark.DUE, seq))


INPUT_FOLDS: dict[type[Event], Handler] = {
    checks.AdmissionCheckStatusChanged: _check_status,
    checks.ChecksPending: _checks,
    checks.ChecksReady: _checks,
    checks.ChecksRejected: _checks_failed,
    checks.ChecksRetry: _checks_failed,
    ObjectApplied: _object,
    ObjectDeleted: _object,
    variants.ParentDeactivated: _parent_deactivated,
    variants.PreemptionGateClosed: _gate_moved,
    variants.PreemptionGateOpened: _gate_moved,
    checks.PreemptionsAllowed: fold_allowed,
    slices.ReclaimablePodsUpdated: _reclaimable,
    variants.VariantUpdated: _variant_updated,
    slices.WorkloadCreated: _created,
    slices.WorkloadDeleted: _ended,
    slices.WorkloadFinished: _ended,
    slices.WorkloadPodsReady: _pods_ready,
    slices.WorkloadStopped: _stopped,
    slices.WorkloadUpdated: _updated,
}
