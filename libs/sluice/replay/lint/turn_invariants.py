"""Invariants of any log while the variants of a job preempt in turn, or the job stops (DB6)."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from sluice.api.labels import GATE_CONCURRENT_ADMISSION
from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.state import SchedulerState
from sluice.core.workload.pending_reasons import ADMISSION_GATED
from sluice.core.world.preemption_turns import goes_first
from sluice.core.world.variants import MAY_PREEMPT, has_passed, siblings
from sluice.events import checks, scheduler, slices, variants
from sluice.events.base import WorkloadKey
from sluice.events.config import ObjectApplied, ObjectDeleted

from .observer import Observer, hears

GRACE = 2
"""So many steps later what is too much for one has been decided."""


class TurnObserver(Observer):
    """No variant gets in before a better one has had its turn at preempting, and none gives up in its own
    turn, or when that is over, what those leave whom it has told to go (CA11, decision 0017)."""

    name: ClassVar[str] = "turns"
    decider = Scheduler

    def __init__(self) -> None:
        self.preempting: dict[WorkloadKey, Sequence[WorkloadKey]] = {}
        """Those that have preempted -> for whom they wait, while nothing else has happened to their job."""
        self.waiting: set[WorkloadKey] = set()
        """Those that have preempted, while nothing else has happened to themselves: a sibling that gets in
        meanwhile takes nothing of what they have told others to leave."""

    @hears
    def _preempts(self, _: SchedulerState, event: scheduler.PreemptionIssued) -> None:
        self.preempting[event.workload] = event.victims
        self.waiting.add(event.workload)

    @hears
    def _waits_no_more(
        self,
        state: SchedulerState,
        event: scheduler.PreemptionWaitEnded
        | variants.VariantDeactivated
        | variants.VariantDeleted
        | variants.VariantUpdated
        | scheduler.QuotaReleased
        | slices.ReclaimablePodsUpdated,
    ) -> None:
        self.waiting.discard(event.workload)
        self._forget(state, event.workload)

    @hears
    def _edited(self, _: SchedulerState, event: ObjectApplied | ObjectDeleted) -> None:  # noqa: ARG002
        self.preempting.clear()

    @hears
    def _turn_ends(self, _: SchedulerState, event: variants.PreemptionGateClosed) -> None:
        if not event.spent:
            self.preempting.pop(event.workload, None)
            self.waiting.discard(event.workload)

    @hears
    def _parked(self, state: SchedulerState, event: scheduler.WorkloadsParked) -> Iterator[str]:
        workloads = state.world.workloads
        for key in event.workloads:
            self.waiting.discard(key)
            victims = self.preempting.pop(key, None)
            if victims is None or key not in workloads:
                continue
            if event.message == MAY_PREEMPT:
                yield f"{key} has preempted, and stands back for a sibling that has not"
            elif event.reason == ADMISSION_GATED:
                leaving = [v for v in victims if v in workloads and workloads[v].evicted_at is not None]
                if leaving:
                    yield f"{key} has preempted {', '.join(leaving)}, and gives up what they leave"

    def _forget(self, state: SchedulerState, key: WorkloadKey) -> None:
        """What has happened to one variant may concern the others of its job."""
        workload = state.world.workloads.get(key)
        if workload is None or not self.preempting:
            return
        for other in (workload, *siblings(state.world, workload)):
            self.preempting.pop(other.key, None)

    @hears
    def _reserved(self, state: SchedulerState, event: scheduler.QuotaReserved) -> Iterator[str]:
        waited_on = event.workload in self.waiting
        self.waiting.discard(event.workload)
        self._forget(state, event.workload)
        workload = state.world.workloads.get(event.workload)
        if (
            workload is None
            or workload.record.parent is None
            or GATE_CONCURRENT_ADMISSION in workload.open_gates
            or waited_on
        ):
            return  # in its own turn, or of what those leave that it has told to go in that
        for other in state.world.families.get(workload.record.parent, {}).values():
            waits = other.tries or other.blocked_on_gates
            if waits and goes_first(other, workload.record.preference):
                yield f"{workload.key} has quota, and {other.key}, which is better, has not had its turn"


class TargetObserver(Observer):
    """While a job stops, one variant at most waits for nothing else with quota to go on with (CA10)."""

    name: ClassVar[str] = "one-target"
    decider = Scheduler

    def __init__(self) -> None:
        self.due: dict[WorkloadKey, tuple[int, int]] = {}
        """Parent -> after how many steps it was found wrong, and how many variants waited then."""

    @hears
    def _came(
        self, state: SchedulerState, event: scheduler.QuotaReserved | scheduler.Evicted | checks.ChecksReady
    ) -> None:
        workload = state.world.workloads.get(event.workload)
        if workload is not None and workload.record.parent is not None:
            self.due.setdefault(workload.record.parent, (0, 0))

    def settled(self, state: SchedulerState) -> Iterator[str]:
        for parent in list(self.due):
            family = state.world.families.get(parent, {}).values()
            waiting = [
                variant.key
                for variant in family
                if variant.assignment is not None
                and variant.admitted_at is None
                and not variant.preemptions
                and has_passed(state.world, variant)
            ]
            leaves = any(v.admitted_at is not None and v.evicted_at is not None for v in family)
            if len(waiting) < 2 or not leaves:
                del self.due[parent]
                continue
            steps, before = self.due[parent]
            steps = 0 if len(waiting) < before else steps + 1  # one of them gives its quota up in a step
            self.due[parent] = (steps, len(waiting))
            if steps > GRACE:
                yield f"{' and '.join(waiting)} have quota, and wait for nothing but the stop of {parent}"


TURN_OBSERVERS: tuple[type[Observer], ...] = (TurnObserver, TargetObserver)
