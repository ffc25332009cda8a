"""While the job of a family stops, to move or for others, one flavor is kept for it, not every one (CA10)."""

from sluice.api.labels import ALLOWED_RESOURCE_FLAVORS
from sluice.core.variants.state import Variant
from sluice.core.views.present.pending import why_pending
from sluice.core.world.variants import BETTER_NEXT
from tests.support.family_world import FamilyWorld, cell, cluster_queue, job
from tests.support.objects import kueue_object, priority_class

FOUR = {"f0": 1, "f1": 1, "f2": 1, "f3": 1}


def holding(world: FamilyWorld, name: str) -> list[str]:
    """Return the flavors in which the job's variants have quota, after both who show it agree."""
    variants = world.variants(name)
    workloads = world.services["scheduler"].state.world.workloads
    held = [flavor for flavor, variant in variants.items() if workloads[variant.key].assignment is not None]
    view = world.view()
    assert held == [
        f for f, variant in variants.items() if view.workloads[variant.key].assignment is not None
    ]
    return held


def says(world: FamilyWorld, variant: Variant) -> str:
    view = world.view()
    return why_pending(view, view.workloads[variant.key])[1]


def test_a_job_that_moves_keeps_the_best_flavor_only() -> None:
    """Better ones come free one after the other while it stops; others wait for each of them."""
    world = cell(cluster_queue(FOUR), priority_class("low", -1))
    names = ("a", "b", "c", "moving", "next", "last")
    for name in names:
        world.submit(name, priority_class="low" if name in names[4:] else "").settle_all()
    for done, flavor, taken in (("c", "f2", []), ("b", "f1", ["next"]), ("a", "f0", ["next"])):
        world.report(done, "JobFinished", success=True).settle()
        assert holding(world, "moving") == [flavor, "f3"]
        assert [name for name in names[4:] if holding(world, name)] == taken
    variants = world.variants("moving")
    assert says(world, variants["f1"]) == says(world, variants["f2"]) == BETTER_NEXT
    world.settle_all()
    assert world.flavor_of("moving") == "f0"
    world.check()
    world.verify()


def test_one_whose_checks_have_passed_is_kept_until_a_better_one_has_passed_its_own() -> None:
    check = kueue_object("AdmissionCheck", "slow", {"controllerName": "sluice.dev/external"})
    strategy = {"admissionChecks": [{"name": "slow", "onFlavors": ["f0", "f1"]}]}
    world = cell(cluster_queue(FOUR, admissionChecksStrategy=strategy), check)
    for name in ("a", "b", "c", "moving"):
        world.submit(name)
        world.settle_all()
        for variant in world.variants(name).values():
            world.checks_say(variant.key, "Ready")
        world.settle_all()
    variants = world.variants("moving")
    for done in ("c", "b", "a"):
        world.report(done, "JobFinished", success=True).settle()
    assert holding(world, "moving") == ["f0", "f1", "f2", "f3"], "of two it is not known whether they may run"
    world.checks_say(variants["f1"].key, "Ready")
    world.settle()
    assert holding(world, "moving") == ["f0", "f1", "f3"]
    world.checks_say(variants["f0"].key, "Ready")
    world.settle()
    assert holding(world, "moving") == ["f0", "f3"]
    world.settle_all()
    assert world.flavor_of("moving") == "f0"
    world.check()
    world.verify()


def test_a_job_that_is_preempted_keeps_one_flavor_to_go_on_with() -> None:
    queue = cluster_queue(FOUR, preemption={"withinClusterQueue": "LowerPriority"})
    world = cell(queue, priority_class("high", 100))
    for name in ("a", "b", "c", "stopping"):
        world.submit(name, priority_class="high" if name != "stopping" else "").settle_all()
    urgent = job("urgent", priority_class="high")
    urgent["metadata"]["annotations"] = {ALLOWED_RESOURCE_FLAVORS: "f3"}
    world.message("job.default.urgent", "JobSubmitted", urgent).settle()
    for done in ("c", "b", "a"):
        world.report(done, "JobFinished", success=True).settle()
    assert holding(world, "stopping") == ["f0", "f3"]
    world.settle_all()
    assert (world.flavor_of("stopping"), world.flavor_of("urgent")) == ("f0", "f3")
    world.check()
    world.verify()
