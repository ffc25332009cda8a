"""What follows for pending preemptions (AC6) from who is to go for them, has gone, or need not go."""

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


def targets_chosen(state: SchedulerState, claimant: Workload, cause: int) -> None:
    """Who is to go for *claimant* was chosen."""
    if claimant.victims:
        touch_victims(state, claimant)
        # They can be larger than what is needed of them: the rest is free as planned (see `promises`).
        state.pending.wake(state.pending.queues[claimant.cluster_queue], cause)
    refresh_due(state, claimant, cause)
    if claimant.preemptions == ISSUED and not claimant.victims:
        _end(state, claimant, cause)


def victim_gone(state: SchedulerState, key: WorkloadKey, cause: int) -> None:
    """The workload has no quota any more: who waits for it waits for one less."""
    for claimant in state.world.claims.gone(key):
        if claimant.preemptions == ISSUED and not claimant.victims:
            _end(state, claimant, cause)


def _end(state: SchedulerState, claimant: Workload, cause: int) -> None:
    """Nobody is in its way any more: the reservation is one like all others."""
    world = state.world
    world.claims.discard(claimant)
    recharge(world, claimant)
    state.touched.append((claimant, Mark.DUE | Mark.STANDS, cause))
    after = successor(world, claimant.key) if world.replacements else None
    if after is not None:
        state.touched.append((after, Mark.QUEUES, cause))


def quota_freed(state: SchedulerState, tree: CohortQueues, cause: int) -> None:
    """In *tree* there is more: who waits to preempt there may need nobody's going any more."""
    claims = state.world.claims
    for name in sorted(tree.members.keys() & claims.by_queue.keys()):
        for claimant in claims.by_queue[name].values():
            if claimant.key not in claims.due or not may_issue(state.world, claimant):
                refresh_due(state, claimant, cause)


def refresh_due(state: SchedulerState, claimant: Workload, cause: int) -> None:
    """Note whether pending preemptions may be issued now, or perhaps need nobody to go."""
    due = state.world.claims.due
    if may_issue(state.world, claimant) or needs_nobody(state.world, claimant):
        due[claimant.key] = cause
    else:
        due.pop(claimant.key, None)
