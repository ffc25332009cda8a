"""Workloads that hold quota, are losing it, or wait to be queued again: when to look at which.

`transitions` says what must happen to a workload; this module knows which workloads something may
have happened to, so that nothing is ever scanned. The state is derived from the world: a list of
workloads for which something is due, and deadlines. It is rebuilt, not stored, by `rebuild`.

The scheduler folds an event into the world first (`lifecycle.fold` has the fields of the life-cycle), and has
`reindex` see to each workload that it touched.
"""

from sluice.core.deadlines import Deadlines
from sluice.core.step_size import Room
from sluice.core.workload import reasons as ev
from sluice.core.workload.admission_checks import READY
from sluice.core.world.model import World
from sluice.core.world.variants import queue_identity
from sluice.core.world.workload import Workload
from sluice.events.base import Event, Micros, WorkloadKey
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.events.scheduler import QuotaReleased

from .transitions import deadline_of, transitions


class Lifecycle:
    """What is due and what will be. Only `reindex`, `forget` and `rebuild` change it."""

    __slots__ = ("deadlines", "due", "held", "held_in")

    def __init__(self) -> None:
        self.due: dict[WorkloadKey, int] = {}
        """Workloads whose `transitions` are not empty -> the cause (a log sequence)."""
        self.deadlines = Deadlines[WorkloadKey]()
        self.held: dict[str, dict[WorkloadKey, None]] = {}
        """Local queue -> workloads that wait for it, or for its cluster queue, to be started again."""
        self.held_in: dict[WorkloadKey, str] = {}
        """Each of these -> its queue there, whatever it names by now."""


def rebuild(world: World, at: Micros) -> Lifecycle:
    """Return the state that folding the history of a settled *world* would have left."""
    lc = Lifecycle()
    for workload in world.workloads.values():
        reindex(world, lc, workload, 0, at)
    return lc


def decide(world: World, lc: Lifecycle, at: Micros) -> list[Event]:
    """Return what is due at *at*, in uid order, of siblings for the most preferred first; [] when settled.

    What does not fit into one step is due in the next.
    """
    late = lc.deadlines.due(at)
    if not lc.due and not late:
        return []
    # Time brought it about; what set the clock is the last thing that happened to the workload.
    causes = {key: world.workloads[key].changed_by for key in late}
    causes.update(lc.due)
    workloads = [world.workloads[key] for key in causes]
    # Siblings that could both be admitted would else evict each other in turn, when one that came later is
    # preferred to one that came before (CA10).
    workloads.sort(key=queue_identity)
    events: list[Event] = []
    room = Room()
    moved: dict[WorkloadKey, None] = {}
    gave_up = False
    for workload in workloads:
        parent = workload.record.parent
        if parent is not None and parent in moved:
            continue  # what is due for it depends on what becomes of its sibling
        if world.replacements and (workload.key in moved or workload.record.replaces in moved):
            continue  # or of the slice that it is to replace, or that is to replace it
        rechecked = workload.checks == READY and workload.admitted_at is None
        if rechecked and gave_up:
            continue  # what another one has given back may be enough for it (AC7)
        found = transitions(world, workload, at, causes[workload.key])
        if not found:
            continue
        if not room.takes(found):
            break
        events += found
        if parent is not None:
            moved[parent] = None
        elif world.replacements:
            moved[workload.key] = None
            if workload.record.replaces is not None:
                moved[workload.record.replaces] = None
        if rechecked:
            gave_up = isinstance(found[0], QuotaReleased)
    return events


def deadline(lc: Lifecycle) -> Micros | None:
    """Return the next time at which `decide` may have something to say of its own accord."""
    return lc.deadlines.next


# Which workloads may be concerned


def may_be_due(world: World, lc: Lifecycle, admitted: Workload) -> bool:
    """Might something be due for a workload now that it is admitted? For most, nothing will ever be."""
    return (
        admitted.key in lc.due
        or admitted.record.maximum_execution_time_s is not None
        or admitted.record.parent is not None
        or world.config.wait_for_pods_ready.enable
    )


def workloads_affected_by(
    world: World, lc: Lifecycle, event: ObjectApplied | ObjectDeleted
) -> list[Workload]:
    """Return the workloads that something may be due for, as an object of configuration has changed."""
    match event.kind:
        case "ClusterQueue":
            return _of_cluster_queue(world, lc, event.name)
        case "LocalQueue":
            return _of_local_queue(world, lc, f"{event.namespace}/{event.name}")
        case "Configuration" | "ResourceFlavor":
            return [w for q in world.cluster_queues.values() for w in q.workloads.values()]
    return []


def _of_cluster_queue(world: World, lc: Lifecycle, name: str) -> list[Workload]:
    queue = world.cluster_queues.get(name)
    if queue is not None:
        found = list(queue.workloads.values())
    else:
        # Deleted; its list of reservations may be gone with it.
        found = [w for w in world.workloads.values() if w.cluster_queue == name and w.assignment is not None]
    for key, held in lc.held.items():
        local = world.local_queues.get(key)
        if local is not None and local.cluster_queue == name:
            found += [world.workloads[w] for w in held]
    return found


def _of_local_queue(world: World, lc: Lifecycle, key: str) -> list[Workload]:
    found = [world.workloads[w] for w in lc.held.get(key, ())]
    namespace, _, name = key.partition("/")
    # It may have named another cluster queue before, whose quota its workloads still have.
    for queue in world.cluster_queues.values():
        for workload in queue.workloads.values():
            record = workload.record
            if (record.queue_name, record.namespace) == (name, namespace):
                found.append(workload)
    return found


# Keeping the lists


def reindex(world: World, lc: Lifecycle, workload: Workload, cause: int, at: Micros) -> None:
    """Put *workload* on the lists where it belongs, and off the others."""
    key = workload.key
    if workload.assignment is None and workload.held_for in (
        ev.CLUSTER_QUEUE_STOPPED,
        ev.LOCAL_QUEUE_STOPPED,
    ):
        _hold(lc, key, _local_queue(workload))
    elif lc.held_in:
        _unhold(lc, key)
    if transitions(world, workload, at, cause):
        lc.due[key] = cause
    else:
        lc.due.pop(key, None)
    lc.deadlines.set(key, deadline_of(world, workload))


def forget(lc: Lifecycle, key: WorkloadKey) -> None:
    """Take a workload that is gone off all lists."""
    lc.due.pop(key, None)
    lc.deadlines.set(key, None)
    if lc.held_in:
        _unhold(lc, key)


def _hold(lc: Lifecycle, key: WorkloadKey, queue: str) -> None:
    if lc.held_in.get(key) != queue:
        _unhold(lc, key)
        lc.held_in[key] = queue
        lc.held.setdefault(queue, {})[key] = None


def _unhold(lc: Lifecycle, key: WorkloadKey) -> None:
    queue = lc.held_in.pop(key, None)
    if queue is not None:
        held = lc.held[queue]
        del held[key]
        if not held:
            del lc.held[queue]


def _local_queue(workload: Workload) -> str:
    return f"{workload.record.namespace}/{workload.record.queue_name}"
