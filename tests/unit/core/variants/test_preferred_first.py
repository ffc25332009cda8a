"""The preferred variant goes first, even if it has to preempt where another one would just fit (0017)."""

import pytest

from sluice.api.labels import ALLOWED_RESOURCE_FLAVORS
from sluice.events.scheduler import BlockedOnPreemptionGates, Evicted, Preempted
from sluice.events.variants import PreemptionGateClosed
from tests.support.family_world import FamilyWorld, cell, cluster_queue, job
from tests.support.objects import priority_class

HIGH = priority_class("high", 100)
PREEMPTS = {"withinClusterQueue": "LowerPriority"}
MODES = ("TryPreferredFlavors", "RetainFirstAdmission")


def taken(mode: str, **flavors: int) -> FamilyWorld:
    """Return a cell in which a job of low priority has the preferred flavor, and another one comes."""
    policy = {"migration": {"mode": mode}}
    world = cell(cluster_queue({"res": 1, **flavors}, policy, preemption=PREEMPTS), HIGH)
    world.submit("low").settle_all()
    assert world.flavor_of("low") == "res"
    world.submit("urgent", priority_class="high").settle()
    return world


@pytest.mark.parametrize("mode", MODES)
def test_the_preferred_flavor_is_preempted_for_though_another_is_free(mode: str) -> None:
    """Both modes: the job starts on the preferred flavor, once, and does not start elsewhere meanwhile."""
    world = taken(mode, od=1)
    assert world.flavor_of("urgent") == ""
    world.settle_all()
    assert (world.flavor_of("urgent"), world.flavor_of("low")) == ("res", "od")
    assert [e.reason for e in world.events(Evicted) if isinstance(e, Evicted)] == ["Preempted"]
    world.verify()


@pytest.mark.parametrize("mode", MODES)
def test_a_job_does_not_wait_for_its_victims_for_ever(mode: str) -> None:
    """A victim that does not stop: when its turn is over (CA11) the next variant starts."""
    world = taken(mode, od=1)
    world.run_until(299)
    assert world.flavor_of("urgent") == ""
    world.run_until(3)
    assert world.flavor_of("urgent") == "od"
    closed = [e for e in world.events(PreemptionGateClosed) if isinstance(e, PreemptionGateClosed)]
    assert closed[0].spent
    world.settle_all()
    world.verify()


@pytest.mark.parametrize("mode", MODES)
def test_without_anybody_to_preempt_the_next_flavor_is_taken_at_once(mode: str) -> None:
    policy = {"migration": {"mode": mode}}
    world = cell(cluster_queue({"res": 1, "od": 1}, policy, preemption=PREEMPTS), HIGH)
    for name in ("first", "second"):
        world.submit(name, priority_class="high")
    world.settle()
    assert (world.flavor_of("first"), world.flavor_of("second")) == ("res", "od")
    assert world.events(Preempted) == []
    world.verify()


def test_jobs_of_other_families_are_not_held_up() -> None:
    """Only the siblings of who preempts leave a free flavor alone."""
    world = taken("TryPreferredFlavors", od=1, spot=1)
    world.submit("plain").settle()
    assert world.flavor_of("plain") == "od"
    world.settle_all()
    assert world.flavor_of("urgent") == "res"
    world.verify()


def test_a_preferred_variant_that_is_put_off_lets_the_others_go() -> None:
    """It was to preempt first, and gets a createDelaySeconds before anybody has heard of that."""

    def queue(**delays: int) -> dict[str, object]:
        variants = [
            {"name": name, "allowedResourceFlavors": [name], "createDelaySeconds": delays.get(name, 0)}
            for name in ("res", "od")
        ]
        policy = {"migration": {"mode": "TryPreferredFlavors"}, "explicitVariants": variants}
        return cluster_queue({"res": 1, "od": 1}, policy, preemption=PREEMPTS)

    world = cell(queue(), HIGH)
    world.submit("low")
    picky = job("other", priority_class="high")
    picky["metadata"]["annotations"] = {ALLOWED_RESOURCE_FLAVORS: "od"}
    world.message("job.default.other", "JobSubmitted", picky).settle_all()
    assert (world.flavor_of("low"), world.flavor_of("other")) == ("res", "od")
    world.submit("urgent", priority_class="high")
    for writer in ("slices", "variants", "scheduler"):
        assert world.step(writer)
    assert len(world.events(BlockedOnPreemptionGates)) == 1
    world.apply(queue(res=60)).settle_all()
    world.report("other", "JobFinished", success=True).settle_all()
    assert (world.flavor_of("urgent"), world.flavor_of("low")) == ("od", "res")
    world.verify()
