"""No preemptions go round in a circle, in any log (SC5, decision 0018)."""

from collections.abc import Iterator

from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.state import SchedulerState
from sluice.core.world.preemption_history import IN_VAIN, actor
from sluice.events import checks, scheduler, slices
from sluice.events.base import WorkloadKey
from sluice.events.config import ObjectApplied, ObjectDeleted

from .observer import Observer, hears

MOST = 8
"""So often at most one preempts another with no input in between, however often it loses its place.

That a check sends it back is an input: it asks for its place again when it has been told to.
"""


class CircleObserver(Observer):
    """Nobody preempts those that have preempted it, nor the same ones over and over.

    What the scheduler remembers of past preemptions says so; and so does what is kept here, which rests on
    inputs alone and uses nothing that the scheduler uses: its memory could be too short, or wrong.
    """

    name = "no-circles"
    decider = Scheduler

    def __init__(self) -> None:
        self._times: dict[tuple[WorkloadKey, WorkloadKey], int] = {}
        """Preemptor and victim -> how often since the last input."""
        self._vain: dict[tuple[WorkloadKey, WorkloadKey], int] = {}
        """The same -> how often since the preemptor had quota, too."""
        self._by: dict[WorkloadKey, dict[WorkloadKey, None]] = {}
        """Victim -> who preempted it since the last input."""
        self._at_once: dict[tuple[WorkloadKey, WorkloadKey], set[WorkloadKey]] = {}
        """Since quota was given back last: variants of a family that go together are preempted once."""

    @hears
    def _input(
        self,
        _: SchedulerState,
        _event: checks.AdmissionCheckStatusChanged
        | ObjectApplied
        | ObjectDeleted
        | slices.ReclaimablePodsUpdated
        | slices.WorkloadCreated
        | slices.WorkloadDeleted
        | slices.WorkloadFinished
        | slices.WorkloadUpdated,
    ) -> None:
        self._forget()

    def _forget(self) -> None:
        if self._by:
            self._times.clear()
            self._vain.clear()
            self._by.clear()

    @hears
    def _sent_back(self, _: SchedulerState, _event: checks.ChecksRetry) -> None:
        """Others have its quota meanwhile, and make way for it again, and for those that had to wait."""
        self._times.clear()

    @hears
    def _stopped(self, state: SchedulerState, event: slices.WorkloadStopped) -> None:
        workload = state.world.workloads.get(event.workload)
        if workload is not None and workload.assignment is not None and workload.evicted_at is None:
            self._forget()

    @hears
    def _reserved(self, state: SchedulerState, event: scheduler.QuotaReserved) -> None:
        """What it has preempted for was not in vain, unless it has the quota on a promise only (AC6)."""
        workload = state.world.workloads.get(event.workload)
        if self._vain and workload is not None and not event.preemptions_pending:
            key = actor(workload)
            self._vain = {pair: times for pair, times in self._vain.items() if pair[0] != key}

    @hears
    def _released(self, _: SchedulerState, _event: scheduler.QuotaReleased) -> None:
        self._at_once.clear()

    @hears
    def _preempted(self, state: SchedulerState, event: scheduler.Preempted) -> Iterator[str]:
        preemptor = state.world.workloads.get(event.preemptor)
        victim = state.world.workloads.get(event.workload)
        if preemptor is None or victim is None:
            return
        pair = (actor(preemptor), actor(victim))
        together = self._at_once.setdefault(pair, set())
        is_sibling = bool(together) and event.workload not in together
        together.add(event.workload)
        if is_sibling:
            return
        times = self._times[pair] = self._times.get(pair, 0) + 1
        vain = self._vain[pair] = self._vain.get(pair, 0) + 1
        before = pair[1] in self._who_preempted(pair[0])
        self._by.setdefault(pair[1], {})[pair[0]] = None
        circles = state.world.circles
        if before or circles.has_preempted(pair[1], pair[0]):
            yield f"{event.preemptor} preempted {event.workload}, which had preempted it or those who did"
        elif max(vain, circles.times(*pair)) > IN_VAIN or times > MOST:
            times = max(times, circles.times(*pair))
            yield f"{event.preemptor} preempted {event.workload} {times} times, and nothing came of it"

    def _who_preempted(self, key: WorkloadKey) -> dict[WorkloadKey, None]:
        """Return who preempted it since the last input, directly or through others."""
        found: dict[WorkloadKey, None] = {}
        todo = [key]
        while todo:
            for other in self._by.get(todo.pop(), ()):
                if other not in found:
                    found[other] = None
                    todo.append(other)
        return found
