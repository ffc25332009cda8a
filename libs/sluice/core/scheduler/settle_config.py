"""Consequences of an edit of configuration, before all else that the event has touched, in one order:

1. where workloads queue
2. queues: their tree and their kind, their status
3. verdicts (SC2), in the trees that queues were in and in those that they are in now
4. who was refused a preemption, for what is remembered of past ones
"""

from collections.abc import Iterable

from sluice.core.cycle.withheld_quota import always_reclaims
from sluice.core.queueing.pending_queue import PendingQueue

from . import queue_status, settle_preemption_history
from .marks import Edit
from .placement import place, place_all
from .state import SchedulerState


def settle_config(state: SchedulerState) -> None:
    """Look at the cluster queues and workloads that an edit has touched."""
    world, pending, edited = state.world, state.pending, state.edited
    of_quota = [name for name, what in edited.items() if what & Edit.QUOTA]
    void = _neighbours(state, of_quota)
    for name in of_quota:
        if name in world.cluster_queues and name not in pending.queues:
            pending.add_queue(name, world.cluster_queues[name].node)
    for workload, asks in state.moved:
        if asks:
            place(state, workload, changed=True)
        else:
            place_all(state, (workload,))
    for name, what in edited.items():
        if name in world.cluster_queues:
            _settle_queue(state, pending.queues[name], what)
        elif name in pending.queues:
            pending.remove_queue(name)
            queue_status.refresh(state, name)
    void |= _neighbours(state, of_quota) | {name for name, what in edited.items() if what & Edit.VERDICTS}
    for name in sorted(void & pending.queues.keys()):
        pending.reconsider(pending.queues[name], state.config_seq)
    settle_preemption_history.ask_again(
        state, [name for name, what in edited.items() if what & Edit.REFUSED], state.config_seq
    )
    edited.clear()
    state.moved.clear()


def _settle_queue(state: SchedulerState, queue: PendingQueue, what: int) -> None:
    if what & Edit.TREE:
        state.pending.regroup(queue)
        _classify(state, queue)
    if what & Edit.STATUS:
        queue_status.refresh(state, queue.name)


def _neighbours(state: SchedulerState, names: Iterable[str]) -> set[str]:
    """Return the queues of the trees that the named ones are in."""
    queues = [queue for name in names if (queue := state.pending.queues.get(name)) is not None]
    trees = {queue.tree.root: queue.tree for queue in queues if queue.tree is not None}
    return {member for tree in trees.values() for member in tree.members}


def _classify(state: SchedulerState, queue: PendingQueue) -> None:
    """Note what kind of queue it is (see `PendingQueue.special`)."""
    cq = state.world.cluster_queues[queue.name]
    strict = cq.spec.queueing_strategy == "StrictFIFO"
    keeps_quota = any(
        quota.lending_limit is not None
        for node in (cq.node, *cq.node.path_to_root())
        for quota in node.quotas.values()
    )
    withholds = not always_reclaims(cq.spec.preemption)
    state.pending.set_kind(
        queue, strict=strict, special=strict or keeps_quota or withholds, withholds=withholds
    )
