"""`why` and the status say the same of one workload, and `why` does not contradict itself."""

from collections.abc import Callable
from typing import Any

import pytest

from sluice.api.labels import ALLOWED_RESOURCE_FLAVORS
from sluice.core.views import why_pending
from sluice.core.views.present.times import timestamp
from sluice.core.workload.pending_reasons import BEHIND, OVER
from sluice.core.world.variants import BETTER_ADMITTED, MAY_PREEMPT, why_barred
from sluice.events.base import JobKey, WorkloadKey
from sluice.events.scheduler import FlavorScanAdvanced
from sluice.replay.explain.report import Report
from sluice.replay.explain.why_text import plain_words
from tests.support.elastic_cell import Cell
from tests.support.explained import explained, shown
from tests.support.family_world import (
    FamilyWorld,
    cell,
    cluster_queue,
    configuration,
    flavor,
    job,
    local_queue,
)
from tests.support.objects import kueue_object, priority_class, resource_group
from tests.support.objects import local_queue as kueue_local_queue
from tests.unit.core.scheduler.whole.test_shared_quota import gpu_of, running_on_demand, submit
from tests.unit.replay.lint.test_invariants import CLASSES

GATE = "kueue.x-k8s.io/admission-gated-by"


def text_of(report: Report) -> str:
    return "\n".join(plain_words(report))


def busy() -> FamilyWorld:
    """Return a cell whose only queue is full with `runs`; `waits` is behind it."""
    world = cell(cluster_queue({"res": 2}, {}))
    world.submit("runs", 2).settle_all()
    world.submit("waits", 1)
    manifest = job("gated", 1)
    manifest["metadata"]["annotations"] = {GATE: "example.com/budget"}
    world.message("job.default.gated", "JobSubmitted", manifest).settle_all()
    return world


def stop_queue(world: FamilyWorld) -> None:
    world.apply(cluster_queue({"res": 2}, {}, stopPolicy="Hold"))


def stop_local(world: FamilyWorld) -> None:
    stopped = local_queue()
    stopped["spec"]["stopPolicy"] = "Hold"
    world.apply(stopped)


