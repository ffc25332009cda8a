"""Changes of a job that stops: its workload is changed when its quota is free, and stays what it is."""

import pytest

from sluice.core.timing import MICROS_PER_S
from sluice.core.world.workload import Workload
from sluice.events.base import Event
from sluice.events.checks import ChecksRejected, ChecksRetry
from sluice.events.scheduler import Evicted, Preempted, WorkloadDeactivated
from sluice.events.slices import WorkloadCreated
from tests.support.elastic_cell import Cell
from tests.support.family_world import cell as family_cell
from tests.support.family_world import cluster_queue
from tests.support.objects import configuration, kueue_object
from tests.unit.core.slices.whole.test_place_taken import CHECK, CHECKED, NEVER_READY, why

HOUR_S = 3600
SOON_AGAIN = {**NEVER_READY, "requeuingStrategy": {"backoffBaseSeconds": 1, "backoffLimitCount": 2}}
ELASTIC = pytest.mark.parametrize("elastic", [False, True], ids=["plain", "elastic"])


def running(*, elastic: bool, growing: bool = False) -> tuple[Cell, Workload]:
    """A job that runs with two pods, which a check has approved."""
    cell = Cell()
    cell.apply(CHECK)
    cell.queue("q", 8, "", **CHECKED)
    cell.submit("a", "q", 2, elastic=elastic).settle()
    cell.checks_say(ready=True)
    cell.settle()
    if growing:
        cell.scale("a", 5).settle()
    (runs,) = [w for w in cell.scheduler.state.world.workloads.values() if w.admitted_at is not None]
    return cell, runs


def only(cell: Cell) -> Workload:
    (found,) = cell.scheduler.state.world.workloads.values()
    return found


def retry(cell: Cell, workload: Workload) -> None:
    later = cell.now + HOUR_S * MICROS_PER_S
    cell.tell("checks", ChecksRetry(cause=0, workload=workload.key, checks=("any",), requeue_at=later))


@ELASTIC
@pytest.mark.parametrize("growing", [False, True])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_size_that_comes_while_it_stops_is_held_back_as_well(
    elastic: bool, growing: bool, size: int
) -> None:
    cell, runs = running(elastic=elastic, growing=growing and elastic)
    retry(cell, runs)
    cell.settle(executor=False)
    assert cell.events(Evicted)
    cell.scale("a", 3).settle(executor=False)
    cell.scale("a", size).settle()
    now = only(cell)
    assert [pods.count for pods in now.pod_sets] == [size]
    assert (now.assignment, why(cell, now)[0]) == (None, "OnHold")
    cell.settle(HOUR_S - 100)
    assert now.assignment is None
    cell.run_until(200)
    assert now.assignment is not None


@pytest.mark.parametrize("size", [1, 4])
def test_it_keeps_its_place(size: int) -> None:
    """Who was preempted, and is scaled while it stops, comes before those who came after it."""
    cell = Cell()
    cell.queue("q", 4, preemption={"withinClusterQueue": "LowerPriority"})
    cell.submit("older", "q", 2).settle()
    cell.submit("newer", "q", 4, elastic=False).settle()
    cell.submit("first", "q", 4, elastic=False, priority=9).settle(executor=False)
    before = len(cell.events(WorkloadCreated))
    cell.scale("older", size).settle()
    assert cell.dispatch("first").state == "Running"
    cell.message("first", "JobDeleted", {}).settle()
    assert cell.dispatch("older").state == "Running"
    assert cell.dispatch("newer") is None
    assert len(cell.events(WorkloadCreated)) == before


@ELASTIC
@pytest.mark.parametrize("size", [1, 4])
def test_who_has_quota_again_at_once_has_it_for_its_new_size(elastic: bool, size: int) -> None:
    """The scheduler releases and reserves in one step: for what the job asks for by then."""
    cell = Cell()
    cell.queue("q", 8)
    cell.submit("a", "q", 2, elastic=elastic).settle()
    before = cell.events(WorkloadCreated)
    cell.report("a", "JobStopped", message="the node is gone")
    cell.scale("a", size)
    cell.settle()
    assert cell.events(WorkloadCreated) == before
    assert [(pods.count, pods.gated) for pods in cell.dispatch("a").pod_sets] == [(size, 0)]
    assert cell.dispatch("a").state == "Running"


@ELASTIC
def test_it_is_known_who_switched_it_off(elastic: bool) -> None:
    cell, runs = running(elastic=elastic)
    rejected: Event = ChecksRejected(cause=0, workload=runs.key, checks=("any",), message="no licence")
    cell.tell("checks", rejected)
    cell.settle(executor=False)
    cell.scale("a", 4).settle()
    now = only(cell)
    assert not now.active
    assert [pods.count for pods in now.pod_sets] == [4]
    reason, message = why(cell, now)
    assert reason == "Deactivated"
    assert "no licence" in message


