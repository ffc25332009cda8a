"""What is changed of a job is changed of all its variants and slices, and nobody is told what is refused."""

from typing import Any

import pytest

from sluice.core.views import why_pending
from sluice.events.base import JobKey, WorkloadKey
from sluice.replay.explain.report import Report
from sluice.replay.explain.why_text import plain_words
from tests.support.elastic_cell import Cell
from tests.support.explained import explained, shown
from tests.support.family_world import FamilyWorld, cell, cluster_queue, configuration, job, local_queue
from tests.support.objects import kueue_object, priority_class

LEVELS = [priority_class(f"p{value}", value) for value in (1, 2, 3, 5, 9, 10)]
LOWER = {"withinClusterQueue": "LowerPriority"}
CANNOT_BORROW = "kueue.x-k8s.io/cannot-borrow"
CANNOT_PREEMPT = "kueue.x-k8s.io/cannot-preempt"


def texts(report: Report) -> list[str]:
    return [remedy.text for remedy in report.remedies]


@pytest.mark.parametrize("what", ["a stopped queue", "a flavor that is not there"])
def test_what_lets_a_sibling_in_first_is_none_of_a_variants_changes(what: str) -> None:
    """Both have the priority of their job, so none of them overtakes the other by it (CA6)."""
    stopped: dict[str, Any] = {"stopPolicy": "Hold"} if what == "a stopped queue" else {}
    world = cell(cluster_queue({"a": 1, "b": 1}, **stopped))
    if not stopped:
        world.delete("ResourceFlavor", "b").settle()
    world.submit("x").settle_all()
    report = explained(world, "x")
    change = "resuming main" if stopped else "a ResourceFlavor b"
    first, second = report.variants
    assert texts(first) == [change]
    assert (texts(second), second.instead) == ([], (change, first.workload))
    assert texts(report) == [f"{change} (as variant a)"]
    said = "\n".join(plain_words(report))
    assert f"Nothing that was tried would admit it before its sibling {first.workload} ({change})." in said
    assert "priority" not in said


def test_of_variants_that_wait_alike_each_is_told_of_its_own_victim() -> None:
    """When both have stopped the preferred one gets in; each gets in by its own."""
    world = cell(cluster_queue({"a": 1, "b": 1}, preemption=LOWER), *LEVELS)
    for name in ("r", "s", "x"):
        world.submit(name, priority_class="p9" if name == "x" else "p5")
        world.settle_all() if name != "x" else world.settle()
    world.run_until(400)  # a's turn is over, and b's has begun
    report = explained(world, "x")
    victims = [world.variants("r")["a"].key, world.variants("s")["b"].key]
    assert [texts(variant) for variant in report.variants] == [
        [f"nothing but time: {victim} must stop first"] for victim in victims
    ]
    assert [remedy.kind for remedy in report.remedies] == ["stop", "stop"]


def test_a_change_beside_a_stop_that_is_enough_is_none() -> None:
    """Also when nobody may preempt any more."""
    world = cell(cluster_queue({"a": 1, "b": 1}, preemption=LOWER), *LEVELS)
    for name in ("r", "s", "x"):
        world.submit(name, priority_class="p9" if name == "x" else "p5")
        world.settle_all() if name != "x" else world.settle()
    world.run_until(400)
    never = {"withinClusterQueue": "Never"}
    world.apply(cluster_queue({"a": 1, "b": 1}, preemption=never)).settle()
    for variant in explained(world, "x").variants:
        (remedy,) = variant.remedies
        assert remedy.kind == "stop"


def test_who_was_preempted_in_vain_is_not_said_to_be_preempted_next() -> None:
    """Decision 0018 spares it, whoever's turn it is; a sibling that gets in first is the job's way."""
    check = {"controllerName": "sluice.dev/external", "preemptionPolicy": "AfterCheckPassedOrOnDemand"}
    asks = {"admissionChecks": [{"name": "slow", "onFlavors": ["a"]}]}
    world = cell(
        cluster_queue({"a": 1, "b": 1, "c": 1}, preemption=LOWER, admissionChecksStrategy=asks),
        kueue_object("AdmissionCheck", "slow", check),
        configuration(preemptionGateTimeoutSeconds=5),
        *LEVELS,
    )
    for level, name in enumerate("xyz", start=1):
        world.submit(name, priority_class=f"p{level}").settle_all()
        if name == "x":
            world.checks_say(world.variants("x")["a"].key, "Ready").settle_all()
    world.submit("m", priority_class="p9").settle()
    spared = 0
    for turn in range(1, 8):
        world.run_until(turn * 5 + 1)
        for variant in explained(world, "m").variants:
            circles = {c.workload for c in variant.candidates if "again and again" in c.why}
            spared += len(circles)
            for remedy in variant.remedies:
                by_itself = remedy.kind in ("turn", "look", "stop", "none")
                assert not (by_itself and any(key in remedy.text for key in circles)), remedy.text
    assert spared


