"""A small cell to test the scheduler with: configure, submit, let things happen, read the events."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from sluice.core.decision_loop import settle, step
from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.invariants import reservation_violations, violations
from sluice.core.scheduler.state import SchedulerState
from sluice.core.world.workload import Workload
from sluice.events.base import Event, Micros, PodSet, WorkloadKey
from sluice.events.config import ObjectDeleted
from sluice.events.ids import uid
from sluice.events.scheduler import (
    Admitted,
    Evicted,
    FlavorScanAdvanced,
    PreemptionIssued,
    WorkloadsParked,
)
from sluice.events.slices import WorkloadCreated, WorkloadFinished, WorkloadRecord, WorkloadStopped
from tests.support.objects import applied, resource_group

SECOND = 1_000_000
RECLAIMS = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}


class Cell:
    """Folds what it is told, decides until settled, and checks every invariant on the way."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.state: SchedulerState = self.scheduler.initial()
        self.seq = 0
        self.now: Micros = SECOND
        self.number = 0

    # Configuration

    def apply(
        self,
        kind: str,
        name: str,
        spec: Mapping[str, Any],
        namespace: str = "",
        labels: Mapping[str, str] | None = None,
    ) -> Self:
        metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
        return self.put(applied({"kind": kind, "metadata": metadata, "spec": spec}))

    def delete(self, kind: str, name: str, namespace: str = "") -> Self:
        self.put(ObjectDeleted(cause=0, kind=kind, name=name, namespace=namespace))
        return self

    def queue(
        self,
        name: str,
        cpu: int | Mapping[str, int],
        cohort: str = "",
        *,
        borrow: int | None = None,
        lend: int | None = None,
        **spec: Any,
    ) -> Self:
        """A cluster queue, the flavors that it names, and a local queue `ns/<name>`."""
        flavors = {"default": cpu} if isinstance(cpu, int) else cpu
        for flavor in flavors:
            self.apply("ResourceFlavor", flavor, {})
        group = resource_group(flavors, borrowingLimit=borrow, lendingLimit=lend)
        whole = {"cohortName": cohort, "namespaceSelector": {}, "resourceGroups": [group], **spec}
        self.apply("ClusterQueue", name, whole)
        self.apply("LocalQueue", name, {"clusterQueue": name}, "ns")
        return self

    def settings(self, **spec: Any) -> Self:
        self.apply("Configuration", "default", spec)
        return self

    # Workloads

    def submit(
        self, name: str, queue: str, cpu: int = 1, *, priority: int = 0, count: int = 1, **fields: Any
    ) -> Self:
        self.number += 1
        pod_set = PodSet(name="main", count=count, requests={"cpu": cpu * 1000}, **fields.pop("pod_set", {}))
        pod_sets = fields.pop("pod_sets", (pod_set,))
        record = WorkloadRecord(
            namespace=fields.pop("namespace", "ns"),
            name=name,
            uid=uid(self.number),
            queue_name=queue,
            created_at=fields.pop("created_at", self.number * SECOND),
            pod_sets=pod_sets,
            priority=priority,
            **fields,
        )
        self.put(WorkloadCreated(cause=0, workload=record))
        return self

    def finish(self, *names: str) -> Self:
        for name in names:
            self.put(WorkloadFinished(cause=0, workload=key(name)))
        return self

    def stopped(self, *names: str) -> Self:
        for name in names:
            self.put(WorkloadStopped(cause=0, workload=key(name)))
        return self

    def put(self, event: Event) -> Self:
        self.seq += 1
        self.scheduler.apply(self.state, event, self.seq, self.now)
        return self

    # Deciding

    def decide(self) -> Sequence[Event]:
        """Take one step."""
        return step(self.scheduler, self.state, self.seq, self.now, self._checked)

    def _checked(self, event: Event) -> None:
        assert not reservation_violations(self.state, event)

    def settle(self) -> list[Event]:
        """Decide until nothing follows, and return everything that was decided."""
        steps = settle(self.scheduler, self.state, self.seq, self.now, most=100, folded=self._checked)
        found = [event for each in steps for event in each.events]
        assert not violations(self.state)
        return found

    # Reading

    def workload(self, name: str) -> Workload:
        return self.state.world.workloads[key(name)]

    def reason(self, name: str) -> tuple[str, str]:
        """Return the recorded reason and message of a pending workload's class."""
        peers = self.workload(name).peers
        assert peers is not None
        return peers.reason, peers.message

    def waits_for(self, queue: str) -> list[str]:
        waiting = self.state.pending.queues[queue].holding()
        return [names(victim) for one in waiting for victim in one.victims]

    def flavor(self, name: str) -> str:
        assignment = self.workload(name).assignment
        assert assignment is not None
        return assignment[0].flavors["cpu"]


def key(name: str) -> WorkloadKey:
    return WorkloadKey(f"ns/{name}")


def names(workload: str) -> str:
    return workload.partition("/")[2]


def admitted(events: Sequence[Event]) -> list[str]:
    return [names(event.workload) for event in events if isinstance(event, Admitted)]


def evicted(events: Sequence[Event]) -> list[str]:
    return [names(event.workload) for event in events if isinstance(event, Evicted)]


def parked(events: Sequence[Event]) -> list[str]:
    return [names(w) for event in events if isinstance(event, WorkloadsParked) for w in event.workloads]


def preempting(events: Sequence[Event]) -> dict[str, list[str]]:
    """Return preemptor -> those that it waits for."""
    return {
        names(event.workload): [names(victim) for victim in event.victims]
        for event in events
        if isinstance(event, PreemptionIssued)
    }


def scans(events: Sequence[Event]) -> list[Sequence[dict[str, int]]]:
    return [event.tried for event in events if isinstance(event, FlavorScanAdvanced)]
