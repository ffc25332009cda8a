"""The life-cycle inside the real scheduler: the same rules, with real quota and a real snapshot."""

from typing import Any

import msgspec
import pytest

from sluice.api import kueue
from sluice.core.scheduler.decider import Scheduler
from sluice.core.views import View
from sluice.events.base import Event, PodSet, WorkloadKey
from sluice.events.checks import ChecksReady, ChecksRejected, ChecksRetry
from sluice.events.scheduler import Admitted, Evicted, QuotaReleased, QuotaReserved, Requeued
from sluice.events.slices import WorkloadFinished, WorkloadStopped
from tests.support.lifecycle_history import (
    SECOND,
    applied,
    cluster_queue,
    configuration,
    created,
    local_queue,
)

FLAVOR = applied(msgspec.convert({"metadata": {"name": "default"}}, kueue.ResourceFlavor), "ResourceFlavor")
GROUPS = [
    {
        "coveredResources": ["cpu"],
        "flavors": [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": 4}]}],
    }
]
SPEC: dict[str, Any] = {
    "resourceGroups": GROUPS,
    "preemption": {"withinClusterQueue": "LowerPriority"},
    "namespaceSelector": {},
}


class Cell:
    """A scheduler and a view; `settle` decides, and checks that a reload would decide the same."""

    def __init__(self, *setting: Event, **spec: Any) -> None:
        self.decider, self.view = Scheduler(), View()
        self.state = self.decider.initial()
        self.at = self.seq = 0
        queue = cluster_queue(**SPEC, **spec)
        self.tell(FLAVOR, queue, local_queue(), *setting)
        self.settle()

    def tell(self, *events: Event) -> None:
        for event in events:
            self.seq += 1
            self._fold(event)

    def _fold(self, event: Event) -> None:
        self.decider.apply(self.state, event, self.seq, self.at)
        self.view.apply(event, self.seq, self.at)

    def settle(self, at_s: float | None = None) -> list[Event]:
        if at_s is not None:
            self.at = int(at_s * SECOND)
        found: list[Event] = []
        while events := self.decider.decide(self.state, self.at):
            found += events
            for event in events:
                self._fold(event)
            assert len(found) < 1000, f"does not settle: {found[-3:]}"
        self._reload()
        return found

    def _reload(self) -> None:
        data = self.decider.dump(self.state)
        loaded = self.decider.load(data)
        assert self.decider.dump(loaded) == data
        assert self.decider.deadline(loaded) == self.decider.deadline(self.state)
        assert not self.decider.decide(loaded, self.at)
        self.state = loaded


def job(name, number, cpu=4, priority=0, **changes):
    pods = (PodSet(name="main", count=cpu, requests={"cpu": 1000}),)
    return created(name, number, pod_sets=pods, priority=priority, **changes)


def about(name, events, *types):
    key = WorkloadKey(f"ns/{name}")
    found = [type(e) for e in events if getattr(e, "workload", None) == key]
    return [t for t in found if t in types] if types else found


def stopped(name):
    return WorkloadStopped(workload=WorkloadKey(f"ns/{name}"), cause=0)


def test_the_preemptor_gets_its_quota_when_the_victim_has_stopped():
    """Never before; and the victim gets it back when the preemptor has finished (G9)."""
    cell = Cell()
    cell.tell(job("low", 1))
    assert about("low", cell.settle(1)) == [QuotaReserved, Admitted]
    cell.tell(job("high", 2, priority=10))
    events = cell.settle(2)
    assert about("low", events, Evicted, QuotaReleased) == [Evicted]
    assert about("high", events, QuotaReserved) == []
    cell.tell(stopped("low"))
    events = cell.settle(3)
    assert about("low", events, QuotaReleased, Requeued) == [QuotaReleased, Requeued]
    assert about("high", events, QuotaReserved, Admitted) == [QuotaReserved, Admitted]
    cell.tell(WorkloadFinished(workload=WorkloadKey("ns/high"), cause=0))
    assert about("low", cell.settle(4), QuotaReserved, Admitted) == [QuotaReserved, Admitted]


def test_backoff_keeps_its_place_free_for_others():
    """Who failed to become ready waits; whoever is behind runs meanwhile (SC7)."""
    wait = {
        "enable": True,
        "timeoutSeconds": 10,
        "requeuingStrategy": {"backoffBaseSeconds": 100, "backoffLimitCount": 1},
    }
    cell = Cell(configuration(waitForPodsReady=wait))
    cell.tell(job("w", 1), job("next", 2))
    assert about("w", cell.settle(0), Admitted) == [Admitted]
    assert about("w", cell.settle(10), Evicted) == [Evicted]
    cell.tell(stopped("w"))
    assert about("next", cell.settle(11), Admitted) == [Admitted]
    cell.tell(WorkloadFinished(workload=WorkloadKey("ns/next"), cause=0))
    assert about("w", cell.settle(50)) == []
    assert about("w", cell.settle(110), Requeued, Admitted) == [Requeued, Admitted]
    cell.settle(120)
    cell.tell(stopped("w"))
    cell.settle(121)
    workload = cell.view.workloads[WorkloadKey("ns/w")]
    assert (workload.active, workload.holds_quota) == (False, False)


@pytest.mark.parametrize("queue", ["cluster", "local"])
def test_draining_and_restarting(queue):
    """HoldAndDrain empties a queue; without it all come back (SC7)."""

    def policy(value):
        if queue == "local":
            return local_queue(stopPolicy=value)
        return cluster_queue(**SPEC, stopPolicy=value)

    cell = Cell()
    cell.tell(job("a", 1, cpu=2), job("b", 2, cpu=2), job("c", 3, cpu=2))
    cell.settle(1)
    cell.tell(policy("HoldAndDrain"))
    events = cell.settle(2)
    assert [len(about(name, events, Evicted)) for name in "abc"] == [1, 1, 0]
    cell.tell(stopped("a"), stopped("b"))
    cell.settle(3)
    assert cell.view.cluster_queues["cq"].workloads == {}
    cell.tell(policy("None"))
    events = cell.settle(4)
    assert [about(name, events, Admitted) for name in "abc"] == [[Admitted], [Admitted], []]


def test_a_retry_gives_the_quota_to_others():
    """Two-stage admission: quota comes back while the check backs off (AC3)."""
    check = applied(msgspec.convert({"metadata": {"name": "prov"}}, kueue.AdmissionCheck), "AdmissionCheck")
    cell = Cell(check, admissionChecksStrategy={"admissionChecks": [{"name": "prov"}]})
    cell.tell(job("w", 1), job("next", 2))
    assert about("w", cell.settle(0), QuotaReserved, Admitted) == [QuotaReserved]
    until = 60 * SECOND
    cell.tell(ChecksRetry(workload=WorkloadKey("ns/w"), checks=["prov"], requeue_at=until, cause=0))
    events = cell.settle(1)
    assert about("w", events, Evicted, QuotaReleased, Requeued) == [Evicted, QuotaReleased]
    assert about("next", events, QuotaReserved) == [QuotaReserved]
    assert about("w", cell.settle(60), Requeued) == [Requeued]


@pytest.mark.parametrize("verdict", [ChecksRejected, ChecksRetry])
def test_a_check_that_was_taken_from_the_queue_has_no_say(verdict):
    """What it said may arrive after the edit: the checks that there are now decide (AC1)."""
    check = applied(msgspec.convert({"metadata": {"name": "prov"}}, kueue.AdmissionCheck), "AdmissionCheck")
    cell = Cell(check, admissionChecksStrategy={"admissionChecks": [{"name": "prov"}]})
    cell.tell(job("w", 1))
    assert about("w", cell.settle(0), QuotaReserved, Admitted) == [QuotaReserved]
    cell.tell(cluster_queue(**SPEC))
    cell.settle(1)
    key = WorkloadKey("ns/w")
    late = {"requeue_at": 60 * SECOND} if verdict is ChecksRetry else {}
    cell.tell(verdict(workload=key, checks=["prov"], cause=0, **late))
    assert cell.settle(2) == []
    cell.tell(ChecksReady(workload=key, cause=0))
    assert about("w", cell.settle(3), Admitted) == [Admitted]
