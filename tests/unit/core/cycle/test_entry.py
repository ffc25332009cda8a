"""What an entry is when a cycle begins, and what it would get."""

import pytest

from sluice.core.cycle.entry import Entry
from sluice.core.cycle.nomination import nominate
from sluice.core.flavors.assignment import Mode
from tests.support.scheduler_cell import Cell, admitted, parked


def blocked() -> Cell:
    """A StrictFIFO head waits for what its queue has lent for good: it is kept from being lent to more."""
    cell = Cell()
    cell.queue("strict", cpu=4, cohort="c", queueingStrategy="StrictFIFO")
    cell.queue("other", cpu=2, cohort="c")
    cell.submit("runs", "other", cpu=6)
    assert admitted(cell.settle()) == ["runs"]
    cell.submit("blocker", "strict", cpu=3)
    assert parked(cell.settle()) == ["blocker"]
    return cell


def entry_of(cell: Cell, name: str) -> Entry:
    workload = cell.workload(name)
    queue = cell.state.pending.queues[workload.cluster_queue]
    return Entry(workload, queue, cell.state.world.cluster_queues[queue.name])


def test_what_is_kept_stays_kept_until_something_is_freed() -> None:
    """Whatever becomes of it in a cycle in which nothing was freed (SC2)."""
    cell = blocked()
    assert entry_of(cell, "blocker").reserves
    cell.stopped("runs")
    cell.finish("runs")
    assert not entry_of(cell, "blocker").reserves


def test_a_second_look_leaves_nothing_of_the_first() -> None:
    """Whoever looks again can go back to the proposal that there was, as it was."""
    cell = blocked()
    entry = entry_of(cell, "blocker")
    assert not entry.proposal.is_possible()
    nominate(cell.state.world, entry)
    first = entry.proposal
    first.overdrawn = first.circling = True
    nominate(cell.state.world, entry)
    assert entry.proposal is not first
    assert not entry.proposal.overdrawn
    assert not entry.proposal.circling


def test_nothing_is_noted_of_an_entry_that_was_not_nominated() -> None:
    """What such entries have is one object for all of them, in all cycles."""
    cell = blocked()
    entry = entry_of(cell, "blocker")
    assert entry.proposal.mode is Mode.NO_FIT
    with pytest.raises(AttributeError):
        entry.proposal.overdrawn = True
    assert not entry_of(cell, "blocker").proposal.overdrawn