@ELASTIC
@pytest.mark.parametrize("together", [False, True])
def test_who_is_switched_off_and_on_is_held_back_as_long_as_a_check_has_asked_for(
    elastic: bool, together: bool
) -> None:
    """Also when the scheduler hears of the check and of the deactivation at once."""
    cell, runs = running(elastic=elastic)
    retry(cell, runs)
    if not together:
        cell.settle()
    cell.message("a", "JobDeactivated", {})
    if together:
        cell.step("slices")
    cell.settle()
    cell.message("a", "JobActivated", {}).settle()
    now = only(cell)
    assert (now.assignment, why(cell, now)[0]) == (None, "OnHold")
    cell.settle(HOUR_S - 100)
    assert now.assignment is None
    cell.run_until(200)
    assert now.assignment is not None


@pytest.mark.parametrize("where", ["ClusterQueue", "LocalQueue"])
def test_whose_queue_is_stopped_and_resumed_is_held_back_as_well(where: str) -> None:
    cell, runs = running(elastic=False)

    def policy(value: str) -> None:
        if where == "LocalQueue":
            cell.apply(
                kueue_object(
                    "LocalQueue", "q", {"clusterQueue": "q", "stopPolicy": value}, namespace="default"
                )
            )
        else:
            cell.queue("q", 8, "", stopPolicy=value, **CHECKED)

    retry(cell, runs)
    policy("HoldAndDrain")
    cell.settle()
    policy("None")
    cell.settle()
    now = only(cell)
    assert (now.assignment, now.active) == (None, True)
    cell.settle(HOUR_S - 100)
    assert now.assignment is None
    cell.run_until(200)
    assert now.assignment is not None


@pytest.mark.parametrize("racing", [False, True])
def test_it_keeps_its_place_when_nothing_holds_it_back_any_more(racing: bool) -> None:
    """Its queue is drained, and goes on before the job has stopped: it has quota again for its new size."""

    def drained(policy: str) -> None:
        race = {"migration": {"mode": "TryPreferredFlavors"}} if racing else {}
        world.apply(cluster_queue({"default": 4}, race, stopPolicy=policy)).settle()

    world = family_cell(cluster_queue({"default": 4}, None if racing else {}))
    world.submit("first", count=4).settle()
    world.submit("second", count=4).settle()
    before = len(world.events(WorkloadCreated))
    drained("HoldAndDrain")
    world.message("first", "JobScaled", {"podSets": {"main": 3}}).settle()
    drained("None")
    world.obey()
    world.settle()
    assert [pods.count for pods in world.dispatch("first").pod_sets] == [3]
    assert world.flavor_of("first") == "default"
    assert world.flavor_of("second") == ""
    assert len(world.events(WorkloadCreated)) == before


@pytest.mark.parametrize("racing", [False, True])
def test_failed_attempts_count_on(racing: bool) -> None:
    """Also of who waits out its backoff while it stops, and is another size by then."""
    world = family_cell(cluster_queue({"default": 4}, None if racing else {}))
    world.apply(configuration(waitForPodsReady=SOON_AGAIN)).submit("a", count=2).settle()
    for size in (3, 2, 3):
        world.run_until(3)
        world.message("a", "JobScaled", {"podSets": {"main": size}}).settle(10)
        world.obey()
        world.settle()
    assert [e.reason for e in world.events(WorkloadDeactivated)] == ["RequeuingLimitExceeded"]


def test_nobody_is_preempted_for_a_size_that_is_over() -> None:
    world = Cell()
    lower = {"withinClusterQueue": "LowerPriority"}
    world.queue("q", 5, preemption=lower).apply(configuration(waitForPodsReady=SOON_AGAIN))
    world.submit("low", "q", 1).settle(ready=True)
    world.submit("a", "q", 4, priority=9).settle(executor=False)
    world.settle(3, executor=False)
    world.settle(10, executor=False)
    assert world.dispatch("a").stop
    world.scale("a", 1)
    world.queue("q", 4, preemption=lower)
    world.settle()
    assert not world.events(Preempted)
    assert world.dispatch("low").state == world.dispatch("a").state == "Running"


def test_who_is_submitted_again_while_it_stops_is_active_when_it_has() -> None:
    """A manifest that comes after a deactivation activates the job, before anybody else has its quota."""
    cell = Cell()
    cell.queue("q", 4)
    cell.submit("a", "q", 4, elastic=False).submit("b", "q", 4, elastic=False).settle()
    cell.message("a", "JobDeactivated", {}).settle(executor=False)
    cell.submit("a", "q", 3, elastic=False, command=["false"]).settle()
    assert cell.dispatch("a").state == "Running"
    assert cell.dispatch("b") is None
