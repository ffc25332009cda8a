"""Which cell gets a job: rungs, preference, steps, standing offers, refusals."""

import pytest

from sluice.core.dispatch.orders import sayings
from sluice.events import dispatch
from sluice.events.base import WorkloadKey
from tests.support.cells_world import CellsWorld

CELLS = ("near", "far", "spare")


@pytest.fixture
def world() -> CellsWorld:
    found = CellsWorld()
    found.ladder(*CELLS, standSeconds=60, preemptWithinSeconds=20)
    found.turn()
    return found


def asked(world: CellsWorld) -> list[tuple[str, tuple[str, ...]]]:
    """Return rung and cells of each round."""
    return [(event.rung, tuple(event.cells)) for event in world.events(dispatch.RoundStarted)]


def winners(world: CellsWorld) -> list[str]:
    return [event.cell for event in world.events(dispatch.Won)]


def wait(world: CellsWorld, seconds: int) -> None:
    for _ in range(seconds):
        world.turn(1)
        world.exchange()


def placed(world: CellsWorld) -> WorkloadKey:
    key = world.create()
    world.reserve(key).exchange()
    return key


def test_all_are_asked_at_once_and_the_most_preferred_wins(world: CellsWorld) -> None:
    """With room everywhere the first cell of the ladder gets the job, and the others keep nothing."""
    key = placed(world)
    assert asked(world) == [("Fits", CELLS)]
    assert winners(world) == ["near"]
    assert world.running() == {key: ["near"]}
    assert [len(worker.jobs) for worker in world.workers.values()] == [1, 0, 0]


def test_preference_counts_and_not_speed(world: CellsWorld) -> None:
    """A less preferred cell that has room waits for a better one's answer, for as long as is set."""
    world.reserve(world.create()).turn()
    for worker in world.workers.values():
        world.carry(worker)
    far = world.workers["far"]
    world.deliver(far)
    world.hand_in(far)
    assert not world.turn(0.5)[1:] or not winners(world)
    assert winners(world) == []
    world.turn(0.6)
    assert winners(world) == ["far"], "it has not answered in time"


def test_a_better_answer_in_time_wins(world: CellsWorld) -> None:
    world.reserve(world.create()).turn()
    for name in ("far", "near"):
        worker = world.workers[name]
        world.carry(worker)
        world.deliver(worker)
        world.hand_in(worker)
        world.turn()
    assert winners(world) == ["near"]


def test_rungs_follow_each_other(world: CellsWorld) -> None:
    """Nobody has room: first nothing is borrowed, then it may be; then cells may preempt, one at a time."""
    for worker in world.workers.values():
        worker.room = 0
    key = placed(world)
    assert asked(world) == [("Fits", CELLS), ("Borrows", CELLS), ("Preempts", ("near",))]
    wait(world, 61)
    assert asked(world)[3:] == [("Preempts", ("far",)), ("Preempts", ("spare",)), ("Stands", CELLS)]
    world.workers["spare"].room = 1
    for name in list(world.workers["spare"].jobs):
        world.workers["spare"].look(name)
    world.exchange()
    assert world.running() == {key: ["spare"]}, "a standing offer gets the room that appears"


def test_the_ladder_begins_anew_when_offers_have_stood_long_enough(world: CellsWorld) -> None:
    for worker in world.workers.values():
        worker.room = 0
    placed(world)
    wait(world, 125)
    rounds = world.events(dispatch.RoundStarted)
    assert [(e.rung, e.passes) for e in rounds if e.rung in ("Fits", "Stands")] == [
        ("Fits", 1),
        ("Stands", 1),
        ("Fits", 2),
    ]


def test_steps_ask_some_cells_after_the_others() -> None:
    """With a step size the next cells of a rung are asked when the first have no room."""
    world = CellsWorld()
    world.ladder(*CELLS, stepSize=2)
    world.turn()
    world.workers["near"].room = world.workers["far"].room = 0
    key = placed(world)
    assert asked(world) == [("Fits", ("near", "far")), ("Fits", ("spare",))]
    assert world.running() == {key: ["spare"]}


def test_rungs_may_be_left_out() -> None:
    """Whoever must not preempt in other cells leaves that rung out."""
    world = CellsWorld()
    world.ladder("near", rungs=["Borrows"])
    world.turn()
    world.workers["near"].room = 0
    placed(world)
    assert [rung for rung, _ in asked(world)] == ["Borrows", "Stands"]


def test_refused_everywhere_is_tried_again_later(world: CellsWorld) -> None:
    """Without a cell that takes the job the check says Retry, and what each of them has said."""
    for worker in world.workers.values():
        worker.refuses = True
    placed(world)
    (concluded,) = world.events(dispatch.PlacementConcluded)
    assert concluded.state == "Retry"
    assert concluded.message == (
        "No cell takes the job: near: there is no such queue; far: there is no such queue; "
        "spare: there is no such queue"
    )
    assert not world.state.by_offer


def test_a_cell_out_of_reach_is_not_asked(world: CellsWorld) -> None:
    """Jobs go to the others at once; without any they wait until one is back."""
    world.cut(world.workers["near"])
    key = placed(world)
    assert asked(world) == [("Fits", ("far", "spare"))]
    assert world.running() == {key: ["far"]}
    for name in ("far", "spare"):
        world.cut(world.workers[name])
    second = placed(world)
    assert len(asked(world)) == 1
    world.mend(world.workers["spare"])
    world.exchange()
    assert world.running()[second] == ["spare"]


def test_a_check_without_a_ladder_says_so() -> None:
    world = CellsWorld()
    world.ladder("near")
    world.delete("CellLadder", "all")
    world.turn()
    key = world.create()
    world.reserve(key).turn()
    (said,) = sayings(world.state, key)
    assert (said.state, said.after_s) == ("Retry", 60)
    assert "MultiKueueConfig or CellLadder" in said.message


def test_kueues_config_is_a_ladder_of_all_rungs() -> None:
    """The clusters of a MultiKueueConfig are cells in their order."""
    world = CellsWorld()
    world.ladder("near", "far")
    world.configure("MultiKueueConfig", "mk", {"clusters": ["far", "near"]})
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "mk"}
    spec = {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}
    world.configure("AdmissionCheck", "cells", spec)
    world.turn()
    key = placed(world)
    assert asked(world) == [("Fits", ("far", "near"))]
    assert world.running() == {key: ["far"]}
