"""Deactivating and activating by hand, seen through the whole cell: plain jobs, families, checks."""

from typing import Any

import pytest

from sluice.events.scheduler import Evicted, Requeued
from tests.support.checked_cell import checked_cell
from tests.support.family_world import FamilyWorld, cell, cluster_queue


def running(world: FamilyWorld, name: str = "a") -> bool:
    entry = world.dispatch(name)
    return entry is not None and entry.state == "Running"


@pytest.mark.parametrize("policy", [None, {}], ids=["racing", "plain"])
def test_a_job_is_switched_off_and_on(policy: dict[str, Any] | None) -> None:
    """It stops, its quota is others', and it comes back when it is activated; variants go along."""
    world = cell(cluster_queue({"res": 1}, policy=policy))
    for name in ("a", "b"):
        world.submit(name).settle_all()
    assert (running(world, "a"), running(world, "b")) == (True, False)
    world.message("job.default.a", "JobDeactivated", {}).settle_all()
    assert (running(world, "a"), running(world, "b")) == (False, True)
    world.message("job.default.a", "JobActivated", {}).settle_all()
    assert (running(world, "a"), running(world, "b")) == (False, True)
    world.report("b", "JobFinished", success=True).settle_all()
    assert running(world, "a")
    world.verify()


def test_a_rejected_job_is_activated() -> None:
    """Its checks are asked anew, with its next attempt."""
    world = checked_cell("gpu")
    world.submit("w").settle()
    world.say("w", "gpu", "Rejected").settle()
    assert [event.reason for event in world.events(Evicted)] == ["Deactivated"]
    world.message("job.default.w", "JobActivated", {}).settle_all()
    assert [event.reason for event in world.events(Requeued)] == ["Reactivated"]
    world.say("w", "gpu", "Ready").settle_all()
    assert running(world, "w")
    world.verify()
