"""Nobody preempts who has preempted it, nor the same ones over and over (SC5, decision 0018)."""

import pytest

from sluice.core.scheduler.decider import Scheduler
from sluice.core.world.preemption_history import PreemptionHistory
from sluice.events.scheduler import Admitted, Preempted, WorkloadsParked
from sluice.events.slices import WorkloadUpdated
from tests.support.scheduler_cell import RECLAIMS, Cell, key

ANY = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerOrNewerEqualPriority"}
NEVER = {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"}


def taken_in_vain() -> Cell:
    """`small` takes back from `lent`, `big` preempts `small`, and older `lent` gets the room first."""
    cell = Cell()
    cell.queue("a", 6, "all")
    cell.queue("b", 4, "all", preemption=NEVER)
    cell.queue("c", 5, "all", preemption=RECLAIMS)
    cell.submit("a1", "a", 6)
    cell.submit("lent", "b", 5, priority=1)
    cell.submit("c1", "c", 3, priority=1).settle()
    cell.submit("small", "c", 2)
    rest(cell)
    cell.submit("big", "c", 5, priority=1)
    return cell


def rest(cell: Cell) -> list[object]:
    """Stop whatever is evicted, until nothing happens any more; return the events."""
    events: list[object] = []
    for _ in range(30):
        events += cell.settle()
        workloads = cell.state.world.workloads
        evicted = [w.record.name for w in workloads.values() if w.evicted_at is not None and not w.stopped]
        if not evicted:
            return events
        cell.stopped(*evicted)
    raise AssertionError("preemptions go on and on")


def test_nobody_preempts_in_vain():
    """What the preemptor waits for is kept for it, though an older one of another queue would borrow it."""
    cell = taken_in_vain()
    events = rest(cell)
    cell.state.pending.wake(cell.state.pending.queues["c"])
    events += rest(cell)
    times = [e for e in events if isinstance(e, Preempted) and e.workload == key("small")]
    assert [e.preemptor for e in times] == [key("big")]
    assert [e.workload for e in events if isinstance(e, Admitted)][-1] == key("big")


def circle() -> Cell:
    """`back` was preempted by `taker`."""
    cell = Cell()
    cell.queue("a", 4, "all", preemption=ANY)
    cell.queue("b", 4, "all", preemption=ANY)
    cell.submit("back", "b", 6).settle()
    cell.submit("taker", "a", 4)
    rest(cell)
    return cell


def test_who_was_preempted_spares_its_preemptor():
    cell = circle()
    world = cell.state.world
    assert world.circles.has_preempted(key("taker"), key("back"))
    assert key("taker") in world.circles.spared_by(key("back"))
    assert not world.circles.spared_by(key("taker"))


def test_a_refusal_is_said_and_ends_with_the_next_input():
    """The scheduler's memory ends when something happens in one of the queues, and it looks again."""
    cell = Cell()
    cell.queue("a", 2, "all", preemption=ANY)
    cell.queue("b", 4, "all", preemption=ANY)
    cell.submit("back", "b", 4)
    cell.submit("taker", "a", 4).settle()
    world = cell.state.world
    taker, back = world.workloads[key("taker")], world.workloads[key("back")]
    assert back.assignment is not None
    assert taker.assignment is None
    # As if it had preempted `back` before: a is within its quota for 2 of 4.
    world.circles.note(back, taker)
    cell.finish("back")
    assert not list(world.circles.dump())
    events = cell.settle()
    assert [e.workload for e in events if isinstance(e, Admitted)] == [key("taker")]


def test_refused_for_a_circle_only():
    cell = Cell()
    cell.queue("a", 4, "all", preemption=ANY)
    cell.queue("b", 2, "all", preemption=ANY)
    cell.submit("holder", "b", 6).settle()
    cell.submit("owner", "a", 4)
    world = cell.state.world
    world.circles.note(world.workloads[key("holder")], world.workloads[key("owner")])
    # The dump is what a restart begins with: the refusal and its end are the same.
    cell.restart()
    parked = [e for e in cell.settle() if isinstance(e, WorkloadsParked)]
    assert [e.circling for e in parked] == [True]
    assert parked[0].message.endswith("; to preempt for it again would go round in a circle")
    assert Scheduler().dump(Scheduler().load(Scheduler().dump(cell.state))) == Scheduler().dump(cell.state)

    cell.put(WorkloadUpdated(cause=0, workload=key("owner"), priority=1))
    preempted = [e for e in cell.settle() if isinstance(e, Preempted)]
    assert [(e.preemptor, e.workload) for e in preempted] == [(key("owner"), key("holder"))]


@pytest.mark.parametrize("flavors", [("spot", "reserved"), ("reserved", "spot")])
def test_refused_in_any_flavor_for_a_circle_only(flavors):
    """In `reserved` it would have enough victims, in `spot` it never has; whichever is looked at last."""
    cell = Cell()
    cell.queue("a", dict.fromkeys(flavors, 4), "all", preemption=RECLAIMS)
    cell.queue("b", {"reserved": 0}, "all")
    cell.queue("c", {"spot": 0}, "all")
    cell.submit("enough", "b", 4, priority=3).settle()
    cell.submit("little", "c", 2).settle()
    cell.submit("mine", "a", 2, priority=9).settle()
    cell.submit("owner", "a", 4)
    world = cell.state.world
    for name in ("enough", "little"):
        world.circles.note(world.workloads[key(name)], world.workloads[key("owner")])
    assert [e.circling for e in cell.settle() if isinstance(e, WorkloadsParked)] == [True]

    cell.submit("other", "b", 1, priority=-5)
    preempted = [e for e in cell.settle() if isinstance(e, Preempted)]
    assert [(e.preemptor, e.workload) for e in preempted] == [(key("owner"), key("enough"))]


def test_memory_is_by_queue():
    cell = circle()
    circles = cell.state.world.circles
    remembered = list(circles.dump())
    assert remembered == [("ns/taker", "ns/back", 0, "a", "b")]
    circles.changed("c")
    assert list(circles.dump()) == remembered
    other = PreemptionHistory()
    other.load(remembered)
    assert list(other.dump()) == remembered
    circles.changed("b")
    assert not list(circles.dump())
    assert not circles.has_preempted(key("taker"), key("back"))
    other.forget(key("back"))
    assert not list(other.dump())
