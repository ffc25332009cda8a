"""Invariants of the scheduler's state, whatever the history (DB6).

`violations` looks at a whole state; `reservation_violations` at the moment right after a QuotaReserved was
folded. Both return texts for people, [] when all is well; tests, `replay` and `bisect` use them.
"""

from collections.abc import Iterator

from sluice.core.queueing.overcommit import Overcommit, keep_waiting
from sluice.core.queueing.pending_queue import PendingQueue
from sluice.core.quota.tree import FlavorResource, Node
from sluice.core.world.charging import added, charge
from sluice.core.world.model import World
from sluice.core.world.pending_preemptions import ISSUED
from sluice.core.world.reservations import Trial
from sluice.core.world.workload import Workload
from sluice.events.base import Event
from sluice.events.scheduler import QuotaReserved

from .placement import queue_for
from .state import SchedulerState


def violations(state: SchedulerState) -> list[str]:
    """Return what is wrong with *state*; it takes time that grows with the state."""
    return [
        *_reservations(state),
        *_usage(state),
        *_queueing(state),
        *_pending_preemptions(state),
        *_families(state),
        *_lists(state),
        *_refusals(state),
    ]


def reservation_violations(state: SchedulerState, event: Event, *, waiting: bool = True) -> list[str]:
    """Return why quota should not have been reserved by *event*, just folded; [] for other events.

    Nobody gets any who is out of the limit ranges of the namespace. Nobody gets more than is available to its
    queue, borrowing included, at any node up the tree: neither now, unless preemptions are pending for it,
    nor when all pending preemptions will have happened (AC6). Usage may exceed quota later, when quota is
    cut; it may not be made to. *waiting*: does what preemptors wait for in their queues count as promised?
    """
    if not isinstance(event, QuotaReserved):
        return []
    world = state.world
    workload = world.workloads.get(event.workload)
    if workload is None or workload.assignment is None:
        return []
    if workload.record.misconfigured:
        return [f"{workload.key} has quota, but is inadmissible: {workload.record.misconfigured}"]
    found = _exceeded(world, workload, world.cluster_queues[event.cluster_queue].node)
    if not found:
        return []
    # Victims and those who wait for them are charged: it need not mean that more is promised than there is.
    tree = state.pending.queues[event.cluster_queue].tree
    assert tree is not None
    holders = [w for name in sorted(tree.members) for w in world.cluster_queues[name].workloads.values()]
    with Trial(world) as trial:
        for other in holders:
            # Of those that were not admitted nothing runs, so their quota is released next.
            if other.evicted_at is not None and (other.admitted_at is None or event.preemptions_pending):
                trial.remove(other)
        found = [] if event.preemptions_pending else _now(world, workload, holders)
        if world.pending_preemptions:
            promised = Overcommit(trial, tree.members)
            if waiting:
                keep_waiting(promised, tree)
            node = world.cluster_queues[event.cluster_queue].node
            found += _exceeded(world, workload, node, "promises of ")
    return found


def _now(world: World, workload: Workload, holders: list[Workload]) -> list[str]:
    with Trial(world) as trial:
        for preemptor in holders:
            if preemptor.preemptions:
                trial.remove(preemptor)
        return _exceeded(world, workload, world.cluster_queues[workload.cluster_queue].node)


