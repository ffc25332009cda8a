"""What is said of preemptors that wait for their victims, while others of their queue do, too."""

from typing import Any

import pytest

from sluice.core.views import View, positions, why_pending
from sluice.events.base import WorkloadKey
from sluice.events.scheduler import PreemptionIssued
from sluice.replay.explain.report import Report
from sluice.replay.explain.why import explain
from sluice.replay.source.source import ListSource
from sluice.replay.source.time_travel import scheduler_at
from sluice.replay.views.queues import order_of
from tests.support.elastic_cell import OWN, Cell
from tests.support.objects import CLASS, priority_class

PRIORITIES = {"low": 1, "middle": 5, "high": 10, "highest": 20}


def submit(world: Cell, name: str, cpus: tuple[int, ...], priority: str = "", **annotations: str) -> Cell:
    """A job with a pod set for each number of cpus; nobody whom it preempts stops."""
    sets: list[dict[str, Any]] = [
        {"name": f"s{n}", "replicas": 1, "command": ["true"], "resources": {"cpu": cpu}}
        for n, cpu in enumerate(cpus)
    ]
    labels = {CLASS: priority} if priority else {}
    metadata = {"name": name, "namespace": "default", "labels": labels, "annotations": annotations}
    spec = {"queueName": "main", "podSets": sets}
    manifest = {"apiVersion": OWN, "kind": "Job", "metadata": metadata, "spec": spec}
    world.message(name, "JobSubmitted", manifest)
    world.settle(1, executor=False)
    return world


def contended(strategy: str) -> Cell:
    """Two run; `first` and `second` wait for one of them; `third` comes before both, and may not preempt."""
    world = Cell()
    world.apply(*(priority_class(name, value) for name, value in PRIORITIES.items()))
    preemption = {"withinClusterQueue": "LowerPriority"}
    world.queue("main", 4, preemption=preemption, queueingStrategy=strategy)
    for number in range(2):
        submit(world, f"runs{number}", (2,))
        world.settle()
    submit(world, "first", (1,), "middle")
    submit(world, "second", (1,), "high")
    submit(world, "third", (3,), "highest", **{"kueue.x-k8s.io/cannot-preempt": "true"})
    return submit(world, "fourth", (2, 2), "low")


def explained(world: Cell, name: str) -> Report:
    source = ListSource(world.log)
    fold = scheduler_at(source, source.end)
    return explain(fold.state, name, source.end, fold.at, help_=False)


def shown(world: Cell) -> View:
    view = View()
    for seq, _, event in world.history:
        view.apply(event, seq, world.now)
    return view


def test_each_preemptor_is_told_its_own_victims() -> None:
    """Not those that it would choose now, who go for somebody else already."""
    world = contended("BestEffortFIFO")
    issued = {event.workload: event for event in world.events(PreemptionIssued)}
    assert len(issued) == 2
    for workload, event in issued.items():
        report = explained(world, str(workload))
        assert report.rule == event.reason
        named = report.message.removeprefix("It needs the preemption of ").removesuffix(".").split(", ")
        assert sorted(named) == sorted(event.victims)


@pytest.mark.parametrize("name", ["third", "fourth"])
def test_who_comes_beside_waiting_preemptors_has_the_reason_of_the_status(name: str) -> None:
    """All that it would preempt by itself is promised; what the scheduler said counts."""
    world = contended("BestEffortFIFO")
    report, view = explained(world, name), shown(world)
    reason, message = why_pending(view, view.workloads[WorkloadKey(report.workload)])
    assert report.rule == reason == "WaitingForQuota"
    assert message.startswith(report.message)


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
def test_a_place_is_the_same_wherever_it_is_told(strategy: str) -> None:
    """By rank (SC1), for preemptors that wait, too: that is kept for them wherever they are."""
    world = contended(strategy)
    places = {key: place for key, place in positions(shown(world), "main").items() if place}
    assert len(places) == 4
    assert {key: explained(world, str(key)).position for key in places} == places
    source = ListSource(world.log)
    assert order_of(scheduler_at(source, source.end).state, "main") == sorted(places, key=lambda k: places[k])
    assert explained(world, "third").ahead == []
