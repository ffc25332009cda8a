"""What people see of an elastic job that waits to grow, and for how long it has waited (WS3, WS9)."""

from datetime import datetime
from unittest.mock import patch

from sluice.cli.kit.columns import job_pods, job_reason, object_age, waited, waiting
from sluice.readmodel.objects import render
from sluice.readmodel.world import World
from tests.support.elastic_cell import Cell

SECOND = 1_000_000


def status_of(world: Cell) -> dict:
    api = World()
    api.fold(world.log)
    (key,) = api.view.jobs
    found = render(api, "Job", key)
    assert found is not None
    return {**found["status"], "PODS": job_pods(found), "REASON": job_reason(found)}


def grown(quota: int, *sizes: int) -> Cell:
    world = Cell()
    world.queue("left", quota)
    world.submit("a", "left", sizes[0]).settle()
    for size in sizes[1:]:
        world.scale("a", size).settle()
    return world


def test_a_job_that_waits_to_grow_says_so() -> None:
    """It runs with what it has; what it wants, and why it does not get it, stand beside that."""
    status = status_of(grown(6, 5, 8))
    assert status["PODS"] == "5/8"
    assert (status["reason"], status["REASON"]) == ("ExceedsMaxQuota", "growth: ExceedsMaxQuota")
    assert status["message"].startswith("growth to 8 x main: couldn't assign flavors")
    old, new = status["slices"]
    assert "reason" not in old
    assert (new["state"], new["reason"]) == ("Pending", "ExceedsMaxQuota")


def test_a_job_that_has_grown_says_nothing_of_it() -> None:
    status = status_of(grown(8, 5, 8))
    assert status["PODS"] == "8"
    assert not status.get("reason")
    assert not status["REASON"]
    assert not status.get("message")


def test_growth_does_not_change_how_long_a_job_has_waited() -> None:
    """The wait is that before its first start; a slice that takes over has not waited longer."""
    before = status_of(grown(8, 5))["waitedSeconds"]
    assert status_of(grown(8, 5, 6, 8))["waitedSeconds"] == before


def test_a_resize_does_not_start_a_job_anew() -> None:
    """It goes on (WS4): DURATION counts from its start, and what it ran before counts in the end."""
    world = grown(8, 5)
    before = status_of(world)["startTime"]
    world.now += 100 * SECOND
    world.scale("a", 8).settle()
    world.now += 50 * SECOND
    assert status_of(world)["startTime"] == before
    world.message("a", "JobFinished", {"success": True, "attempt": 1}).settle()
    assert status_of(world)["ranSeconds"] >= 150


def test_a_job_that_waits_again_has_not_waited_while_it_ran() -> None:
    """WAITED, and WAITING in the description of a queue, leave out the time of earlier attempts."""
    world = grown(8, 5)
    world.now += 1000 * SECOND
    world.queue("left", 0, stopPolicy="HoldAndDrain").settle()
    api = World()
    api.fold(world.log)
    (workload,) = api.view.workloads
    found = render(api, "Workload", workload)
    assert found is not None
    assert 1000 <= found["status"]["ranSeconds"] < 1001
    made = datetime.fromisoformat(found["metadata"]["creationTimestamp"]).timestamp()
    with patch("time.time", return_value=made + 1060.5):
        assert (object_age(found), waited(found), waiting(found)) == ("17m", "60s", "60s")
