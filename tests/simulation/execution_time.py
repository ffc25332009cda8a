"""What must hold of the time that a job has run."""

from collections.abc import Iterator
from typing import ClassVar

from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.state import SchedulerState
from sluice.core.workload.reasons import REACTIVATED
from sluice.core.world.variants import past_execution_us
from sluice.core.world.workload import Workload
from sluice.events.base import Micros, WorkloadKey
from sluice.events.scheduler import Admitted, QuotaReleased, Requeued, WorkloadSliceReplaced
from sluice.events.slices import WorkloadDeleted, WorkloadFinished, WorkloadUpdated
from sluice.replay.lint.observer import Observer, hears


class ExecutionObserver(Observer):
    """No time that a job has run is forgotten when it is admitted again, resized or moved (SC7, WS4)."""

    name: ClassVar[str] = "execution-time"
    decider = Scheduler

    def __init__(self) -> None:
        self.admitted_at: dict[WorkloadKey, Micros] = {}
        self.ran: dict[WorkloadKey, Micros] = {}
        """Workload, or parent of variants -> for how long it was admitted since somebody began it anew."""

    @hears
    def _admitted(self, state: SchedulerState, event: Admitted) -> Iterator[str]:
        self.admitted_at[event.workload] = self.at
        yield from self._compare(state, event.workload)

    @hears
    def _over(self, state: SchedulerState, event: QuotaReleased | WorkloadFinished | WorkloadDeleted) -> None:
        took = self._took(event.workload)
        workload = state.world.workloads.get(event.workload)
        if workload is None:
            self.ran.pop(event.workload, None)
        elif isinstance(event, QuotaReleased):
            root = _root(workload)
            self.ran[root] = self.ran.get(root, 0) + took

    @hears
    def _replaced(self, state: SchedulerState, event: WorkloadSliceReplaced) -> Iterator[str]:
        took, ran = self._took(event.workload), self.ran.pop(event.workload, 0)
        if event.by in state.world.workloads:
            self.ran[event.by] = ran + took
            yield from self._compare(state, event.by)

    @hears
    def _begun_anew(self, state: SchedulerState, event: WorkloadUpdated | Requeued) -> None:
        workload = state.world.workloads.get(event.workload)
        if workload is None:
            return
        if event.active if isinstance(event, WorkloadUpdated) else event.reason == REACTIVATED:
            self.ran.pop(_root(workload), None)

    def _took(self, key: WorkloadKey) -> Micros:
        """Return how long the admission took that ends; nothing where it began before the log."""
        return max(0, self.at - self.admitted_at.pop(key, self.at))

    def _compare(self, state: SchedulerState, key: WorkloadKey) -> Iterator[str]:
        workload = state.world.workloads.get(key)
        if workload is None:
            return
        counted, ran = past_execution_us(state.world, workload), self.ran.get(_root(workload), 0)
        if counted < ran:
            yield f"{key} has run for {ran} microseconds, of which {counted} count"


def _root(workload: Workload) -> WorkloadKey:
    return workload.record.parent or workload.key


__all__ = ["ExecutionObserver"]