def delete_queue(world: FamilyWorld) -> None:
    manifest = cluster_queue({"res": 2}, {})
    manifest["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.apply(manifest)


def queue_is_gone(world: FamilyWorld) -> None:
    world.delete("ClusterQueue", "main")


def local_is_gone(world: FamilyWorld) -> None:
    world.delete("LocalQueue", "main", "default")


def flavor_is_gone(world: FamilyWorld) -> None:
    world.delete("ResourceFlavor", "res")


def nothing(world: FamilyWorld) -> None:
    """Only its gate keeps it out."""


@pytest.mark.parametrize("name", ["waits", "gated"])
@pytest.mark.parametrize(
    "change",
    [stop_queue, stop_local, delete_queue, queue_is_gone, local_is_gone, flavor_is_gone, nothing],
    ids=lambda change: change.__name__,
)
def test_why_has_the_reason_of_the_status(change: Callable[[FamilyWorld], None], name: str) -> None:
    """What keeps a workload out of its queue has one name and one wording, wherever it is told."""
    world = busy()
    change(world)
    world.settle_all()
    report = explained(world, name)
    view = shown(world)
    reason, message = why_pending(view, view.workloads[WorkloadKey(report.workload)])
    assert (report.rule, report.message[: len(message)]) == (reason, message)
    if report.rule == "AdmissionGated":
        assert "example.com/budget" in report.message


def test_a_job_that_allows_no_flavor_of_the_variants_is_told_so() -> None:
    """It has no variants, and none are to come: not that some are queued in its place."""
    world = cell(cluster_queue({"res": 1, "od": 1}))
    manifest = job("a")
    manifest["metadata"]["annotations"] = {ALLOWED_RESOURCE_FLAVORS: "spot"}
    world.message("job.default.a", "JobSubmitted", manifest).settle_all()
    report = explained(world, "a")
    view = shown(world)
    status = why_pending(view, view.workloads[WorkloadKey(report.workload)])
    assert (report.rule, report.message) == status
    assert status == (
        "NoMatchingFlavor",
        "no variant may use any of the flavors that the job allows (spot): "
        "those of the variants of ClusterQueue main are res, od",
    )


def test_a_job_whose_variants_are_not_made_yet_waits_for_them() -> None:
    world = cell(cluster_queue({"res": 1, "od": 1}))
    world.message("job.default.a", "JobSubmitted", job("a"))
    world.step("slices")
    world.step("scheduler")
    report = explained(world, "a")
    assert (report.rule, report.message) == (
        "PendingEvaluation",
        "It is not queued: its variants are to be queued in its place, and are not made yet.",
    )


@pytest.mark.parametrize("allowed", ["spot", "od"])
@pytest.mark.parametrize("strategy", ["StrictFIFO", "BestEffortFIFO"])
def test_a_job_that_allows_no_flavor_of_its_queue_is_told_so(strategy: str, allowed: str) -> None:
    """Behind the head of a StrictFIFO queue, too, where nobody looks at it as long as the head waits."""
    world = cell(cluster_queue({"res": 1, "od": 0}, {}, queueingStrategy=strategy))
    world.submit("runs").settle_all()
    world.submit("head").settle_all()
    manifest = job("a")
    manifest["metadata"]["annotations"] = {ALLOWED_RESOURCE_FLAVORS: allowed}
    world.message("job.default.a", "JobSubmitted", manifest).settle_all()
    report = explained(world, "a")
    view = shown(world)
    reason, message = why_pending(view, view.workloads[WorkloadKey(report.workload)])
    assert report.rule == reason
    assert (reason == "NoMatchingFlavor") == (allowed == "spot")
    if allowed == "spot" and strategy == "StrictFIFO":
        assert message == (
            "the job allows other flavors only (spot): those of cpu in ClusterQueue main are res, od"
        )


def test_what_a_terminating_queue_lacks_is_not_quota() -> None:
    """It admits nobody, however much it is given; made again it does."""
    world = busy()
    delete_queue(world)
    world.settle_all()
    report = explained(world, "waits")
    assert [r.kind for r in report.remedies] == ["clusterQueue"]
    assert report.remedies[0].text == "ClusterQueue main made again, when it has gone"


def test_a_gated_job_is_told_to_have_its_gate_removed() -> None:
    world = busy()
    world.report("runs", "JobFinished", success=True).settle_all()
    report = explained(world, "gated")
    assert [r.text for r in report.remedies] == [f"removing its annotation {GATE} (example.com/budget)"]


def test_a_job_whose_local_queue_is_gone_is_told_to_make_it() -> None:
    world = busy()
    world.report("runs", "JobFinished", success=True)
    local_is_gone(world)
    world.submit("late").settle_all()
    report = explained(world, "late")
    assert [r.text for r in report.remedies] == ["a LocalQueue default/main for ClusterQueue main"]


def test_what_a_sibling_holds_is_not_short() -> None:
    """Story 7: cpu is there for both variants, the better one lacks its gpu alone (CA10)."""
    world = running_on_demand(4)
    assert gpu_of(world, "mover") == "on-demand"
    best = explained(world, "mover").variants[0]
    cpu, gpu = best.numbers[0], next(n for n in best.numbers if n.flavor == "reservation")
    assert (cpu.resource, cpu.requested, cpu.shared, cpu.short) == ("cpu", "4", "4", "0")
    assert gpu.short == "1"
    assert all("moves instead" not in candidate.why for candidate in best.candidates)
    assert [r.amounts for r in best.remedies if r.kind == "quota"] == [{"reservation/gpu": 1}]


def test_no_remedy_is_told_twice() -> None:
    """Whichever gpu it takes, it is cpu that is short."""
    queue = cluster_queue({"small": 1}, {})
    gpus = [{"name": f, "resources": [{"name": "gpu", "nominalQuota": 2}]} for f in ("x", "y", "z")]
    queue["spec"]["resourceGroups"].append({"coveredResources": ["gpu"], "flavors": gpus})
    world = cell(queue)
    submit(world, "runs", 1, 1)
    submit(world, "waits", 1, 1)
    report = explained(world, "waits")
    texts = [remedy.text for remedy in report.remedies]
    assert texts[0] == "1 more cpu of small in the nominal quota of main"
    assert len(set(texts)) == len(texts)


def growing(**spec: Any) -> tuple[Cell, Report]:
    world = Cell()
    for name in ("default", "other"):
        world.configure("ResourceFlavor", name)
    world.queue("left", 2, "both", **spec)
    quota = [
        {"name": f, "resources": [{"name": "cpu", "nominalQuota": n}]}
        for f, n in (("default", 2), ("other", 9))
    ]
    groups = [{"coveredResources": ["cpu"], "flavors": quota}]
    world.configure("ClusterQueue", "left", {"namespaceSelector": {}, "resourceGroups": groups})
    world.submit("a", "left", 2).settle()
    world.scale("a", 3).settle()
    return world, explained(world, "a")


def test_growth_is_told_of_no_flavor_that_it_cannot_have() -> None:
    """Its pods run on `default`, so what is free of `other` is nothing to it (WS5)."""
    _, report = growing()
    assert report.replaces
    assert [(n.flavor, bool(n.obstacle)) for n in report.numbers] == [("default", False), ("other", True)]
    assert [r.amounts for r in report.remedies if r.kind == "quota"] == [{"default/cpu": 1000}]


def test_who_may_not_be_preempted_beside_borrowing_is_told_so() -> None:
    """Asking for more than its queue's own, it must borrow; then it preempts nobody by default."""
    world = Cell()
    world.queue("left", 4, "both", preemption={"withinClusterQueue": "LowerPriority"})
    world.queue("right", 2, "both")
    world.submit("low", "left", 4, elastic=False).settle()
    world.submit("big", "left", 6, elastic=False, priority=9).settle()
    report = explained(world, "big")
    assert [c.allowed for c in report.candidates] == [False]
    assert "borrowWithinCohort is Never" in report.candidates[0].why


def test_what_is_switched_off_is_not_explained_by_a_reason_for_being_on() -> None:
    """While its job moves, nobody is admitted: who is off is looked at again when that is over."""
    world = cell(cluster_queue({"res": 1, "od": 1, "spot": 1}))
    for name in ("first", "a"):
        world.submit(name).settle_all()
    world.report("first", "JobFinished", success=True).settle()
    *_, od, spot = explained(world, "a").variants
    assert (od.phase, spot.phase) == ("Evicted", "Inactive")
    assert spot.message == "It is not active: od, which ran, not having stopped yet."
    assert "no other Variant" not in text_of(explained(world, "a"))


@pytest.mark.parametrize("end", ["gets in", "is deleted"])
def test_a_verdict_that_names_a_preemption_is_of_the_past_when_that_is_over(end: str) -> None:
    """Nobody looks again when that is over, so it must not read as if it went on; before, it does go on."""
    levels = {"withinClusterQueue": "LowerPriority"}
    world = cell(cluster_queue({"res": 1}, {}, preemption=levels), *CLASSES)
    world.submit("low", priority_class="low").settle_all()
    for name in ("one", "two"):
        world.submit(name, priority_class="high").settle()
    said_at = world.now

    def said() -> str:
        view = world.view()
        (two,) = view.jobs[JobKey("default/two")].workloads.values()
        return why_pending(view, two)[1]

    assert said() == BEHIND
    if end == "is deleted":
        world.message("job.default.one", "JobDeleted", {}).settle()
        assert said() != BEHIND
        return
    world.settle_all(5)
    assert world.flavor_of("one") == "res"
    assert said().startswith(f"{OVER[BEHIND]} (said at ")
    assert timestamp(said_at)[:16] in said()


def test_who_leaves_it_to_a_better_variant_is_told_so_everywhere() -> None:
    """Decision 0017: until that one has got in, or has had its turn, as the scheduler has it."""
    levels = {"withinClusterQueue": "LowerPriority"}
    higher = priority_class("higher", 200)
    world = cell(cluster_queue({"res": 1, "od": 1, "spot": 1}, preemption=levels), *CLASSES, higher)
    for name in ("l1", "l2", "l3"):
        world.submit(name, priority_class="low").settle_all()

    def check(*leave_it: str) -> None:
        view, scheduler = world.view(), world.services["scheduler"].state.world
        found = []
        for name, variant in world.variants("a").items():
            if variant.active and variant.assignment is None:
                expected = why_barred(scheduler, scheduler.workloads[variant.key])
                said = why_pending(view, view.workloads[variant.key])
                assert (said == ("PendingEvaluation", MAY_PREEMPT)) == (expected == MAY_PREEMPT), name
                found += [name] if expected == MAY_PREEMPT else []
        assert found == list(leave_it)

    world.submit("a", priority_class="high").settle()
    check("od", "spot")
    world.run_until(301)  # the gate of res is closed, od has its turn
    check("spot")
    world.run_until(301)
    check()  # it is the turn of spot
    world.run_until(301)  # all of them have had theirs, and wait for their victims
    check()
    world.submit("a", priority_class="higher").settle()  # the next round
    check("od")  # the gate of spot is open until another one needs to preempt, so it has gone on


def test_a_variant_that_is_made_while_its_job_moves_up_waits_for_nothing() -> None:
    """It is worse than what the job leaves: the status has the scheduler's word for it."""
    world = cell(cluster_queue({"res": 1, "od": 1}))
    for name in ("first", "a"):
        world.submit(name).settle_all()
    world.report("first", "JobFinished", success=True).settle()  # a is told to stop, and does not
    world.apply(flavor("spot"), cluster_queue({"res": 1, "od": 1, "spot": 0})).settle()
    spot, scheduler, view = (
        world.variants("a")["spot"].key,
        world.services["scheduler"].state.world,
        world.view(),
    )
    assert why_barred(scheduler, scheduler.workloads[spot]) == BETTER_ADMITTED
    assert why_pending(view, view.workloads[spot]) == ("PendingEvaluation", BETTER_ADMITTED)


def test_why_a_variant_is_off_is_said_the_same_everywhere() -> None:
    """What keeps it off now, whatever it was switched off for: a delay, a sibling that moved, its parent."""
    names = {"best": "res", "mid": "od", "last": "spot"}

    def queue(**quota: int) -> dict[str, Any]:
        variants: list[dict[str, Any]] = [
            {"name": name, "allowedResourceFlavors": [flavor]} for name, flavor in names.items()
        ]
        variants[0]["createDelaySeconds"] = 60
        variants[1]["deleteDelaySeconds"] = 40
        policy = {"migration": {"mode": "TryPreferredFlavors"}, "explicitVariants": variants}
        return cluster_queue({"res": 1, "od": 0, "spot": 1, **quota}, policy)

    world = cell(queue())

    def check(**expected: str) -> None:
        """Both say of each variant that is off what is expected, and of no other one anything."""
        view, report = world.view(), explained(world, "a")
        found = {}
        for variant in report.variants:
            assert variant.note is not None
            if not variant.note.active:
                reason, said = why_pending(view, view.workloads[WorkloadKey(variant.workload)])
                assert (variant.rule, reason) == ("Deactivated", "Deactivated")
                off = said.removeprefix("Variant Workload deactivated due to ")
                off = off.removeprefix("Variant Workload is activated after ")
                assert variant.message == f"It is not active: {off}."
                found[variant.note.name] = off
        assert found.keys() == expected.keys()
        for name, words in expected.items():
            assert words in found[name]

    world.submit("a")
    world.step("slices")
    world.step("variants")
    check(best="createDelaySeconds: 60")
    world.settle_all()
    check(best="createDelaySeconds: 60")
    world.run_until(50)
    check(best="createDelaySeconds: 60", mid="deleteDelaySeconds: 40 after Variant")
    world.run_until(1)
    world.apply(queue(res=0, od=1)).settle_all()
    world.run_until(20)
    check(mid="deleteDelaySeconds: 40 after Variant")
    world.apply(queue(res=1, od=1)).settle()
    check(mid="last, which ran, not having stopped yet")
    world.settle_all()
    check(mid="lower priority than admitted Variant", last="lower priority than admitted Variant")
    world.apply({**queue(), "spec": {**queue()["spec"], "stopPolicy": "HoldAndDrain"}}).settle_all()
    world.message("job.default.a", "JobDeactivated", {}).settle_all()
    not_active = 'Parent Workload "'
    check(best=not_active, mid=not_active, last=not_active)


def test_who_is_behind_a_strict_head_is_told_so_everywhere() -> None:
    """The reason of its status is that of `why`; what is said of itself has its name."""
    preempts = {"withinClusterQueue": "LowerPriority"}
    world = cell(cluster_queue({"res": 2}, {}, queueingStrategy="StrictFIFO", preemption=preempts), *CLASSES)
    for name, cpu, level in (("low", 1, "low"), ("high", 1, "high"), ("head", 2, "high")):
        world.submit(name, cpu, priority_class=level).settle_all()
    # The head could have one of the two only, and so preempts nobody.
    world.submit("behind", priority_class="high").settle_all()
    shown = world.view()
    report = explained(world, "behind")
    status = why_pending(shown, shown.workloads[WorkloadKey(report.workload)])
    assert (report.rule, status[0]) == ("PendingEvaluation", "PendingEvaluation")
    assert status[1].endswith("; ClusterQueue main is StrictFIFO, and nobody overtakes its head")
    head, low = explained(world, "head").workload, explained(world, "low").workload
    assert report.message == (
        f"The queue is StrictFIFO, and {head} is at its head. "
        f"{report.workload} needs the preemption of {low}."
    )
    assert explained(world, "head").rule not in ("", "PendingEvaluation")


def test_nobody_is_behind_a_head_that_was_put_aside() -> None:
    """A StrictFIFO queue passes over a job of a namespace that it does not take: the next one is its head."""
    names = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": name}}}
        for name in ("default", "other")
    ]
    takes = {"matchLabels": {"team": "default"}}
    queue = cluster_queue({"res": 1}, {}, queueingStrategy="StrictFIFO", namespaceSelector=takes)
    world = cell(queue, *names, kueue_local_queue("main", "main", "other"))
    world.submit("runs").settle_all()
    world.message("job.other.x", "JobSubmitted", job("x", namespace="other")).settle_all()
    for name in ("first", "second"):
        world.submit(name).settle_all()
    first, second = explained(world, "first"), explained(world, "second")
    assert (first.position, second.position) == (2, 3)
    assert "is at its head" not in first.message
    assert f"{first.workload} is at its head" in second.message


