"""Fold of what others say into the scheduler's state: configuration, workloads that come and go, checks."""

import msgspec

from sluice.core.cycle.admission import blocks_admission
from sluice.core.lifecycle.due import look, note
from sluice.core.lifecycle.fold import begin_anew
from sluice.core.workload.charges import scaled
from sluice.core.workload.variant_events import updated_as_workload
from sluice.core.world.queue_order import effective_priority
from sluice.core.world.reservations import reorder
from sluice.core.world.variants import siblings
from sluice.core.world.workload import Workload
from sluice.events.base import Event, Micros
from sluice.events.checks import (
    AdmissionCheckStatusChanged,
    ChecksPending,
    ChecksReady,
    ChecksRejected,
    ChecksRetry,
    PreemptionsAllowed,
)
from sluice.events.config import ObjectApplied, ObjectDeleted
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

from . import fold_preemption_history
from .fold_config import check_changed, fold_object
from .fold_effects import (
    Handler,
    charge_anew,
    freed_flavors,
    join_members,
    leave_members,
    ready_or_gone,
    remove_workload,
    stands,
    successor_moves,
    tell_siblings,
    wake_tree,
)
from .fold_pending_preemptions import fold_allowed, refresh_all, refresh_due
from .placement import place, place_siblings
from .state import SchedulerState


def _object(state: SchedulerState, event: ObjectApplied | ObjectDeleted, seq: int, at: Micros) -> None:
    state.config_seq = seq
    fold_object(state, event)
    fold_preemption_history.all_changed(state, seq)
    if state.world.claims:
        refresh_all(state, seq)
    note(state.world, state.lifecycle, event, seq, at)


def _check_status(state: SchedulerState, event: AdmissionCheckStatusChanged, seq: int, _at: Micros) -> None:
    check = state.world.checks.get(event.check)
    if check is not None and check.active != event.active:
        check.active = event.active
        state.config_seq = seq
        check_changed(state, event.check)
        fold_preemption_history.all_changed(state, seq)


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
    join_members(state, workload)
    if record.replaces is not None:
        state.world.replacements[record.replaces] = key
    if parent is not None:
        state.world.families.setdefault(parent, {})[key] = workload
        place(state, state.world.workloads[parent])  # where its variants queue instead
    place(state, workload)
    if parent is None:
        fold_preemption_history.changed(state, workload, seq)


def _edited(state: SchedulerState, event: WorkloadUpdated, seq: int, at: Micros) -> None:
    _updated(state, event, seq, at)
    workload = state.world.workloads.get(event.workload)
    if workload is not None and workload.record.parent is None:  # variants are changed for what they do, too
        fold_preemption_history.changed(state, workload, seq)


def _updated(state: SchedulerState, event: WorkloadUpdated, seq: int, at: Micros) -> None:
    world = state.world
    workload = world.workloads.get(event.workload)
    if workload is None:
        return
    changes = event.changes
    stood = stands(workload)
    leave_members(state, workload)
    record = workload.record = msgspec.structs.replace(workload.record, **changes)
    join_members(state, workload)
    workload.equivalence = ""
    workload.changed_by = seq
    priority = effective_priority(record, world.config)
    if priority != workload.priority:
        lowered = priority < workload.priority
        workload.priority = priority
        reorder(world, workload)
        if lowered and workload.assignment is not None:
            # Nothing is free, but it may be preempted by who it came before.
            wake_tree(state, workload, seq, freed_flavors(state, workload))
    if event.pod_sets is not None and workload.assignment is not None:
        _shrink(state, workload, seq)
    note(world, state.lifecycle, event, seq, at)
    if event.pod_sets is not None and world.replacements:
        successor_moves(state, workload.key, seq, at)
    if event.active is not None:
        # Switched on again, it is looked at anew: the variant-controller has forgotten the verdict (CA11).
        workload.blocked_on_gates = False
        if event.active:
            for variant in world.families.get(workload.key, {}).values():
                begin_anew(variant)
    place(state, workload, changed=True)
    if event.active is None or stood != stands(workload):
        tell_siblings(state, workload, seq, at)


