"""Invariants of quota and reservations in any log (DB6), as the scheduler saw it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.invariants import reservation_violations, violations
from sluice.core.scheduler.state import SchedulerState
from sluice.core.world.variants import parent_holds
from sluice.events.base import WorkloadKey
from sluice.events.scheduler import (
    Admitted,
    QuotaReleased,
    QuotaReserved,
    WorkloadSliceReplaced,
)
from sluice.events.slices import (
    WorkloadCreated,
    WorkloadDeleted,
    WorkloadFinished,
)
from sluice.events.variants import VariantCreated, VariantDeleted
from sluice.log.fold import Fold
from sluice.replay.source.source import Source
from sluice.replay.source.time_travel import beginning, patterns_of

from .observer import Observer, hears
from .watching import Violation


class QuotaObserver(Observer):
    """Quota is never given out twice: no reservation exceeds what is available, at any node (SC3)."""

    name = "quota"
    decider = Scheduler

    def __init__(self) -> None:
        self.doubtful: list[QuotaReserved] = []
        """They take what preemptors wait for. If one is passed, its promise ends a step later."""
        self.doubted: list[QuotaReserved] = []
        """They did after their own step, too."""

    @hears
    def _reserved(self, state: SchedulerState, event: QuotaReserved) -> Iterable[str]:
        found = reservation_violations(state, event)
        if found and not reservation_violations(state, event, waiting=False):
            self.doubtful.append(event)
            return ()
        return found

    def settled(self, state: SchedulerState) -> Iterator[str]:
        for event in self.doubted:
            yield from reservation_violations(state, event)
        self.doubted, self.doubtful = self.doubtful, []

    def ended(self, state: SchedulerState) -> Iterator[str]:
        for event in (*self.doubted, *self.doubtful):
            yield from reservation_violations(state, event)


class ReservationObserver(Observer):
    """Quota is reserved once, for live workloads, and goes with them; nobody is admitted without it."""

    name = "reservations"
    decider = Scheduler

    def __init__(self) -> None:
        self.held: dict[WorkloadKey, str] = {}
        """Workload -> the queue that is charged."""

    def begun(self, state: SchedulerState) -> None:
        for name, queue in state.world.cluster_queues.items():
            self.held |= dict.fromkeys(queue.workloads, name)

    @hears
    def _made(self, state: SchedulerState, event: WorkloadCreated | VariantCreated) -> None:
        """A name can come again, once in a million times: that of a variant which went with its parent."""
        key = event.workload.key
        if key in self.held and key not in self._holders(state, self.held[key]):
            del self.held[key]

    @hears
    def _reserved(self, state: SchedulerState, event: QuotaReserved) -> Iterator[str]:
        key = event.workload
        workload = state.world.workloads.get(key)
        if workload is None or workload.finished:
            yield f"{key} has quota of {event.cluster_queue}, but there is no such live workload"
        elif key in self.held and key in self._holders(state, self.held[key]):
            yield f"{key} has quota of {event.cluster_queue}, and had it before"
        elif key in state.world.families:
            yield f"{key} has quota of {event.cluster_queue}, but it is a parent: its variants have quota"
        elif parent_holds(state.world, workload):
            yield f"{key} has quota of {event.cluster_queue}, and its parent has quota of its own"
        self.held[key] = event.cluster_queue

    @hears
    def _admitted(self, state: SchedulerState, event: Admitted) -> Iterator[str]:
        workload = state.world.workloads.get(event.workload)
        if workload is None or workload.assignment is None:
            yield f"{event.workload} was admitted without quota"

    @hears
    def _released(self, _: SchedulerState, event: QuotaReleased) -> Iterator[str]:
        if self.held.pop(event.workload, None) is None:
            yield f"{event.workload} gave back quota that it did not have"

    @hears
    def _ended(
        self,
        state: SchedulerState,
        event: WorkloadFinished | WorkloadDeleted | WorkloadSliceReplaced | VariantDeleted,
    ) -> Iterator[str]:
        queue = self.held.pop(event.workload, None)
        if queue is not None and event.workload in self._holders(state, queue):
            yield f"{event.workload} is over, and {queue} still holds quota for it"

    @staticmethod
    def _holders(state: SchedulerState, queue: str) -> Mapping[WorkloadKey, Any]:
        found = state.world.cluster_queues.get(queue)
        return {} if found is None else found.workloads


class StateObserver(Observer):
    """Usage is what reservations charge; no reservation without a live workload; all lists agree.

    A whole state takes long to look at, so it is looked at ever more rarely as the log goes on. What is found
    may have begun after the last good look: `first_bad` says where.
    """

    name = "state"
    decider = Scheduler

    def __init__(self) -> None:
        self.steps = 0
        """Seen."""
        self.good = 0
        """So many were looked at or came before one that was, and nothing was wrong."""
        self._due = 16
        self._over = False

    def settled(self, state: SchedulerState) -> Iterator[str]:
        self.steps += 1
        if self.steps >= self._due:
            yield from self.ended(state)

    def ended(self, state: SchedulerState) -> Iterator[str]:
        if self._over:
            return
        self._due = self.steps + max(16, self.steps // 10)
        if violations(state):
            self._over = True
            yield ""
        else:
            self.good = self.steps


def first_bad(source: Source, good: int, found: Violation) -> Iterator[Violation]:
    """Yield what is wrong behind the first bad step after so many good ones."""
    fold: Fold[SchedulerState] = beginning(source, Scheduler())
    number, seq, at = 0, found.seq, found.at
    texts: list[str] = []
    for entries in source.read(fold.start, None, patterns_of(fold.decider)):
        for seq, step in fold.take_in(entries):
            number, at = number + 1, step.at
            if number > good and (texts := violations(fold.state)):
                yield from (Violation("state", seq, at, text) for text in texts)
                return
    fold.release()
    yield from (Violation("state", source.end, fold.at, text) for text in violations(fold.state))


QUOTA_OBSERVERS: tuple[type[Observer], ...] = (StateObserver, QuotaObserver, ReservationObserver)
