"""In which queue a workload belongs, and getting it there."""

from collections.abc import Iterable

from sluice.core.workload.pending_reasons import PENDING_EVALUATION
from sluice.core.world.inadmissible import GATED_BY_ANNOTATION, stopped
from sluice.core.world.model import World
from sluice.core.world.variants import backs_off, is_parent, parent_holds, siblings
from sluice.core.world.workload import Workload
from sluice.core.world.workload_slices import must_wait

from .marks import Mark
from .state import SchedulerState, is_barred


def queue_for(world: World, workload: Workload) -> str:
    """Return the cluster queue in which *workload* should be waiting now; '' if in none.

    Whether the cluster queue itself is active does not matter: its workloads stay in a stopped queue.
    """
    if workload.assignment is not None or workload.finished or not workload.active or workload.held_for:
        return ""
    record = workload.record
    local = world.local_queues.get(f"{record.namespace}/{record.queue_name}")
    cq = world.cluster_queues.get(local.cluster_queue) if local is not None else None
    if local is None or cq is None or stopped(local.stop_policy):
        return ""
    if record.annotations and GATED_BY_ANNOTATION in record.annotations:
        return ""
    if record.replaces is not None and must_wait(world, workload, local.cluster_queue):
        return ""
    if record.parent is None:
        if cq.spec.concurrent_admission_policy is not None and is_parent(world.config, workload, cq):
            return ""
        if workload.key in world.families:
            return ""  # an ordinary workload again, but not before its variants are gone (CA4)
    elif parent_holds(world, workload) or backs_off(world, workload):
        return ""
    return local.cluster_queue


def place(state: SchedulerState, workload: Workload, *, changed: bool = False) -> None:
    """Move *workload* to where it belongs. `changed`: its key or rank may be another one."""
    target = queue_for(state.world, workload)
    peers = workload.peers
    if peers is not None:
        if peers.queue.name == target and not changed and state.pending.belongs(workload):
            return
        state.pending.remove(workload)
    _put(state, workload, target)
    if target and workload.record.parent is not None:
        _set_barred_aside(state, workload)
        if peers is None:
            _ask_again(state, workload)


def put_back(state: SchedulerState, workload: Workload) -> None:
    """Have *workload* wait where it did, as its state is read back.

    It has not come: nobody is asked again, and what is parked is read as well.
    """
    _put(state, workload, queue_for(state.world, workload))


def _put(state: SchedulerState, workload: Workload, target: str) -> None:
    if target:
        workload.cluster_queue = target
        state.pending.add(workload, target)
    elif workload.assignment is None:
        workload.cluster_queue = ""


def _set_barred_aside(state: SchedulerState, workload: Workload) -> None:
    """A variant that its admitted sibling bars need not be looked at to know it."""
    peers = workload.peers
    if peers is not None and not peers.parked and is_barred(peers.key):
        peers.reason, peers.message = PENDING_EVALUATION, str(peers.key[1])
        state.pending.park(peers, hopeless=True)


def _ask_again(state: SchedulerState, workload: Workload) -> None:
    """A variant has come to its queue: those behind it may be blocked on their gates, but not before it.

    They are looked at again, after it, and said to be blocked again if they are (CA11).
    """
    for other in siblings(state.world, workload):
        if other.blocked_on_gates and other.record.preference > workload.record.preference:
            other.blocked_on_gates = False
            state.touched.append((other, Mark.QUEUES | Mark.TURN, 0))


def place_all(state: SchedulerState, workloads: Iterable[Workload]) -> None:
    """Move *workloads* to where configuration wants them; what becomes of those that move, it has caused."""
    for workload in workloads:
        before = workload.peers
        place(state, workload)
        if workload.peers is not None and workload.peers is not before:
            workload.changed_by = max(workload.changed_by, state.config_seq)
