"""Workloads with a reservation that do not run yet can be preempted, too (KEP-993)."""

from typing import Any

from sluice.events.checks import ChecksReady
from sluice.events.scheduler import QuotaReserved
from tests.support.scheduler_cell import SECOND, Cell, evicted, key, names

LOWER: dict[str, Any] = {"preemption": {"withinClusterQueue": "LowerPriority"}}
CHECKS: dict[str, Any] = {"admissionChecksStrategy": {"admissionChecks": [{"name": "check"}]}}


def checked(cpu: int = 10) -> Cell:
    cell = Cell()
    cell.configure("AdmissionCheck", "check", {"controllerName": "c"})
    cell.queue("q", cpu, **LOWER, **CHECKS)
    return cell


def test_a_reservation_gives_way_at_once() -> None:
    """Nothing runs, so there is nothing to wait for; its checks begin anew with its next reservation."""
    cell = checked()
    cell.submit("low", "q", 10)
    cell.settle()
    cell.submit("high", "q", 10, priority=5)
    events = cell.settle()
    assert evicted(events) == ["low"]
    assert [names(e.workload) for e in events if isinstance(e, QuotaReserved)] == ["high"]
    cell.put(ChecksReady(cause=0, workload=key("low"), attempt=1))
    cell.finish("high")
    cell.settle()
    assert cell.workload("low").reservations == 2
    assert cell.workload("low").admitted_at is None


def test_what_was_taken_from_a_reservation_goes_to_who_took_it() -> None:
    """The loser borrows less and would come first; if it could take the quota back this would never end."""
    cell = Cell()
    cell.configure("AdmissionCheck", "check", {"controllerName": "c"})
    policy = {"reclaimWithinCohort": "Any", "borrowWithinCohort": {"policy": "LowerPriority"}}
    cell.configure("Cohort", "left", {"parentName": "root"})
    cell.queue("a", 3, "left", preemption=policy, **CHECKS)
    cell.queue("b", 4, "left", **CHECKS)
    cell.queue("c", 3, "root")
    cell.submit("low", "b", 7)
    cell.settle()
    cell.submit("high", "a", 9, priority=5)
    events = cell.settle()
    assert evicted(events) == ["low"]
    assert cell.workload("high").assignment is not None


def test_who_loses_its_reservation_over_and_over_waits() -> None:
    """From the fourth time on it is queued again later, and twice as late each time."""
    cell = checked()
    cell.submit("low", "q", 10)
    waits = []
    for number in range(6):
        cell.settle()
        assert cell.workload("low").assignment is not None
        high = f"high-{number}"
        cell.submit(high, "q", 10, priority=5)
        cell.settle()
        cell.finish(high)
        cell.settle()
        at = cell.workload("low").requeue_at
        waits.append(0 if at is None else (at - cell.now) // SECOND)
        cell.now = cell.now if at is None else at
    assert waits == [0, 0, 0, 1, 2, 4]
