"""A whole cell with limit ranges: who is out of range waits as Misconfigured, everybody else goes on."""

from collections.abc import Callable
from typing import Any

import pytest

from sluice.core.workload.pending_reasons import MISCONFIGURED
from sluice.events.base import Event, JobKey, WorkloadKey
from sluice.events.scheduler import Admitted, QuotaReserved, WorkloadsParked
from sluice.events.slices import JobResumed
from sluice.events.variants import ParentAdmitted, VariantUpdated
from tests.support.family_world import FamilyWorld, cell, cluster_queue, configuration, flavor, local_queue
from tests.support.log_check import wrong_with
from tests.support.objects import kueue_object, priority_class
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


CLASSES = tuple(priority_class(name, value) for name, value in (("low", 1), ("high", 100)))
SOON = {
    "waitForPodsReady": {
        "enable": True,
        "timeoutSeconds": 60,
        "requeuingStrategy": {"backoffBaseSeconds": 1},
    }
}
EDITS = ["applied", "changed", "deleted", "none left", "runtime class"]
STOPS = ["lost", "stopped", "preempted", "moves", "moved by then", "deactivated", "not ready", "drained"]


def named(name: str, cpu: int) -> dict[str, Any]:
    found = limit_range(defaultRequest={"cpu": cpu})
    return {**found, "metadata": {**found["metadata"], "name": name}}


def edit(world: FamilyWorld, how: str) -> int:
    """Change what is made of a job that had 1 cpu; return its milli-cpu by then."""
    match how:
        case "applied":
            world.apply(named("0-before-it", 2))
        case "changed":
            world.apply(named("limits", 2))
        case "deleted":
            world.delete("LimitRange", "limits", "default")
        case "none left":
            world.delete("LimitRange", "limits", "default").delete("LimitRange", "others", "default")
            return 0
        case "runtime class":
            overhead = {"podFixed": {"cpu": 1}}
            world.apply(
                {
                    "apiVersion": "node.k8s.io/v1",
                    "kind": "RuntimeClass",
                    "metadata": {"name": "kata"},
                    "handler": "kata",
                    "overhead": overhead,
                }
            )
    return 2000


def lose_quota(world: FamilyWorld, how: str, queue: dict[str, Any], changed: Callable[[], None]) -> None:
    """Let the running job a lose its quota, the limits being *changed* before."""
    if how == "moved by then":
        world.report("other", "JobFinished", success=True).settle()  # a is to stop, for what it has got
    changed()
    match how:
        case "lost":
            world.message("presence.agent.x", "Lost", {})
        case "stopped":
            world.report("a", "JobStopped")
        case "preempted":
            world.submit("high", cpu=4, priority_class="high").settle_all()
            world.report("high", "JobFinished", success=True)
        case "moves":
            world.report("other", "JobFinished", success=True).settle_all()
            world.report("a", "JobStopped")
        case "deactivated":
            world.message("a", "JobDeactivated", {}).settle_all()
            world.message("a", "JobActivated", {})
        case "not ready":
            world.run_until(100)
            world.settle_all()
            world.run_until(10)
        case "drained":
            world.apply({**queue, "spec": {**queue["spec"], "stopPolicy": "HoldAndDrain"}}).settle()
            world.apply(queue)
    world.settle_all()


class SlowSlices(FamilyWorld):
    """The slice-aggregator reads on when all others have nothing more to say."""

    def step(self, writer: str, entries: int | None = None) -> list[Event]:
        found: list[Event] = []
        if writer == "slices":
            while said := [event for other in ("scheduler", "variants") for event in super().step(other)]:
                found += said
        return found + super().step(writer, entries)


