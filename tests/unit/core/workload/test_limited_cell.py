"""A whole cell with limit ranges: who is out of range waits as Misconfigured, everybody else goes on."""

from typing import Any

import pytest

from sluice.core.workload.pending_reasons import MISCONFIGURED
from sluice.events.scheduler import Admitted, QuotaReserved, WorkloadsParked
from sluice.events.variants import VariantUpdated
from tests.support.family_world import FamilyWorld, cell, cluster_queue
from tests.unit.core.slices.test_limits import OUT_OF_RANGE


def limit_range(**item: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "limits", "namespace": "default"},
        "spec": {"limits": [{"type": "Container", **item}]},
    }


@pytest.fixture(params=["BestEffortFIFO", "StrictFIFO"])
def plain(request: pytest.FixtureRequest) -> FamilyWorld:
    return cell(cluster_queue({"od": 4}, {}, queueingStrategy=request.param))


def pods(cpu: int, most: int) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu}, "limits": {"cpu": most}}
    return {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "resources": resources}]}}


def admitted(world: FamilyWorld) -> list[str]:
    return [event.workload.split("-")[1] for event in world.events(Admitted)]


def test_who_is_out_of_range_waits_and_says_why(plain: FamilyWorld) -> None:
    """Behind it a StrictFIFO queue waits, as in Kueue; a BestEffortFIFO one goes on."""
    world = plain
    strict = world.services["scheduler"].state.world.cluster_queues["main"].spec.queueing_strategy
    world.apply(limit_range(max={"cpu": 2}))
    world.submit("large", template=pods(3, 3)).settle()
    world.submit("small", cpu=1).settle()

    (parked, *_) = world.events(WorkloadsParked)
    assert isinstance(parked, WorkloadsParked)
    assert (parked.reason, parked.message) == (MISCONFIGURED, OUT_OF_RANGE)
    assert admitted(world) == ([] if strict == "StrictFIFO" else ["small"])

    world.apply(limit_range(max={"cpu": 3})).settle()
    assert sorted(admitted(world)) == ["large", "small"]
    world.verify()


def test_equal_jobs_are_told_apart_by_what_is_wrong_with_them() -> None:
    """Of two that ask for the same, one has a limit above the max: only that one waits."""
    world = cell(cluster_queue({"od": 4}, {}))
    world.apply(limit_range(max={"cpu": 2}))
    world.submit("wide", template=pods(1, 3))
    world.submit("narrow").settle()

    assert admitted(world) == ["narrow"]
    world.verify()


def test_a_family_is_limited_as_its_parent_is() -> None:
    """Variants follow their waiting parent; none of them gets quota while it is out of range."""
    world = cell(cluster_queue({"res": 4, "od": 4}))
    world.apply(limit_range(max={"cpu": 1}))
    world.submit("a", template=pods(2, 2)).settle()

    assert {v.record.misconfigured for v in world.variants("a").values()} == {OUT_OF_RANGE}
    assert not world.flavor_of("a")

    world.apply(limit_range(max={"cpu": 2})).settle()
    assert world.events(VariantUpdated)
    assert world.flavor_of("a") == "res"

    # What runs goes on.
    world.apply(limit_range(max={"cpu": 1})).settle_all()
    assert world.flavor_of("a") == "res"
    world.check()
    world.verify()


def test_defaults_change_what_waits_and_not_what_runs() -> None:
    """One runs with 2 cpu; when the default falls to 1, the one behind it fits beside it."""
    world = cell(cluster_queue({"od": 3}, {}))
    world.apply(limit_range(defaultRequest={"cpu": 2}, default={"cpu": 2}))
    bare = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}
    for name in ("first", "second"):
        world.submit(name, template=bare).settle()
    assert admitted(world) == ["first"]

    world.apply(limit_range(defaultRequest={"cpu": 1}, default={"cpu": 1})).settle()

    assert admitted(world) == ["first", "second"]
    queue = world.services["scheduler"].state.world.cluster_queues["main"]
    assert {w.record.pod_sets[0].requests["cpu"] for w in queue.workloads.values()} == {1000, 2000}
    assert queue.node.used(("od", "cpu")) == 3000
    world.check()
    world.verify()


@pytest.mark.parametrize("policy", [{}, None], ids=["plain", "variants"])
@pytest.mark.parametrize("how", ["drained", "fails"])
def test_who_is_out_of_range_does_not_start_again_when_it_has_lost_its_quota(
    policy: dict[str, Any] | None, how: str
) -> None:
    """Although the quota that it loses is there for it at once, in the same step of the scheduler."""
    queue = cluster_queue({"od": 2}, policy)
    world = cell(queue)
    world.submit("a", template=pods(2, 2)).settle_all()
    assert world.flavor_of("a") == "od"

    world.apply(limit_range(max={"cpu": 1})).settle_all()
    assert world.flavor_of("a") == "od"  # what has quota keeps it
    if how == "drained":
        world.apply(cluster_queue({"od": 2}, policy, stopPolicy="HoldAndDrain")).settle()
        world.apply(queue).settle()
        assert world.obey()
    else:
        world.report("a", "JobStopped")
    before = len(world.events(QuotaReserved))
    world.settle_all()

    assert not world.flavor_of("a")
    assert len(world.events(QuotaReserved)) == before
    world.apply(limit_range(max={"cpu": 2})).settle_all()
    assert world.flavor_of("a") == "od"
    world.check()
    world.verify()


@pytest.mark.parametrize("policy", [{}, None], ids=["plain", "variants"])
def test_who_starts_again_is_charged_as_the_limit_ranges_are_by_then(policy: dict[str, Any] | None) -> None:
    """Not for what it had: the first quota that it gets is for what it asks for now."""
    queue = cluster_queue({"od": 2}, policy)
    world = cell(queue)
    world.apply(limit_range(defaultRequest={"cpu": 2}, default={"cpu": 2}))
    bare = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}
    world.submit("a", template=bare).settle_all()

    world.apply(limit_range(defaultRequest={"cpu": 1}, max={"cpu": 1})).settle_all()
    assert world.flavor_of("a") == "od"
    before = len(world.events(QuotaReserved))
    world.apply(cluster_queue({"od": 2}, policy, stopPolicy="HoldAndDrain")).settle()
    world.apply(queue).settle_all()

    assert world.flavor_of("a") == "od"
    given = [event.pod_sets[0].usage["cpu"] for event in world.events(QuotaReserved)[before:]]
    assert given == [1000]
    world.check()
    world.verify()