def _exceeded(world: World, workload: Workload, node: Node, what: str = "") -> list[str]:
    return [
        f"{workload.key}: {what}{fr} of {node.path()} are exceeded by {-available}"
        for fr, amount in added(world, workload).items()
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
            if queue is not None and workload.usage != (due := charge(world, workload)):
                yield f"{key} charges {workload.usage}, not {due}"
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


def _pending_preemptions(state: SchedulerState) -> Iterator[str]:
    """Whoever waits with a reservation waits for live reservations, all of them leaving once it is told."""
    world = state.world
    listed = {key for preemptors in world.pending_preemptions.by_queue.values() for key in preemptors}
    for key in sorted({*listed, *world.pending_preemptions.due}):
        if key not in world.workloads:
            yield f"{key} waits for victims, but does not exist"
    for key, workload in world.workloads.items():
        if bool(workload.preemptions) != (key in listed):
            yield f"{key}: preemptions {workload.preemptions or 'none'}, which the index does not know"
        if not workload.preemptions:
            if workload.victims:
                yield f"{key} waits for {list(workload.victims)} without pending preemptions"
            continue
        if workload.assignment is None or workload.admitted_at is not None:
            yield f"{key} waits for victims without waiting with a reservation"
        for victim in workload.victims:
            found = world.workloads.get(victim)
            if found is None or found.assignment is None:
                yield f"{key} waits for {victim}, which holds nothing"
            elif workload.preemptions == ISSUED and found.evicted_at is None:
                yield f"{key} waits for {victim}, which is not told"


def _families(state: SchedulerState) -> Iterator[str]:
    """No variant outlives its parent, and only one of the two has quota (CA4)."""
    workloads = state.world.workloads
    for parent, family in state.world.families.items():
        for key, variant in family.items():
            if workloads.get(key) is not variant:
                yield f"{key} is listed as a variant of {parent}, but does not exist"
        holder = workloads.get(parent)
        if holder is not None and holder.assignment is not None:
            for key, variant in family.items():
                if variant.assignment is not None:
                    yield f"{parent} has quota, and its variant {key} has, too"
    for key, workload in workloads.items():
        parent_key = workload.record.parent
        if parent_key is not None and parent_key not in workloads:
            yield f"{key} outlives its parent {parent_key}"


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
        elif workload.peers is not None and not state.pending.belongs(workload):
            yield f"{key} queues with variants that it is not equal to (any more)"


def _lists(state: SchedulerState) -> Iterator[str]:
    """Derived lists agree with what they are derived from."""
    yield from _lifecycle(state)
    for queue in state.pending.queues.values():
        yield from _queue(queue)
    for tree in state.pending.trees.values():
        busy = bool(tree.ready or tree.dirty or tree.open)
        if busy != (tree.root in state.pending.busy):
            yield f"tree {tree.name}: busy is not {busy}"


def _lifecycle(state: SchedulerState) -> Iterator[str]:
    """Nobody who is gone is on a list, and who is held is so in one queue."""
    lc, known = state.lifecycle, state.world.workloads
    for table in (lc.due, lc.deadlines.of, lc.held_in):
        yield from (f"{key} is gone, and still on a list" for key in table if key not in known)
    held = {key: queue for queue, keys in lc.held.items() for key in keys}
    if held != lc.held_in:
        yield f"held {held}, said to be {lc.held_in}"


def _queue(queue: PendingQueue) -> Iterator[str]:
    for peers in queue.classes.values():
        members = list(peers)
        if len(members) != peers.size or not members:
            yield f"{queue.name}: a class of {peers.size} has {len(members)} members"
        elif peers.rank != members[0].rank or peers.head() is not members[0]:
            yield f"{queue.name}: {members[0].key} should be head of its class"
        ranked = queue.parked if peers.parked else queue.active
        if peers.waiting is None and peers not in list(ranked):
            yield f"{queue.name}: the class of {peers.head().key} is in the wrong list"
    if len(queue.active) + len(queue.parked) + len(queue.waiting) != len(queue.classes):
        yield f"{queue.name}: lists of {len(queue.active)} and {len(queue.parked)} classes"
    for key, waiting in queue.waiting.items():
        own = waiting.workload.peers
        if own is None or own.queue is not queue or own.waiting is not waiting:
            yield f"{queue.name}: {key} waits for victims elsewhere"
        if waiting.is_due() != (key in queue.due):
            yield f"{queue.name}: {key} is on the wrong list of those that wait for victims"


def _refusals(state: SchedulerState) -> list[str]:
    """Say who is still refused a preemption for what is remembered, when nothing is any more (0018)."""
    circles = state.world.circles
    if not circles.refused or next(circles.dump(), None) is not None:
        return []
    return [
        f"{peers.head().key} is refused a preemption in {name} for what nobody remembers"
        for name in sorted(circles.refused)
        if name in state.pending.queues
        for peers in state.pending.queues[name].classes.values()
        if peers.circling and peers.parked
    ]
