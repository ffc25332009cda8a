"""One job's waits in a run, recorded or virtual: until it was admitted first, in all, after a preemption."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from sluice.core.workload.reasons import PREEMPTED
from sluice.events.base import Micros, WorkloadKey


@dataclass(slots=True)
class Life:
    """One job's way, through whichever slices and variants; of what has no job, the workload's.

    It waits while none of its workloads is admitted. A workload that was stopped is admitted until it has
    given its quota back.
    """

    queue: str
    job_class: str
    created: Micros
    admitted: Micros | None = None
    """First time."""
    finished: Micros | None = None
    preemptions: int = 0
    flavors: list[str] = field(default_factory=list)
    """Those that it was admitted with, each once, in order."""
    waited: Micros = 0
    """In all, of waits that are over."""
    after_preemption: Micros = 0
    """Of `waited`, what followed a preemption."""
    waits_since: Micros | None = None
    """None: it does not wait."""
    preempted: bool = False
    """Is what it waits for now, or would when it has stopped, because of a preemption?"""
    holding: set[WorkloadKey] = field(default_factory=set)
    """Its workloads that are admitted."""
    there: int = 0
    """Its workloads that are not over, variants left out."""

    def admit(self, workload: WorkloadKey, flavors: Iterable[str], at: Micros) -> None:
        if self.admitted is None:
            self.admitted = at
        self._end_wait(at)
        self.holding.add(workload)
        self.preempted = False
        for flavor in flavors:
            if flavor and flavor not in self.flavors:
                self.flavors.append(flavor)

    def evict(self, reason: str) -> None:
        self.preempted = reason == PREEMPTED

    def leave(self, workload: WorkloadKey, at: Micros) -> None:
        """One of its workloads is not admitted any more."""
        if workload in self.holding:
            self.holding.remove(workload)
            if not self.holding and self.there:
                self.waits_since = at

    def end(self, workload: WorkloadKey, at: Micros) -> None:
        """One of its workloads is over, which is no variant."""
        self.there -= 1
        self.leave(workload, at)
        if not self.there:
            self._end_wait(at)

    def _end_wait(self, at: Micros) -> None:
        if self.waits_since is None:
            return
        self.waited += at - self.waits_since
        if self.preempted:
            self.after_preemption += at - self.waits_since
        self.waits_since = None

    def waits_at(self, now: Micros) -> tuple[Micros, Micros]:
        """Return how long it has waited by *now*, in all and after preemptions."""
        since = now if self.waits_since is None else self.waits_since
        more = max(0, now - since)
        return self.waited + more, self.after_preemption + (more if self.preempted else 0)