@pytest.mark.parametrize("opens", [{}, {"waitForPodsReady": {"enable": True}}, None])
def test_who_waited_for_pods_behind_a_strict_head_is_told_what_it_waits_for_now(
    opens: dict[str, Any] | None,
) -> None:
    """Settings that do not block admission any more, or pods that are ready: nobody looks at it meanwhile."""
    blocks = configuration(waitForPodsReady={"enable": True, "blockAdmission": True})
    queue = cluster_queue({"res": 3}, {}, queueingStrategy="StrictFIFO")
    world = cell(queue, *CLASSES, blocks)
    for name, cpu, level in (("runs", 2, "low"), ("b", 1, "low")):
        world.submit(name, cpu, priority_class=level).settle_all()
    world.submit("head", 3, priority_class="high").settle()

    def both() -> tuple[str, str]:
        report, shown = explained(world, "b"), world.view()
        return report.rule, why_pending(shown, shown.workloads[WorkloadKey(report.workload)])[0]

    assert both() == ("WaitingForPodsReady", "WaitingForPodsReady")
    if opens is None:
        world.report("runs", "JobPodsReady", executor="x").settle()
    else:
        world.apply(configuration(**opens)).settle()
    assert explained(world, "b").position == 2
    assert both() == ("PendingEvaluation", "PendingEvaluation")


