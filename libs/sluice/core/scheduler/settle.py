"""Consequences of an event for what it has touched: once for each event, in one order.

Folds write fields of records and mark them (`marks`). What a mark brings with it stands here, and nowhere
else, in the order in which one thing rests on another. What was edited of queues comes first
(`settle_config`), then

1. charges: a reservation ends, or is charged anew with those beside it; who could use what is free is woken
2. lists: who waits for its pods; what is no workload any more is on none
3. what is due for it, and when
4. the queue that it belongs in
5. its family: its variants, or its siblings
6. the slice that is to replace it
7. its pending preemptions
8. the memory of past preemptions
"""

from collections.abc import Iterable
from typing import Final

from sluice.core.lifecycle.due import forget, reindex
from sluice.core.lifecycle.fold import execution_us
from sluice.core.queueing.request_index import ANY
from sluice.core.world.charging import recharge
from sluice.core.world.model import World
from sluice.core.world.reservations import release
from sluice.core.world.variants import siblings
from sluice.core.world.workload import Workload
from sluice.core.world.workload_slices import successor
from sluice.events.base import Micros

from . import settle_preemption_history
from .fold_pending_preemptions import withdraw
from .marks import Mark
from .placement import place, place_all
from .settle_config import settle_config
from .settle_pending_preemptions import quota_freed, refresh_due, targets_chosen, victim_gone
from .state import SchedulerState, leave_members

_OWN_CHARGE: Final = Mark.RELEASED | Mark.RESIZED | Mark.FREED | Mark.LOWERED
_SHARED_CHARGE: Final = Mark.RESERVED | Mark.SHARES
_PLACE: Final = Mark.QUEUES | Mark.ASKS
_FAMILY: Final = Mark.GONE | Mark.VARIANTS | Mark.TURN | Mark.STANDS
_SELDOM: Final = Mark.TARGETS | Mark.PREEMPTIONS | Mark.INPUT


def settle(state: SchedulerState, at: Micros) -> None:
    """Look at whatever the event of time *at* has touched, in the order in which it was marked."""
    if state.edited or state.moved:
        settle_config(state)
    world, touched = state.world, state.touched
    for workload, what, cause in touched:  # variants of what is gone are added to the end
        had_quota = workload.assignment is not None
        if what & _OWN_CHARGE or (what & _SHARED_CHARGE and _has_company(world, workload)):
            _charge(state, workload, what, cause)
        if what & Mark.READY and workload.key in state.not_ready:
            _ready(state, workload, cause)
        if what & Mark.GONE:
            _leave_lists(state, workload)
        if what & Mark.DUE:
            reindex(world, state.lifecycle, workload, cause, at)
        if what & _PLACE:
            place(state, workload, changed=what & Mark.ASKS != 0)
        if what & _FAMILY and world.families:
            _move_family(state, workload, what, cause, at)
        if what & Mark.SLICE and world.replacements:
            _move_successor(state, workload, cause, at)
        if what & _SELDOM:
            if what & Mark.TARGETS and workload.preemptions:
                targets_chosen(state, workload, cause)
            if what & Mark.PREEMPTIONS and workload.preemptions:
                refresh_due(state, workload, cause)
            if what & Mark.INPUT:
                _forget_preemptions(state, workload, cause, had_quota or not what & Mark.GONE)
    touched.clear()


# 1. Charges


def _charge(state: SchedulerState, workload: Workload, what: int, cause: int) -> None:
    world, record = state.world, workload.record
    if what & Mark.RELEASED:
        if workload.assignment is None:
            return
        if workload.preemptions:
            withdraw(state, workload)
        release(world, workload)
        workload.assignment = None
    if what & Mark.SHARES:
        others = record.parent is not None
    else:
        others = what & Mark.RESIZED != 0 or _has_company(world, workload)
    # What a new reservation shares with others was not free before it.
    freed = others and recharge(world, workload) and not what & Mark.RESERVED
    if freed or what & Mark.FREED:
        _wake(state, workload, cause, (ANY,))
    if what & (Mark.RELEASED | Mark.LOWERED):
        _wake(state, workload, cause, _flavors(state, workload))
    if what & Mark.RELEASED:
        workload.usage = {}


