"""Families whose executors crash and whose queues change under them: nobody runs without quota."""

from typing import Any

from sluice.events.scheduler import Evicted
from sluice.events.variants import (
    ParentAdmitted,
    VariantCreated,
)
from tests.family_world import FamilyWorld, cell, cluster_queue

HIGH = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "WorkloadPriorityClass",
    "metadata": {"name": "high"},
    "value": 100,
}


def reasons(world: FamilyWorld) -> list[tuple[str, str]]:
    return [(e.reason, e.message) for e in world.events(Evicted) if isinstance(e, Evicted)]


def running(world: FamilyWorld, *names: str) -> list[str]:
    """Return which of the jobs an executor may run now: told to, or told to stop and not stopped yet."""
    entries = {name: world.dispatch(name) for name in names}
    return [name for name, e in entries.items() if e is not None and (e.state == "Running" or e.stop)]


def explicit(**variants: list[str]) -> dict[str, Any]:
    policy = {
        "migration": {"mode": "TryPreferredFlavors"},
        "explicitVariants": [{"name": n, "allowedResourceFlavors": f} for n, f in variants.items()],
    }
    return cluster_queue({"res": 1, "od": 1, "spot": 1}, policy)


# CA7


def test_a_crash_is_settled_before_the_parent_is_admitted_again() -> None:
    """An executor crashes while another job waits: the scheduler gives the quota away, and only one runs."""
    world = cell(cluster_queue({"res": 1}), HIGH)
    world.submit("a")
    world.settle_all()
    world.report("a", "JobStopped")
    world.step("slices")
    world.step("variants")
    world.submit("b", priority_class="high")
    world.step("slices")
    world.step("variants")
    world.step("scheduler")
    world.settle()
    assert running(world, "a", "b") == ["b"]
    assert [reason for reason, _ in reasons(world)] == ["NodeFailures"]
    world.verify()


def test_no_attempt_begins_between_the_stop_and_its_settlement() -> None:
    """The variant is admitted until the scheduler has heard of the stop; that is not an admission."""
    world = cell(cluster_queue({"res": 1, "od": 1}))
    world.submit("a")
    world.settle_all()
    world.report("a", "JobStopped")
    world.step("slices")
    for _ in range(3):
        world.step("variants")
        world.step("slices")
    assert len(world.events(ParentAdmitted)) == 1
    world.settle_all()
    assert len(world.events(ParentAdmitted)) == 2
    assert world.flavor_of("a") == "res"
    world.verify()


def test_what_was_said_of_a_variant_that_is_gone_is_not_said_of_the_next_one() -> None:
    """A variant is made anew while its admission is under way: the new one has not been admitted."""
    queue = explicit(one=["res", "od"], two=["spot"])
    world = cell(queue)
    world.submit("a")
    world.step("slices")
    world.step("variants")
    world.apply(explicit(one=["od"], two=["spot"]))
    # The scheduler has not heard of the edit yet, nor the variant-controller of the admission.
    world.step("variants")
    world.step("scheduler", len(world.log) - world.services["scheduler"].seen - 2)
    world.step("variants")
    world.step("slices")
    world.check()
    world.settle_all()
    assert world.flavor_of("a") == "od"
    names = [e.workload.key for e in world.events(VariantCreated) if isinstance(e, VariantCreated)]
    assert len(names) == len(set(names)) == 3
    world.verify()
