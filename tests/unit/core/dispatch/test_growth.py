"""Sizes and edits of jobs that are placed: growth is asked of their cell, and starts last."""

import pytest

from sluice.core.dispatch.orders import sayings
from sluice.events import dispatch, slices
from sluice.events.base import JobKey, WorkloadKey
from tests.support.cells_world import CellsWorld, Remote

LOST_AFTER_S = 60


@pytest.fixture
def world() -> CellsWorld:
    found = CellsWorld()
    found.ladder("near", "far", lostAfterSeconds=LOST_AFTER_S, retryAfterSeconds=5)
    found.turn()
    for worker in found.workers.values():
        worker.room = 4
    return found


def running(world: CellsWorld, pods: int = 2) -> WorkloadKey:
    key = world.create(pods=pods)
    world.reserve(key).exchange()
    assert world.running() == {key: ["near"]}
    return key


def there(world: CellsWorld, cell: str = "near") -> Remote:
    (job,) = world.workers[cell].jobs.values()
    return job


def grown(world: CellsWorld, key: WorkloadKey, pods: int) -> WorkloadKey:
    world.scale(key, pods)
    growth = world.growth_of(key)
    assert growth is not None
    world.reserve(growth).exchange()
    return growth


def test_growth_is_asked_of_the_jobs_cell_and_starts_last(world: CellsWorld) -> None:
    """Quota there, then the check here, then the admission here, and only then its pods there."""
    growth = grown(world, running(world), 4)
    assert world.running() == {growth: ["near"]}
    assert there(world).pods == 4
    assert not world.workers["far"].jobs
    assert len(world.events(dispatch.Won)) == 1, "no second cell is asked"
    kinds = (dispatch.OfferEdited, dispatch.PlacementConcluded, dispatch.GrowthLifted, dispatch.RemoteResized)
    found = world.events(*kinds)[1:]  # the first one is of the job itself
    assert [type(event) for event in found] == list(kinds)


def test_growth_beyond_the_cell_waits_there(world: CellsWorld) -> None:
    """The check stays open, with the cell's reason known, and the running size goes on."""
    key = running(world)
    growth = grown(world, key, 5)
    assert not list(sayings(world.state, growth))
    (offer,) = world.state.placements[key].offers.values()
    assert offer.growth is not None
    assert offer.growth.message == "insufficient unused quota"
    assert there(world).pods == 2
    world.workers["near"].room = 5
    world.workers["near"].look(offer.name)
    world.exchange()
    assert there(world).pods == 5


def test_growth_that_is_taken_back_is_withdrawn_there(world: CellsWorld) -> None:
    key = running(world)
    grown(world, key, 5)
    world.scale(key, 2).exchange()
    assert there(world).growth is None
    assert there(world).pods == 2
    assert world.running() == {key: ["near"]}


def test_a_smaller_size_is_passed_on_at_once(world: CellsWorld) -> None:
    key = running(world, 4)
    world.scale(key, 1).exchange()
    assert there(world).pods == 1
    assert [event.pods for event in world.events(dispatch.RemoteResized)] == [{"main": 1}]


def test_pods_of_a_growth_are_ready_anew(world: CellsWorld) -> None:
    """The job is ready again when the cell runs the new size, and not before."""
    key = running(world)
    near = world.workers["near"]
    (name,) = near.jobs
    near.say("Ready", name)
    world.exchange()
    world.scale(key, 4)
    growth = world.growth_of(key)
    assert growth is not None
    world.reserve(growth)
    for _ in range(3):
        world.turn()
        world.carry(near)
        world.deliver(near)
        world.hand_in(near)
    world.turn()
    (verdict,) = sayings(world.state, growth)
    world.hear(verdict)
    world.turn()
    assert not list(sayings(world.state, growth)), "it still runs the old size"
    world.exchange()
    ready = [event for event in world.events(dispatch.RemoteStarted) if event.ready]
    assert [event.workload for event in ready] == [key, growth]


def test_growth_that_its_cell_refuses_is_tried_again_later(world: CellsWorld) -> None:
    """The size stays, the check says why, and nothing is started anew."""
    key = running(world)
    world.workers["near"].refuses = True
    growth = grown(world, key, 4)
    concluded = world.events(dispatch.PlacementConcluded)[-1]
    assert (concluded.workload, concluded.state, concluded.message) == (growth, "Retry", "near: it will not")
    assert world.running() == {key: ["near"]}
    assert there(world).pods == 2


