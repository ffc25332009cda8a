"""Status of cluster queues and local queues: active or why not.

A status follows from the configuration at once; the events only publish it when it has changed.
"""

from collections.abc import Iterator

from sluice.core.world.activity import Status, local_queue_status, queue_status, why_inactive
from sluice.core.world.model import ClusterQueue, LocalQueue, World
from sluice.events.base import Event, Micros
from sluice.events.scheduler import ClusterQueueStatusChanged, LocalQueueStatusChanged

from .marks import Edit
from .state import SchedulerState


def status_of(world: World, cq: ClusterQueue) -> Status:
    """Return the Active condition of a cluster queue."""
    return queue_status(why_inactive(world, cq))


def local_status_of(world: World, local: LocalQueue) -> Status:
    """Return the Active condition of a local queue."""
    cq = world.cluster_queues.get(local.cluster_queue)
    return local_queue_status(local.stop_policy, active=None if cq is None else cq.active)


def refresh(state: SchedulerState, name: str) -> None:
    """The cluster queue, or something that its status rests on, has changed, or it has gone."""
    world = state.world
    cq = world.cluster_queues.get(name)
    if cq is None:
        state.statuses.pop(name, None)
        state.statuses_due.pop(name, None)
    else:
        status = status_of(world, cq)
        cq.active = status[0]
        queue = state.pending.queues[name]
        if queue.stopped == cq.active:
            queue.stopped = not cq.active
            state.pending.refresh(queue)
            if cq.active:
                state.pending.reconsider(queue, state.config_seq)
        _note(state.statuses_due, name, differs=state.statuses.get(name) != status)
    for key in sorted(state.locals_of.get(name, ())):
        refresh_local(state, key)


def refresh_local(state: SchedulerState, key: str) -> None:
    local = state.world.local_queues.get(key)
    if local is None:
        state.local_statuses.pop(key, None)
        state.local_statuses_due.pop(key, None)
        return
    status = local_status_of(state.world, local)
    _note(state.local_statuses_due, key, differs=state.local_statuses.get(key) != status)


def _note(due: dict[str, None], name: str, *, differs: bool) -> None:
    if differs:
        due[name] = None
    else:
        due.pop(name, None)


def changes(state: SchedulerState) -> Iterator[Event]:
    """Yield the events that record the statuses that have changed."""
    world, cause = state.world, state.config_seq
    for name in sorted(state.statuses_due):
        active, reason, message = status_of(world, world.cluster_queues[name])
        yield ClusterQueueStatusChanged(
            cause=cause, cluster_queue=name, active=active, reason=reason, message=message
        )
    for key in sorted(state.local_statuses_due):
        active, reason, message = local_status_of(world, world.local_queues[key])
        yield LocalQueueStatusChanged(
            cause=cause, local_queue=key, active=active, reason=reason, message=message
        )


def fold_status(state: SchedulerState, event: ClusterQueueStatusChanged, _seq: int, _at: Micros) -> None:
    if event.cluster_queue in state.world.cluster_queues:
        state.statuses[event.cluster_queue] = (event.active, event.reason, event.message)
        state.edit(event.cluster_queue, Edit.STATUS)


def fold_local_status(state: SchedulerState, event: LocalQueueStatusChanged, _seq: int, _at: Micros) -> None:
    if event.local_queue in state.world.local_queues:
        state.local_statuses[event.local_queue] = (event.active, event.reason, event.message)
        refresh_local(state, event.local_queue)
