"""Life in a worker: start, end, eviction, cells that are lost and come back, orphans, broken messages."""

import pytest

from sluice.core.dispatch.orders import sayings
from sluice.events import dispatch
from sluice.events.base import WorkloadKey
from sluice.protocol.cells import Order, RemoteReport
from tests.support.cells_world import CellsWorld

LOST_AFTER_S = 60


@pytest.fixture
def world() -> CellsWorld:
    found = CellsWorld()
    found.ladder("near", "far", lostAfterSeconds=LOST_AFTER_S, retryAfterSeconds=5)
    found.turn()
    return found


def running(world: CellsWorld) -> WorkloadKey:
    key = world.create()
    world.reserve(key).exchange()
    assert world.running() == {key: ["near"]}
    return key


def job_in(world: CellsWorld, cell: str) -> str:
    (name,) = world.workers[cell].jobs
    return name


def test_the_hold_is_lifted_last(world: CellsWorld) -> None:
    """Won, the others gone, the check Ready, the job admitted here: only then may it start there."""
    running(world)
    kinds = (dispatch.Won, dispatch.Withdrawn, dispatch.PlacementConcluded, dispatch.HoldLifted)
    assert [type(event) for event in world.events(*kinds)] == list(kinds)


def test_a_start_is_not_asked_for_again(world: CellsWorld) -> None:
    """Orders say that the job runs, so that a link has nothing more to say of it, however long it does."""
    running(world)
    (order,) = world.orders("near")
    assert order.lift
    assert order.started


def test_a_loser_that_has_not_confirmed_holds_the_winner_up(world: CellsWorld) -> None:
    """While a losing offer is in a cell within reach, and not confirmed gone, the check is not Ready."""
    key = world.create()
    world.reserve(key).turn()
    near, far = world.workers["near"], world.workers["far"]
    for worker in (near, far):
        world.carry(worker)
        world.deliver(worker)
        world.hand_in(worker)
    world.turn()
    assert world.events(dispatch.Won)
    assert not list(sayings(world.state, key))
    world.carry(far)
    world.deliver(far)
    world.turn()
    assert not list(sayings(world.state, key)), "gone, but not confirmed"
    world.hand_in(far)
    world.turn()
    assert [said.state for said in sayings(world.state, key)] == ["Ready"]


def test_a_loser_out_of_reach_holds_nobody_up(world: CellsWorld) -> None:
    """It was never allowed to start, and only the dispatcher could: so nobody waits for its cell."""
    key = world.create()
    world.reserve(key).turn()
    for worker in world.workers.values():
        world.carry(worker)
        world.deliver(worker)
    world.hand_in(world.workers["near"])
    world.cut(world.workers["far"])
    world.exchange()
    assert world.running() == {key: ["near"]}
    world.mend(world.workers["far"])
    world.exchange()
    assert not world.workers["far"].jobs


def test_what_has_finished_is_told_and_taken_away(world: CellsWorld) -> None:
    """The end comes back with the times of the worker, and nothing is left there."""
    running(world)
    world.workers["near"].finish(job_in(world, "near"))  # type: ignore[arg-type]
    world.exchange()
    (finished,) = world.events(dispatch.RemoteFinished)
    assert (finished.success, finished.message) == (True, "done")
    assert 0 < finished.started_at < finished.finished_at == finished.remote_seq
    assert not world.attempts
    assert not world.workers["near"].jobs
    assert not world.state.placements


def test_an_eviction_there_is_a_retry_here(world: CellsWorld) -> None:
    """The next attempt asks the cell that has evicted the job last."""
    key = running(world)
    near = world.workers["near"]
    near.evict(job_in(world, "near"))  # type: ignore[arg-type]
    world.exchange()
    assert [e.message for e in world.events(dispatch.RemoteEvicted)] == ["preempted"]
    assert world.events(dispatch.PlacementConcluded)[-1].state == "Retry"
    assert not world.running()
    assert key not in world.holding
    world.reserve(key).exchange()
    assert world.events(dispatch.RoundStarted)[-1].cells == ["far", "near"]
    assert world.running() == {key: ["far"]}


def test_an_evicted_job_does_not_start_again_by_itself(world: CellsWorld) -> None:
    """Its cell queues it again and reserves quota for it: nobody lets that reservation start."""
    running(world)
    near = world.workers["near"]
    name = job_in(world, "near")
    lifted = [order for order in world.orders("near") if order.lift]
    near.evict(name)  # type: ignore[arg-type]
    near.look(name)  # type: ignore[arg-type]
    near.inbox.extend(lifted)
    world.deliver(near)
    assert not near.jobs[name].runs  # type: ignore[index]


