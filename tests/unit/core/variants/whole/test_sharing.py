"""Verdicts that variants of different jobs share (SC2), and what they must not share (CA10, CA11)."""

from dataclasses import replace
from typing import Any

import pytest

from sluice.events.scheduler import BlockedOnPreemptionGates, Preempted, QuotaReserved, WorkloadsParked
from sluice.events.variants import PreemptionGateOpened
from tests.bench.core_variants import virtual
from tests.bench.scenario import BASELINE
from tests.support.family_world import SECOND, cell, cluster_queue, job, local_queue
from tests.support.objects import QUEUE, priority_class

FLAVORS = {"res": 1, "od": 1, "spot": 1}
CLASS = priority_class("high", 100)


def test_jobs_alike_share_one_verdict_per_flavor() -> None:
    """Forty jobs that wait cost one evaluation per flavor, as forty ordinary workloads cost one."""
    world = cell(cluster_queue({"res": 1, "od": 0, "spot": 0}))
    for number in range(40):
        world.submit(f"j{number}")
    world.settle_all()
    parked = [key for e in world.events(WorkloadsParked) for key in e.workloads]
    # One verdict per flavor, and those of the siblings of the job that runs: they wait for it to go.
    assert len(parked) <= 3 + 2


def test_a_verdict_on_siblings_of_a_running_job_says_nothing_of_others() -> None:
    """Variants that may not take over are set aside by themselves: those of other jobs get what is free."""
    world = cell(cluster_queue(FLAVORS))
    for name in ("a", "b", "c", "d"):
        world.submit(name).settle_all()
    assert [world.flavor_of(name) for name in ("a", "b", "c", "d")] == ["res", "od", "spot", ""]


def test_every_blocked_family_gets_its_gate_opened() -> None:
    """Two jobs that must preempt both do, though the first one's verdict would hold for the second."""
    world = cell(cluster_queue({"res": 2}, preemption={"withinClusterQueue": "LowerPriority"}), CLASS)
    for name in ("low-1", "low-2"):
        world.submit(name)
    world.settle_all()
    for name in ("high-1", "high-2"):
        world.submit(name, priority_class="high")
    world.settle_all()
    assert world.flavor_of("high-1") == world.flavor_of("high-2") == "res"
    assert len(world.events(PreemptionGateOpened)) == 2


def test_a_gate_waits_for_better_siblings_that_share_a_verdict() -> None:
    """A better variant that was never named in a verdict counts as looked at: its class was (CA11)."""
    queue = cluster_queue({"res": 0, "od": 2}, preemption={"withinClusterQueue": "LowerPriority"})
    world = cell(queue, CLASS)
    for name in ("low-1", "low-2"):
        world.submit(name)
    world.settle_all()
    for name in ("high-1", "high-2"):
        world.submit(name, priority_class="high").settle_all()
    blocked = [e for e in world.events(BlockedOnPreemptionGates) if isinstance(e, BlockedOnPreemptionGates)]
    assert [len(event.after) for event in blocked] == [1, 1]
    assert world.flavor_of("high-1") == world.flavor_of("high-2") == "od"


def test_a_better_variant_that_comes_later_is_asked_first() -> None:
    """Its create delay over, a better variant is looked at before the gate of a worse one opens (CA11)."""
    policy = {
        "migration": {"mode": "TryPreferredFlavors"},
        "explicitVariants": [
            {"name": "best", "allowedResourceFlavors": ["res"], "createDelaySeconds": 30},
            {"name": "rest", "allowedResourceFlavors": ["od"]},
        ],
    }
    queue = cluster_queue({"res": 1, "od": 1}, policy, preemption={"withinClusterQueue": "LowerPriority"})
    world = cell(queue, CLASS)
    for name in ("low-1", "low-2"):
        world.submit(name).run_until(31)
    world.submit("high", priority_class="high")
    for writer in ("slices", "variants", "scheduler"):
        world.step(writer)
    assert len(world.events(BlockedOnPreemptionGates)) == 1
    # The delay is over before the controller reads that the other variant is blocked.
    world.now += 31 * SECOND
    world.step("variants")
    assert world.events(PreemptionGateOpened) == []
    world.settle_all()
    opened = [e.workload for e in world.events(PreemptionGateOpened) if isinstance(e, PreemptionGateOpened)]
    assert [world.variants("high")["best"].key] == opened
    assert world.flavor_of("high") == "res"


