"""Fold of what ends the memory of past preemptions: inputs that change what a queue holds (see `circles`)."""

from sluice.core.world.workload import Workload
from sluice.events.base import WorkloadKey

from .state import SchedulerState


def changed(state: SchedulerState, workload: Workload, cause: int) -> None:
    """An input has changed what the workload holds, or may hold, of its queue."""
    circles = state.world.circles
    key, queue = workload.record.parent or workload.key, workload.cluster_queue
    if not circles.refused:
        circles.changed(queue, key)
    else:
        concerned = circles and circles.concern(key, queue)
        circles.changed(queue, key)
        if concerned:
            _wake(state, cause)


def gone(state: SchedulerState, key: WorkloadKey, cause: int) -> None:
    """A workload that had no quota is over."""
    circles = state.world.circles
    if not circles:
        return
    concerned = circles.refused and circles.concern(key)
    circles.forget(key)
    if concerned:
        _wake(state, cause)


def all_changed(state: SchedulerState, cause: int) -> None:
    """The configuration has changed."""
    state.world.circles.clear()
    _wake(state, cause)


def _wake(state: SchedulerState, cause: int) -> None:
    """Let those that were refused a preemption ask again."""
    circles, pending = state.world.circles, state.pending
    for name in circles.refused:
        queue = pending.queues.get(name)
        refused = [peers for peers in queue.classes.values() if peers.circling] if queue is not None else []
        for peers in refused:
            peers.circling = False
        if queue is not None and refused:
            pending.wake(queue, cause)
    circles.refused.clear()


__all__ = ["all_changed", "changed", "gone"]
