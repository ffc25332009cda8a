"""Invariants along the whole history, and an account of quota that knows nothing of the scheduler's own."""

from dataclasses import dataclass, field

import msgspec

from sluice.api import kueue
from sluice.api.quantity import resource_value
from sluice.core.invariants import reservation_violations, violations
from sluice.core.scheduler import Scheduler
from sluice.core.state import SchedulerState
from sluice.events.base import Event, Micros, WorkloadKey
from sluice.events.config import ObjectApplied
from sluice.events.scheduler import QuotaReleased, QuotaReserved
from sluice.events.slices import WorkloadDeleted, WorkloadFinished

EVERY = 97
"""Events between looks at the whole state, which take long."""


@dataclass
class Account:
    """Quota and usage of flat cohorts with one flavor per queue, in milli-units of cpu."""

    nominal: dict[str, int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)
    cohort: dict[str, str] = field(default_factory=dict)
    held: dict[WorkloadKey, tuple[str, int]] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)

    def add(self, event: Event) -> str:
        """Book *event*; returns what is wrong with it, "" if nothing."""
        match event:
            case ObjectApplied(kind="ClusterQueue"):
                self._set_up(event)
            case QuotaReserved():
                return self._reserve(event)
            case QuotaReleased() | WorkloadFinished() | WorkloadDeleted():
                queue, amount = self.held.pop(event.workload, ("", 0))
                if queue:
                    self.used[queue] -= amount
            case _:
                pass
        return ""

    def _set_up(self, event: ObjectApplied) -> None:
        spec = msgspec.json.decode(event.object, type=kueue.ClusterQueue).spec
        quota = spec.resource_groups[0].flavors[0].resources[0]
        nominal = resource_value("cpu", quota.nominal_quota)
        limit = quota.borrowing_limit
        self.nominal[event.name] = nominal
        self.most[event.name] = 2**62 if limit is None else nominal + resource_value("cpu", limit)
        self.cohort[event.name] = spec.cohort_name
        self.used.setdefault(event.name, 0)

    def _reserve(self, event: QuotaReserved) -> str:
        queue = event.cluster_queue
        amount = sum(assigned.usage.get("cpu", 0) for assigned in event.pod_sets)
        self.held[event.workload] = (queue, amount)
        self.used[queue] += amount
        if self.used[queue] > self.most[queue]:
            return f"{event.workload}: {queue} uses {self.used[queue]} of at most {self.most[queue]}"
        cohort = [name for name, its in self.cohort.items() if its == self.cohort[queue]]
        used, nominal = sum(self.used[name] for name in cohort), sum(self.nominal[name] for name in cohort)
        if used > nominal:
            return f"{event.workload}: {self.cohort[queue]} uses {used} of {nominal}"
        return ""


class AuditedScheduler(Scheduler):
    """Looks at every state while it is folded, in the scheduler's own order."""

    def __init__(self) -> None:
        self.account = Account()
        self.found: list[str] = []
        self.events = 0

    def apply(self, state: SchedulerState, event: Event, seq: int, at: Micros) -> None:
        super().apply(state, event, seq, at)
        self.events += 1
        wrong = [*reservation_violations(state, event), self.account.add(event)]
        if self.events % EVERY == 0:
            wrong += violations(state)
        self.found += [f"at seq {seq}, {type(event).__name__}: {text}" for text in wrong if text]

    def final(self, state: SchedulerState) -> list[str]:
        """Return everything that was wrong, the last *state* included."""
        return [*self.found, *(f"at the end: {text}" for text in violations(state))]