def test_more_than_was_reserved_here_is_not_started_there(world: CellsWorld) -> None:
    """A growth that grew on while it waited starts as far as it was reserved; the rest is asked for next."""
    key = running(world)
    world.workers["near"].room = 9
    world.scale(key, 4)
    growth = world.growth_of(key)
    assert growth is not None
    world.reserve(growth)
    world.scale(key, 7).exchange()
    assert there(world).pods == 4
    rest = world.growth_of(growth)
    assert rest is not None
    world.reserve(rest).exchange()
    assert there(world).pods == 7


def test_a_job_that_ends_takes_its_growth_along(world: CellsWorld) -> None:
    """Nothing is left in the cell, nor here."""
    key = running(world)
    grown(world, key, 5)
    near = world.workers["near"]
    (name,) = near.jobs
    near.finish(name)
    world.exchange()
    assert not near.jobs
    assert not world.state.placements
    assert not world.state.by_offer


def test_a_job_that_is_evicted_with_its_growth_is_placed_as_one(world: CellsWorld) -> None:
    """It stops as a whole; its newest slice asks for all of it, in any cell, under another name."""
    key = running(world)
    growth = grown(world, key, 5)
    world.workers["far"].room = 6
    world.evict(key).exchange()
    assert not world.running()
    names = {event.offer for event in world.events(dispatch.Offered)}
    world.reserve(growth).exchange()
    assert world.running() == {growth: ["far"]}
    assert there(world, "far").pods == 5
    later = [event.offer for event in world.events(dispatch.Offered) if event.workload == growth]
    assert not names & set(later)


def test_offers_of_a_jobs_next_workload_have_names_of_their_own(world: CellsWorld) -> None:
    """Under an old name the cell would take a submission for a copy, and nothing would come of it."""
    key = running(world)
    job = world.jobs[key]
    world.evict(key).exchange()
    world.create(pods=3, job=job)
    new = next(k for k in world.attempts if k != key)
    world.forget(key)
    world.reserve(new).exchange()
    assert world.running() == {new: ["near"]}
    names = [event.offer for event in world.events(dispatch.Offered)]
    assert len(names) == len(set(names)) == 4


def test_a_growth_waits_while_its_cell_is_out_of_reach(world: CellsWorld) -> None:
    """What is asked meanwhile is asked once the cell is back."""
    key = running(world)
    near = world.workers["near"]
    world.cut(near)
    growth = grown(world, key, 4)
    assert there(world).pods == 2
    world.mend(near)
    world.exchange()
    assert there(world).pods == 4
    assert world.running() == {growth: ["near"]}


def test_an_edit_is_passed_on_until_it_is_answered(world: CellsWorld) -> None:
    """Another priority is another edition of the offer, under its name; the cell's answer is recorded."""
    key = running(world)
    world.edit(key).turn()
    (order,) = world.orders("near")
    assert (order.edition, order.answered) == (1, 0)
    assert order.last > order.first
    world.exchange()
    (order,) = world.orders("near")
    assert (order.edition, order.answered) == (1, 1)
    assert [e.message for e in world.events(dispatch.EditAnswered)] == [""]
    assert world.running() == {key: ["near"]}


def test_an_edit_that_is_refused_leaves_the_job_alone(world: CellsWorld) -> None:
    key = running(world)
    world.workers["near"].refuses = True
    world.edit(key).exchange()
    (offer,) = world.state.placements[key].offers.values()
    assert offer.refusal == "it will not"
    assert world.running() == {key: ["near"]}


def test_a_cell_that_refuses_a_smaller_size_loses_the_job(world: CellsWorld) -> None:
    """Quota for its pods is free here already: so it is placed anew, in the size that it has."""
    key = running(world, 4)
    world.workers["near"].refuses = True
    world.scale(key, 1).exchange()
    assert not world.running()
    world.reserve(key).exchange()
    assert world.running() == {key: ["far"]}
    assert there(world, "far").pods == 1


def test_refused_manifests_are_not_passed_on(world: CellsWorld) -> None:
    """What the manager has rejected is named in the orders, so that no link takes it for the job's."""
    key = running(world)
    job = world.jobs[key].key
    subject = f"job.{job.replace('/', '.')}"
    world.tell("slices", slices.Rejected(cause=77, subject=subject, event_type="JobSubmitted"))
    world.turn()
    assert [order.refused for order in world.orders("near")] == [(77,)]
    world.forget(key)
    world.turn()
    assert JobKey(job) not in world.state.refused
