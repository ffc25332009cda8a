"""What admits a workload while others leave already, or while what it needs is kept or promised."""

import re
from typing import Any

import pytest

from sluice.api.labels import ELASTIC_JOB
from sluice.core.views import why_pending
from sluice.events.base import JobKey, WorkloadKey
from sluice.protocol.subjects import verdict_suffix
from sluice.replay.explain.report import Report
from sluice.replay.explain.why import explain
from sluice.replay.source.source import ListSource
from sluice.replay.source.time_travel import scheduler_at
from tests.support.checked_cell import checked_cell
from tests.support.elastic_cell import Cell
from tests.support.family_world import FamilyWorld, cell, cluster_queue, job, local_queue
from tests.support.objects import priority_class, resource_group

LEVELS = [priority_class(name, value) for name, value in (("low", 0), ("middle", 2), ("high", 3))]
LOWER = {"withinClusterQueue": "LowerPriority"}
NEVER: dict[str, Any] = {}


def explained(world: Cell | FamilyWorld, name: str) -> Report:
    source = ListSource(world.log)
    fold = scheduler_at(source, source.end)
    return explain(fold.state, f"default/{name}", source.end, fold.at)


def first(report: Report) -> str:
    """The first remedy, jobs named without the hashes of their workloads."""
    return re.sub(r"default/job-(\w+)-\w{5}", r"\1", report.remedies[0].text)


def shared(lending: int, own: int) -> list[dict[str, Any]]:
    """A cohort: `main` reclaims, `second` lends *lending* of its two cpus, `third` has none."""
    reclaims = {"reclaimWithinCohort": "Any", "borrowWithinCohort": {"policy": "LowerPriority"}}
    lends = [resource_group({"res": 2}, lendingLimit=lending)]
    return [
        cluster_queue({"res": own}, NEVER, cohortName="c", preemption=reclaims),
        cluster_queue({"res": 0}, NEVER, name="second", cohortName="c", resourceGroups=lends),
        cluster_queue({"res": 0}, NEVER, name="third", cohortName="c"),
    ]


def test_no_more_quota_is_named_than_when_those_have_stopped_who_leave() -> None:
    """A preemptor waits for its victim, and the cohort lends one cpu less by then: it lacks that one."""
    main, *others = shared(lending=2, own=1)
    world = cell(main, *LEVELS, *others, local_queue("third", "third"))
    world.submit("hv", count=3, queue="third").settle()
    world.submit("hp", count=3, priority_class="high").settle()
    assert first(explained(world, "hp")) == "nothing but time: hv must stop first"
    world.apply(*shared(lending=1, own=1)).settle()
    assert (
        first(explained(world, "hp")) == "1 more cpu of res in the nominal quota of main; then hv must stop"
    )

    world.apply(*shared(lending=1, own=2)).settle()
    assert explained(world, "hp").rule == "WaitingForPreemptedWorkloads"
    world.settle_all()
    assert world.flavor_of("hp") == "res"


def test_who_leaves_for_another_makes_room_for_third_ones_too() -> None:
    """Of the two cpus that it leaves the preemptor needs one only."""
    world = cell(cluster_queue({"res": 2}, NEVER, preemption=LOWER), *LEVELS)
    world.submit("hv", count=2, priority_class="low").settle()
    world.submit("hp", priority_class="high").settle()
    world.submit("hx", count=3, priority_class="middle").settle()
    assert (
        first(explained(world, "hx")) == "2 more cpu of res in the nominal quota of main; then hv must stop"
    )

    world.apply(cluster_queue({"res": 4}, NEVER, preemption=LOWER)).settle()
    world.settle_all()
    assert (world.flavor_of("hp"), world.flavor_of("hx")) == ("res", "res")


def test_only_those_who_have_to_stop_are_named() -> None:
    """Another one leaves the same cohort, whose quota is its queue's alone."""
    group: dict[str, Any] = {"cohortName": "c", "preemption": LOWER}
    alone = [resource_group({"res": 1}, lendingLimit=0, borrowingLimit=0)]
    other = cluster_queue({"res": 1}, NEVER, name="other", resourceGroups=alone, **group)
    world = cell(cluster_queue({"res": 2}, NEVER, **group), *LEVELS, other, local_queue("other", "other"))
    world.submit("hv", count=2, priority_class="low").settle()
    world.submit("ov", queue="other", priority_class="low").settle()
    world.submit("op", queue="other", priority_class="high").settle()
    world.submit("hp", count=2, priority_class="high").settle()
    world.submit("hx", count=3, priority_class="middle").settle()
    assert (
        first(explained(world, "hx")) == "3 more cpu of res in the nominal quota of main; then hv must stop"
    )


