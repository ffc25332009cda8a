"""A scan of flavors ends at the last one that the workload may have, not at the last of the group (SC4)."""

from tests.support.family_world import FamilyWorld, cell, cluster_queue, configuration, job
from tests.support.objects import resource_group

BETTER, WORSE = (
    {"name": name, "allowedResourceFlavors": [gpu, "c"]} for name, gpu in (("hi", "ga"), ("lo", "gb"))
)


def two_groups() -> FamilyWorld:
    """Return a cell with two kinds of GPU that are free, and one of cpu that is taken."""
    groups = [resource_group({"ga": 1, "gb": 1}, "gpu"), resource_group({"c": 1})]
    policy = {"migration": {"mode": "TryPreferredFlavors"}, "explicitVariants": [BETTER, WORSE]}
    world = cell(cluster_queue({}, policy, resourceGroups=groups), configuration())
    taker = job("taker")
    world.message("taker", "JobSubmitted", taker).settle_all()
    wants_both = job("waits")
    wants_both["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["gpu"] = 1
    world.message("waits", "JobSubmitted", wants_both).settle_all()
    return world


def test_a_variant_that_has_seen_its_own_flavor_waits_for_quota() -> None:
    """Its other group is full. It has not come to the group's end, and is not to look there again."""
    world = two_groups()
    workloads = world.services["scheduler"].state.world.workloads
    waiting = [workloads[variant.key].peers for variant in world.variants("waits").values()]
    assert [peers is not None and peers.reason for peers in waiting] == ["WaitingForQuota"] * 2
    world.report("taker", "JobFinished", success=True).settle_all()
    assert world.flavor_of("waits")
    world.check()
    world.verify()