def _variant_updated(state: SchedulerState, event: VariantUpdated, seq: int, at: Micros) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is not None and event.preference is not None:
        workload.record = msgspec.structs.replace(workload.record, preference=event.preference)
        workload.identity = ""
    if workload is not None and event.allowed_flavors is not None:
        workload.record = msgspec.structs.replace(workload.record, allowed_flavors=event.allowed_flavors)
    _updated(state, updated_as_workload(event), seq, at)


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
    _take_turns(state, workload, event)
    place(state, workload, changed=True)
    if workload.preemptions:
        look(state.world, state.lifecycle, workload, seq, state.at)
    place_siblings(state, workload)


def _take_turns(
    state: SchedulerState, workload: Workload, event: PreemptionGateOpened | PreemptionGateClosed
) -> None:
    """Note whose turn it is to preempt, and who has had it: as the variant-controller reckons it (CA11)."""
    if isinstance(event, PreemptionGateOpened):
        begins = workload.spent  # all have had their turn: the next round
        workload.tries = workload.assignment is None
    else:
        begins = not event.spent
        workload.tries = False
        workload.spent = event.spent
    if begins:
        workload.spent = False
        for other in siblings(state.world, workload):
            other.spent = False


def _reclaimable(state: SchedulerState, event: ReclaimablePodsUpdated, seq: int, _at: Micros) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is None:
        return
    workload.reclaimable = dict(event.pods)
    workload.changed_by = seq
    if workload.assignment is not None:
        _shrink(state, workload, seq)
        fold_preemption_history.changed(state, workload, seq)
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
    charge_anew(state, workload, seq)


def _pods_ready(state: SchedulerState, event: WorkloadPodsReady, seq: int, at: Micros) -> None:
    note(state.world, state.lifecycle, event, seq, at)
    if event.ready:
        ready_or_gone(state, event.workload)
    elif blocks_admission(state.world.config):
        workload = state.world.workloads.get(event.workload)
        if workload is not None and workload.admitted_at is not None:
            state.not_ready[workload.key] = None


def _finished(state: SchedulerState, event: WorkloadFinished, seq: int, at: Micros) -> None:
    note(state.world, state.lifecycle, event, seq, at)
    remove_workload(state, event.workload, seq, at)


def _deleted(state: SchedulerState, event: WorkloadDeleted, seq: int, at: Micros) -> None:
    note(state.world, state.lifecycle, event, seq, at)
    remove_workload(state, event.workload, seq, at)


def _checks(state: SchedulerState, event: ChecksReady | ChecksPending, seq: int, at: Micros) -> None:
    note(state.world, state.lifecycle, event, seq, at)
    workload = state.world.workloads.get(event.workload)
    if workload is not None and workload.preemptions:
        refresh_due(state, workload, seq)


def _stopped(state: SchedulerState, event: WorkloadStopped, seq: int, at: Micros) -> None:
    note(state.world, state.lifecycle, event, seq, at)
    workload = state.world.workloads.get(event.workload)
    if workload is not None and workload.assignment is not None and workload.evicted_at is None:
        fold_preemption_history.changed(state, workload, seq)


def _note_only(state: SchedulerState, event: Event, seq: int, at: Micros) -> None:
    note(state.world, state.lifecycle, event, seq, at)


INPUT_FOLDS: dict[type[Event], Handler] = {
    AdmissionCheckStatusChanged: _check_status,
    ChecksPending: _checks,
    ChecksReady: _checks,
    ChecksRejected: _note_only,
    ChecksRetry: _note_only,
    ObjectApplied: _object,
    ObjectDeleted: _object,
    PreemptionGateClosed: _gate_moved,
    PreemptionGateOpened: _gate_moved,
    PreemptionsAllowed: fold_allowed,
    ReclaimablePodsUpdated: _reclaimable,
    VariantUpdated: _variant_updated,
    WorkloadCreated: _created,
    WorkloadDeleted: _deleted,
    WorkloadFinished: _finished,
    WorkloadPodsReady: _pods_ready,
    WorkloadStopped: _stopped,
    WorkloadUpdated: _edited,
}

__all__ = ["INPUT_FOLDS"]
