"""A job is not stopped to run where it runs already, though a better variant could take it there (CA10)."""

from typing import Any

import pytest

from sluice.core.views.present.pending import why_pending
from sluice.core.world.variants import SAME_FLAVORS
from sluice.events.scheduler import Evicted
from sluice.replay.explain.why import explain
from sluice.replay.lint.idle_quota import idle
from sluice.replay.source.source import ListSource
from sluice.replay.source.time_travel import scheduler_at
from tests.support.family_world import FamilyWorld, cell, cluster_queue, job
from tests.support.objects import kueue_object, resource_group

TOP = {"name": "top", "allowedResourceFlavors": ["a", "b"]}
LOW = {"name": "low", "allowedResourceFlavors": ["b"]}
CHECK = kueue_object("AdmissionCheck", "slow", {"controllerName": "sluice.dev/external"})


def queue(quotas: dict[str, int], *variants: dict[str, Any], **spec: Any) -> dict[str, Any]:
    policy = {"migration": {"mode": "TryPreferredFlavors"}, "explicitVariants": list(variants)}
    return cluster_queue(quotas, policy, **spec)


def running_on_b(world: FamilyWorld) -> FamilyWorld:
    """Have one job run on a and another, that came by a worse variant, on b."""
    for name in ("first", "moving"):
        arrives(world, name)
    assert (world.flavor_of("first"), world.flavor_of("moving")) == ("a", "b")
    return world


def arrives(world: FamilyWorld, name: str) -> None:
    """Submit a job, and wait for longer than the delay of its better variant."""
    world.submit(name).settle()
    world.run_until(5)
    world.settle_all()


def stops(world: FamilyWorld, name: str) -> int:
    keys = {variant.key for variant in world.variants(name).values()}
    return sum(isinstance(e, Evicted) and e.workload in keys for e in world.events(Evicted))


def says(world: FamilyWorld, name: str, variant: str) -> str:
    view = world.view()
    return why_pending(view, view.workloads[world.variants(name)[variant].key])[1]


def test_a_variant_that_could_have_the_same_flavor_only_waits_for_a_better_one() -> None:
    delayed = {**TOP, "createDelaySeconds": 4}
    world = running_on_b(cell(queue({"a": 1, "b": 1}, delayed, LOW)))
    assert stops(world, "moving") == 0
    assert says(world, "moving", "top") == SAME_FLAVORS
    world.report("first", "JobFinished", success=True).settle_all()
    assert world.flavor_of("moving") == "a"
    assert stops(world, "moving") == 1
    world.check()
    world.verify()


def test_a_new_order_of_variants_moves_no_job_to_where_it_is() -> None:
    world = cell(queue({"a": 0, "b": 1}, TOP, LOW))
    world.submit("moving").settle_all()
    assert world.variants("moving")["top"].runs
    world.apply(queue({"a": 0, "b": 1}, LOW, TOP)).settle_all()
    assert world.variants("moving")["top"].runs
    assert stops(world, "moving") == 0
    world.check()
    world.verify()


@pytest.mark.parametrize("frees", [False, True])
def test_what_was_reserved_to_go_nowhere_is_given_up(frees: bool) -> None:
    """The worse variant passes its checks first: the better one asks them again, of a better flavor."""
    strategy = {"admissionChecks": [{"name": "slow"}]}
    world = cell(queue({"a": 0, "b": 1}, TOP, LOW, admissionChecksStrategy=strategy), CHECK)
    world.submit("moving").settle_all()
    variants = world.variants("moving")
    assert [variant.assignment is not None for variant in variants.values()] == [True, True]
    world.checks_say(variants["low"].key, "Ready").settle_all()
    assert world.variants("moving")["top"].assignment is None
    assert says(world, "moving", "top") == SAME_FLAVORS
    if frees:
        world.apply(queue({"a": 1, "b": 1}, TOP, LOW, admissionChecksStrategy=strategy)).settle_all()
        world.checks_say(variants["top"].key, "Ready").settle_all()
    assert world.flavor_of("moving") == ("a" if frees else "b")
    assert stops(world, "moving") == int(frees)
    world.check()
    world.verify()


def test_a_verdict_on_a_job_that_runs_there_says_nothing_of_one_that_does_not() -> None:
    """Their variants are alike; where the one has nothing to gain, the other has all."""
    delayed = {**TOP, "createDelaySeconds": 4}
    world = running_on_b(cell(queue({"a": 1, "b": 1}, delayed, LOW)))
    arrives(world, "next")
    assert says(world, "moving", "top") == SAME_FLAVORS
    assert says(world, "next", "top") != SAME_FLAVORS
    world.report("moving", "JobFinished", success=True).settle_all()
    assert world.flavor_of("next") == "b"
    world.verify()


def test_more_pods_on_the_same_flavor_are_worth_a_move() -> None:
    world = cell(queue({"a": 0, "b": 3}, TOP, LOW))
    world.submit("first", 2).settle_all()
    partial = job("moving", count=2)
    partial["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": "1"}
    world.apply(queue({"a": 0, "b": 3}, LOW))
    world.message("job.default.moving", "JobSubmitted", partial).settle_all()
    world.apply(queue({"a": 0, "b": 3}, TOP, LOW)).settle_all()
    assert stops(world, "moving") == 0
    world.report("first", "JobFinished", success=True).settle_all()
    assert sum(pods.count for pods in world.dispatch("moving").pod_sets) == 2
    assert stops(world, "moving") == 1
    world.check()
    world.verify()


def test_a_better_variant_that_would_have_to_borrow_elsewhere_stays_where_its_job_runs() -> None:
    """It could have the first flavor, and the queue rather takes the next than to borrow (whenCanBorrow)."""
    top, low = ({"name": name, "allowedResourceFlavors": ["a", "b"]} for name in ("top", "low"))
    world = cell(
        queue(
            {"a": 1, "b": 4},
            {**top, "createDelaySeconds": 4},
            low,
            cohortName="all",
            flavorFungibility={"whenCanBorrow": "TryNextFlavor"},
        ),
        kueue_object("Cohort", "all", {"resourceGroups": [resource_group({"a": 6})]}),
    )
    running_on_b(world)
    assert stops(world, "moving") == 0
    assert says(world, "moving", "top") == SAME_FLAVORS
    source = ListSource(world.log)
    state = scheduler_at(source, source.end).state
    assert not list(idle(state, settled=True))
    report = explain(state, world.variants("moving")["top"].key, source.end, world.now)
    assert (report.rule, report.message) == ("WaitingForQuota", f"{SAME_FLAVORS}.")
    world.report("first", "JobFinished", success=True).settle_all()
    assert world.flavor_of("moving") == "a"
    world.verify()
