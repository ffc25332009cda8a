"""Pods that have ended give their quota back, if the gate lets them: to scheduler, people and budgets."""

from typing import Any

import pytest

from sluice.cli.commands.objects.describe_jobs import _assignment
from sluice.core.budgets.consumption import Consumption, dump, load
from sluice.readmodel.objects import render
from sluice.readmodel.world import World
from tests.support.elastic_cell import Cell


def cell(**queue: Any) -> Cell:
    world = Cell()
    world.configure("AdmissionCheck", "gpu", {"controllerName": "x"})
    world.queue("left", 12, **queue)
    return world


def gate(world: Cell, on: bool) -> None:
    world.configure("Configuration", "default", {"featureGates": {"ReclaimablePods": on}})


def held(world: Cell) -> int:
    """Return how much cpu is in use, as the scheduler counts; what people are shown is the same."""
    world.settle(ready=True)
    world.check_settled()
    world.verify()
    (queue,) = world.view.cluster_queues.values()
    return queue.reservation.get(("default", "cpu"), 0) // 1000


def consumed(world: Cell) -> int:
    state = Consumption()
    for event, _, at in world.dated():
        state.apply(event, at)
    assert load(dump(state)) == state
    return sum(series.level for series in state.series.values()) // 1000


def described(world: Cell) -> list[str]:
    api = World()
    api.fold(world.log)
    (workload,) = api.view.workloads
    found = render(api, "Workload", workload)
    assert found is not None
    return _assignment(found)[1:]


@pytest.mark.parametrize("elastic", [True, False])
def test_the_gate_counts_for_what_runs_too(elastic: bool) -> None:
    """Switching it is as if it had always stood so: nobody has to be admitted anew for it (SC7)."""
    world = cell()
    world.submit("a", "left", 5, elastic=elastic)
    assert held(world) == 5
    world.message("a", "JobPodsReclaimable", {"pods": {"main": 2}})
    assert held(world) == consumed(world) == 3
    assert described(world) == ["  main: 5 pods, cpu 5 of default (2 need no quota: charged for 3)"]
    gate(world, False)
    assert held(world) == consumed(world) == 5
    assert described(world) == ["  main: 5 pods, cpu 5 of default"]
    world.message("a", "JobPodsReclaimable", {"pods": {"main": 4}})
    assert held(world) == consumed(world) == 5
    gate(world, True)
    assert held(world) == consumed(world) == 1


@pytest.mark.parametrize("on", [True, False])
def test_growth_beside_pods_that_have_ended(on: bool) -> None:
    """Of a slice and its growth, what either of them needs is charged, also if the older one needs less."""
    world = cell(admissionChecksStrategy={"admissionChecks": [{"name": "gpu"}]})
    gate(world, on)
    world.submit("a", "left", 5).settle()
    world.checks_say(ready=True)
    world.settle(ready=True)
    world.scale("a", 8)
    assert held(world) == 8
    world.message("a", "JobPodsReclaimable", {"pods": {"main": 2}})
    assert held(world) == 8
    world.checks_say(ready=True)
    assert held(world) == 8
    world.scale("a", 10)
    assert held(world) == 10
