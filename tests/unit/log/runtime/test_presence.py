"""Who counts as lost, and when: by the heartbeats, and by who holds jobs."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.deciders import DECIDERS
from sluice.core.naming import is_name
from sluice.core.slices.state import State
from sluice.events.job import OnLoss
from sluice.log.runtime.presence import FIRST_BEAT_S, NEW_BUCKET_S, READ_AT_ONCE, PresenceWatcher, names_of
from sluice.protocol.checks import ControllerHeartbeat
from sluice.protocol.dispatch import Heartbeat, key_token
from sluice.protocol.heartbeats import heartbeat_of
from sluice.protocol.subjects import _READ
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


def claim(world: World, attempt: int, on_loss: dict[str, Any] | None = None, job: str = "a") -> None:
    said = {} if on_loss is None else {"onLoss": on_loss}
    world.job("JobPodsReady", {"attempt": attempt, "executor": "x", "ready": False, **said}, job)


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


def test_nobody_is_missed_in_a_bucket_that_is_new() -> None:
    """Whoever is there beats again, some later than others; who comes back meanwhile is as any other."""
    world, found = asks({"afterS": 1}), watcher()
    found.looked("2026-11-26T08:00:00Z", "2026-11-26T09:00:00Z", 100)
    assert tells(found, world, 100) == []
    found.looked("2026-11-26T09:00:01Z", "2026-11-26T09:00:01Z", 100.9)
    assert tells(found, world, 101) == []
    found.looked("2026-11-26T09:00:01Z", "2026-11-26T09:00:10Z", 110)
    assert tells(found, world, 100.9 + NEW_BUCKET_S - 0.1) == []
    assert tells(found, world, 100.9 + NEW_BUCKET_S, "x", "y") == [("y", "Seen")]
    assert tells(found, world, 112) == []
    assert tells(found, world, 113) == LOST


def test_who_begins_to_lead_asks_the_server_how_old_the_bucket_is() -> None:
    world, found = asks({"afterS": 1}), watcher()
    found.looked("2026-11-26T09:00:00Z", "2026-11-26T09:00:04Z", 100)
    assert tells(found, world, 100 + NEW_BUCKET_S - 4.1) == []
    assert tells(found, world, 100 + NEW_BUCKET_S - 4) == []
    assert tells(found, world, 100 + NEW_BUCKET_S - 3) == LOST


def test_who_holds_nothing_and_was_never_seen_is_not_spoken_of(world: World) -> None:
    found = watcher()
    tells(found, world, 100)
    world.job("JobFinished", {"attempt": 1, "executor": "x"})
    assert tells(found, world, 200) == []


def asks(*wishes: dict[str, Any]) -> World:
    """Return a world in which "x" is there, and has asked for that with each of its jobs."""
    world = World()
    world.agent("Seen", "x")
    for number, wish in enumerate(wishes):
        world.submit(f"j{number}")
        world.admit(f"j{number}")
        claim(world, 1, wish, f"j{number}")
    return world


def test_who_has_asked_for_a_time_of_its_own_is_away_before_it_is_lost() -> None:
    """It is said to be away once, when others would be lost; its jobs go on elsewhere after its own time."""
    world, found = asks({"afterS": 60}), watcher()
    assert tells(found, world, 100) == []
    assert tells(found, world, 100 + LOST_AFTER_S) == [("x", "Away")]
    world.agent("Away", "x")
    assert tells(found, world, 159.9) == []
    assert world.state_of("j0").executor == "x"
    assert tells(found, world, 160) == LOST
    world.agent("Lost", "x")
    assert world.state_of("j0").executor == ""
    assert world.state.away == {}
    world.verify()


def test_a_shorter_time_counts_too() -> None:
    world, found = asks({"afterS": 1}), watcher()
    assert tells(found, world, 100) == []
    assert tells(found, world, 101) == LOST


def test_who_waits_is_never_lost_and_is_seen_when_it_is_back() -> None:
    """Whoever leads: the log says that it is away."""
    world, found = asks({"policy": "Wait"}), watcher()
    assert tells(found, world, 100) == []
    assert tells(found, world, 103) == [("x", "Away")]
    world.agent("Away", "x")
    assert tells(found, world, 1_000_000) == []
    another = watcher()
    assert tells(another, world, 5) == tells(another, world, 1_000_000) == []
    assert tells(another, world, 1_000_001, "x") == [("x", "Seen")]
    world.agent("Seen", "x")
    assert tells(another, world, 1_000_002, "x") == []
    assert world.state_of("j0").executor == "x"
    world.verify()


def test_the_most_patient_of_its_wishes_counts() -> None:
    """Claims of earlier processes may have said something else."""
    known = Agents()
    assert known.on_loss(asks({"afterS": 9}, {"afterS": 30}).state, "x") == OnLoss(after_s=30)
    assert known.on_loss(asks({"policy": "Wait"}, {"afterS": 30}).state, "x") == OnLoss(policy="Wait")
    assert known.on_loss(asks().state, "x") is None


def test_who_is_away_and_has_its_jobs_taken_is_lost() -> None:
    """A person has ended them: nothing is left that could wait, whether it was ever seen or not."""
    for world in (asks({"policy": "Wait"}), World()):
        if not world.state.executors:
            world.submit("j0")
            world.admit("j0")
            claim(world, 1, {"policy": "Wait"}, "j0")
        found = watcher()
        tells(found, world, 100)
        assert tells(found, world, 110) == [("x", "Away")]
        world.agent("Away", "x")
        world.job("JobStopped", {"attempt": 1, "executor": "x"}, "j0")
        assert tells(found, world, 111) == LOST
        assert [type(event).__name__ for event in world.agent("Lost", "x")] == ["ExecutorLost"]
        assert tells(found, world, 200) == []
        world.verify()


NAMES = st.text(min_size=1, max_size=80).filter(is_name)


@given(NAMES)
def test_a_name_is_found_in_its_key(name: str) -> None:
    assert names_of({f"agent.{key_token(name)}": 1}, "agent.") == {name: 1}
    for kind in (Heartbeat, ControllerHeartbeat):
        assert heartbeat_of(name, msgspec.json.encode(kind(name=name, instance="1"))) is not None


@given(st.text(), st.binary())
def test_any_key_and_any_value_can_be_read(key: str, value: bytes) -> None:
    """And what is found is a name of which that is the key."""
    for name in names_of({f"agent.{key}": 1}, "agent."):
        assert is_name(name)
        assert key_token(name) == key
    heartbeat_of(key, value)


def test_rubbish_does_not_keep_heartbeats_from_being_read() -> None:
    """Those never read come first, so many at once; what was rubbish is read again after a while."""
    found = watcher()
    names = [f"n{number}" for number in range(READ_AT_ONCE + 5)]
    first = found.to_read(names, 100.0)
    found._rubbish = dict.fromkeys(first, 100.0)
    assert len(first) == READ_AT_ONCE
    assert sorted([*first, *found.to_read(names, 100.5)]) == sorted(names)
    found._rubbish = dict.fromkeys(names, 100.0)
    assert found.to_read(names, 104.0) == []
    assert len(found.to_read(names, 105.0)) == READ_AT_ONCE
    assert found.to_read([], 105.0) == []
    assert not found._rubbish


def test_what_nobody_reads_is_what_no_decider_reads() -> None:
    read = {pattern for decider in DECIDERS for pattern in decider().reads if "presence" in pattern}
    assert read == set(_READ)
