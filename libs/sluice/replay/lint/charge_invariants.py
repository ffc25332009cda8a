"""Invariants of quota that jobs run with: it is for what they ask for, as limit ranges had it then."""

from collections.abc import Iterable, Iterator

from sluice.core.slices.decider import SliceAggregator
from sluice.core.slices.limits import judged
from sluice.core.slices.state import Job, State
from sluice.events.base import PodSetAssignment, WorkloadKey
from sluice.events.scheduler import QuotaReleased, QuotaReserved
from sluice.events.slices import JobResumed, WorkloadDeleted, WorkloadFinished
from sluice.events.variants import ParentAdmitted, ParentReleased

from .observer import Observer, hears


class LimitsObserver(Observer):
    """Nobody runs with quota for what its job, limit ranges and runtime classes did not ask for any more
    when that was reserved, or when its parent was admitted with it.

    A scheduler may reserve before it has heard of a change. Nothing may start with that.
    """

    name = "limits-of-then"
    decider = SliceAggregator

    def __init__(self) -> None:
        self.wrong: dict[WorkloadKey, str] = {}
        """Who must not start with the quota that it has, and why."""

    @hears
    def _reserved(self, state: State, event: QuotaReserved | ParentAdmitted) -> None:
        job = state.by_workload.get(event.workload)
        if job is not None and job.record.key == event.workload and job.pending is None:
            text = _misfit(state, job, event.pod_sets)
            if text:
                self.wrong[event.workload] = text

    @hears
    def _over(
        self, _: State, event: QuotaReleased | ParentReleased | WorkloadDeleted | WorkloadFinished
    ) -> None:
        self.wrong.pop(event.workload, None)

    @hears
    def _began(self, _: State, event: JobResumed) -> Iterator[str]:
        text = self.wrong.pop(event.workload, "")
        if text:
            yield f"{event.workload} runs with quota {text}"


def _misfit(state: State, job: Job, given: Iterable[PodSetAssignment]) -> str:
    """Return what is wrong with quota *given* to the job now, '' if nothing."""
    asked = {pods.name: pods.requests for pods in job.record.pod_sets}
    if state.limits_used:
        found = judged(state, job)
        if found.message:
            return f"and was out of range when it was reserved: {found.message}"
        asked = dict(zip(asked, found.requests, strict=True))
    for pods in given:
        wanted = {name: amount * pods.count for name, amount in asked.get(pods.name, {}).items()}
        # A queue may count pods, which nobody asks for; what is 0 need not be said.
        had = {name: amount for name, amount in pods.usage.items() if name in wanted or name != "pods"}
        for name in sorted({**wanted, **had}):
            if wanted.get(name, 0) != had.get(name, 0):
                want = wanted.get(name, 0)
                return f"for {had.get(name, 0)} of {name} where its job asks for {want} of it"
    return ""


CHARGE_OBSERVERS: tuple[type[Observer], ...] = (LimitsObserver,)
