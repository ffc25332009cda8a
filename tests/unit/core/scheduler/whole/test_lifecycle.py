"""The life-cycle inside the real scheduler: the same rules, with real quota and a real snapshot."""

from collections.abc import Sequence
from typing import Any

import pytest

from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.snapshot import dump
from sluice.events.base import Event, PodSet, WorkloadKey
from sluice.events.checks import ChecksReady, ChecksRejected, ChecksRetry
from sluice.events.scheduler import Admitted, Evicted, QuotaReleased, QuotaReserved, Requeued
from sluice.events.slices import WorkloadFinished, WorkloadStopped
from tests.support.lifecycle_history import (
    SECOND,
    History,
    cluster_queue,
    configuration,
    created,
    local_queue,
)
from tests.support.objects import resource_group

SPEC: dict[str, Any] = {
    "resourceGroups": [resource_group({"default": 4})],
    "preemption": {"withinClusterQueue": "LowerPriority"},
    "namespaceSelector": {},
}
CHECKS = {"admissionChecks": [{"name": "late"}]}


class Cell(History):
    """With the cycles; `settle` checks that a reload would decide the same."""

    def __init__(self, *setting: Event, **spec: Any) -> None:
        super().__init__()
        self.tell(cluster_queue(**SPEC, **spec), local_queue(), *setting).settle()

    def decide(self) -> Sequence[Event]:
        return Scheduler().decide(self.state, self.at)

    def settle(self, at_s: float | None = None) -> list[Any]:
        found = super().settle(at_s)
        before, data = Scheduler().deadline(self.state), dump(self.state)
        self.reload()
        assert dump(self.state) == data
        assert Scheduler().deadline(self.state) == before
        assert not self.decide()
        return found


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
    cell = Cell(admissionChecksStrategy=CHECKS)
    cell.tell(job("w", 1), job("next", 2))
    assert about("w", cell.settle(0), QuotaReserved, Admitted) == [QuotaReserved]
    until = 60 * SECOND
    cell.tell(ChecksRetry(workload=WorkloadKey("ns/w"), checks=["late"], requeue_at=until, cause=0))
    events = cell.settle(1)
    assert about("w", events, Evicted, QuotaReleased, Requeued) == [Evicted, QuotaReleased]
    assert about("next", events, QuotaReserved) == [QuotaReserved]
    assert about("w", cell.settle(60), Requeued) == [Requeued]


@pytest.mark.parametrize("verdict", [ChecksRejected, ChecksRetry])
def test_a_check_that_was_taken_from_the_queue_has_no_say(verdict):
    """What it said may arrive after the edit: the checks that there are now decide (AC1)."""
    cell = Cell(admissionChecksStrategy=CHECKS)
    cell.tell(job("w", 1))
    assert about("w", cell.settle(0), QuotaReserved, Admitted) == [QuotaReserved]
    cell.tell(cluster_queue(**SPEC))
    cell.settle(1)
    key = WorkloadKey("ns/w")
    late = {"requeue_at": 60 * SECOND} if verdict is ChecksRetry else {}
    cell.tell(verdict(workload=key, checks=["late"], cause=0, **late))
    assert cell.settle(2) == []
    cell.tell(ChecksReady(workload=key, cause=0))
    assert about("w", cell.settle(3), Admitted) == [Admitted]
