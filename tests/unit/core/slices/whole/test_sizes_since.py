"""A waiting job that gets smaller, and then as large as it was: quota for its last size is for all of it."""

import pytest

from sluice.events.base import PodSetAssignment
from sluice.events.scheduler import Evicted, QuotaReleased, QuotaReserved
from sluice.events.slices import WorkloadCreated, WorkloadDeleted
from tests.support.elastic_cell import Cell
from tests.support.family_world import cell, cluster_queue

AGAIN = pytest.mark.parametrize("sizes", [(3, 5), (2, 6, 4, 5), (3, 4, 3, 4, 5)])


def waiting(*, elastic: bool) -> Cell:
    """A job of five pods behind one that has all, and a small one behind that."""
    world = Cell()
    world.queue("q", 5)
    world.submit("hold", "q", 5).settle()
    world.submit("first", "q", 5, elastic=elastic).submit("second", "q", 1).settle()
    return world


@AGAIN
@pytest.mark.parametrize("elastic", [False, True])
def test_a_waiting_job_keeps_its_workload_and_its_place(elastic: bool, sizes: tuple[int, ...]) -> None:
    world = waiting(elastic=elastic)
    before = len(world.events(WorkloadCreated))
    for size in sizes:
        world.scale("first", size).settle()
    world.report("hold", "JobFinished", success=True).settle()
    assert [pods.count for pods in world.dispatch("first").pod_sets] == [5]
    assert world.dispatch("first").state == "Running"
    assert len(world.events(WorkloadCreated)) == before
    assert not world.events(WorkloadDeleted)


@AGAIN
def test_a_growth_gets_all_that_it_asks_for_in_one_slice(sizes: tuple[int, ...]) -> None:
    world = Cell()
    world.queue("q", 5)
    world.submit("hold", "q", 4).submit("first", "q", 1).settle()
    world.scale("first", 5).settle()
    before = len(world.events(WorkloadCreated))
    for size in sizes:
        world.scale("first", size).settle()
    world.report("hold", "JobFinished", success=True).settle()
    assert [(pods.count, pods.gated) for pods in world.dispatch("first").pod_sets] == [(5, 0)]
    assert len(world.events(WorkloadCreated)) == before


@AGAIN
def test_a_racing_job_keeps_its_workload_and_its_place(sizes: tuple[int, ...]) -> None:
    world = cell(cluster_queue({"best": 5, "other": 1}))
    world.submit("hold", count=5).settle()
    world.submit("first", count=5).settle()
    before = len(world.events(WorkloadCreated))
    for size in sizes:
        world.message("first", "JobScaled", {"podSets": {"main": size}}).settle(1)
    world.report("hold", "JobFinished", success=True).settle(1)
    assert world.flavor_of("first") == "best"
    assert len(world.events(WorkloadCreated)) == before


def test_what_the_scheduler_had_not_heard_of_is_given_up() -> None:
    """Whoever reserves for the first of three sizes has nothing for the last two, though one is the same."""
    world = waiting(elastic=False)
    world.report("hold", "JobFinished", success=True)
    world.step("slices")
    for size in (3, 5):
        world.scale("first", size)
        world.step("slices")
    world.step("scheduler", entries=2)
    world.settle()
    (first,) = [e for e in world.events(QuotaReserved) if "first" in e.workload]
    assert first.observed_generation == 0
    assert [e.workload for e in world.events(WorkloadDeleted)] == [first.workload]


@pytest.mark.parametrize("sizes", [(4, 2, 5), (4, 3), (4, 2, 4)])
def test_what_was_reserved_amid_changes_of_a_job_that_has_stopped(sizes: tuple[int, ...]) -> None:
    """The scheduler releases and reserves in one step when it has heard of the first size only."""
    world = Cell()
    world.queue("q", 8)
    world.submit("a", "q", 2, elastic=False, minReplicas=2).settle()
    world.report("a", "JobStopped", message="the node is gone")
    world.step("slices")
    for size in sizes:
        world.scale("a", size)
        world.step("slices")
    world.step("scheduler", entries=4)
    assert [e.pod_sets[0].count for e in world.events(QuotaReserved)] == [2, 4]
    world.settle()
    (held,) = [w for w in world.scheduler.state.world.workloads.values() if w.assignment is not None]
    assert [pods.count for pods in world.dispatch("a").pod_sets] == [pods.count for pods in held.assignment]
    assert world.dispatch("a").pod_sets[0].count == sizes[-1]


def test_quota_for_a_former_size_that_is_gone_already_exchanges_nothing() -> None:
    """It is released, and reserved for the present size, before the slice-aggregator reads of it."""
    world = Cell()
    world.queue("q", 5)
    world.submit("a", "q", 3, elastic=False)
    world.step("slices")
    world.scale("a", 2)
    world.step("slices")
    world.step("scheduler", entries=3)
    (first,) = world.events(QuotaReserved)
    evicted = Evicted(cause=0, workload=first.workload, reason="Preempted")
    world.tell("scheduler", evicted, QuotaReleased(cause=0, workload=first.workload))
    pods = [PodSetAssignment(name="main", count=2, flavors={"cpu": "default"}, usage={"cpu": 2000})]
    again = QuotaReserved(
        cause=0, workload=first.workload, cluster_queue="q", pod_sets=pods, observed_generation=1
    )
    world.tell("scheduler", again)
    assert not [e for e in world.step("slices") if isinstance(e, WorkloadCreated | WorkloadDeleted)]
