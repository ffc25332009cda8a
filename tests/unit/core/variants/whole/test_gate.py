"""The gate ConcurrentAdmission goes off, and on again, under families that run, while a controller is away.

What a variant may use, and what became of its job, does not hang on who heard of the gate first (CA1, CA4).
"""

import pytest

from sluice.core.views import why_pending
from sluice.core.world.variants import RACE_OVER
from sluice.events.scheduler import Evicted, QuotaReserved
from sluice.events.variants import ParentEvicted
from tests.support.family_world import FamilyWorld, cell, cluster_queue, configuration

OFF = configuration(featureGates={"ConcurrentAdmission": False})
ON = configuration(featureGates={"ConcurrentAdmission": True})
WITHOUT_CONTROLLER = ("slices", "scheduler")


def without_controller(world: FamilyWorld) -> None:
    """Let all but the variant-controller catch up."""
    while any(world.step(writer) for writer in WITHOUT_CONTROLLER):
        world.now += 1000


def two_jobs() -> FamilyWorld:
    """`a` runs on `res`, and `b` on `od`, as all of `res` is in use."""
    world = cell(cluster_queue({"res": 1, "od": 2, "spot": 1}))
    for name in ("a", "b"):
        world.submit(name).settle_all()
    assert [world.flavor_of(name) for name in ("a", "b")] == ["res", "od"]
    return world


def reasons(world: FamilyWorld) -> list[str]:
    return [e.reason for e in world.events(Evicted) if isinstance(e, Evicted)]


def test_variants_keep_to_their_flavors_without_the_gate() -> None:
    world = two_jobs()
    world.apply(OFF)
    without_controller(world)
    given = {
        event.workload: {name for pods in event.pod_sets for name in pods.flavors.values()}
        for event in world.events(QuotaReserved)
        if isinstance(event, QuotaReserved)
    }
    for name in ("a", "b"):
        for own, variant in world.variants(name).items():
            assert given.get(variant.key, {own}) == {own}, variant.key
    world.verify()


def test_a_gate_that_goes_off_and_on_while_the_controller_is_away_stops_nobody() -> None:
    world = two_jobs()
    world.apply(OFF)
    without_controller(world)
    world.apply(ON).settle_all()
    assert reasons(world) == []
    assert [world.flavor_of(name) for name in ("a", "b")] == ["res", "od"]
    world.verify()


@pytest.mark.parametrize("how", ["gate", "policy"])
def test_nobody_migrates_where_nobody_races_any_more(how: str) -> None:
    """A better flavor comes free before the controller hears of the end of the race."""
    world = two_jobs()
    over = OFF if how == "gate" else cluster_queue({"res": 1, "od": 2, "spot": 1}, {})
    world.apply(over)
    world.report("a", "JobFinished", success=True)
    without_controller(world)
    best = world.variants("b")["res"].key
    assert reasons(world) == []
    view = world.view()
    assert why_pending(view, view.workloads[best]) == ("PendingEvaluation", RACE_OVER)
    world.settle_all()
    stops = [event.reason for event in world.events(ParentEvicted) if isinstance(event, ParentEvicted)]
    assert (reasons(world), stops) == ([], ["ConcurrentAdmission"])
    assert world.flavor_of("b") == "res"
    world.verify()


def test_who_could_migrate_does_when_the_gate_is_on_again() -> None:
    world = two_jobs()
    world.apply(OFF)
    world.report("a", "JobFinished", success=True)
    without_controller(world)
    world.apply(ON).settle_all()
    assert reasons(world) == ["FlavorMigration"]
    assert world.flavor_of("b") == "res"
    world.verify()
