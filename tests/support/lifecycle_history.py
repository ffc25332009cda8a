"""A small stand-in for the scheduler: folds what the life-cycle does not, and drives its decider."""

from dataclasses import dataclass, field
from typing import Any

import msgspec

from sluice.api import kueue
from sluice.core.lifecycle import due as lifecycle
from sluice.core.lifecycle.due import Lifecycle
from sluice.core.lifecycle.fold import fold_lifecycle
from sluice.core.quota.tree import Tree
from sluice.core.views import View
from sluice.core.world.model import ClusterQueue, LocalQueue, World
from sluice.core.world.workload import Workload
from sluice.events.base import Event, Micros, PodSet, PodSetAssignment, WorkloadKey
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.events.ids import uid
from sluice.events.scheduler import (
    Admitted,
    Evicted,
    Preempted,
    QuotaReleased,
    QuotaReserved,
    RequeueBackoffStarted,
    Requeued,
    WorkloadDeactivated,
)
from sluice.events.slices import WorkloadCreated, WorkloadDeleted, WorkloadFinished, WorkloadRecord
from tests.support.objects import applied

SECOND = 1_000_000
OWN = (Admitted, Evicted, QuotaReleased, RequeueBackoffStarted, Requeued, WorkloadDeactivated)
"""What follows from these has their cause."""


@dataclass
class History:
    """`tell` folds events from outside at the present time; `settle` decides until nothing is left."""

    world: World = field(default_factory=lambda: World(Tree()))
    lc: Lifecycle = field(default_factory=Lifecycle)
    view: View = field(default_factory=View)
    at: Micros = 0
    seq: int = 0
    decided: list[Event] = field(default_factory=list)

    def tell(self, *events: Event) -> "History":
        for event in events:
            self.seq += 1
            self._fold(event)
        return self

    def settle(self, at_s: float | None = None) -> list[Any]:
        """Return what is decided at *at_s* seconds (default: now), applied already."""
        if at_s is not None:
            self.at = int(at_s * SECOND)
        found: list[Event] = []
        while events := lifecycle.decide(self.world, self.lc, self.at):
            assert events == lifecycle.decide(self.world, self.lc, self.at), "deciding changes nothing"
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
        self.lc = lifecycle.rebuild(self.world, self.at)
        return self

    def deadline_s(self) -> float | None:
        due = lifecycle.deadline(self.lc)
        return None if due is None else due / SECOND

    def workload(self, name: str = "w") -> Workload:
        return self.world.workloads[WorkloadKey(f"ns/{name}")]

    def _fold(self, event: Event) -> None:
        world = self.world
        match event:
            case WorkloadCreated(workload=record):
                world.workloads[record.key] = Workload(
                    record, record.key, record.uid, record.priority, active=record.active
                )
            case QuotaReserved():
                workload = world.workloads[event.workload]
                workload.assignment = tuple(event.pod_sets)
                workload.cluster_queue = event.cluster_queue
                world.cluster_queues[event.cluster_queue].workloads[workload.key] = workload
                fold_lifecycle(workload, event, self.at)
            case QuotaReleased():
                workload = world.workloads[event.workload]
                assert workload.assignment is not None, "quota is released once"
                self._give_back(workload)
                workload.assignment = None
            case WorkloadFinished():
                self._give_back(world.workloads[event.workload])
            case WorkloadDeleted():
                self._give_back(world.workloads.pop(event.workload))
            case ObjectApplied() | ObjectDeleted():
                self._configure(event)
            case Evicted():
                assert world.workloads[event.workload].assignment is not None
        self._look(event)
        self.view.apply(event, self.seq, self.at)

    def _look(self, event: Any) -> None:
        if isinstance(event, WorkloadCreated | QuotaReserved | Preempted):
            return  # nothing is due for that
        workload = self.world.workloads.get(getattr(event, "workload", WorkloadKey("")))
        if workload is not None:
            fold_lifecycle(workload, event, self.at)
        if isinstance(event, ObjectApplied | ObjectDeleted):
            for workload in lifecycle.workloads_affected_by(self.world, self.lc, event):
                lifecycle.reindex(self.world, self.lc, workload, self.seq, self.at)
        elif isinstance(event, WorkloadFinished | WorkloadDeleted):
            lifecycle.forget(self.lc, event.workload)
        elif workload is not None:
            cause = event.cause if isinstance(event, OWN) else self.seq
            lifecycle.reindex(self.world, self.lc, workload, cause, self.at)

    def _give_back(self, workload: Workload) -> None:
        queue = self.world.cluster_queues.get(workload.cluster_queue)
        if queue is not None:
            queue.workloads.pop(workload.key, None)

    def _configure(self, event: ObjectApplied | ObjectDeleted) -> None:
        world = self.world
        key = f"{event.namespace}/{event.name}"
        if isinstance(event, ObjectDeleted):
            world.cluster_queues.pop(event.name, None) if event.kind == "ClusterQueue" else None
            world.local_queues.pop(key, None) if event.kind == "LocalQueue" else None
            return
        match event.kind:
            case "ClusterQueue":
                manifest = msgspec.json.decode(event.object, type=kueue.ClusterQueue)
                node = world.tree.set_cluster_queue(event.name, "", {})
                before = world.cluster_queues.get(event.name)
                queue = ClusterQueue(event.name, manifest.spec, node, (), {})
                queue.active = manifest.spec.stop_policy in (None, "", "None")
                queue.terminating = manifest.metadata.deletion_timestamp is not None
                if before is not None:
                    queue.workloads = before.workloads
                world.cluster_queues[event.name] = queue
            case "LocalQueue":
                local = msgspec.json.decode(event.object, type=kueue.LocalQueue)
                policy = local.spec.stop_policy or "None"
                world.local_queues[key] = LocalQueue(key, local.spec.cluster_queue, policy)
            case "Configuration":
                world.config = msgspec.json.decode(event.object, type=kueue.Configuration).spec


def cluster_queue(name: str = "cq", **spec: object) -> ObjectApplied:
    manifest = msgspec.convert(
        {"kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}, kueue.ClusterQueue
    )
    return applied(manifest, "ClusterQueue")


def local_queue(name: str = "lq", queue: str = "cq", **spec: object) -> ObjectApplied:
    manifest = msgspec.convert(
        {
            "kind": "LocalQueue",
            "metadata": {"name": name, "namespace": "ns"},
            "spec": {"clusterQueue": queue, **spec},
        },
        kueue.LocalQueue,
    )
    return applied(manifest, "LocalQueue")


def configuration(**spec: object) -> ObjectApplied:
    manifest = msgspec.convert(
        {"kind": "Configuration", "metadata": {"name": "default"}, "spec": spec}, kueue.Configuration
    )
    return applied(manifest, "Configuration")


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
