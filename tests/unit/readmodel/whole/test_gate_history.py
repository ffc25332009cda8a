"""What people see of a job whose queue races no more, and races again: the gate goes off and on under it."""

from typing import Any

import pytest

from sluice.core.views import notices
from sluice.core.views.totals import MIGRATED, QUOTA_WAIT
from sluice.core.workload.reasons import CONCURRENT_ADMISSION
from sluice.events.base import JobKey
from tests.support.family_world import SECOND, FamilyWorld, cell, cluster_queue, configuration
from tests.unit.readmodel.whole.test_families import parent_of_job, said, shown

OFF = configuration(featureGates={"ConcurrentAdmission": False})
ON = configuration(featureGates={"ConcurrentAdmission": True})


def running() -> FamilyWorld:
    """Return a cell in which `a` runs on od for an hour, as `first` has res."""
    world = cell(cluster_queue({"res": 1, "od": 1}), ON)
    for name in ("first", "a"):
        world.submit(name).settle_all()
        world.report(name, "JobPodsReady", executor="x").settle()
    world.settle_all(3600)
    assert world.flavor_of("a") == "od"
    return world


def stops(world: FamilyWorld, name: str = "stops") -> list[tuple[Any, ...]]:
    found = parent_of_job(world, "a")["status"].get(name, ())
    return [(one["reason"], one["from"], one.get("to"), "lostSeconds" in one) for one in found]


def switch(world: FamilyWorld, manifest: dict[str, Any]) -> None:
    world.apply(manifest).settle_all()
    world.report("a", "JobPodsReady", executor="x").settle()


def test_who_runs_without_variants_is_not_said_to_run_as_one() -> None:
    world = running()
    assert "The variant " in said(parent_of_job(world, "a"), "Admitted")[2]
    switch(world, OFF)
    assert said(parent_of_job(world, "a"), "Admitted")[2] == "The workload is admitted"
    switch(world, ON)
    assert "The variant " in said(parent_of_job(world, "a"), "Admitted")[2]


def test_the_wait_for_quota_begins_when_the_last_run_has_ended() -> None:
    """Neither the event nor the metric counts the hour in which it ran."""
    world = running()
    switch(world, OFF)
    api = shown(world)
    (workload,) = api.view.jobs[JobKey("default/a")].workloads.values()
    (said_,) = [notice.message for notice in notices(workload) if notice.reason == "QuotaReserved"]
    assert said_.endswith("wait time since queued was 0s")
    waits = [value for key, value in api.view.totals.items() if key[0].startswith(QUOTA_WAIT)]
    assert 0 < max(waits) < 3600 * SECOND


def test_every_stop_of_such_a_job_is_listed_and_ends() -> None:
    """Those included that are neither of a variant nor followed by one."""
    world = running()
    switch(world, OFF)
    assert stops(world) == [(CONCURRENT_ADMISSION, "od", "od", True)]
    switch(world, ON)
    assert stops(world) == [(CONCURRENT_ADMISSION, "od", "od", True)] * 2


@pytest.mark.parametrize("back", [False, True], ids=["stays off", "on again"])
def test_a_move_that_is_overtaken_by_the_gate_ends(back: bool) -> None:
    """It is counted once, wherever it ends."""
    world = running()
    world.report("first", "JobFinished", success=True).settle()  # a is told to stop, and does not yet
    world.apply(OFF).settle()
    switch(world, ON if back else OFF)
    assert stops(world, "migrations") == [("FlavorMigration", "od", "res", True)]
    totals = shown(world).view.totals
    assert [value for key, value in totals.items() if key[0] == MIGRATED] == [1]
