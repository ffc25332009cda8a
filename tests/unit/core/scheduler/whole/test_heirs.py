"""What a victim gives up is no room where a sibling keeps it: they share it (CA10)."""

import msgspec

from sluice.core.world.variants import MAY_PREEMPT
from sluice.events.scheduler import QuotaReserved, WorkloadsParked
from sluice.events.slices import WorkloadDeleted
from sluice.events.variants import VariantCreated
from tests.support.scheduler_cell import RECLAIMS, SECOND, Cell, admitted, evicted, key, preempting


def variant(cell: Cell, name: str, preference: int) -> None:
    """Make a variant of `job`; both of its variants are for the same flavor, so they share all."""
    parent = cell.workload("job").record
    record = msgspec.structs.replace(
        parent,
        name=name,
        uid=f"uid-{name}",
        created_at=parent.created_at,
        parent=parent.key,
        preference=preference,
        allowed_flavors=("default",),
    )
    cell.put(VariantCreated(cause=0, workload=record, variant=name))


def test_nobody_preempts_for_what_a_sibling_has_just_got() -> None:
    """One variant leaves, and another one gets what both share, in the cycle in which quota is claimed."""
    cell = Cell()
    policy = {"migration": {"mode": "TryPreferredFlavors"}}
    cell.queue("racing", cpu=0, cohort="c", concurrentAdmissionPolicy=policy)
    cell.queue("owner", cpu=4, cohort="c", preemption=RECLAIMS)
    cell.submit("job", "racing", cpu=4, priority=10)
    variant(cell, "rest", 1)
    assert admitted(cell.settle()) == ["rest"]
    cell.submit("first", "owner", cpu=2)
    assert preempting(cell.settle()) == {"first": ["rest"]}
    # Nobody waits for the variant any more, and it has not stopped yet.
    cell.put(WorkloadDeleted(cause=0, workload=key("first")))
    variant(cell, "best", 0)
    cell.submit("second", "owner", cpu=2, created_at=90 * SECOND)
    events = cell.settle()
    assert any(isinstance(event, QuotaReserved) and event.workload == key("best") for event in events)
    # Both hold the four, once: who reclaims two of them has both go.
    assert "best" in evicted(events)
    assert preempting(events)["second"] == ["best", "rest"]
    cell.stopped("rest")
    assert admitted(cell.settle()) == ["second"]


def test_who_is_not_barred_any_more_is_looked_at_again() -> None:
    """A verdict can be out of date when it is folded: in its own step the other variant gave its turn up."""
    cell = Cell()
    policy = {"migration": {"mode": "TryPreferredFlavors"}}
    cell.queue("racing", cpu=4, concurrentAdmissionPolicy=policy)
    cell.submit("job", "racing", cpu=4)
    variant(cell, "rest", 1)
    verdict = WorkloadsParked(
        cause=1, workloads=[key("rest")], reason="PendingEvaluation", message=MAY_PREEMPT, barred=True
    )
    cell.put(verdict)
    assert admitted(cell.settle()) == ["rest"]
