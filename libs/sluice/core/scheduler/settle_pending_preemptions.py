"""Consequences for pending preemptions (AC6) of targets that are chosen, have gone, or need not go."""

from sluice.core.queueing.pending_queue import CohortQueues
from sluice.core.world.charging import recharge
from sluice.core.world.pending_preemptions import ISSUED
from sluice.core.world.preemption_rules import may_issue, needs_nobody
from sluice.core.world.workload import Workload
from sluice.core.world.workload_slices import successor
from sluice.events.base import WorkloadKey

from .fold_pending_preemptions import touch_victims
from .marks import Mark
from .state import SchedulerState


def targets_chosen(state: SchedulerState, preemptor: Workload, cause: int) -> None:
    """Who is to go for *preemptor* was chosen."""
    if preemptor.victims:
        touch_victims(state, preemptor)
        # They can be larger than what is needed of them: the rest is free as planned (see `overcommit`).
        state.pending.wake(state.pending.queues[preemptor.cluster_queue], cause)
    refresh_due(state, preemptor, cause)
    if preemptor.preemptions == ISSUED and not preemptor.victims:
        _end(state, preemptor, cause)


def victim_gone(state: SchedulerState, key: WorkloadKey, cause: int) -> None:
    """The workload has no quota any more: who waits for it waits for one less."""
    for preemptor in state.world.pending_preemptions.gone(key):
        if preemptor.preemptions == ISSUED and not preemptor.victims:
            _end(state, preemptor, cause)


def _end(state: SchedulerState, preemptor: Workload, cause: int) -> None:
    """Nobody is in its way any more: the reservation is one like all others."""
    world = state.world
    world.pending_preemptions.discard(preemptor)
    recharge(world, preemptor)
    state.touched.append((preemptor, Mark.DUE | Mark.STANDS, cause))
    after = successor(world, preemptor.key) if world.replacements else None
    if after is not None:
        state.touched.append((after, Mark.QUEUES, cause))


def quota_freed(state: SchedulerState, tree: CohortQueues, cause: int) -> None:
    """In *tree* there is more: who waits to preempt there may need nobody's going any more."""
    preemptions = state.world.pending_preemptions
    for name in sorted(tree.members.keys() & preemptions.by_queue.keys()):
        for preemptor in preemptions.by_queue[name].values():
            if preemptor.key not in preemptions.due or not may_issue(state.world, preemptor):
                refresh_due(state, preemptor, cause)


def refresh_due(state: SchedulerState, preemptor: Workload, cause: int) -> None:
    """Note whether pending preemptions may be issued now, or perhaps need nobody to go."""
    due = state.world.pending_preemptions.due
    if may_issue(state.world, preemptor) or needs_nobody(state.world, preemptor):
        due[preemptor.key] = cause
    else:
        due.pop(preemptor.key, None)
