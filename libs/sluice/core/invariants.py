"""What must hold of the scheduler's state at any time, whatever the history (DB6).

`violations` looks at a whole state; `reservation_violations` at the moment right after a QuotaReserved was
folded. Both return texts for people, [] when all is well; tests, `replay` and `bisect` use them.
"""

from collections.abc import Iterator

from sluice.events.base import Event
from sluice.events.scheduler import QuotaReserved

from .model import Workload
from .pending import Peers, Queue
from .placing import queue_for
from .quota import FlavorResource, Node
from .state import SchedulerState


def violations(state: SchedulerState) -> list[str]:
    """Return what is wrong with *state*; it takes time that grows with the state."""
    return [
        *_reservations(state),
        *_usage(state),
        *_queueing(state),
        *_lists(state),
    ]


def reservation_violations(state: SchedulerState, event: Event) -> list[str]:
    """Return why quota should not have been reserved by *event*, just folded; [] for other events.

    Nobody gets more than is available to its queue, borrowing included, at any node up the tree. Usage may
    exceed quota later, when quota is cut; it may not be made to.
    """
    if not isinstance(event, QuotaReserved):
        return []
    workload = state.world.workloads.get(event.workload)
    if workload is None or workload.assignment is None:
        return []
    node = state.world.cluster_queues[event.cluster_queue].node
    return [
        f"{event.workload}: {fr} of {node.path()} is exceeded by {-available}"
        for fr, amount in workload.usage.items()
        if amount and (available := node.available(fr)) < 0
    ]


def _reservations(state: SchedulerState) -> Iterator[str]:
    """No reservation without a live workload, and no live assignment without a reservation."""
    world = state.world
    for name, cq in world.cluster_queues.items():
        for key, workload in cq.workloads.items():
            if world.workloads.get(key) is not workload:
                yield f"{name} holds quota for {key}, which does not exist"
            if workload.assignment is None or workload.cluster_queue != name:
                yield f"{name} holds quota for {key}, which does not know"
        if len(cq.candidates) != len(cq.workloads):
            yield f"{name}: {len(cq.candidates)} candidates for {len(cq.workloads)} reservations"
    for key, workload in world.workloads.items():
        if workload.assignment is not None:
            queue = world.cluster_queues.get(workload.cluster_queue)
            if queue is not None and key not in queue.workloads:
                yield f"{key} has an assignment but {workload.cluster_queue} holds nothing for it"
            if workload.peers is not None:
                yield f"{key} has quota and queues"
        elif workload.usage:
            yield f"{key} has no quota but charges {workload.usage}"


def _usage(state: SchedulerState) -> Iterator[str]:
    """Usage of every node is what its workloads charge, above local quota handed up (SC3)."""
    charged: dict[Node, dict[FlavorResource, int]] = {}
    for cq in state.world.cluster_queues.values():
        total = charged.setdefault(cq.node, {})
        for workload in cq.workloads.values():
            for fr, amount in workload.usage.items():
                total[fr] = total.get(fr, 0) + amount
    nodes = [*state.world.tree.cluster_queues.values(), *state.world.tree.cohorts.values()]
    for node in nodes:
        expected = charged.get(node) if node.is_cluster_queue else None
        if expected is None:
            expected = {}
            for child in node.children:
                for fr, amount in child.usage.items():
                    excess = max(0, amount - child.local_quota(fr))
                    expected[fr] = expected.get(fr, 0) + excess
        if node.usage != {fr: amount for fr, amount in sorted(expected.items()) if amount}:
            yield f"{node.path()} uses {node.usage}, but {expected} is charged"


def _queueing(state: SchedulerState) -> Iterator[str]:
    """Every workload waits where it should, and nowhere else."""
    for key, workload in state.world.workloads.items():
        target = queue_for(state.world, workload)
        actual = workload.peers.queue.name if workload.peers is not None else ""
        if actual != target:
            yield f"{key} waits in {actual or 'no queue'}, not in {target or 'none'}"
        if workload.peers is not None and workload.peers.queue.classes.get(workload.peers.key) is not (
            workload.peers
        ):
            yield f"{key} queues with a class that is gone"


def _lists(state: SchedulerState) -> Iterator[str]:
    """Derived lists agree with what they are derived from."""
    for queue in state.pending.queues.values():
        yield from _queue(queue)
    for tree in state.pending.trees.values():
        busy = bool(tree.ready or tree.dirty or tree.open)
        if busy != (tree.root in state.pending.busy):
            yield f"tree {tree.name}: busy is not {busy}"


def _queue(queue: Queue) -> Iterator[str]:
    for peers in queue.classes.values():
        members = list(peers)
        if len(members) != peers.size or not members:
            yield f"{queue.name}: a class of {peers.size} has {len(members)} members"
        elif peers.rank != members[0].rank or peers.head() is not members[0]:
            yield f"{queue.name}: {members[0].key} should be head of its class"
        if peers not in _ranked(queue, peers):
            yield f"{queue.name}: the class of {peers.head().key} is in the wrong list"
    if len(queue.active) + len(queue.parked) != len(queue.classes):
        yield f"{queue.name}: lists of {len(queue.active)} and {len(queue.parked)} classes"
    waiting = queue.waiting
    if waiting is not None:
        yield from _waiting(queue, waiting.workload)


def _waiting(queue: Queue, workload: Workload) -> Iterator[str]:
    if workload.peers is None or workload.peers.queue is not queue:
        yield f"{queue.name}: {workload.key} waits for victims elsewhere"


def _ranked(queue: Queue, peers: Peers) -> list[Peers]:
    return list(queue.parked if peers.parked else queue.active)


__all__ = ["reservation_violations", "violations"]