def test_what_a_job_behind_a_strict_head_lacks_is_said_of_it() -> None:
    """Its reason is that of its status: of one like the head, or that was looked at before, what was said."""
    world = cell(cluster_queue({"res": 1}, {}, queueingStrategy="StrictFIFO"), *CLASSES)
    for name in ("runs", "head", "alike", "first", "second"):
        world.submit(name, priority_class="high" if name == "first" else "low").settle_all()
    shown = world.view()
    for name in ("head", "alike", "second"):
        report = explained(world, name)
        assert report.rule == why_pending(shown, shown.workloads[WorkloadKey(report.workload)])[0]
        assert f"is at its head. {report.workload} by itself: couldn't assign" in report.message
    world.report("runs", "JobFinished", success=True).settle_all()
    assert "is at its head" not in explained(world, "head").message


def test_what_is_short_is_the_same_in_all_that_is_said_of_two_pod_sets() -> None:
    """The search that the scheduler goes on with has the first one on the flavor that the other lacks."""
    world = Cell()
    groups = [resource_group({"tiny": 2, "big": 8})]
    world.apply(
        *(kueue_object("ResourceFlavor", name) for name in ("tiny", "big")),
        kueue_object("ClusterQueue", "q", {"namespaceSelector": {}, "resourceGroups": groups}),
        kueue_local_queue("q", "q"),
    )
    for name, sets in (("runs", {"main": 7}), ("w", {"a": 1, "b": 4})):
        pods = [{"name": n, "command": ["true"], "resources": {"cpu": cpu}} for n, cpu in sets.items()]
        world.submit(name, "q", 0, elastic=False, podSets=pods, replicas=None, resources=None, command=None)
        world.settle()
    report = explained(world, "w")
    assert any(isinstance(event, FlavorScanAdvanced) for _, _, event in world.history)
    (short,) = [n.short for n in report.numbers if (n.pod_set, n.flavor) == ("b", "big")]
    assert short == "3"
    assert "in flavor big, 3 more needed" in report.message
    assert {"big/cpu": 3000} in [remedy.amounts for remedy in report.remedies]


def test_a_growth_beside_quota_of_another_queue_says_so() -> None:
    """Its local queue was led elsewhere while the job runs: it read "pending evaluation"."""
    world = Cell().queue("here", 3).queue("there", 3)
    world.submit("e", "here", 2).settle(ready=True)
    world.delete("LocalQueue", "here", "default")
    world.apply(kueue_local_queue("here", "there")).settle()
    world.scale("e", 3).settle()
    said = "The job has quota of ClusterQueue here, and its LocalQueue here leads to there now"
    report = explained(world, "e")
    growth = next(w for w in shown(world).workloads.values() if w.record.replaces is not None)
    assert (report.rule, why_pending(shown(world), growth)[0]) == ("Misconfigured", "Misconfigured")
    assert said in report.message
    assert said in why_pending(shown(world), growth)[1]
    world.delete("LocalQueue", "here", "default")
    world.apply(kueue_local_queue("here", "here")).settle()
    assert world.scheduler.state.world.workloads[growth.key].admitted_at is not None