def test_evicted_here_is_stopped_there_first(world: CellsWorld) -> None:
    """The stop is reported when the cell has confirmed that nothing of the job runs."""
    key = running(world)
    world.evict(key).turn()
    assert not list(sayings(world.state, key))
    near = world.workers["near"]
    world.carry(near)
    world.deliver(near)
    world.hand_in(near)
    world.turn()
    assert [said.what for said in sayings(world.state, key)] == ["Stopped"]
    world.exchange()
    assert key not in world.runs


def test_a_short_absence_changes_nothing(world: CellsWorld) -> None:
    """A link that breaks and comes back within the time evicts nobody."""
    key = running(world)
    near = world.workers["near"]
    world.cut(near)
    world.turn(LOST_AFTER_S - 5)
    world.mend(near)
    world.exchange()
    world.turn(LOST_AFTER_S)
    world.exchange()
    assert world.running() == {key: ["near"]}
    assert not world.events(dispatch.OfferAbandoned, dispatch.RemoteEvicted)


def test_a_long_absence_begins_the_job_anew_elsewhere(world: CellsWorld) -> None:
    """The attempt is abandoned, the next runs in another cell; the first word to the cell is to end it."""
    key = running(world)
    near = world.workers["near"]
    world.cut(near)
    world.turn()
    world.turn(LOST_AFTER_S + 1)
    assert world.events(dispatch.OfferAbandoned)
    world.exchange()
    world.reserve(key).exchange()
    assert sorted(world.running()[key]) == ["far", "near"], "two attempts, of which one is out of reach"
    world.mend(near)
    world.turn()
    (order,) = world.orders("near")
    assert order.do == "Withdraw"
    world.exchange()
    assert world.running() == {key: ["far"]}
    assert not near.jobs


def test_a_winner_that_has_not_started_is_given_up_sooner(world: CellsWorld) -> None:
    key = world.create()
    world.reserve(key).turn()
    for worker in world.workers.values():
        world.carry(worker)
        world.deliver(worker)
        world.hand_in(worker)
    world.turn()
    world.cut(world.workers["near"])
    world.turn()
    world.turn(6)
    world.exchange()
    world.reserve(key).exchange()
    assert world.running() == {key: ["far"]}


def test_orphans_are_collected(world: CellsWorld) -> None:
    """A job of this manager's that it knows nothing of is withdrawn, and that is recorded."""
    worker = world.workers["far"]
    worker.obey(Order(cell="far", job="ns/stray", do="Offer"))  # type: ignore[arg-type]
    world.exchange()
    assert [e.offer for e in world.events(dispatch.OrphanFound)] == ["ns/stray"]
    assert [e.offer for e in world.events(dispatch.OrphanCollected)] == ["ns/stray"]
    assert not worker.jobs
    assert not world.state.orphans


def test_reports_are_taken_once_and_in_order(world: CellsWorld) -> None:
    running(world)
    upto = world.state.cells["near"].upto
    world.send("near", RemoteReport(after=0, upto=upto))
    world.send("near", RemoteReport(after=upto + 5, upto=upto + 6))
    world.turn()
    assert [e.reason for e in world.events(dispatch.ReportIgnored)] == ["Duplicate", "Gap"]
    assert world.state.cells["near"].upto == upto


@pytest.mark.parametrize(
    ("subject", "event_type", "data", "field"),
    [
        ("cell.near", "RemoteReport", {"after": 5, "upto": 3}, "after"),
        ("cell.near", "RemoteReport", {"after": 0}, "upto"),
        ("cell.near", "Rubbish", {}, "type"),
        ("cell.near.far", "LinkUp", {}, "subject"),
    ],
)
def test_broken_messages_are_refused(
    world: CellsWorld, subject: str, event_type: str, data: dict[str, object], field: str
) -> None:
    """Whatever stands on the subject is answered, and changes nothing."""
    before = world.services["dispatch"].decider.dump(world.state)
    world.message(subject, event_type, data)
    world.turn()
    (refused,) = world.events(dispatch.ReportRejected)
    assert refused.errors[0].field.endswith(field)
    assert world.services["dispatch"].decider.dump(world.state) == before
