"""What people are told of where a job is."""

import pytest

from sluice.core.dispatch.places import Place, places_of
from sluice.events.base import WorkloadKey
from tests.support.cells_world import CellsWorld


@pytest.fixture
def world() -> CellsWorld:
    found = CellsWorld()
    found.ladder("near", "far", lostAfterSeconds=60)
    found.turn()
    for worker in found.workers.values():
        worker.room = 2
    return found


def only(world: CellsWorld, key: WorkloadKey) -> Place:
    (place,) = places_of(world.state, key)
    return place


def test_a_job_is_told_of_from_the_first_question_to_its_run(world: CellsWorld) -> None:
    """Each cell that is asked has a state, since when it has it; the winner's is told first."""
    key = world.create()
    world.reserve(key).turn()
    asked = world.now
    assert [(place.cell, place.state) for place in places_of(world.state, key)] == [
        ("near", "Asked"),
        ("far", "Asked"),
    ]
    world.exchange()
    place = only(world, key)
    assert (place.cell, place.state, place.pods) == ("near", "Running", {"main": 1})
    assert 0 < place.since < asked


def test_what_waits_says_why(world: CellsWorld) -> None:
    """A standing offer has the words of its cell, and when it came to wait."""
    for worker in world.workers.values():
        worker.room = 0
    key = world.create()
    world.reserve(key).exchange()
    found = places_of(world.state, key)
    assert {(place.state, place.message) for place in found} == {("Waiting", "insufficient unused quota")}
    assert all(place.since <= world.now for place in found)


def test_growth_is_told_of_apart(world: CellsWorld) -> None:
    """The job runs; its growth waits in the same cell."""
    key = world.create()
    world.reserve(key).exchange()
    world.scale(key, 3)
    growth = world.growth_of(key)
    assert growth is not None
    world.reserve(growth).exchange()
    place = only(world, growth)
    assert (place.cell, place.state, place.growth, place.pods) == ("near", "Waiting", True, {"main": 3})
    assert only(world, key).state == "Running"


def test_nothing_is_told_of_what_is_nowhere(world: CellsWorld) -> None:
    assert places_of(world.state, world.create()) == []
