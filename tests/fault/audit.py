"""Invariants along the whole history, and an account of quota that knows nothing of the scheduler's own."""

from dataclasses import dataclass, field, replace

import msgspec

from sluice.api import kueue
from sluice.api.quantity import resource_value
from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.invariants import reservation_violations, violations
from sluice.core.scheduler.state import SchedulerState
from sluice.events.base import Event, Micros, WorkloadKey
from sluice.events.config import ObjectApplied
from sluice.events.scheduler import Admitted, QuotaReleased, QuotaReserved, WorkloadSliceReplaced
from sluice.events.slices import (
    ReclaimablePodsUpdated,
    WorkloadCreated,
    WorkloadDeleted,
    WorkloadFinished,
    WorkloadRecord,
    WorkloadUpdated,
)
from sluice.events.variants import VariantCreated, VariantDeleted

from .observed import Held

EVERY = 97
"""Events between looks at the whole state, which take long."""


Place = tuple[str, str]
"""Queue and flavor."""


@dataclass
class Share:
    """What one pod set of a workload has: *count* pods of *each* milli-units."""

    place: Place
    each: int
    count: int
    size: int
    """Pods that the workload asks for."""
    ended: int = 0
    """Pods that have ended for good."""

    @property
    def amount(self) -> int:
        return self.each * min(self.count, max(0, self.size - self.ended))


@dataclass
class Account:
    """Quota and usage of flat cohorts, by queue and flavor, in milli-units of cpu.

    A slice and the one that it is to replace are charged together: what the larger one has.
    """

    nominal: dict[Place, int] = field(default_factory=dict)
    most: dict[Place, int] = field(default_factory=dict)
    cohort: dict[Place, Place] = field(default_factory=dict)
    used: dict[Place, int] = field(default_factory=dict)
    held: dict[WorkloadKey, dict[str, Share]] = field(default_factory=dict)
    variants: dict[WorkloadKey, list[WorkloadKey]] = field(default_factory=dict)
    sizes: dict[WorkloadKey, dict[str, int]] = field(default_factory=dict)
    replaces: dict[WorkloadKey, WorkloadKey] = field(default_factory=dict)
    newer: dict[WorkloadKey, WorkloadKey] = field(default_factory=dict)
    ended: dict[WorkloadKey, dict[str, int]] = field(default_factory=dict)
    """Pods that have ended for good, also of a growth that waits: it needs none for them."""
    ran: set[WorkloadKey] = field(default_factory=set)
    """Admitted: all of its pods start again when it has given its quota up."""

    def add(self, event: Event) -> str:
        """Book *event*; returns what is wrong with it, "" if nothing."""
        match event:
            case ObjectApplied(kind="ClusterQueue"):
                self._set_up(event)
            case WorkloadCreated():
                self._create(event.workload)
            case VariantCreated():
                self._create(event.workload)
                if event.workload.parent is not None:
                    self.variants.setdefault(event.workload.parent, []).append(event.workload.key)
            case WorkloadUpdated() if event.pod_sets is not None:
                self._resize(event.workload, {pods.name: pods.count for pods in event.pod_sets})
            case ReclaimablePodsUpdated():
                self._ended(event.workload, event.pods)
            case QuotaReserved():
                return self._reserve(event)
            case Admitted():
                self.ran.add(event.workload)
            case QuotaReleased() | VariantDeleted() | WorkloadSliceReplaced():
                if event.workload in self.ran:
                    self.ran.remove(event.workload)
                    self.ended.pop(event.workload, None)
                self._change(event.workload, {})
            case WorkloadFinished() | WorkloadDeleted():
                for key in (event.workload, *self.variants.pop(event.workload, ())):
                    self._change(key, {})
            case _:
                pass
        return ""

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

    def _create(self, record: WorkloadRecord) -> None:
        self.sizes[record.key] = {pods.name: pods.count for pods in record.pod_sets}
        if record.replaces is not None:
            self.replaces[record.key] = record.replaces
            self.newer[record.replaces] = record.key

    def _resize(self, key: WorkloadKey, sizes: dict[str, int]) -> None:
        self.sizes[key] = sizes
        shares = {
            name: replace(share, size=sizes[name], count=min(share.count, sizes[name]))
            for name, share in self.held.get(key, {}).items()
        }
        self._change(key, shares)

    def _ended(self, key: WorkloadKey, ended: dict[str, int]) -> None:
        self.ended[key] = ended
        shares = self.held.get(key, {})
        self._change(key, {name: replace(share, ended=ended.get(name, 0)) for name, share in shares.items()})

    def _change(self, key: WorkloadKey, shares: dict[str, Share]) -> dict[Place, int]:
        """Have a workload hold *shares*; returns by how much that changes what is used."""
        family = [key, self.replaces.get(key, key), self.newer.get(key, key)]
        before = self._charged(family)
        if shares:
            self.held[key] = shares
        else:
            self.held.pop(key, None)
        after = self._charged(family)
        change = {
            place: delta
            for place in sorted({*before, *after})
            if (delta := after.get(place, 0) - before.get(place, 0))
        }
        for place, delta in change.items():
            self.used[place] += delta
        return change

    def _charged(self, family: list[WorkloadKey]) -> dict[Place, int]:
        """Return what these charge together: of each place as much as the one of them that has most there."""
        most: dict[Place, int] = {}
        for key in family:
            its: dict[Place, int] = {}
            for share in self.held.get(key, {}).values():
                its[share.place] = its.get(share.place, 0) + share.amount
            for place, amount in its.items():
                most[place] = max(most.get(place, 0), amount)
        return most

    def _reserve(self, event: QuotaReserved) -> str:
        key = event.workload
        shares = {
            pods.name: Share(
                (event.cluster_queue, pods.flavors["cpu"]),
                pods.usage.get("cpu", 0) // max(1, pods.count),
                pods.count,
                self.sizes.get(key, {}).get(pods.name, pods.count),
                self.ended.get(key, {}).get(pods.name, 0),
            )
            for pods in event.pod_sets
        }
        for place, delta in self._change(key, shares).items():
            if delta > 0 and self.used[place] > self.most[place]:
                return f"{key}: {place} uses {self.used[place]} of at most {self.most[place]}"
            pool = [one for one, its in self.cohort.items() if its == self.cohort[place]]
            used, nominal = sum(self.used[one] for one in pool), sum(self.nominal[one] for one in pool)
            if delta > 0 and used > nominal:
                return f"{key}: {self.cohort[place]} uses {used} of {nominal}"
        return ""


class AuditedScheduler(Scheduler):
    """Looks at every state while it is folded, in the scheduler's own order."""

    def __init__(self) -> None:
        self.account = Account()
        self.held = Held()
        self.found: list[str] = []
        self.events = 0
        self.auditing = True
        """Until the log was folded once; whoever folds parts of it again books nothing twice."""

    def apply(self, state: SchedulerState, event: Event, seq: int, at: Micros) -> None:
        super().apply(state, event, seq, at)
        if not self.auditing:
            return
        self.events += 1
        self.held.add(state, event, at)
        wrong = [*reservation_violations(state, event), self.account.add(event)]
        if self.events % EVERY == 0:
            wrong += violations(state)
        self.found += [f"at seq {seq}, {type(event).__name__}: {text}" for text in wrong if text]

    def final(self, state: SchedulerState) -> list[str]:
        """Return everything that was wrong, the last *state* included."""
        return [*self.found, *(f"at the end: {text}" for text in violations(state))]
