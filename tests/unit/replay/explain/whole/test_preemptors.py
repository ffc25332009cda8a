"""What is said of preemptors that wait for their victims, while others of their queue do, too."""

from typing import Any

import pytest

from sluice.core.views import positions, why_pending
from sluice.core.workload.pending_reasons import BEHIND, OVER
from sluice.events.base import JobKey, WorkloadKey
from sluice.events.scheduler import PreemptionIssued, WorkloadsParked
from sluice.replay.source.source import ListSource
from sluice.replay.source.time_travel import scheduler_at
from sluice.replay.views.queues import order_of
from tests.support.elastic_cell import OWN, Cell
from tests.support.explained import explained, shown
from tests.support.family_world import FamilyWorld, cell, cluster_queue, configuration, job
from tests.support.objects import CLASS, local_queue, priority_class

PRIORITIES = {"low": 1, "middle": 5, "high": 10, "highest": 20}


def submit(world: Cell, name: str, cpus: tuple[int, ...], priority: str = "", **annotations: str) -> Cell:
    """A job with a pod set for each number of cpus; nobody whom it preempts stops."""
    sets: list[dict[str, Any]] = [
        {"name": f"s{n}", "replicas": 1, "command": ["true"], "resources": {"cpu": cpu}}
        for n, cpu in enumerate(cpus)
    ]
    labels = {CLASS: priority} if priority else {}
    metadata = {"name": name, "namespace": "default", "labels": labels, "annotations": annotations}
    spec = {"queueName": "main", "podSets": sets}
    manifest = {"apiVersion": OWN, "kind": "Job", "metadata": metadata, "spec": spec}
    world.message(name, "JobSubmitted", manifest)
    world.settle(1, executor=False)
    return world


def contended(strategy: str) -> Cell:
    """Two run; `first` and `second` wait for one of them; `third` comes before both, and may not preempt."""
    world = Cell()
    world.apply(*(priority_class(name, value) for name, value in PRIORITIES.items()))
    preemption = {"withinClusterQueue": "LowerPriority"}
    world.queue("main", 4, preemption=preemption, queueingStrategy=strategy)
    for number in range(2):
        submit(world, f"runs{number}", (2,))
        world.settle()
    submit(world, "first", (1,), "middle")
    submit(world, "second", (1,), "high")
    submit(world, "third", (3,), "highest", **{"kueue.x-k8s.io/cannot-preempt": "true"})
    return submit(world, "fourth", (2, 2), "low")


def test_each_preemptor_is_told_its_own_victims() -> None:
    """Not those that it would choose now, who go for somebody else already."""
    world = contended("BestEffortFIFO")
    issued = {event.workload: event for event in world.events(PreemptionIssued)}
    assert len(issued) == 2
    for workload, event in issued.items():
        report = explained(world, str(workload))
        assert report.rule == event.reason
        named = report.message.removeprefix("It needs the preemption of ").removesuffix(".").split(", ")
        assert sorted(named) == sorted(event.victims)


@pytest.mark.parametrize("name", ["third", "fourth"])
def test_who_comes_beside_waiting_preemptors_has_the_reason_of_the_status(name: str) -> None:
    """All that it would preempt by itself is promised; what the scheduler said counts."""
    world = contended("BestEffortFIFO")
    report, view = explained(world, name, help_=False), shown(world)
    reason, message = why_pending(view, view.workloads[WorkloadKey(report.workload)])
    assert report.rule == reason == "WaitingForQuota"
    assert message.startswith(report.message)


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
def test_a_place_is_the_same_wherever_it_is_told(strategy: str) -> None:
    """By rank (SC1), for preemptors that wait, too: that is kept for them wherever they are."""
    world = contended(strategy)
    places = {key: place for key, place in positions(shown(world), "main").items() if place}
    assert len(places) == 4
    assert {key: explained(world, str(key), help_=False).position for key in places} == places
    source = ListSource(world.log)
    assert order_of(scheduler_at(source, source.end).state, "main") == sorted(places, key=lambda k: places[k])
    assert explained(world, "third", help_=False).ahead == []


LEVELS = {"withinClusterQueue": "LowerPriority"}


