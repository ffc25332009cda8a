"""Changes of a job that stops: its workload is changed when its quota is free, and stays what it is."""

import pytest

from sluice.core.timing import MICROS_PER_S
from sluice.core.world.workload import Workload
from sluice.events.base import Event
from sluice.events.checks import ChecksRejected, ChecksRetry
from sluice.events.scheduler import Evicted
from sluice.events.slices import WorkloadCreated
from tests.support.elastic_cell import Cell
from tests.support.objects import kueue_object

from .test_place_taken import CHECK, CHECKED, why

HOUR_S = 3600
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
