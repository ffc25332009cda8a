"""What `sluice submit` says of a job that it has changed."""

from typing import Any

import pytest

from sluice.cli.kit.edit_text import what_changed
from tests.support.slices_world import World, manifest

ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}


@pytest.fixture
def world() -> World:
    world = World()
    world.apply_object("WorkloadPriorityClass", "high", value=7)
    return world


def submitted(world: World, *, elastic: bool = False, team: str = "", **fields: Any) -> str:
    job = manifest(**fields)
    job["metadata"]["labels"] |= {"team": team} if team else {}
    job["metadata"]["annotations"] = ELASTIC if elastic else {}
    world.message("job.default.a", "JobSubmitted", job)
    seq = world.seq
    return what_changed(world.settle(), seq)


def test_a_new_job_changes_nothing(world: World) -> None:
    """Nor does one under the name of a job that is over."""
    assert submitted(world) == ""
    world.admit()
    world.job("JobFinished", {})
    assert submitted(world) == ""


def test_what_is_changed_in_place(world: World) -> None:
    """A new value of its class is no change of a job; what is changed is named."""
    submitted(world)
    assert submitted(world, team="x") == "changed, but nothing that its admission depends on"
    assert submitted(world, priority_class="high").startswith("changed: priority class high, priority 7")
    world.apply_object("WorkloadPriorityClass", "high", value=9)
    assert "priority" not in submitted(world, priority_class="high", team="y")
    said = submitted(world, priority_class="high", queue="other", parallelism=3)
    assert said == "changed: queue other; 3 x main"
    assert submitted(world, queue="other", parallelism=3).startswith("changed: no priority class, priority 0")


def test_what_costs_a_job_its_workload(world: World) -> None:
    submitted(world)
    world.reserve()
    (said, name) = (submitted(world, cpu=2), world.state_of().record.name)
    assert said == f"changed: a new workload, {name}, queues in the place of the one before"
    world.admit()
    assert submitted(world, cpu=2, parallelism=2) == (
        "changed: it is stopped first (NoMatchingWorkload), and queues anew"
    )


def test_growth(world: World) -> None:
    submitted(world, elastic=True)
    world.admit()
    assert submitted(world, elastic=True, parallelism=4).endswith("growth to 4 x main asks for quota")
