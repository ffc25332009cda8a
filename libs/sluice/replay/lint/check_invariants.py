"""Invariants of admission checks in any log (DB6)."""

from collections.abc import Iterable, Iterator

from sluice.core.checks.decider import AdmissionChecks
from sluice.core.checks.pod_set_updates import INVALID
from sluice.core.checks.state import State
from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.state import SchedulerState
from sluice.core.workload.admission_checks import PREEMPTION_REQUIRED, READY, RETRY
from sluice.core.workload.pending_reasons import SUSPENDED
from sluice.core.workload.reasons import ADMISSION_CHECK, PREEMPTED
from sluice.core.world.activity import CHECK_INACTIVE, is_asked_by, why_inactive
from sluice.core.world.inadmissible import why_reservation_ends
from sluice.core.world.workload import Workload
from sluice.events import checks, scheduler, slices
from sluice.events.base import Micros, WorkloadKey
from sluice.events.codec import rfc3339

from .observer import Observer, hears


class ApprovalObserver(Observer):
    """A complete set of Ready verdicts is not taken back because a controller is away (AC9)."""

    name = "approval-kept"
    decider = Scheduler

    def __init__(self) -> None:
        self.approved: dict[WorkloadKey, None] = {}
        """With quota that was never admitted, and all checks Ready."""
        self.given_up: dict[WorkloadKey, None] = {}
        """Of those, who gave it up in this step, not because of an eviction."""

    @hears
    def _ready(self, state: SchedulerState, event: checks.ChecksReady) -> None:
        if _current(state, event) is not None:
            self.approved[event.workload] = None

    @hears
    def _over(
        self,
        _: SchedulerState,
        event: scheduler.Admitted
        | checks.ChecksPending
        | checks.ChecksRejected
        | checks.ChecksRetry
        | scheduler.Evicted
        | slices.WorkloadDeleted
        | slices.WorkloadFinished,
    ) -> None:
        self.approved.pop(event.workload, None)

    @hears
    def _released(self, _: SchedulerState, event: scheduler.QuotaReleased) -> None:
        if event.workload in self.approved:
            del self.approved[event.workload]
            self.given_up[event.workload] = None

    @hears
    def _said(self, state: SchedulerState, event: scheduler.PendingReasonChanged) -> Iterator[str]:
        for key in event.workloads if event.reason == SUSPENDED else ():
            workload = state.world.workloads.get(key)
            if key not in self.given_up or workload is None:
                continue
            local = state.world.local_queues.get(f"{workload.record.namespace}/{workload.record.queue_name}")
            queue = state.world.cluster_queues.get(local.cluster_queue) if local is not None else None
            if queue is None or why_reservation_ends(state.world, workload) is not None:
                continue
            if [reason for reason, _ in why_inactive(state.world, queue)] == [CHECK_INACTIVE]:
                yield f"{key} gave its quota up with all checks Ready, because a controller is away"

    def settled(self, state: SchedulerState) -> Iterable[str]:  # noqa: ARG002
        self.given_up.clear()
        return ()


class RetryObserver(Observer):
    """Who was sent back by its checks has no quota before the longest of their delays is over (AC3)."""

    name = "retry-waits"
    decider = Scheduler

    def __init__(self) -> None:
        self.until: dict[WorkloadKey, Micros] = {}

    @hears
    def _retry(self, state: SchedulerState, event: checks.ChecksRetry) -> None:
        workload = _current(state, event)
        if (
            workload is not None
            and workload.active
            and workload.held_for in ("", ADMISSION_CHECK, PREEMPTED)
            and is_asked_by(state.world, workload, event.checks)
        ):
            self.until[event.workload] = max(event.requeue_at, self.until.get(event.workload, 0))

    @hears
    def _ready(self, state: SchedulerState, event: checks.ChecksReady) -> None:
        # Who asked for the delay was taken from the queue before anybody acted on it: `retry-stands`.
        workload = _current(state, event)
        if workload is not None and workload.assignment is not None and workload.evicted_at is None:
            self.until.pop(event.workload, None)

    @hears
    def _evicted(self, _: SchedulerState, event: scheduler.Evicted) -> None:
        # What ends for another reason begins anew when that is over.
        if event.reason not in (ADMISSION_CHECK, PREEMPTED):
            self.until.pop(event.workload, None)

    @hears
    def _over(
        self,
        _: SchedulerState,
        event: checks.ChecksPending
        | checks.ChecksRejected
        | scheduler.WorkloadDeactivated
        | slices.WorkloadDeleted
        | slices.WorkloadFinished,
    ) -> None:
        self.until.pop(event.workload, None)

    @hears
    def _updated(self, _: SchedulerState, event: slices.WorkloadUpdated) -> None:
        if event.active is not None:
            self.until.pop(event.workload, None)

    @hears
    def _reserved(self, state: SchedulerState, event: scheduler.QuotaReserved) -> Iterator[str]:
        until = self.until.pop(event.workload, None)
        workload = state.world.workloads.get(event.workload)
        at = workload.reserved_at if workload is not None else None
        if until is not None and at is not None and at < until:
            text = f"{event.workload} has quota since {rfc3339(at)}"
            yield f"{text}, but a check had asked for {rfc3339(until)}"