def test_what_is_promised_is_not_added_to_what_it_lacks() -> None:
    """One more is enough, and so are three: two more let in whom the rest is promised to, without victims."""
    world = checked_cell("aft", quota=2, preemption=LOWER)
    world.add_check("aft", preemptionPolicy="AfterCheckPassedOrOnDemand")
    world.apply(*LEVELS).settle()
    world.submit("d0", count=2, priority_class="low").settle()
    world.say("d0", "aft", "Ready").settle()
    world.submit("d2", count=2, priority_class="high").settle()
    d3 = job("d3", priority_class="high")
    d3["metadata"]["annotations"] = {"kueue.x-k8s.io/cannot-preempt": "true"}
    world.message("job.default.d3", "JobSubmitted", d3).settle()
    report = explained(world, "d3")
    assert [numbers.short for numbers in report.numbers] == ["1"]
    more = "1 more cpu of default in the nominal quota of main; then Ready from its checks (aft)"
    assert first(report) == more


def test_of_a_job_that_lacks_only_what_is_kept_it_is_said_for_whom() -> None:
    """As its status has it: it would fit, were it not for a preemptor whose victim has not stopped."""
    world = cell(cluster_queue({"res": 3}, NEVER, preemption=LOWER), *LEVELS)
    world.submit("victim", count=2, priority_class="low").settle()
    world.submit("first", count=3, priority_class="high").settle()
    world.submit("w", priority_class="low").settle()
    report = explained(world, "w")
    view = world.view()
    shown, _ = why_pending(view, view.workloads[WorkloadKey(report.workload)])
    assert report.rule == shown == "WaitingForQuota"
    told = re.sub(r"default/job-(\w+)-\w{5}", r"\1", report.message)
    kept = "It would fit by itself, but what it needs is kept for first, until victim has stopped."
    assert told == kept


def test_a_growth_waits_for_its_job_to_stop() -> None:
    """Its slice is preempted, and when that one has stopped there is room for the job as it is to be."""
    world = Cell()
    world.apply(priority_class("high", 3))
    world.queue("q", 4, preemption=LOWER)
    world.submit("a", "q", 2).submit("b", "q", 1, elastic=False).settle(ready=True)
    world.scale("a", 4).settle()
    assert first(explained(world, "a")) == "1 more cpu of default in the nominal quota of q"
    world.submit("h", "q", 3, elastic=False, priority=3).settle(executor=False)
    assert first(explained(world, "a")) == "4 more cpu of default in the nominal quota of q; then a must stop"
    world.message("h", "JobDeleted", {}).settle(executor=False)
    world.message("b", "JobDeleted", {}).settle(executor=False)
    world.report("b", "JobStopped").settle(executor=False)
    assert first(explained(world, "a")) == "nothing but time: a must stop first"
    world.settle()
    assert world.running(JobKey("default/a")) == 4


@pytest.mark.parametrize(
    ("verdict", "then"),
    [
        ({"state": "Retry", "requeueAfterSeconds": 60}, "it is queued again at 2026-01-01T00:01:00"),
        ({"state": "Rejected"}, "`sluice job activate a`"),
    ],
    ids=["retry", "rejected"],
)
def test_a_growth_is_held_back_as_its_slice_is(verdict: dict[str, Any], then: str) -> None:
    """When that one has stopped, there is room for the job, and it waits all the same."""
    world = checked_cell("gpu", quota=4)
    a = job("a")
    a["metadata"].setdefault("annotations", {})[ELASTIC_JOB] = "true"
    world.message("job.default.a", "JobSubmitted", a).settle()
    world.say("a", "gpu", "Ready").settle()
    key, _, attempt = world.reservation("a")
    world.message("job.default.a", "JobScaled", {"podSets": {"main": 3}}).settle()
    said = {"workload": key, "check": "gpu", "attempt": attempt, **verdict}
    world.message(verdict_suffix("ctl-gpu"), "CheckVerdict", said).settle()
    assert first(explained(world, "a")).startswith(f"nothing but time: a must stop first; then {then}")

    world.settle_all()
    assert then in first(explained(world, "a"))


@pytest.mark.parametrize("policy", [NEVER, None], ids=["plain", "variants"])
@pytest.mark.parametrize("heads", [("huge",), ("huge", "vast")])
def test_behind_heads_that_never_fit_it_helps_to_deactivate_them(
    heads: tuple[str, ...], policy: dict[str, Any] | None
) -> None:
    """Nobody overtakes in a StrictFIFO queue, and no quota for who waits behind is of use."""
    world: FamilyWorld = cell(cluster_queue({"res": 2}, policy, queueingStrategy="StrictFIFO"), *LEVELS)
    for name in heads:
        world.submit(name, count=9, priority_class="high").settle()
    world.submit("small").settle()
    report = explained(world, "small")
    reports = report.variants or [report]
    texts = [remedy.text for each in reports for remedy in each.remedies if remedy.kind == "head"]
    whom = " and ".join(heads)
    said = {re.sub(r"default/job-(\w+)-\w{5}", r"\1", text) for text in texts}
    assert said == {f"deactivating or ending {whom}, which nobody overtakes (StrictFIFO)"}

    for name in heads:
        world.message(f"job.default.{name}", "JobDeleted", {}).settle()
    assert world.flavor_of("small") == "res"
