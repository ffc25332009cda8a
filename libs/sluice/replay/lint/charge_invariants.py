"""What must hold of quota that jobs run with: it is for what they ask for, as limit ranges had it then."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from sluice.core.slices.decider import SliceAggregator
from sluice.core.slices.limits import judged
from sluice.core.slices.state import Job, State
from sluice.events.base import Event, PodSetAssignment, WorkloadKey
from sluice.events.scheduler import QuotaReleased, QuotaReserved
from sluice.events.slices import JobResumed, WorkloadDeleted, WorkloadFinished
from sluice.events.variants import ParentAdmitted, ParentReleased

from .observer import Observer


class LimitsObserver(Observer):
    """Nobody runs with quota for what limit ranges and runtime classes no longer made of its manifest when
    that was reserved.

    A scheduler may reserve before it has heard of a change. Nothing may start with that.
    """

    name = "limits-of-then"
    decider = SliceAggregator

    def __init__(self) -> None:
        self.wrong: dict[WorkloadKey, str] = {}
        """Who must not start with the quota that it has, and why."""

    def hears(self) -> Mapping[type[Event], Callable[[Any, Any], Iterable[str]]]:
        return {
            **dict.fromkeys((QuotaReserved, ParentAdmitted), self._reserved),
            **dict.fromkeys((QuotaReleased, ParentReleased, WorkloadDeleted, WorkloadFinished), self._over),
            JobResumed: self._began,
        }

    def _reserved(self, state: State, event: QuotaReserved | ParentAdmitted) -> Iterable[str]:
        job = state.by_workload.get(event.workload) if state.limits_used else None
        if job is not None and job.record.key == event.workload and job.pending is None:
            text = _misfit(state, job, event.pod_sets)
            if text:
                self.wrong[event.workload] = text
        return ()

    def _over(self, _: State, event: Any) -> Iterable[str]:
        self.wrong.pop(event.workload, None)
        return ()

    def _began(self, _: State, event: JobResumed) -> Iterator[str]:
        text = self.wrong.pop(event.workload, "")
        if text:
            yield f"{event.workload} runs with quota {text}"


def _misfit(state: State, job: Job, given: Iterable[PodSetAssignment]) -> str:
    """Return what is wrong with quota *given* to the job now, '' if nothing."""
    found = judged(state, job)
    if found.message:
        return f"and was out of range when it was reserved: {found.message}"
    asked = {pods.name: each for pods, each in zip(job.record.pod_sets, found.requests, strict=True)}
    for pods in given:
        wanted = {name: amount * pods.count for name, amount in asked.get(pods.name, {}).items()}
        # A queue may count pods, which nobody asks for; what is 0 need not be said.
        had = {name: amount for name, amount in pods.usage.items() if name in wanted or name != "pods"}
        for name in sorted({**wanted, **had}):
            if wanted.get(name, 0) != had.get(name, 0):
                want = wanted.get(name, 0)
                return f"for {had.get(name, 0)} of {name} where limit ranges made {want} of it"
    return ""


CHARGE_OBSERVERS: tuple[type[Observer], ...] = (LimitsObserver,)

__all__ = ["CHARGE_OBSERVERS"]
