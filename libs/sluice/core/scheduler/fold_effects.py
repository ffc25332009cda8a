"""What a changed workload brings with it: to its family, its successor, and those whom freed quota wakes.

The folds of single events are made of these.
"""

from collections.abc import Callable, Iterable
from typing import Any

from sluice.core.lifecycle.due import forget, look
from sluice.core.lifecycle.fold import execution_s
from sluice.core.queueing.request_index import ANY
from sluice.core.workload.reasons import PODS_READY_TIMEOUT
from sluice.core.world.charging import recharge
from sluice.core.world.reservations import release
from sluice.core.world.variants import siblings
from sluice.core.world.workload import Workload
from sluice.core.world.workload_slices import successor
from sluice.events.base import Micros, WorkloadKey

from . import fold_preemption_history
from .fold_pending_preemptions import quota_freed, unclaim, victim_gone
from .placement import place, place_siblings
from .state import SchedulerState

Handler = Callable[[SchedulerState, Any, int, Micros], None]
"""Folds one event: state, event, sequence of its message, when it was decided."""


def join_members(state: SchedulerState, workload: Workload) -> None:
    """Note a workload among those of its local queue."""
    local = _local_key(workload)
    members = state.members.get(local)
    if members is None:
        members = state.members[local] = {}
    members[workload.key] = None


def leave_members(state: SchedulerState, workload: Workload) -> None:
    """Take a workload off those of its local queue."""
    local = _local_key(workload)
    members = state.members.get(local)
    if members is not None:
        members.pop(workload.key, None)
        if not members:
            del state.members[local]


def remove_workload(state: SchedulerState, key: WorkloadKey, seq: int, at: Micros) -> None:
    """Remove a workload that has finished or was deleted, and its variants."""
    workload = state.world.workloads.pop(key, None)
    if workload is None:
        return
    state.pending.remove(workload)
    if workload.assignment is not None:
        unclaim(state, workload)
        release(state.world, workload)
        workload.assignment = None
        charge_anew(state, workload, seq)
        wake_tree(state, workload, seq, freed_flavors(state, workload))
        fold_preemption_history.changed(state, workload, seq)
    elif workload.record.parent is None:
        fold_preemption_history.gone(state, key, seq)
    forget_workload(state, workload)
    family_moves(state, workload, seq, at)
    successor_moves(state, key, seq, at)


def forget_workload(state: SchedulerState, workload: Workload) -> None:
    """Take a workload that is none any more off all lists but its family's."""
    leave_members(state, workload)
    ready_or_gone(state, workload.key)
    world = state.world
    old = workload.record.replaces
    if old is not None and world.replacements.get(old) == workload.key:
        del world.replacements[old]


def charge_anew(state: SchedulerState, workload: Workload, seq: int) -> None:
    """Charge what *workload*, and the slice that it is to replace, need now; wake who could use the rest."""
    record = workload.record
    alone = (
        workload.assignment is None
        and record.replaces is None
        and record.parent is None
        and not state.world.replacements
    )
    if alone:
        return
    if recharge(state.world, workload):
        wake_tree(state, workload, seq)
    if record.parent is not None:
        place_siblings(state, workload)


def wake_tree(state: SchedulerState, workload: Workload, cause: int, flavors: Iterable[str] = (ANY,)) -> None:
    """Quota of *workload* was freed: tell its tree, and the preemptor that waits for it."""
    queue = state.pending.queues.get(workload.cluster_queue)
    if queue is not None:
        state.pending.wake(queue, cause, flavors)
    if workload.assignment is None:
        state.pending.victim_gone(workload.key)
        if state.world.claims:
            victim_gone(state, workload.key, cause)
    if state.world.claims and queue is not None and queue.tree is not None:
        quota_freed(state, queue.tree.members, cause)


def freed_flavors(state: SchedulerState, workload: Workload) -> Iterable[str]:
    """Return the flavors that a workload which gives all of its quota up makes room in; ANY: perhaps in all.

    What may be preempted by fair share, and what is promised to whom, depends on more than one flavor.
    """
    world = state.world
    if world.claims or world.config.fair_sharing.enable or not workload.usage:
        return (ANY,)
    return [flavor for flavor, _ in workload.usage]


def family_moves(state: SchedulerState, workload: Workload, seq: int, at: Micros) -> None:
    """No variant outlives its parent, and what may become of one depends on its siblings."""
    families = state.world.families
    for variant in list(families.get(workload.key, ())):
        forget(state.lifecycle, variant)
        remove_workload(state, variant, seq, at)
    parent = workload.record.parent
    if parent is not None and (family := families.get(parent)) is not None:
        family.pop(workload.key, None)
        if (former := state.world.workloads.get(parent)) is not None:
            # The job has run for as long, whatever becomes of its variants (SC7).
            former.past_execution_s += execution_s(workload, at)
        if not family:
            del families[parent]
            if former is not None:
                place(state, former)  # which may queue itself now
        for other in family.values():
            place(state, other)
            look(state.world, state.lifecycle, other, seq, state.at)


def successor_moves(state: SchedulerState, key: WorkloadKey, seq: int, at: Micros) -> None:
    """What becomes of a slice decides where the one waits that is to replace it."""
    workload = successor(state.world, key) if state.world.replacements else None
    if workload is None:
        return
    workload.changed_by = max(workload.changed_by, seq)
    if workload.assignment is None:
        place(state, workload, changed=True)
    # Queued, too: it may ask for no more than the other one has now, and then it ends (`slicing.withdrawal`).
    look(state.world, state.lifecycle, workload, seq, at)


def tell_siblings(state: SchedulerState, workload: Workload, cause: int, at: Micros) -> None:
    """What may become of a variant depends on which of its siblings is admitted (CA10)."""
    if workload.record.parent is None:
        return
    place_siblings(state, workload)
    for other in siblings(state.world, workload):
        if other.assignment is not None:
            look(state.world, state.lifecycle, other, cause, at)


def stands(workload: Workload) -> tuple[bool, bool, bool, bool, bool]:
    """Return what siblings depend on: see `variants.standing`, `backs_off` and `yields`."""
    return (
        workload.assignment is not None,
        workload.admitted_at is not None,
        workload.evicted_at is not None,
        workload.held_for == PODS_READY_TIMEOUT and workload.active,
        (workload.tries or workload.blocked_on_gates) and workload.active,
    )


def ready_or_gone(state: SchedulerState, key: WorkloadKey) -> None:
    """One less to wait for: when it was the last, admission is open again (waitForPodsReady)."""
    if key in state.not_ready:
        del state.not_ready[key]
        if not state.not_ready:
            for name in sorted(state.pending.queues):
                state.pending.wake(state.pending.queues[name])


def _local_key(workload: Workload) -> str:
    return f"{workload.record.namespace}/{workload.record.queue_name}"


__all__ = [
    "Handler",
    "charge_anew",
    "family_moves",
    "forget_workload",
    "freed_flavors",
    "join_members",
    "leave_members",
    "ready_or_gone",
    "remove_workload",
    "stands",
    "successor_moves",
    "tell_siblings",
    "wake_tree",
]
