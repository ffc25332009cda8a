"""What people see of an elastic job that waits to grow, and for how long it has waited (WS3, WS9)."""

from services.api.objects import render
from services.api.world import World
from sluice.cli.columns import job_pods
from tests.property.elastic_cell import Cell


def status_of(world: Cell) -> dict:
    api = World()
    api.fold(world.entries())
    (key,) = api.view.jobs
    found = render(api, "Job", key)
    assert found is not None
    return {**found["status"], "PODS": job_pods(found)}


def grown(quota: int, *sizes: int) -> Cell:
    world = Cell()
    world.apply("ResourceFlavor", "default", spec={})
    world.queue("left", quota)
    world.submit("a", "left", sizes[0])
    world.settle()
    for size in sizes[1:]:
        world.scale("a", size)
        world.settle()
    return world


def test_a_job_that_waits_to_grow_says_so() -> None:
    """It runs with what it has; what it wants, and why it does not get it, stand beside that."""
    status = status_of(grown(6, 5, 8))
    assert status["PODS"] == "5/8"
    assert status["reason"] == "ExceedsMaxQuota"
    assert status["message"].startswith("growth to 8 x main: couldn't assign flavors")
    old, new = status["slices"]
    assert "reason" not in old
    assert (new["state"], new["reason"]) == ("Pending", "ExceedsMaxQuota")


def test_a_job_that_has_grown_says_nothing_of_it() -> None:
    status = status_of(grown(8, 5, 8))
    assert status["PODS"] == "8"
    assert not status.get("reason")
    assert not status.get("message")


def test_growth_does_not_change_how_long_a_job_has_waited() -> None:
    """The wait is that before its first start; a slice that takes over has not waited longer."""
    before = status_of(grown(8, 5))["waitedSeconds"]
    assert status_of(grown(8, 5, 6, 8))["waitedSeconds"] == before