def _has_company(world: World, workload: Workload) -> bool:
    """May a sibling, or a slice beside it, be charged for what it needs, or it for what they need?"""
    record = workload.record
    return record.parent is not None or record.replaces is not None or bool(world.replacements)


def _wake(state: SchedulerState, workload: Workload, cause: int, flavors: Iterable[str]) -> None:
    """Quota of *workload* was freed: tell its tree, and the preemptor that waits for it."""
    pending, preemptions = state.pending, state.world.pending_preemptions
    queue = pending.queues.get(workload.cluster_queue)
    if queue is not None:
        pending.wake(queue, cause, flavors)
    if workload.assignment is None:
        pending.victim_gone(workload.key)
    if preemptions:
        if workload.assignment is None:
            victim_gone(state, workload.key, cause)
        if queue is not None and queue.tree is not None:
            quota_freed(state, queue.tree, cause)


def _flavors(state: SchedulerState, workload: Workload) -> Iterable[str]:
    """Return the flavors that a workload which gives all of its quota up makes room in; ANY: perhaps in all.

    What may be preempted by fair share, and what is promised to whom, depends on more than one flavor.
    """
    world = state.world
    if world.pending_preemptions or world.config.fair_sharing.enable or not workload.usage:
        return (ANY,)
    return [flavor for flavor, _ in workload.usage]


# 2. Lists


def _ready(state: SchedulerState, workload: Workload, cause: int) -> None:
    """One less to wait for: when it was the last, admission is open again (waitForPodsReady)."""
    del state.not_ready[workload.key]
    if not state.not_ready:
        state.pending.admission_open(cause)


def _leave_lists(state: SchedulerState, workload: Workload) -> None:
    state.pending.remove(workload)
    forget(state.lifecycle, workload.key)
    leave_members(state, workload)
    replacements, old = state.world.replacements, workload.record.replaces
    if old is not None and replacements.get(old) == workload.key:
        del replacements[old]


# 5. Family


def _move_family(state: SchedulerState, workload: Workload, what: int, cause: int, at: Micros) -> None:
    """What may become of a variant depends on its parent, and on what its siblings have (CA10)."""
    world = state.world
    variants = world.families.get(workload.key)
    if what & Mark.GONE:
        for key, variant in (variants or {}).items():
            # None outlives its parent.
            del world.workloads[key]
            state.touched.append((variant, Mark.ENDED, cause))
        _leave_family(state, workload, cause, at)
        return
    if variants is not None and what & Mark.VARIANTS:
        place_all(state, variants.values())
    if workload.record.parent is not None and what & (Mark.TURN | Mark.STANDS):
        others = siblings(world, workload)
        place_all(state, others)
        if what & Mark.STANDS:
            for other in others:
                if other.assignment is not None:
                    reindex(world, state.lifecycle, other, cause, at)


def _leave_family(state: SchedulerState, workload: Workload, cause: int, at: Micros) -> None:
    families, parent = state.world.families, workload.record.parent
    family = families.get(parent) if parent is not None else None
    if parent is None or family is None:
        return
    family.pop(workload.key, None)
    if not family:
        del families[parent]
    former = state.world.workloads.get(parent)
    if former is None:
        return  # all of them go
    # The job has run for as long, whatever becomes of its variants (SC7).
    former.past_execution_us += execution_us(workload, at)
    if not family:
        place(state, former)  # which may queue itself now
    for other in family.values():
        place(state, other)
        reindex(state.world, state.lifecycle, other, cause, state.at)


# 6. Slices


def _move_successor(state: SchedulerState, workload: Workload, cause: int, at: Micros) -> None:
    """What becomes of a slice decides where the one waits that is to replace it."""
    after = successor(state.world, workload.key)
    if after is None:
        return
    after.changed_by = max(after.changed_by, cause)
    if after.assignment is None:
        place(state, after, changed=True)
    # Queued, too: it may ask for no more than the other one has now, and then it ends (`withdrawal`).
    reindex(state.world, state.lifecycle, after, cause, at)


# 8. The memory of past preemptions


def _forget_preemptions(state: SchedulerState, workload: Workload, cause: int, held: bool) -> None:
    if held:
        settle_preemption_history.changed(state, workload, cause)
    elif workload.record.parent is None:
        settle_preemption_history.gone(state, workload.key, cause)