@pytest.mark.parametrize(("kind", "heard"), [(FamilyWorld, True), (SlowSlices, False)])
@pytest.mark.parametrize(
    ("policy", "how"),
    [(policy, how) for policy in ({}, None) for how in STOPS if policy is None or "move" not in how],
)
@pytest.mark.parametrize("what", EDITS)
def test_whatever_it_was_stopped_for_it_starts_again_as_the_limits_are_by_then(
    what: str, how: str, policy: dict[str, Any] | None, kind: type[FamilyWorld], heard: bool
) -> None:
    """Also when the scheduler reserves quota anew before it has heard what is to become of the job."""
    preemption = {"withinClusterQueue": "LowerPriority"}
    queue = cluster_queue({"res": 4, "od": 4}, policy, preemption=preemption)
    ready = [configuration(**SOON)] if how == "not ready" else []
    world = kind()
    world.apply(flavor("res"), flavor("od"), *CLASSES, *ready, queue, local_queue())
    world.apply(named("limits", 1), named("others", 2))
    world.message("presence.agent.x", "Seen", {})
    world.submit("other", cpu=4, priority_class="high").settle_all()
    world.report("other", "JobPodsReady", executor="y")
    container = {"name": "c"}
    spec = {"restartPolicy": "Never", "runtimeClassName": "kata", "containers": [container]}
    world.submit("a", template={"spec": spec}, priority_class="low").settle_all()
    world.report("a", "JobPodsReady", executor="x", ready=how != "not ready").settle()
    assert (world.flavor_of("a"), charged(world)) == ("od", 1000)
    wanted = 0

    def changed() -> None:
        nonlocal wanted
        wanted = edit(world, what)
        if heard:
            world.settle()

    lose_quota(world, how, queue, changed)
    world.settle_all()

    entry = world.dispatch("a")
    assert entry is not None
    assert (entry.state, charged(world)) == ("Running", wanted)
    assert set(started(world)[1:]) == {wanted}
    assert not wrong_with(world.log)
    world.check()
    world.verify()


def started(world: FamilyWorld) -> list[int]:
    """Return what each attempt of job a had quota for when it began, in milli-cpu."""
    given: dict[WorkloadKey, int] = {}
    found = []
    for _, _, event in world.history:
        if isinstance(event, QuotaReserved | ParentAdmitted):
            given[event.workload] = sum(pods.usage.get("cpu", 0) for pods in event.pod_sets)
        elif isinstance(event, JobResumed) and event.job == "default/a":
            found.append(given[event.workload])
    return found


def charged(world: FamilyWorld) -> int:
    """Return the milli-cpu that job a has quota for; of its variant, if it runs through one."""
    job = world.services["slices"].state.jobs[JobKey("default/a")]
    scheduler = world.services["scheduler"].state.world
    holders = [job.record.key, *scheduler.families.get(job.record.key, {})]
    (given,) = [found for key in holders if (found := scheduler.workloads[key].assignment)]
    return sum(pods.usage.get("cpu", 0) for pods in given)


@pytest.mark.parametrize("how", ["limit range", "manifest"])
def test_a_variant_that_had_quota_before_an_edit_is_not_moved_to_with_it(how: str) -> None:
    """It waits for its check with what the job was: it is made anew, to be approved as what the job is."""
    check = kueue_object("AdmissionCheck", "slow", {"controllerName": "sluice.dev/external"})
    strategy = {"admissionChecks": [{"name": "slow", "onFlavors": ["res"]}]}
    world = cell(cluster_queue({"res": 4, "od": 2}, admissionChecksStrategy=strategy), check)
    world.apply(named("limits", 3))
    cpu = {} if how == "limit range" else {"resources": {"requests": {"cpu": 3}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", **cpu}]}}
    world.submit("a", template=template).settle_all()
    assert (world.flavor_of("a"), charged(world)) == ("", 3000)
    before = world.variants("a")["res"].key

    if how == "limit range":
        world.apply(named("limits", 2)).settle_all()
    else:
        template["spec"]["containers"] = [{"name": "c", "resources": {"requests": {"cpu": 2}}}]
        world.submit("a", template=template).settle_all()
    assert world.flavor_of("a") == "od"
    world.report("a", "JobPodsReady", executor="x")
    world.checks_say(before, "Ready").settle_all()
    assert world.flavor_of("a") == "od", "what was approved is not what the job asks for now"

    world.checks_say(world.variants("a")["res"].key, "Ready").settle_all()
    assert (world.flavor_of("a"), charged(world)) == ("res", 2000)
    assert started(world) == [2000, 2000]
    world.check()
    world.verify()
