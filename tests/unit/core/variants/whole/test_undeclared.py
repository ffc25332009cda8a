"""What a queue does not declare or count keeps no racing job from running (`IgnoreUndeclared`)."""

import pytest

from sluice.events.slices import JobResumed, WorkloadCreated
from tests.support.family_world import cell, cluster_queue, job
from tests.support.objects import configuration

POLICY = {"migration": {"mode": "TryPreferredFlavors"}}


@pytest.mark.parametrize("race", [True, False], ids=["racing", "plain"])
def test_a_job_that_asks_for_what_is_not_declared_starts_once(race: bool) -> None:
    world = cell(cluster_queue({"a": 1, "b": 1}, POLICY if race else {}))
    world.apply(configuration(quotaCheckStrategy="IgnoreUndeclared"))
    manifest = job("wide")
    manifest["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"] = "1Gi"
    world.message("wide", "JobSubmitted", manifest).settle_all()
    assert world.flavor_of("wide") == "a"
    made = [e for e in world.events(WorkloadCreated) if e.workload.job is not None]
    assert (len(made), len(world.events(JobResumed))) == (1, 1)
    world.check()
    world.verify()
