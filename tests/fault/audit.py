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
from sluice.events.variants import VariantCreated, VariantDeleted

EVERY = 97
"""Events between looks at the whole state, which take long."""


Place = tuple[str, str]
"""Queue and flavor."""


@dataclass
class Account:
    """Quota and usage of flat cohorts, by queue and flavor, in milli-units of cpu."""

    nominal: dict[Place, int] = field(default_factory=dict)
    most: dict[Place, int] = field(default_factory=dict)
    cohort: dict[Place, Place] = field(default_factory=dict)
    held: dict[WorkloadKey, dict[Place, int]] = field(default_factory=dict)
    used: dict[Place, int] = field(default_factory=dict)
    variants: dict[WorkloadKey, list[WorkloadKey]] = field(default_factory=dict)

    def add(self, event: Event) -> str:
        """Book *event*; returns what is wrong with it, "" if nothing."""
        match event:
            case ObjectApplied(kind="ClusterQueue"):
                self._set_up(event)
            case QuotaReserved():
                return self._reserve(event)
            case VariantCreated() if event.workload.parent is not None:
                self.variants.setdefault(event.workload.parent, []).append(event.workload.key)
            case QuotaReleased() | VariantDeleted():
                self._give_back(event.workload)
            case WorkloadFinished() | WorkloadDeleted():
                for key in (event.workload, *self.variants.pop(event.workload, ())):
                    self._give_back(key)
            case _:
                pass
        return ""

    def _give_back(self, key: WorkloadKey) -> None:
        for place, amount in self.held.pop(key, {}).items():
            self.used[place] -= amount

    def _set_up(self, event: ObjectApplied) -> None:
        spec = msgspec.json.decode(event.object, type=kueue.ClusterQueue).spec
        for flavor in spec.resource_groups[0].flavors:
            quota = flavor.resources[0]
            place = (event.name, flavor.name)
            nominal = resource_value("cpu", quota.nominal_quota)
            limit = quota.borrowing_limit
            self.nominal[place] = nominal
            self.most[place] = 2**62 if limit is None else nominal + resource_value("cpu", limit)
            self.cohort[place] = (spec.cohort_name, flavor.name)
            self.used.setdefault(place, 0)

    def _reserve(self, event: QuotaReserved) -> str:
        held = self.held.setdefault(event.workload, {})
        for assigned in event.pod_sets:
            place = (event.cluster_queue, assigned.flavors["cpu"])
            amount = assigned.usage.get("cpu", 0)
            held[place] = held.get(place, 0) + amount
            self.used[place] += amount
        for place in held:
            if self.used[place] > self.most[place]:
                return f"{event.workload}: {place} uses {self.used[place]} of at most {self.most[place]}"
            pool = [one for one, its in self.cohort.items() if its == self.cohort[place]]
            used, nominal = sum(self.used[one] for one in pool), sum(self.nominal[one] for one in pool)
            if used > nominal:
                return f"{event.workload}: {self.cohort[place]} uses {used} of {nominal}"
        return ""


class AuditedScheduler(Scheduler):
    """Looks at every state while it is folded, in the scheduler's own order."""

    def __init__(self) -> None:
        self.account = Account()
        self.found: list[str] = []
        self.events = 0
        self.auditing = True
        """Until the log was folded once; whoever folds parts of it again books nothing twice."""

    def apply(self, state: SchedulerState, event: Event, seq: int, at: Micros) -> None:
        super().apply(state, event, seq, at)
        if not self.auditing:
            return
        self.events += 1
        wrong = [*reservation_violations(state, event), self.account.add(event)]
        if self.events % EVERY == 0:
            wrong += violations(state)
        self.found += [f"at seq {seq}, {type(event).__name__}: {text}" for text in wrong if text]

    def final(self, state: SchedulerState) -> list[str]:
        """Return everything that was wrong, the last *state* included."""
        return [*self.found, *(f"at the end: {text}" for text in violations(state))]