class HeldBackObserver(Observer):
    """Who is held back until some time has no quota before it, whatever else keeps it out (SC7)."""

    name = "held-back"
    decider = Scheduler

    def __init__(self) -> None:
        self.until: dict[WorkloadKey, Micros] = {}

    @hears
    def _began(self, _: SchedulerState, event: scheduler.RequeueBackoffStarted) -> None:
        self.until[event.workload] = event.requeue_at

    @hears
    def _over(self, _: SchedulerState, event: slices.WorkloadDeleted | slices.WorkloadFinished) -> None:
        self.until.pop(event.workload, None)

    @hears
    def _reserved(self, state: SchedulerState, event: scheduler.QuotaReserved) -> Iterator[str]:
        until, workload = self.until.pop(event.workload, None), state.world.workloads.get(event.workload)
        at = None if workload is None else workload.reserved_at
        if until is not None and at is not None and at < until:
            yield f"{event.workload} has quota since {rfc3339(at)}, but was held back until {rfc3339(until)}"


class SentBackObserver(Observer):
    """Who was sent back by its checks is so until none of those concerns it any more (AC3)."""

    name = "retry-stands"
    decider = AdmissionChecks

    def __init__(self) -> None:
        self.asked: dict[WorkloadKey, tuple[int, dict[str, None]]] = {}
        """Workload -> of which attempt, and the checks that have said Retry of it and concern it still."""

    @hears
    def _retry(self, state: State, event: checks.ChecksRetry) -> None:
        tracked = state.workloads.get(event.workload)
        live = tracked.reservation if tracked is not None else None
        if live is not None and event.attempt == live.attempt:
            self.asked[event.workload] = (event.attempt, dict.fromkeys(event.checks))

    @hears
    def _requested(self, state: State, event: checks.ChecksRequested) -> None:
        attempt, asked = self.asked.get(event.workload, (0, {}))
        tracked = state.workloads.get(event.workload)
        if tracked is not None and event.attempt == attempt:
            # One that the queue has no more, or that is another controller's now, has not said it.
            now = {name: tracked.states.get(name) for name in asked if name in event.checks}
            stand = [name for name, found in now.items() if found is not None and found.state == RETRY]
            self.asked[event.workload] = (attempt, dict.fromkeys(stand))

    @hears
    def _taken_back(self, _: State, event: checks.ChecksReady | checks.ChecksPending) -> Iterator[str]:
        attempt, asked = self.asked.get(event.workload, (0, {}))
        if asked and event.attempt == attempt:
            said = f"{', '.join(asked)} had said Retry of attempt {attempt}"
            yield f"{event.workload}: {type(event).__name__}, but {said}"

    @hears
    def _over(
        self, _: State, event: checks.ChecksWithdrawn | slices.WorkloadDeleted | slices.WorkloadFinished
    ) -> None:
        self.asked.pop(event.workload, None)


class AdditionsObserver(Observer):
    """What is admitted loses no approval for what a further Ready would add to its pods (AC5)."""

    name = "approval-stands"
    decider = Scheduler

    def __init__(self) -> None:
        self.running: dict[WorkloadKey, None] = {}
        """Admitted, and no check has said otherwise since: that may have come first."""

    @hears
    def _admitted(self, _: SchedulerState, event: scheduler.Admitted) -> None:
        self.running[event.workload] = None

    @hears
    def _said(self, state: SchedulerState, event: checks.CheckStateChanged) -> Iterator[str]:
        if event.state != READY and event.workload in self.running:
            del self.running[event.workload]
            workload = state.world.workloads.get(event.workload)
            # A check that was taken from the queue meanwhile has no say in it.
            is_asked = workload is not None and is_asked_by(state.world, workload, (event.check,))
            if event.reason == INVALID and is_asked:
                yield f"{event.workload} is admitted; check {event.check} was rejected for podSetUpdates"

    @hears
    def _over(
        self,
        _: SchedulerState,
        event: scheduler.QuotaReleased
        | scheduler.WorkloadSliceReplaced
        | slices.WorkloadDeleted
        | slices.WorkloadFinished,
    ) -> None:
        self.running.pop(event.workload, None)


class OnDemandObserver(Observer):
    """Nobody is preempted on demand before a check of this very attempt has asked for it (AC4, AC6)."""

    name = "asked-for"
    decider = Scheduler

    def __init__(self) -> None:
        self.asked: dict[WorkloadKey, dict[str, int]] = {}
        """Check -> the attempt in which it has asked for preemption, and said nothing else since."""

    @hears
    def _said(self, _: SchedulerState, event: checks.CheckStateChanged) -> None:
        said = self.asked.setdefault(event.workload, {})
        if event.reason == PREEMPTION_REQUIRED:
            said[event.check] = event.attempt
        else:
            said.pop(event.check, None)

    @hears
    def _allowed(self, _: SchedulerState, event: checks.PreemptionsAllowed) -> Iterator[str]:
        if event.reason != PREEMPTION_REQUIRED:
            return
        if event.attempt not in self.asked.get(event.workload, {}).values():
            text = f"may preempt in attempt {event.attempt}"
            yield f"{event.workload} {text}, in which no check has asked for it"

    @hears
    def _over(self, _: SchedulerState, event: slices.WorkloadDeleted | slices.WorkloadFinished) -> None:
        self.asked.pop(event.workload, None)


def _current(state: SchedulerState, event: checks.ChecksReady | checks.ChecksRetry) -> Workload | None:
    """Return the workload if the event is about its latest reservation."""
    workload = state.world.workloads.get(event.workload)
    return workload if workload is not None and event.attempt in (0, workload.reservations) else None


CHECK_OBSERVERS: tuple[type[Observer], ...] = (
    ApprovalObserver,
    RetryObserver,
    HeldBackObserver,
    SentBackObserver,
    AdditionsObserver,
    OnDemandObserver,
)
