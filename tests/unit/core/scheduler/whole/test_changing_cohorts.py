"""Queues that go to another cohort take along what waits in them (SC3)."""

import pytest

from sluice.events.scheduler import PreemptionIssued
from tests.support.scheduler_cell import RECLAIMS, Cell, admitted, evicted


def two_cohorts() -> Cell:
    """Cohort `old`, in which `a` has one cpu and nothing to borrow; `new`, in which eight are idle."""
    cell = Cell()
    cell.queue("a", cpu=1, cohort="old")
    cell.queue("b", cpu=8, cohort="new")
    cell.settle()
    return cell


@pytest.mark.parametrize("cpu", [1, 4])
def test_what_is_parked_can_borrow_in_the_new_cohort(cpu: int) -> None:
    """The verdict on those that were parked held in the old cohort only; equals and others alike."""
    cell = two_cohorts()
    for name in ("first", "second", "third"):
        cell.submit(name, "a", cpu=cpu)
    before = admitted(cell.settle())
    cell.queue("a", cpu=1, cohort="new")

    after = admitted(cell.settle())

    assert sorted(before + after) == (["first", "second", "third"] if cpu == 1 else ["first", "second"])


def test_what_is_parked_can_borrow_no_more_in_a_poor_cohort() -> None:
    """The other way: it stays parked, and is woken by what the new cohort frees."""
    cell = Cell()
    cell.queue("a", cpu=1, cohort="rich")
    cell.queue("rich", cpu=8, cohort="rich")
    cell.queue("poor", cpu=2, cohort="poor")
    cell.submit("rich", "rich", cpu=8)
    cell.submit("poor", "poor", cpu=2)
    cell.settle()
    cell.submit("w", "a", cpu=3)
    assert admitted(cell.settle()) == []
    cell.queue("a", cpu=1, cohort="poor")
    assert admitted(cell.settle()) == []
    cell.finish("rich")
    assert admitted(cell.settle()) == []

    cell.finish("poor")

    assert admitted(cell.settle()) == ["w"]


def test_what_was_freed_in_the_old_cohort_is_looked_at_in_the_new_one() -> None:
    """A release and the move come before the next cycle: whoever is parked is considered once more."""
    cell = two_cohorts()
    cell.submit("runs", "a", cpu=1)
    cell.settle()
    cell.submit("waits", "a", cpu=1)
    cell.queue("b", cpu=0, cohort="new")
    assert admitted(cell.settle()) == []
    cell.finish("runs")
    cell.queue("a", cpu=1, cohort="new")

    assert admitted(cell.settle()) == ["waits"]


def test_a_preemptor_that_moves_still_gets_what_its_victims_leave() -> None:
    """It waits for victims of its own queue; these go, wherever the queue is by then."""
    cell = Cell()
    cell.queue("a", cpu=2, cohort="old", preemption=RECLAIMS)
    cell.queue("b", cpu=0, cohort="new")
    cell.submit("low", "a", cpu=2)
    cell.settle()
    cell.submit("high", "a", cpu=2, priority=10)
    found = cell.settle()
    assert evicted(found) == ["low"]
    assert any(isinstance(event, PreemptionIssued) for event in found)

    cell.queue("a", cpu=2, cohort="new", preemption=RECLAIMS)
    cell.settle()
    cell.stopped("low")

    assert "high" in admitted(cell.settle())