def waiting(*settings: dict[str, Any], **spec: Any) -> FamilyWorld:
    """Return a cell in which `one` waits for `low`, which does not stop, and `two` comes behind `one`."""
    world = cell(
        cluster_queue({"res": 1}, {}, preemption=LEVELS, **spec),
        *(priority_class(name, value) for name, value in PRIORITIES.items()),
        cluster_queue({"res": 1}, {}, name="other"),
        local_queue("other", "other"),
        *settings,
    )
    world.submit("low", priority_class="low").settle_all()
    world.report("low", "JobPodsReady", executor="x").settle()
    for name in ("one", "two"):
        world.submit(name, priority_class="high").settle()
    return world


def said(world: FamilyWorld, name: str) -> tuple[str, str]:
    view = world.view()
    (workload,) = view.jobs[JobKey(f"default/{name}")].workloads.values()
    return why_pending(view, workload)


def test_a_preemptor_is_not_told_to_wait_for_itself() -> None:
    """Its equals came later, and wait for it: what was said of them is nothing to it."""
    world = waiting()
    assert said(world, "one")[0] == "WaitingForPreemptedWorkloads"
    assert said(world, "two") == ("WaitingForQuota", BEHIND)


def test_who_is_behind_a_preemptor_that_is_held_waits_for_it_still() -> None:
    """Its victims have gone, and it waits for the pods of another one: what was kept for it is kept on."""
    world = waiting(configuration(waitForPodsReady={"enable": True, "blockAdmission": True}))
    world.submit("slow", queue="other").settle()
    world.settle_all()
    assert said(world, "one")[0] == "WaitingForPodsReady"
    assert said(world, "two") == ("WaitingForQuota", BEHIND)
    world.report("slow", "JobPodsReady", executor="x").settle()
    assert world.flavor_of("one") == "res"
    assert said(world, "two")[1].startswith(OVER[BEHIND])


@pytest.mark.parametrize("leaves", [False, True])
def test_a_preemptor_that_others_came_before_in_a_strict_queue_waits_no_more(*, leaves: bool) -> None:
    """What it waited for is kept for it no more, unless they leave; `why` has the same reason."""
    world = waiting(queueingStrategy="StrictFIFO")
    assert said(world, "one")[0] == "WaitingForPreemptedWorkloads"
    world.submit("urgent", 2, priority_class="highest").settle()
    if leaves:
        world.message("job.default.urgent", "JobDeleted", {}).settle()
    report = explained(world, "one", help_=False)
    rule = "WaitingForPreemptedWorkloads" if leaves else "PendingEvaluation"
    assert (report.rule, said(world, "one")[0]) == (rule, rule)


def test_who_is_kept_out_of_a_strict_queue_is_not_before_its_preemptor() -> None:
    """Neither who is gated, nor whose namespace the queue does not take: nobody waits behind those."""
    namespaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": name}}}
        for name in ("default", "elsewhere")
    ]
    selector = {"matchLabels": {"team": "default"}}
    world = waiting(*namespaces, queueingStrategy="StrictFIFO", namespaceSelector=selector)
    world.apply(local_queue(namespace="elsewhere"))
    gated = job("gated", priority_class="highest")
    gated["metadata"]["annotations"] = {"kueue.x-k8s.io/admission-gated-by": "example.com/budget"}
    world.message("job.default.gated", "JobSubmitted", gated).settle()
    foreign = job("foreign", priority_class="highest", namespace="elsewhere")
    world.message("job.elsewhere.foreign", "JobSubmitted", foreign).settle()
    assert said(world, "one")[0] == "WaitingForPreemptedWorkloads"
    (parked,) = world.events(WorkloadsParked)[-1:]
    assert parked.aside


def test_what_was_said_before_an_edit_of_a_strict_queue_counts_for_nobody_behind_its_head() -> None:
    """They are not looked at again before they are the head; `why` has no reason that the status has not."""
    world = waiting(queueingStrategy="StrictFIFO")
    world.submit("huge", 9, priority_class="middle").settle()
    world.message("job.default.one", "JobDeleted", {}).settle()
    world.message("job.default.two", "JobDeleted", {}).settle_all()
    assert said(world, "huge")[0] == "ExceedsMaxQuota"
    world.submit("head", 8, priority_class="high").settle()
    world.apply(cluster_queue({"res": 2}, {}, preemption=LEVELS, queueingStrategy="StrictFIFO")).settle()
    report = explained(world, "huge", help_=False)
    assert (report.rule, said(world, "huge")[0]) == ("PendingEvaluation", "PendingEvaluation")
    assert said(world, "head")[0] == "ExceedsMaxQuota"