def test_a_job_that_preempts_for_a_better_flavor_gets_it() -> None:
    """A job that runs takes back a better flavor that was lent, through its opened gate, and moves there."""
    cohort: dict[str, Any] = {"cohortName": "c", "preemption": {"reclaimWithinCohort": "Any"}}
    world = cell(cluster_queue({"od": 1, "spot": 1}, **cohort), CLASS)
    world.apply(cluster_queue({"od": 0}, {}, name="far", **cohort), local_queue("far", "far"))
    borrower = job("borrower", priority_class="high")
    borrower["metadata"]["labels"][QUEUE] = "far"
    world.message("job.default.borrower", "JobSubmitted", borrower).settle_all()
    assert world.flavor_of("borrower") == "od"
    world.submit("a").settle_all()
    assert world.flavor_of("a") == "od"
    assert world.flavor_of("borrower") == ""
    assert len(world.events(PreemptionGateOpened)) == 1


def test_jobs_that_preempt_and_migrate_all_end() -> None:
    """Jobs of three sizes and priorities that take back what they lent never evict each other for ever."""
    classes = tuple(replace(one, count=max(1, one.count // 50)) for one in BASELINE.classes)
    scenario = replace(
        BASELINE, cohorts=1, classes=classes, flavors=("res", "od", "spot"), policy="TryPreferredFlavors"
    )
    _, migrations = virtual(scenario)
    assert migrations


def test_a_sibling_may_take_over_what_is_held_also_when_the_quota_was_cut() -> None:
    """What a family holds already is not reserved anew: a cut below it is nobody's doing (CA10)."""
    policy = {
        "migration": {"mode": "TryPreferredFlavors"},
        "explicitVariants": [
            {"name": "first", "allowedResourceFlavors": ["res"]},
            {"name": "second", "allowedResourceFlavors": ["res"]},
        ],
    }
    strategy = {"backoffLimitCount": 0, "backoffBaseSeconds": 1}
    settings = {
        "apiVersion": "sluice.dev/v1alpha1",
        "kind": "Configuration",
        "metadata": {"name": "default"},
        "spec": {"waitForPodsReady": {"enable": True, "timeoutSeconds": 30, "requeuingStrategy": strategy}},
    }
    world = cell(cluster_queue({"res": 2}, policy), settings)
    world.submit("job", 2)
    for writer in ("slices", "variants", "scheduler"):
        world.step(writer)
    world.apply(cluster_queue({"res": 1}, policy))
    world.now += 40 * SECOND

    world.step("scheduler")  # looks at every reservation

    reserved = [event.workload.partition("-variant-")[2][:6] for event in world.events(QuotaReserved)]
    assert reserved == ["first-", "second"]


def test_a_search_that_is_over_is_taken_up_when_something_is_freed() -> None:
    """While siblings wait for pods to be ready, their queue is not looked at for ever (SC2, SC4)."""
    settings = {
        "apiVersion": "sluice.dev/v1alpha1",
        "kind": "Configuration",
        "metadata": {"name": "default"},
        "spec": {"waitForPodsReady": {"enable": True, "timeoutSeconds": 300, "blockAdmission": True}},
    }
    world = cell(cluster_queue({"res": 6, "od": 5, "spot": 3}), settings)
    for name, cpu in (("small", 1), ("large", 4)):
        world.submit(name, cpu).settle()
        if name == "small":
            world.report(name, "JobPodsReady").settle()
    # Of two sets of pods the first fits what is left of "res", the second does not.
    groups = [
        {"name": name, "command": ["true"], "replicas": 1, "resources": {"cpu": cpu}}
        for name, cpu in (("head", 1), ("workers", 2))
    ]
    manifest = {
        "apiVersion": "sluice.dev/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "both", "namespace": "default", "labels": {QUEUE: "main"}},
        "spec": {"podSets": groups},
    }
    world.message("job.default.both", "JobSubmitted", manifest).settle()
    world.submit("one-more", 1).settle()

    world.report("small", "JobFinished", success=True).settle()  # says so if it does not

    world.report("large", "JobPodsReady").settle()
    assert world.flavor_of("both")


@pytest.mark.parametrize("stopped", ["LocalQueue", "LocalQueue deleted", "ClusterQueue", ""])
def test_a_better_variant_that_comes_while_its_queue_is_stopped(stopped: str) -> None:
    """What it changes for others is not lost: whoever is blocked behind it is said to be so again (CA11)."""
    policy = {
        "migration": {"mode": "TryPreferredFlavors"},
        "explicitVariants": [
            {"name": "best", "allowedResourceFlavors": ["res"], "createDelaySeconds": 30},
            {"name": "rest", "allowedResourceFlavors": ["od"]},
        ],
    }
    spec: dict[str, Any] = {"preemption": {"withinClusterQueue": "LowerPriority"}}
    queue = cluster_queue({"res": 1, "od": 1}, policy, **spec)
    world = cell(queue, CLASS)
    world.submit("first", priority_class="high").run_until(31)
    world.settle_all()
    world.submit("low").run_until(31)
    world.settle_all()
    assert [world.flavor_of(name) for name in ("low", "first")] == ["od", "res"]
    world.submit("high", priority_class="high")
    for writer in ("slices", "variants", "scheduler"):
        world.step(writer)
    assert len(world.events(BlockedOnPreemptionGates)) == 1
    if stopped == "ClusterQueue":
        world.apply(cluster_queue({"res": 1, "od": 1}, policy, **spec, stopPolicy="Hold"))
    elif stopped == "LocalQueue":
        world.apply({**local_queue(), "spec": {"clusterQueue": "main", "stopPolicy": "Hold"}})
    elif stopped:
        world.delete("LocalQueue", "main", "default")
    # The delay is over before the controller reads that the other variant is blocked.
    world.now += 31 * SECOND
    world.step("scheduler")
    world.settle()
    if stopped != "LocalQueue deleted":
        assert world.active("high") == ["best", "rest"]
    world.apply(queue, local_queue()).settle_all()
    assert world.flavor_of("high") == "od"
    world.verify()


def test_a_state_that_is_read_back_is_the_same() -> None:
    """Whoever starts from a snapshot asks nobody again who is blocked on a gate: nothing has come (CA11)."""
    spec: dict[str, Any] = {"preemption": {"withinClusterQueue": "LowerPriority"}}
    policy = {"migration": {"mode": "TryPreferredFlavors"}}
    world = cell(cluster_queue({"res": 1, "od": 1}, policy, **spec), CLASS)
    world.submit("first", priority_class="high").settle_all()
    world.submit("low").settle_all()
    world.submit("high", priority_class="high")
    for writer in ("slices", "variants", "scheduler"):
        world.step(writer)
    assert len(world.events(BlockedOnPreemptionGates)) == 1
    scheduler = world.services["scheduler"]
    data = scheduler.decider.dump(scheduler.state)
    assert scheduler.decider.dump(scheduler.decider.load(data)) == data


def test_a_submission_to_a_racing_queue_ends_what_is_remembered_there() -> None:
    """Decision 0018: who was refused a preemption asks again, though what came queues by its variants."""
    preempts = {"withinClusterQueue": "LowerPriority"}
    world = cell(cluster_queue({"res": 1}, preemption=preempts), priority_class("high", 100))
    world.submit("low").settle_all()
    world.submit("urgent", priority_class="high")
    for writer in ("slices", "variants"):
        assert world.step(writer)
    service = world.services["scheduler"]
    service.fold(world.log)
    (low,), (urgent,) = world.variants("low").values(), world.variants("urgent").values()
    workloads = service.state.world.workloads
    # As if it had been preempted for that one before.
    service.state.world.circles.note(workloads[low.key], workloads[urgent.key])
    world.settle()
    assert not world.events(Preempted)

    world.submit("another").settle_all()
    assert world.flavor_of("urgent") == "res"
