"""End of the memory of past preemptions: inputs that change what a queue holds (`PreemptionHistory`)."""

from collections.abc import Iterable

from sluice.core.world.workload import Workload
from sluice.events.base import WorkloadKey

from .state import SchedulerState


def changed(state: SchedulerState, workload: Workload, cause: int) -> None:
    """An input has changed what the workload holds, or may hold, of its queue."""
    circles = state.world.circles
    key = workload.record.parent or workload.key
    queue = workload.cluster_queue or _named_queue(state, workload)
    if not circles.refused:
        circles.changed(queue, key)
    else:
        concerned = circles and circles.concern(key, queue)
        circles.changed(queue, key)
        if concerned:
            _ask_again(state, cause)


def _named_queue(state: SchedulerState, workload: Workload) -> str:
    """Return the queue that the workload names, of one that does not wait there itself: its variants do."""
    local = state.world.local_queues.get(f"{workload.record.namespace}/{workload.record.queue_name}")
    return "" if local is None else local.cluster_queue


def gone(state: SchedulerState, key: WorkloadKey, cause: int) -> None:
    """A workload that had no quota is over."""
    circles = state.world.circles
    if not circles:
        return
    concerned = circles.refused and circles.concern(key)
    circles.forget(key)
    if concerned:
        _ask_again(state, cause)


def _ask_again(state: SchedulerState, cause: int) -> None:
    ask_again(state, state.world.circles.refused, cause)
    state.world.circles.refused.clear()


def ask_again(state: SchedulerState, queues: Iterable[str], cause: int) -> None:
    """Let those of *queues* that were refused a preemption ask again."""
    pending = state.pending
    for name in queues:
        queue = pending.queues.get(name)
        refused = [peers for peers in queue.classes.values() if peers.circling] if queue is not None else []
        for peers in refused:
            peers.circling = False
        if queue is not None and refused:
            pending.wake(queue, cause)
