"""Fold of what becomes of pending preemptions (AC6), as `world.pending_preemptions` has them."""

from collections.abc import Iterable

from sluice.core.world.pending_preemptions import ISSUED, PENDING
from sluice.core.world.workload import Workload
from sluice.events.base import Micros, WorkloadKey
from sluice.events.checks import PreemptionsAllowed
from sluice.events.scheduler import PendingPreemptionsIssued, QuotaReserved

from .marks import Mark
from .state import SchedulerState


def reserve_pending(state: SchedulerState, workload: Workload, event: QuotaReserved) -> None:
    """Quota was reserved with preemptions pending."""
    world = state.world
    workload.preemptions = PENDING
    workload.victims = _holding(state, event.pending_victims)
    world.pending_preemptions.put(workload)
    state.touched.append((workload, Mark.TARGETS, event.cause))


def withdraw(state: SchedulerState, workload: Workload) -> None:
    """The workload waits for nobody any more, e.g. as its reservation has ended."""
    if workload.preemptions:
        touch_victims(state, workload)
        state.world.pending_preemptions.discard(workload)


def victim_replaced(state: SchedulerState, old: WorkloadKey, new: WorkloadKey) -> None:
    """A new slice has taken the place of a victim: it is to go instead (WS6)."""
    preemptions = state.world.pending_preemptions
    for preemptor in preemptions.preemptors_of(old):
        victims = {key: None for key in preemptor.victims if key != old}
        victims[new] = None
        preemptions.choose(preemptor, victims)


def fold_allowed(state: SchedulerState, event: PreemptionsAllowed, seq: int, _at: Micros) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is not None and workload.preemptions and event.attempt in (0, workload.reservations):
        workload.preemptions_allowed = True
        state.touched.append((workload, Mark.PREEMPTIONS, seq))


def fold_issued(state: SchedulerState, event: PendingPreemptionsIssued, _seq: int, _at: Micros) -> None:
    workload = state.world.workloads.get(event.workload)
    if workload is None or not workload.preemptions:
        return
    touch_victims(state, workload)
    workload.preemptions = ISSUED
    state.world.pending_preemptions.choose(workload, _holding(state, event.victims))
    state.touched.append((workload, Mark.TARGETS, event.cause))


def _holding(state: SchedulerState, keys: Iterable[WorkloadKey]) -> dict[WorkloadKey, None]:
    workloads = state.world.workloads
    return {key: None for key in keys if key in workloads and workloads[key].assignment is not None}


def touch_victims(state: SchedulerState, preemptor: Workload) -> None:
    """What the queues of the victims may get is reckoned without them."""
    pending, workloads = state.pending, state.world.workloads
    for key in preemptor.victims:
        victim = workloads.get(key)
        queue = pending.queues.get(victim.cluster_queue) if victim is not None else None
        if queue is not None:
            pending.touch(queue)
