"""A borrower beside a lender whose head cannot have what it needs (SC2)."""

from sluice.events.scheduler import Admitted
from tests.support.scheduler_cell import Cell, key

LOWER = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "LowerPriority"}


def test_a_borrower_gets_what_the_lender_cannot_use() -> None:
    """What a cycle withholds for the lender's head is free again when that one is put aside."""
    cell = Cell()
    cell.queue("u1", 0, "co", preemption=LOWER)
    cell.queue("u2", 2, "co", preemption=LOWER)
    for name in ("x1", "x2", "w"):
        cell.submit(name, "u1", 1).settle()
    cell.submit("y", "u2", 2).settle()
    cell.finish("x2")
    events = cell.settle()
    assert [e.workload for e in events if isinstance(e, Admitted)] == [key("w")]
