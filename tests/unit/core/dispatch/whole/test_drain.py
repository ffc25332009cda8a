"""Cells that are to get no more jobs."""

import pytest

from sluice.core.dispatch.places import places_of
from sluice.events import dispatch
from sluice.events.base import WorkloadKey
from tests.support.cells_world import CellsWorld


@pytest.fixture
def world() -> CellsWorld:
    found = CellsWorld()
    found.ladder("near", "far", lostAfterSeconds=60, retryAfterSeconds=5)
    found.turn()
    return found


def placed(world: CellsWorld) -> WorkloadKey:
    key = world.create()
    world.reserve(key).exchange()
    return key


def test_a_drained_cell_keeps_its_jobs_and_gets_no_more(world: CellsWorld) -> None:
    first = placed(world)
    world.drain("near")
    world.exchange()
    second = placed(world)
    assert world.running() == {first: ["near"], second: ["far"]}
    asked = [event.cells for event in world.events(dispatch.RoundStarted) if event.workload == second]
    assert asked == [["far"]]


def test_offers_that_wait_in_it_are_taken_back(world: CellsWorld) -> None:
    """What stands in its queue could win there later."""
    for worker in world.workers.values():
        worker.room = 0
    key = placed(world)
    world.drain("near")
    world.exchange()
    assert not world.workers["near"].jobs
    assert [e.cell for e in world.events(dispatch.WithdrawalStarted) if e.reason == "Drained"] == ["near"]
    assert {offer.cell for offer in world.state.placements[key].offers.values()} == {"far"}


def test_jobs_move_if_that_is_asked_for(world: CellsWorld) -> None:
    """They are evicted, stop there, and are placed elsewhere."""
    key = placed(world)
    world.drain("near", "move")
    world.exchange()
    concluded = world.events(dispatch.PlacementConcluded)[-1]
    assert (concluded.state, concluded.message) == ("Retry", "The cell near is drained")
    world.reserve(key).exchange()
    assert world.running() == {key: ["far"]}
    assert not world.workers["near"].jobs


def test_without_another_cell_a_job_waits_until_it_is_resumed(world: CellsWorld) -> None:
    """It says that it is not asked, and since when; once resumed, the cell is asked at once."""
    world.drain("near")
    world.drain("far")
    world.turn()
    key = placed(world)
    assert [(p.cell, p.state, p.message) for p in places_of(world.state, key)] == [
        ("near", "Closed", "it is drained"),
        ("far", "Closed", "it is drained"),
    ]
    world.drain("near", "")
    world.exchange()
    assert world.running() == {key: ["near"]}


def test_draining_again_keeps_the_time(world: CellsWorld) -> None:
    world.drain("near")
    world.turn()
    since = world.state.drained["near"].since
    world.drain("near", "move")
    world.turn()
    assert (world.state.drained["near"].since, world.state.drained["near"].moves) == (since, True)
