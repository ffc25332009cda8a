"""A small cell to test the scheduler with: configure, submit, let things happen, read the events."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.state import SchedulerState
from sluice.core.world.workload import Workload
from sluice.events.base import Event, Micros, PodSet, WorkloadKey
from sluice.events.ids import uid
from sluice.events.scheduler import (
    Admitted,
    Evicted,
    FlavorScanAdvanced,
    PreemptionIssued,
    WorkloadsParked,
)
from sluice.events.slices import WorkloadCreated, WorkloadFinished, WorkloadRecord, WorkloadStopped

from .memory_log import SECOND, Alone
from .objects import resource_group

RECLAIMS = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}


@dataclass
class Cell(Alone):
    """The scheduler, told what the api service and the slice-aggregator say."""

    now: Micros = SECOND
    number: int = 0

    def __post_init__(self) -> None:
        self.serve(Scheduler())

    @property
    def state(self) -> SchedulerState:
        found: SchedulerState = self.service.state
        return found

    # Configuration

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
            self.configure("ResourceFlavor", flavor, {})
        group = resource_group(flavors, borrowingLimit=borrow, lendingLimit=lend)
        whole = {"cohortName": cohort, "namespaceSelector": {}, "resourceGroups": [group], **spec}
        self.configure("ClusterQueue", name, whole)
        self.configure("LocalQueue", name, {"clusterQueue": name}, "ns")
        return self

    def settings(self, **spec: Any) -> Self:
        return self.configure("Configuration", "default", spec)

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
        return self.put(WorkloadCreated(cause=0, workload=record))

    def finish(self, *names: str) -> Self:
        return self.put(*(WorkloadFinished(cause=0, workload=key(name)) for name in names))

    def stopped(self, *names: str) -> Self:
        return self.put(*(WorkloadStopped(cause=0, workload=key(name)) for name in names))

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
