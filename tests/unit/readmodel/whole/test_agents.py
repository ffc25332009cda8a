"""Agents as people see them: folded once, for `sluice get agents` and for `sluice replay`."""

from typing import Any

from sluice.events.codec import encode_message
from sluice.log.cell import MAX_LOST
from sluice.log.contract import Entry
from sluice.protocol.subjects import presence_suffix
from sluice.readmodel.objects import keys, render
from sluice.readmodel.world import World
from sluice.replay.views.describe import picture


def said(seq: int, name: str, what: str, data: object, kind: str = "agent") -> Entry:
    payload = encode_message(
        message_id=str(seq), source="test", event_type=what, subject=name, at=seq, data=data
    )
    return Entry(seq=seq, at=seq, suffix=presence_suffix(kind, name), payload=payload)


def agent(world: World, name: str) -> Any:
    found = render(world, "Agent", name)
    return None if found is None else found["status"]


def test_a_lost_agent_is_shown_with_what_it_offered():
    """Its flavors are known from when it came; that it is lost, and why, from the last message."""
    world = World()
    world.fold(
        [
            said(1, "a.b", "Seen", {"flavors": ["gpu"]}),
            said(2, "ctl", "Seen", {}, kind="controller"),
            said(3, "a.b", "Lost", {"message": "no heartbeat"}),
        ]
    )
    assert list(keys(world, "Agent")) == ["a.b"]
    status = agent(world, "a.b")
    assert (status["phase"], status["flavors"], status["message"]) == ("Lost", ["gpu"], "no heartbeat")
    known = picture(world.cell, ["presence"])["presence"]
    assert {key: who["present"] for key, who in known.items()} == {"agent/a.b": False, "controller/ctl": True}
    assert (world.changes.since("Agent", 0), world.changes.version("Agent", "a.b")) == (["a.b"], 3)


def test_an_agent_is_shown_with_the_kinds_that_it_runs():
    """Also when it is lost, and after a snapshot; of one that said none, as all of old, there is nothing."""
    world = World()
    world.fold([said(1, "a", "Seen", {"kinds": ["Job"]}), said(2, "b", "Seen", {"flavors": ["gpu"]})])
    assert (agent(world, "a")["kinds"], "kinds" in agent(world, "b")) == (["Job"], False)
    world.fold([said(3, "a", "Lost", {})])
    assert agent(world, "a")["kinds"] == ["Job"]


def test_what_deciders_cannot_read_shows_nothing():
    """A message counts here exactly when the slice-aggregator takes it."""
    world = World()
    world.fold([said(1, "odd", "Seen", {"flavours": ["gpu"]}), said(2, "odd", "Gone", {})])
    assert agent(world, "odd") is None
    bare = said(3, "bare", "Seen", {})
    world.fold([bare._replace(payload=bare.payload[:-10])])
    assert list(keys(world, "Agent")) == []
    world.fold([bare._replace(payload=b'{"specversion":"1.0","id":"4","source":"test","type":"Seen"}')])
    assert agent(world, "bare")["phase"] == "Ready"


def test_of_very_many_lost_agents_the_latest_are_shown():
    """Who was lost longest ago is forgotten, which a watch is told; who is there never is."""
    world = World()
    world.fold([said(1, "there", "Seen", {})])
    world.fold(said(n + 2, f"a{n}", "Lost", {}) for n in range(MAX_LOST + 2))
    assert len(list(keys(world, "Agent"))) == MAX_LOST + 1
    assert agent(world, "there")["phase"] == "Ready"
    assert [gone.key for gone in world.changes.gone_since("Agent", 0)] == ["a0", "a1"]


def test_who_is_away_is_shown_with_what_becomes_of_its_jobs():
    """Since when it was said first: another leader may say it again. Back, it is not away any more."""
    world = World()
    away = {"message": "no heartbeat", "onLoss": {"policy": "Requeue", "afterS": 60}}
    world.fold([said(1, "a", "Seen", {}), said(2, "a", "Away", away), said(3, "a", "Away", away)])
    status = agent(world, "a")
    assert (status["phase"], status["message"]) == ("Away", "no heartbeat")
    assert status["onLoss"] == {"policy": "Requeue", "afterSeconds": 60}
    assert world.cell.presence["agent/a"].since == 2
    world.fold([said(4, "a", "Away", {"onLoss": {"policy": "Wait"}})])
    assert agent(world, "a")["onLoss"] == {"policy": "Wait"}
    world.fold([said(5, "a", "Seen", {})])
    assert (agent(world, "a")["phase"], "onLoss" in agent(world, "a")) == ("Ready", False)
