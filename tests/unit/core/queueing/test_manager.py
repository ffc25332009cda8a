"""Queues of equal workloads: one verdict for all, and who is looked at when (SC2)."""

import pytest

from sluice.events.base import PodSet
from sluice.events.scheduler import TreesSettled, WorkloadsParked
from sluice.events.slices import WorkloadCreated, WorkloadDeleted, WorkloadUpdated
from tests.support.scheduler_cell import RECLAIMS, Cell, admitted, key, parked


def test_ten_thousand_identical_jobs_cost_one_evaluation() -> None:
    """Equal workloads share a verdict: one event for all, and none for those that come later."""
    cell = Cell()
    cell.queue("a", cpu=1)
    cell.submit("first", "a").settle()
    for number in range(1000):
        cell.submit(f"w{number}", "a", cpu=5)

    events = cell.settle()

    assert [type(event) for event in events] == [WorkloadsParked]
    assert parked(events) == ["w0"]
    cell.submit("later", "a", cpu=5)
    assert cell.decide_once() == []
    assert cell.reason("later")[0] == "ExceedsMaxQuota"


def test_without_equivalence_everybody_is_looked_at() -> None:
    """The gate SchedulingEquivalenceHashing can be switched off, and on again."""
    cell = Cell()
    cell.settings(featureGates={"SchedulingEquivalenceHashing": False})
    cell.queue("a", cpu=1)
    for number in range(3):
        cell.submit(f"w{number}", "a", cpu=5)

    assert parked(cell.settle()) == ["w0", "w1", "w2"]
    cell.settings()
    assert len(cell.state.pending.queues["a"].classes) == 1
    assert parked(cell.settle()) == ["w0"]


def test_best_effort_passes_over_what_does_not_fit() -> None:
    """BestEffortFIFO looks at the next workload when the first cannot be admitted."""
    cell = Cell()
    cell.queue("a", cpu=4)
    cell.submit("big", "a", cpu=5)
    events = cell.submit("small", "a", cpu=4).settle()

    assert admitted(events) == ["small"]
    assert parked(events) == ["big"]


def test_strict_fifo_blocks_behind_its_head() -> None:
    """StrictFIFO waits for its head, however long; a workload of higher priority comes before it."""
    cell = Cell()
    cell.queue("a", cpu=4, queueingStrategy="StrictFIFO")
    cell.submit("running", "a", cpu=2).settle()
    cell.submit("big", "a", cpu=4)
    assert admitted(cell.submit("small", "a", cpu=1).settle()) == []
    assert admitted(cell.submit("urgent", "a", cpu=1, priority=10).settle()) == ["urgent"]
    assert admitted(cell.finish("running", "urgent").settle()) == ["big"]


@pytest.mark.parametrize("ahead", ["active", "none"])
def test_who_comes_to_the_head_of_a_strict_queue_is_asked_anew(ahead: str) -> None:
    """What was freed while others were at the head has concerned nobody behind them."""
    cell = Cell()
    cell.queue("a", cpu=2, queueingStrategy="StrictFIFO")
    cell.submit("running", "a", cpu=2).settle()
    cell.submit("small", "a", cpu=1).settle()
    assert cell.reason("small")[0] == "WaitingForQuota"
    cell.submit("large", "a", cpu=3, priority=1).settle()
    cell.finish("running").settle()
    assert cell.workload("small").assignment is None
    if ahead == "active":
        # Behind the large one, and never looked at.
        cell.submit("other", "a", cpu=2, priority=0, created_at=1).settle()

    cell.put(
        WorkloadUpdated(
            cause=0,
            workload=key("large"),
            priority=0,
            pod_sets=(PodSet(name="main", count=1, requests={"cpu": 1000}),),
        )
    )
    if ahead == "active":
        cell.put(WorkloadDeleted(cause=0, workload=key("other")))
    assert set(admitted(cell.settle())) == {"small", "large"}


def test_strict_fifo_does_not_wait_for_a_wrong_namespace() -> None:
    """A workload that its queue can never take must not block the others."""
    cell = Cell()
    cell.queue("a", cpu=4, queueingStrategy="StrictFIFO", namespaceSelector={"matchLabels": {"team": "x"}})
    cell.submit("foreign", "a")
    assert cell.reason("foreign") == ("", "")
    events = cell.settle()
    assert parked(events) == ["foreign"]
    assert cell.reason("foreign") == (
        "Misconfigured",
        "Workload namespace doesn't match ClusterQueue selector",
    )

    assert admitted(cell.configure("Namespace", "ns", {}, labels={"team": "x"}).settle()) == ["foreign"]


