"""No preemptions go round in a circle, in any log (SC5, decision 0018)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from sluice.core.circles import IN_VAIN, actor
from sluice.core.scheduler import Scheduler
from sluice.core.state import SchedulerState
from sluice.events.base import Event, WorkloadKey
from sluice.events.checks import AdmissionCheckStatusChanged
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.events.scheduler import Preempted
from sluice.events.slices import (
    ReclaimablePodsUpdated,
    WorkloadCreated,
    WorkloadDeleted,
    WorkloadFinished,
    WorkloadStopped,
    WorkloadUpdated,
)

from .observing import Observer

MOST = 8
"""So often at most one preempts another with no input in between, however often it loses its place."""


class CircleObserver(Observer):
    """Nobody preempts those that have preempted it, nor the same ones over and over.

    What the scheduler remembers of past preemptions says so; and so does a count that rests on inputs alone,
    as the memory could be too short.
    """

    name = "no-circles"
    decider = Scheduler

    def __init__(self) -> None:
        self._times: dict[tuple[WorkloadKey, WorkloadKey], int] = {}
        """Preemptor and victim -> how often since the last input."""

    def hears(self) -> Mapping[type[Event], Callable[[Any, Any], Iterable[str]]]:
        inputs = (
            AdmissionCheckStatusChanged,
            ObjectApplied,
            ObjectDeleted,
            ReclaimablePodsUpdated,
            WorkloadCreated,
            WorkloadDeleted,
            WorkloadFinished,
            WorkloadUpdated,
        )
        return {
            **dict.fromkeys(inputs, self._input),
            WorkloadStopped: self._stopped,
            Preempted: self._preempted,
        }

    def _input(self, _: SchedulerState, _event: Event) -> Iterable[str]:
        self._times.clear()
        return ()

    def _stopped(self, state: SchedulerState, event: WorkloadStopped) -> Iterable[str]:
        workload = state.world.workloads.get(event.workload)
        if workload is not None and workload.assignment is not None and workload.evicted_at is None:
            self._times.clear()
        return ()

    def _preempted(self, state: SchedulerState, event: Preempted) -> Iterator[str]:
        preemptor = state.world.workloads.get(event.preemptor)
        victim = state.world.workloads.get(event.workload)
        if preemptor is None or victim is None:
            return
        pair = (actor(preemptor), actor(victim))
        times = self._times[pair] = self._times.get(pair, 0) + 1
        circles = state.world.circles
        if circles.has_preempted(pair[1], pair[0]):
            yield f"{event.preemptor} preempted {event.workload}, which had preempted it or those who did"
        elif circles.times(*pair) > IN_VAIN or times > MOST:
            times = max(times, circles.times(*pair))
            yield f"{event.preemptor} preempted {event.workload} {times} times, and nothing came of it"


__all__ = ["CircleObserver"]
