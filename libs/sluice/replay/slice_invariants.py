"""What must hold of workload slices, as the scheduler saw them. See `invariants`."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from sluice.core.scheduler import Scheduler
from sluice.core.slicing import asks_for_more
from sluice.core.state import SchedulerState
from sluice.events.base import Event, WorkloadKey
from sluice.events.scheduler import Admitted, QuotaReserved, WorkloadSliceWithdrawn
from sluice.events.slices import WorkloadDeleted, WorkloadFinished

from .observing import Observer


class GrowthObserver(Observer):
    """A slice takes the place of another one for more pods only; growth that was taken back ends (WS3)."""

    name = "growth"
    decider = Scheduler

    def __init__(self) -> None:
        self.withdrawn: dict[WorkloadKey, None] = {}

    def hears(self) -> Mapping[type[Event], Callable[[Any, Any], Iterable[str]]]:
        return {
            Admitted: self._admitted,
            WorkloadSliceWithdrawn: self._withdrawn,
            QuotaReserved: self._reserved,
            WorkloadDeleted: self._gone,
            WorkloadFinished: self._gone,
        }

    def _admitted(self, state: SchedulerState, event: Admitted) -> Iterator[str]:
        new = state.world.workloads.get(event.workload)
        old = new and new.record.replaces and state.world.workloads.get(new.record.replaces)
        if not new or not old or old.assignment is None or old.evicted_at is not None or old.stopped:
            return
        if not asks_for_more(new, old):
            yield f"{new.key} takes the place of {old.key} and asks for no more pods than that has"

    def _withdrawn(self, _: SchedulerState, event: WorkloadSliceWithdrawn) -> Iterable[str]:
        self.withdrawn[event.workload] = None
        return ()

    def _reserved(self, _: SchedulerState, event: QuotaReserved) -> Iterator[str]:
        if event.workload in self.withdrawn:
            yield f"{event.workload} has quota, but it was withdrawn"

    def _gone(self, _: SchedulerState, event: WorkloadFinished | WorkloadDeleted) -> Iterable[str]:
        self.withdrawn.pop(event.workload, None)
        return ()


SLICE_OBSERVERS = (GrowthObserver,)

__all__ = ["SLICE_OBSERVERS"]