@pytest.mark.parametrize("constraint", [CANNOT_BORROW, CANNOT_PREEMPT])
def test_what_is_fixed_while_a_job_has_quota_is_not_to_be_removed(constraint: str) -> None:
    """AX1: of a growth, whose job runs. A job without quota may be submitted without it."""
    world = Cell()
    preemption = {**LOWER, "reclaimWithinCohort": "Any"}
    world.queue("left", 2, "all", preemption=preemption).queue("right", 2, "all")
    world.submit("low", "left" if constraint == CANNOT_PREEMPT else "right", 1, elastic=False).settle()
    submit_elastic(world, "grows", 1, constraint)
    world.settle()
    world.scale("grows", 3 if constraint == CANNOT_BORROW else 4).settle()
    report = explained(world, "grows")
    assert report.replaces
    assert report.remedies
    assert not any(text.startswith("removing") for text in texts(report))

    submit_elastic(world, "waits", 2, constraint)
    world.settle()
    if constraint == CANNOT_BORROW:
        assert any(text.startswith("removing") for text in texts(explained(world, "waits")))


def submit_elastic(world: Cell, name: str, count: int, constraint: str) -> None:
    notes = {"kueue.x-k8s.io/elastic-job": "true", constraint: "true"}
    manifest = {
        "apiVersion": "sluice.dev/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "annotations": notes},
        "spec": {"queueName": "left", "replicas": count, "resources": {"cpu": 1}, "command": ["true"]},
    }
    world.message(name, "JobSubmitted", manifest)


def test_a_constraint_is_removed_from_all_variants() -> None:
    """The preferred one gets in then, and no other one before it."""
    world = cell(
        cluster_queue({"a": 1, "b": 1}, name="lender", cohortName="co"),
        cluster_queue({"a": 0, "b": 0}, cohortName="co"),
    )
    manifest = job("x")
    manifest["metadata"]["annotations"] = {CANNOT_BORROW: "true"}
    world.message("job.default.x", "JobSubmitted", manifest)
    world.settle_all()
    first, second = explained(world, "x").variants
    assert "removing cannot-borrow from it" in texts(first)
    assert "removing cannot-borrow from it" not in texts(second)


def withheld(**lender: Any) -> FamilyWorld:
    """The head of `lend` waits for what `borr` could borrow, and may not be sure to get it back."""
    world = cell(
        cluster_queue(
            {"a": 3},
            {},
            name="lend",
            queueingStrategy="StrictFIFO",
            cohortName="co",
            preemption={"reclaimWithinCohort": "LowerPriority"},
            **lender,
        ),
        cluster_queue({"a": 1}, {}, name="borr", cohortName="co"),
        *(local_queue(name, name) for name in ("lend", "borr")),
        *LEVELS,
    )
    jobs = (("l1", "lend", 10, 2), ("b1", "borr", 10, 1), ("l2", "lend", 5, 2), ("b2", "borr", 1, 1))
    for name, queue, priority, cpu in jobs:
        world.submit(name, cpu, queue=queue, priority_class=f"p{priority}").settle_all()
    return world


def test_who_is_kept_out_by_the_head_of_another_queue_is_told_by_which() -> None:
    """SC2: with the reason of the status, and what would let it in."""
    world = withheld()
    report, view = explained(world, "b2"), shown(world)
    (head,) = view.jobs[JobKey("default/l2")].workloads
    reason, message = why_pending(view, view.workloads[WorkloadKey(report.workload)])
    assert (report.rule, message) == (
        reason,
        "Workload no longer fits after processing another workload",
    )
    assert report.message.startswith(
        f"It would fit by itself, but what it needs is withheld for {head}, the head of lend, which is "
    )
    found = texts(report)
    assert f"deactivating or ending {head}, for which lend withholds it (StrictFIFO)" in found
    assert "reclaimWithinCohort: Any in lend, which lends what it can take back" in found

    world.message("job.default.l2", "JobDeleted", {}).settle_all()
    assert world.flavor_of("b2") == "a"
