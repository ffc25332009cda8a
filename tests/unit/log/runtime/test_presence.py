"""Who counts as lost, and when: by the heartbeats, and by who holds jobs."""

from collections.abc import Iterator

import pytest

from sluice.core.slices.state import State
from sluice.log.runtime.presence import FIRST_BEAT_S, PresenceWatcher
from sluice.services.slice_aggregator.presence import AGENT, Agents
from tests.support.slices_world import World

LOST_AFTER_S = 3.0
LOST = [("x", "Lost")]


@pytest.fixture
def world() -> Iterator[World]:
    """A job that "x" has taken."""
    world = World()
    world.submit()
    world.admit()
    claim(world, 1)
    yield world
    world.verify()


def claim(world: World, attempt: int) -> None:
    world.job("JobPodsReady", {"attempt": attempt, "executor": "x", "ready": False})


def watcher() -> PresenceWatcher[State]:
    return PresenceWatcher(AGENT, "test", Agents(), poll_s=0.5, lost_after_s=LOST_AFTER_S)


def tells(watcher: PresenceWatcher[State], world: World, now: float, *there: str) -> list[tuple[str, str]]:
    return watcher.compared(world.state, there, now)


def test_who_takes_a_job_and_never_beats_is_lost(world: World) -> None:
    """As long after the claim as if it had put its last heartbeat then; and its job goes on elsewhere."""
    found = watcher()
    assert tells(found, world, 100) == []
    assert tells(found, world, 100 + FIRST_BEAT_S + LOST_AFTER_S - 0.1) == []
    assert tells(found, world, 100 + FIRST_BEAT_S + LOST_AFTER_S) == LOST
    world.agent("Lost", "x")
    assert world.state_of().executor == ""
    assert tells(found, world, 109) == []


def test_another_leader_waits_anew(world: World) -> None:
    """And loses it all the same."""
    assert tells(watcher(), world, 100) == []
    found = watcher()
    assert tells(found, world, 107) == []
    assert tells(found, world, 107 + FIRST_BEAT_S + LOST_AFTER_S) == LOST


def test_who_beats_late_is_seen_and_then_as_any_other(world: World) -> None:
    found = watcher()
    assert tells(found, world, 100) == []
    assert tells(found, world, 107.5, "x") == [("x", "Seen")]
    world.agent("Seen", "x")
    assert tells(found, world, 120, "x") == []
    assert tells(found, world, 121) == []
    assert tells(found, world, 121 + LOST_AFTER_S) == LOST


def test_who_was_lost_and_claims_again_has_its_time_again(world: World) -> None:
    """Its heartbeat may come after its claim."""
    found = watcher()
    tells(found, world, 100)
    assert tells(found, world, 110) == LOST
    world.agent("Lost", "x")
    world.release()
    world.admit()
    claim(world, 2)
    assert tells(found, world, 111) == []
    assert tells(found, world, 111 + FIRST_BEAT_S + LOST_AFTER_S) == LOST


def test_who_holds_nothing_and_was_never_seen_is_not_spoken_of(world: World) -> None:
    found = watcher()
    tells(found, world, 100)
    world.job("JobFinished", {"attempt": 1, "executor": "x"})
    assert tells(found, world, 200) == []