def test_freed_capacity_wakes_those_that_it_could_help() -> None:
    """A release is settled by one event when it helps nobody, and wakes the oldest that fits otherwise."""
    cell = Cell()
    cell.queue("a", cpu=4)
    cell.submit("one", "a", cpu=1)
    cell.submit("three", "a", cpu=3).settle()
    cell.submit("big", "a", cpu=3).settle()

    cell.finish("one")
    assert [type(event) for event in cell.settle()] == [TreesSettled]
    assert admitted(cell.finish("three").settle()) == ["big"]


def test_an_older_parked_workload_goes_before_a_newer_one() -> None:
    """Capacity that is freed goes by the order of the queue, not to whoever has just come."""
    cell = Cell()
    cell.queue("a", cpu=2)
    cell.submit("running", "a", cpu=2).settle()
    cell.submit("older", "a", cpu=2).settle()

    cell.submit("newer", "a", cpu=1)
    assert admitted(cell.finish("running").settle()) == ["older"]


def test_capacity_wakes_the_whole_cohort_tree_and_no_other() -> None:
    """Queues of the same tree may borrow what was freed; other trees have nothing of it."""
    cell = Cell()
    cell.queue("a", cpu=2, cohort="left")
    cell.queue("b", cpu=0, cohort="right")
    cell.configure("Cohort", "left", {"parentName": "root"})
    cell.configure("Cohort", "right", {"parentName": "root"})
    cell.queue("c", cpu=2, cohort="other")
    cell.submit("in-a", "a", cpu=2).settle()
    cell.submit("in-b", "b", cpu=2)
    cell.submit("in-c", "c", cpu=3).settle()

    events = cell.finish("in-a").settle()
    assert admitted(events) == ["in-b"]
    assert [event.cohorts for event in events if isinstance(event, TreesSettled)] == [["root"]]


def test_edits_void_the_verdict() -> None:
    """More quota, or a smaller request, and a parked workload is looked at again."""
    cell = Cell()
    cell.queue("a", cpu=1)
    cell.submit("quota", "a", cpu=2)
    cell.submit("request", "a", cpu=3).settle()

    assert admitted(cell.queue("a", cpu=2).settle()) == ["quota"]
    cell.finish("quota")
    smaller = cell.workload("request").record.pod_sets[0]
    cell.put(
        WorkloadUpdated(cause=0, workload=key("request"), pod_sets=(type(smaller)(name="main", count=1),))
    )
    assert admitted(cell.settle()) == ["request"]


def test_a_stopped_queue_has_no_head() -> None:
    """A queue on hold admits nothing, and goes on where it was when it is started again."""
    cell = Cell()
    cell.queue("a", cpu=1, stopPolicy="Hold")
    assert admitted(cell.submit("w", "a").settle()) == []
    assert admitted(cell.queue("a", cpu=1).settle()) == ["w"]


def test_priority_then_time_then_uid() -> None:
    """The order of a queue is total: priority, queue time, uid (G4)."""
    cell = Cell()
    cell.queue("a", cpu=1)
    cell.submit("late", "a", created_at=5)
    cell.submit("early", "a", created_at=3)
    cell.submit("same", "a", created_at=3)
    cell.submit("urgent", "a", priority=1, created_at=9)

    order = [str(w.key) for w in cell.state.pending.queues["a"].in_order()]

    assert order == ["ns/urgent", "ns/early", "ns/same", "ns/late"]


def test_members_may_leave_from_anywhere() -> None:
    """Deleting workloads that wait changes nothing for those that stay."""
    cell = Cell()
    cell.queue("a", cpu=1, preemption=RECLAIMS)
    for number in range(50):
        cell.submit(f"w{number}", "a")
    for number in range(0, 50, 2):
        cell.put(WorkloadDeleted(cause=0, workload=key(f"w{number}")))

    assert admitted(cell.settle()) == ["w1"]
    assert cell.state.pending.queues["a"].size == 24


def test_a_workload_that_comes_back_meets_the_entry_that_it_left() -> None:
    """One that is deleted and made anew, with the same uid, is in its queue once, and where it was before."""
    cell = Cell()
    cell.queue("a", cpu=4)
    for number in range(3):
        cell.submit(f"w{number}", "a", cpu=5)
    again = cell.workload("w1").record

    cell.put(WorkloadDeleted(cause=0, workload=key("w1"))).put(WorkloadCreated(cause=0, workload=again))

    (peers,) = cell.state.pending.queues["a"].classes.values()
    assert [workload.key for workload in peers] == [key("w0"), key("w1"), key("w2")]
