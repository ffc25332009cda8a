"""Fold of what becomes of pending preemptions (AC6). See `claims`."""

from collections.abc import Collection, Iterable

from sluice.core.world.charging import recharge
from sluice.core.world.pending_preemptions import ISSUED, PENDING
from sluice.core.world.preemption_rules import may_issue, needs_nobody
from sluice.core.world.workload import Workload
from sluice.core.world.workload_slices import successor
from sluice.events.base import Micros, WorkloadKey
from sluice.events.checks import PreemptionsAllowed
from sluice.events.scheduler import PendingPreemptionsIssued, QuotaReserved

from .marks import Mark
from .state import SchedulerState


def claim(state: SchedulerState, workload: Workload, event: QuotaReserved) -> None:
    """Quota was reserved with preemptions pending."""
    world = state.world
    workload.preemptions = PENDING
    workload.victims = _holding(state, event.pending_victims)
    world.claims.put(workload)
    _touch(state, workload)
    _wake(state, workload, event.cause)
    refresh_due(state, workload, event.cause)


def unclaim(state: SchedulerState, workload: Workload) -> None:
    """The workload waits for nobody any more, e.g. as its reservation has ended."""
    if workload.preemptions:
        _touch(state, workload)
        state.world.claims.discard(workload)


def victim_gone(state: SchedulerState, key: WorkloadKey, cause: int) -> None:
    """The workload has no quota any more: who waits for it waits for one less."""
    world = state.world
    for claimant in world.claims.gone(key):
        if claimant.preemptions == ISSUED and not claimant.victims:
            _end(state, claimant, cause)


def _end(state: SchedulerState, claimant: Workload, cause: int) -> None:
    """Nobody is in its way any more: the reservation is one like all others."""
    world = state.world
    world.claims.discard(claimant)
    recharge(world, claimant)
    state.touched.append((claimant, Mark.DUE | Mark.TURN, cause))
    after = successor(world, claimant.key) if world.replacements else None
    if after is not None:
        state.touched.append((after, Mark.QUEUES, cause))


def quota_freed(state: SchedulerState, queues: Collection[str], cause: int) -> None:
    """In the tree of *queues* there is more: who waits to preempt there may need nobody's going any more."""
    claims = state.world.claims
    by_queue = claims.by_queue
    # Other trees are no concern of this one: it must not cost more where they have many claims.
    for name in queues if len(queues) < len(by_queue) else by_queue:
        if name in by_queue and name in queues:
            for claimant in by_queue[name].values():
                if claimant.key not in claims.due or not may_issue(state.world, claimant):
                    refresh_due(state, claimant, cause)


def victim_replaced(state: SchedulerState, old: WorkloadKey, new: WorkloadKey) -> None:
    """A new slice has taken the place of a victim: it is to go instead (WS6)."""
    claims = state.world.claims
    for claimant in claims.claimants_of(old):
        victims = {key: None for key in claimant.victims if key != old}
        victims[new] = None
        claims.choose(claimant, victims)


def fold_allowed(state: SchedulerState, event: PreemptionsAllowed, seq: int, _at: Micros) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is not None and workload.preemptions and event.attempt in (0, workload.reservations):
        workload.preemptions_allowed = True
        state.touched.append((workload, Mark.CLAIMS, seq))


def fold_issued(state: SchedulerState, event: PendingPreemptionsIssued, _seq: int, _at: Micros) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is None or not workload.preemptions:
        return
    claims = state.world.claims
    claims.due.pop(workload.key, None)
    _touch(state, workload)
    workload.preemptions = ISSUED
    claims.choose(workload, _holding(state, event.victims))
    _touch(state, workload)
    _wake(state, workload, event.cause)
    if not workload.victims:
        _end(state, workload, event.cause)


def refresh_due(state: SchedulerState, workload: Workload, cause: int) -> None:
    """Note whether the workload's pending preemptions may be issued now, or perhaps need nobody to go."""
    due = state.world.claims.due
    if may_issue(state.world, workload) or needs_nobody(state.world, workload):
        due[workload.key] = cause
    else:
        due.pop(workload.key, None)


def refresh_all(state: SchedulerState, cause: int) -> None:
    """Checks or queues have changed."""
    for claimants in state.world.claims.by_queue.values():
        for claimant in claimants.values():
            refresh_due(state, claimant, cause)


def _holding(state: SchedulerState, keys: Iterable[WorkloadKey]) -> dict[WorkloadKey, None]:
    workloads = state.world.workloads
    return {key: None for key in keys if key in workloads and workloads[key].assignment is not None}


def _wake(state: SchedulerState, claimant: Workload, cause: int) -> None:
    """Victims can be larger than what is needed of them: the rest is free as planned (see `promises`)."""
    if claimant.victims:
        state.pending.wake(state.pending.queues[claimant.cluster_queue], cause)


def _touch(state: SchedulerState, claimant: Workload) -> None:
    """What the queues of the victims may get is reckoned without them."""
    pending, workloads = state.pending, state.world.workloads
    for key in claimant.victims:
        victim = workloads.get(key)
        queue = pending.queues.get(victim.cluster_queue) if victim is not None else None
        if queue is not None:
            pending.touch(queue)


__all__ = [
    "claim",
    "fold_allowed",
    "fold_issued",
    "quota_freed",
    "refresh_all",
    "refresh_due",
    "unclaim",
    "victim_gone",
    "victim_replaced",
]
