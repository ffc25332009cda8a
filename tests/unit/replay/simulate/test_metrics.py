"""What a run is said to have used is what was charged while it went."""

from collections.abc import Callable

import pytest

from sluice.api.labels import JOB_MIN_PARALLELISM
from sluice.core.views import View
from sluice.events.codec import decode_commit
from sluice.protocol.subjects import COMMITS
from sluice.replay.simulate.changes import Changes
from sluice.replay.simulate.what_if import what_if
from sluice.replay.source.source import ListSource
from tests.support.elastic_cell import Cell
from tests.support.family_world import cell, cluster_queue, job
from tests.support.memory_log import World
from tests.support.objects import kueue_object
from tests.support.runs import recorded
from tests.unit.core.scheduler.whole.test_shared_quota import running_on_demand


def shown_seconds(source: ListSource, queue: str, resource: str) -> float:
    """Return how much of a resource people were shown as reserved in the queue, by seconds."""
    view, total, level, since = View(), 0, 0, 0
    for entry in (entry for entries in source.read(1) for entry in entries if entry.suffix in COMMITS):
        for step in decode_commit(entry.payload, entry.suffix, entry.seq).steps:
            total, since = total + level * (step.at - since), step.at
            for event in step.events:
                view.apply(event, entry.seq, step.at)
            held = view.cluster_queues[queue].reservation if queue in view.cluster_queues else {}
            level = sum(amount for (_, name), amount in held.items() if name == resource)
    assert level == 0
    return round(total / 1e6 / (1000 if resource == "cpu" else 1), 3)


def growing() -> World:
    """A job of two pods asks for four, and waits for a check; it is cut to three meanwhile."""
    world = Cell()
    world.configure("AdmissionCheck", "gpu", {"controllerName": "x"})
    world.queue("main", 4, admissionChecksStrategy={"admissionChecks": [{"name": "gpu"}]})
    world.submit("a", "main", 2).settle()
    world.checks_say(ready=True)
    world.settle(10)
    for count in (4, 3):
        world.scale("a", count).settle(20)
    world.checks_say(ready=True)
    world.settle(7)
    world.scale("a", 4).settle()
    world.scale("a", 1).settle(3)
    world.report("a", "JobFinished", success=True).settle()
    return world


def moving() -> World:
    """A variant has quota beside the one that runs, with a flavor in common, until that has stopped."""
    world = running_on_demand(8)
    world.report("first", "JobFinished", success=True).settle()
    world.run_until(5)
    world.settle_all()
    world.run_until(3)
    world.report("mover", "JobFinished", success=True).settle_all()
    return world


def ending(*, gate: bool = True) -> World:
    """Three of five pods end one after the other; the job is sent back once, and begins with all of them."""
    gates = kueue_object("Configuration", "default", {"featureGates": {"ReclaimablePods": gate}})
    world = cell(cluster_queue({"res": 5}, {}), gates)
    world.submit("a", 1, 5).settle_all(10)
    for count in (1, 3):
        world.report("a", "JobPodsReclaimable", pods={"main": count}).settle_all(10)
    world.apply(cluster_queue({"res": 5}, {}, stopPolicy="HoldAndDrain")).settle_all(10)
    world.apply(cluster_queue({"res": 5}, {})).settle_all(10)
    world.report("a", "JobPodsReclaimable", pods={"main": 2}).settle_all(10)
    world.report("a", "JobFinished", success=True).settle_all()
    return world


def ending_without_the_gate() -> World:
    return ending(gate=False)


def ending_in_part() -> World:
    """Four of its six pods were admitted; those that have ended count against the six."""
    world = cell(cluster_queue({"res": 4}, {}))
    manifest = job("a", 1, 6)
    manifest["metadata"]["annotations"] = {JOB_MIN_PARALLELISM: "2"}
    world.message("job.default.a", "JobSubmitted", manifest).settle_all(10)
    for count in (1, 2, 3, 5):
        world.report("a", "JobPodsReclaimable", pods={"main": count}).settle_all(10)
    world.report("a", "JobFinished", success=True).settle_all()
    return world


def ending_in_a_race() -> World:
    """The variant that runs gives back what has ended; the job moves after that."""
    world = cell(cluster_queue({"res": 4, "od": 4}))
    world.submit("first", 1, 4).settle_all()
    world.submit("a", 1, 4).settle_all(10)
    world.report("a", "JobPodsReclaimable", pods={"main": 2}).settle_all(10)
    world.report("first", "JobFinished", success=True).settle_all(10)
    world.report("a", "JobPodsReclaimable", pods={"main": 1}).settle_all(10)
    world.report("a", "JobFinished", success=True).settle_all()
    return world


PLAYS = [growing, moving, ending, ending_without_the_gate, ending_in_part, ending_in_a_race]


@pytest.mark.parametrize("play", PLAYS)
@pytest.mark.parametrize("resource", ["cpu", "gpu"])
def test_what_is_used_is_what_was_charged(play: Callable[[], World], resource: str) -> None:
    """A slice that is to replace another is charged for what it adds (WS3), variants together (CA10).

    Pods that have ended give their quota back while others run (SC7).
    """
    source = ListSource(play().log)
    numbers = recorded(source).numbers
    used = {name: amount for name, amount in numbers["useSeconds"].items() if name.endswith(f"/{resource}")}
    assert round(sum(used.values()), 3) == shown_seconds(source, "main", resource)
    assert numbers["borrowedSeconds"] == {}


def lessened() -> World:
    """Two queues whose jobs run within quota; once they are over one loses its quota, and one is deleted."""
    world = cell(cluster_queue({"res": 4}, {}))
    world.submit("a", 1, 4).settle_all(10)
    world.report("a", "JobFinished", success=True).settle_all(10)
    world.apply(cluster_queue({"res": 0}, {})).settle_all(10)
    return world


def lessened_meanwhile() -> World:
    """One of four cpus is left, fifteen seconds before the end."""
    world = cell(cluster_queue({"res": 4}, {}))
    world.submit("a", 1, 4).settle_all(10)
    world.apply(cluster_queue({"res": 1}, {})).settle_all(5)
    world.report("a", "JobFinished", success=True).settle_all(10)
    return world


def deleted() -> World:
    world = lessened()
    world.delete("ClusterQueue", "main")
    world.settle_all(10)
    return world


@pytest.mark.parametrize("play", [lessened, deleted])
def test_what_was_within_quota_then_is_not_borrowed_whatever_the_quota_is_later(
    play: Callable[[], World],
) -> None:
    for run in what_if(ListSource(play().log), Changes()).runs:
        assert run.numbers["borrowedSeconds"] == {}


def test_what_is_above_quota_counts_from_when_it_is() -> None:
    numbers = recorded(ListSource(lessened_meanwhile().log)).numbers
    assert 45 <= numbers["borrowedSeconds"]["res/cpu"] < 45.1  # three cpus of four, for fifteen seconds
