"""The scheduler's state, without its cycles: folds what is told, and decides what is due for workloads."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sluice.core.lifecycle import due as lifecycle
from sluice.core.lifecycle.due import Lifecycle
from sluice.core.scheduler.fold import fold
from sluice.core.scheduler.snapshot import dump, load
from sluice.core.scheduler.state import SchedulerState, new_state
from sluice.core.views import View
from sluice.core.world.model import World
from sluice.core.world.workload import Workload
from sluice.events.base import Event, Micros, PodSet, PodSetAssignment, WorkloadKey
from sluice.events.config import ObjectApplied
from sluice.events.ids import uid
from sluice.events.scheduler import Admitted, QuotaReserved
from sluice.events.slices import WorkloadCreated, WorkloadRecord
from tests.support import objects
from tests.support.objects import applied, kueue_object, resource_group

SECOND = 1_000_000


@dataclass
class History:
    """`tell` folds events at the present time; `settle` decides until nothing is left."""

    state: SchedulerState = field(default_factory=new_state)
    view: View = field(default_factory=View)
    at: Micros = 0
    seq: int = 0
    decided: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._fold(applied(kueue_object("ResourceFlavor", "default")))
        self._fold(applied(kueue_object("AdmissionCheck", "late", {"controllerName": "c"})))

    @property
    def world(self) -> World:
        return self.state.world

    @property
    def lc(self) -> Lifecycle:
        return self.state.lifecycle

    def tell(self, *events: Event) -> "History":
        for event in events:
            self.seq += 1
            self._fold(event)
        return self

    def decide(self) -> Sequence[Event]:
        return lifecycle.decide(self.world, self.lc, self.at)

    def settle(self, at_s: float | None = None) -> list[Any]:
        """Return what is decided at *at_s* seconds (default: now), applied already."""
        if at_s is not None:
            self.at = int(at_s * SECOND)
        found: list[Event] = []
        while events := self.decide():
            assert events == self.decide(), "deciding changes nothing"
            for event in events:
                self._fold(event)
            found += events
            assert len(found) < 1000, f"does not settle: {found[-3:]}"
        due = lifecycle.deadline(self.lc)
        assert due is None or due > self.at
        self.decided += found
        return found

    def reload(self) -> "History":
        """Forget all that is derived, as a restart from a snapshot does."""
        self.state = load(dump(self.state))
        return self

    def deadline_s(self) -> float | None:
        due = lifecycle.deadline(self.lc)
        return None if due is None else due / SECOND

    def workload(self, name: str = "w") -> Workload:
        return self.world.workloads[WorkloadKey(f"ns/{name}")]

    def _fold(self, event: Event) -> None:
        fold(self.state, event, self.seq, self.at)
        self.view.apply(event, self.seq, self.at)


def cluster_queue(name: str = "cq", **spec: Any) -> ObjectApplied:
    return applied(kueue_object("ClusterQueue", name, spec))


def checked_queue(**spec: Any) -> ObjectApplied:
    """A cluster queue with quota, whose workloads need the admission check `late`."""
    checks = {"admissionChecks": [{"name": "late"}]}
    groups = [resource_group({"default": 100})]
    return cluster_queue(resourceGroups=groups, admissionChecksStrategy=checks, **spec)


def local_queue(name: str = "lq", queue: str = "cq", **spec: Any) -> ObjectApplied:
    return applied(kueue_object("LocalQueue", name, {"clusterQueue": queue, **spec}, namespace="ns"))


def configuration(**spec: Any) -> ObjectApplied:
    return applied(objects.configuration(**spec))


def created(name: str = "w", number: int = 1, **changes: object) -> WorkloadCreated:
    record = WorkloadRecord(
        namespace="ns",
        name=name,
        uid=uid(number),
        queue_name="lq",
        created_at=number,
        pod_sets=(PodSet(name="main", count=2, requests={"cpu": 1000}),),
    )
    return WorkloadCreated(workload=msgspec.structs.replace(record, **changes), cause=0)


def reserved(name: str = "w", queue: str = "cq") -> QuotaReserved:
    return QuotaReserved(
        workload=WorkloadKey(f"ns/{name}"),
        cluster_queue=queue,
        pod_sets=(PodSetAssignment(name="main", count=2, flavors={"cpu": "default"}, usage={"cpu": 2000}),),
        cause=0,
    )


def admitted(name: str = "w") -> Admitted:
    return Admitted(workload=WorkloadKey(f"ns/{name}"), cause=0)


def running(*names: str, **changes: object) -> History:
    """A cell with one queue in which these workloads (default: `w`) were admitted at 0 s."""
    history = History().tell(cluster_queue(), local_queue())
    for number, name in enumerate(names or ("w",), 1):
        history.tell(created(name, number, **changes), reserved(name), admitted(name))
    assert history.settle() == []
    return history
