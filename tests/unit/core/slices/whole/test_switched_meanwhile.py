"""People and the system switch jobs off and on, and hear of each other later: the last word counts."""

from typing import Any

import pytest

from sluice.core.views import View
from sluice.core.workload.deactivation import is_overtaken
from sluice.events.base import WorkloadKey
from sluice.events.scheduler import QuotaReleased, QuotaReserved, WorkloadDeactivated
from sluice.events.variants import ParentAdmitted, ParentDeactivated, ParentMarked
from tests.support.elastic_cell import Cell
from tests.support.family_world import cell as family_cell
from tests.support.family_world import cluster_queue
from tests.support.family_world import job as family_job
from tests.support.memory_log import World
from tests.support.objects import configuration

LIMIT_S = 30
SOON_AGAIN = {"enable": True, "timeoutSeconds": 2, "requeuingStrategy": {"backoffBaseSeconds": 1}}
LABELS = "kueue.x-k8s.io/"


def gate(*, on: bool) -> dict[str, Any]:
    return configuration(featureGates={"ConcurrentAdmission": on})


def switch(world: World, *states: bool) -> None:
    for active in states:
        world.message("a", "JobActivated" if active else "JobDeactivated", {})
        world.step("slices")


def shown(world: World) -> dict[WorkloadKey, bool]:
    """Return what people see."""
    view = View()
    for event, seq, at in world.dated():
        view.apply(event, seq, at)
    return {key: w.active for key, w in view.workloads.items() if w.finished_at is None}


def agreed(world: Cell) -> bool:
    """Return what all say of the only workload that is left."""
    (scheduled,) = world.scheduler.state.world.workloads.values()
    (job,) = world.slices.state.jobs.values()
    assert scheduled.active == job.record.active == shown(world)[scheduled.key]
    return scheduled.active


def running() -> Cell:
    world = Cell()
    world.queue("q", 8)
    world.submit("a", "q", 2, maximumExecutionTimeSeconds=LIMIT_S).settle()
    return world


@pytest.mark.parametrize("states", [(False, True), (False,), (False, True, False)])
def test_what_people_say_later_counts(states: tuple[bool, ...]) -> None:
    """The scheduler decided before it heard of it, and says so after it."""
    world = running()
    world.now += LIMIT_S * 1_000_000 + 1
    scheduler = world.scheduler
    seen = len(world.log)
    steps = world.decide(scheduler)
    switch(world, *states)
    assert scheduler.seen <= seen
    world.commit("scheduler", steps)
    world.settle()
    assert world.events(WorkloadDeactivated)
    assert agreed(world) == states[-1]


@pytest.mark.parametrize("states", [(False, True), (False,)])
def test_what_the_system_says_later_counts(states: tuple[bool, ...]) -> None:
    world = running()
    switch(world, *states)
    world.settle()
    switch(world, True)
    world.settle()
    world.run_until(LIMIT_S + 1)
    assert world.events(WorkloadDeactivated)
    assert not agreed(world)


@pytest.mark.parametrize("people", [(), (False, True)])
def test_who_takes_over_is_switched_off_as_its_predecessor(people: tuple[bool, ...]) -> None:
    """The slice-aggregator lets go of the old slice before it hears that this one's time is over."""
    world = Cell()
    world.apply(configuration(waitForPodsReady=SOON_AGAIN))
    world.queue("q", 8)
    world.submit("a", "q", 2, maximumExecutionTimeSeconds=3).settle()
    world.scale("a", 12).settle()
    world.now += 2_000_000
    world.settle(executor=False)
    world.now += 2_000_000
    world.report("a", "JobStopped")
    world.step("slices")
    world.scheduler.fold(world.log)
    steps = world.decide(world.scheduler)
    said = [[type(event) for event in step.events] for step in steps]
    upto = next(n for n, events in enumerate(said) if QuotaReleased in events) + 1
    assert any(WorkloadDeactivated in events for events in said[upto:])
    world.commit("scheduler", steps[:upto])
    world.step("slices")
    switch(world, *people)
    world.commit("scheduler", steps[upto:])
    world.settle()
    assert agreed(world) == bool(people)


@pytest.mark.parametrize(("switched", "active"), [(0, False), (1, True)])
def test_a_racing_job_obeys_the_last_word_as_well(switched: int, active: bool) -> None:
    world = family_cell(cluster_queue({"best": 2, "other": 2}))
    manifest = family_job("a")
    manifest["metadata"]["labels"][f"{LABELS}max-exec-time-seconds"] = str(LIMIT_S)
    world.message("a", "JobSubmitted", manifest).settle_all()
    world.settle(LIMIT_S)
    world.obey()
    world.step("slices")
    controller = world.services["variants"]
    controller.fold(world.log)
    steps = world.decide(controller)
    assert any(isinstance(event, ParentDeactivated) for step in steps for event in step.events)
    if switched:
        switch(world, False, True)
    world.commit("variants", steps)
    world.settle_all()
    (job,) = world.services["slices"].state.jobs.values()
    family = controller.state.families[job.record.key]
    assert job.record.active == family.active == shown(world)[job.record.key] == active


@pytest.mark.parametrize("again", [False, True])
def test_who_is_out_of_time_does_not_run_again_as_a_parent(again: bool) -> None:
    """It had quota of its own then, and races only since its queue does; whoever activates it means it."""
    world = family_cell(cluster_queue({"best": 2, "other": 2}))
    world.apply(gate(on=False))
    manifest = family_job("a")
    manifest["metadata"]["labels"][f"{LABELS}max-exec-time-seconds"] = str(LIMIT_S)
    world.message("a", "JobSubmitted", manifest).settle_all()
    world.settle(LIMIT_S)
    world.obey()
    world.settle_all()
    world.apply(gate(on=True)).settle_all()
    if again:
        switch(world, True)
        world.settle_all()
    (family,) = world.services["variants"].state.families.values()
    assert world.events(ParentMarked)
    assert len(world.events(QuotaReserved)) == 1 + again
    assert family.active == shown(world)[family.key] == again
    assert bool(world.events(ParentAdmitted)) == again


@pytest.mark.parametrize("again", [False, True])
def test_who_is_out_of_time_as_a_parent_does_not_run_again_without_variants(again: bool) -> None:
    """The other way round: it has quota of its own next, if somebody activates it."""
    world = family_cell(cluster_queue({"best": 2, "other": 2}))
    manifest = family_job("a")
    manifest["metadata"]["labels"][f"{LABELS}max-exec-time-seconds"] = str(LIMIT_S)
    world.message("a", "JobSubmitted", manifest).settle_all()
    world.settle(LIMIT_S)
    world.obey()
    world.settle_all()
    assert world.events(ParentDeactivated)
    admissions = len(world.events(QuotaReserved))
    world.apply(gate(on=False)).settle_all()
    if again:
        switch(world, True)
        world.settle_all()
    (workload,) = world.services["scheduler"].state.world.workloads.values()
    assert workload.active == shown(world)[workload.key] == again
    assert len(world.events(QuotaReserved)) == admissions + again


def test_a_variant_that_was_switched_on_again_is_so_for_all() -> None:
    """The scheduler gave it up before it heard of that, and will hear of it."""
    world = family_cell(cluster_queue({"best": 2, "other": 2}))
    manifest = family_job("a")
    manifest["metadata"]["labels"][f"{LABELS}max-exec-time-seconds"] = str(LIMIT_S)
    world.message("a", "JobSubmitted", manifest).settle_all()
    world.now += LIMIT_S * 1_000_000 + 1
    scheduler, controller = world.services["scheduler"], world.services["variants"]
    steps = world.decide(scheduler)
    for active in (False, True):
        switch(world, active)
        world.step("variants")
    world.commit("scheduler", steps)
    world.settle_all()
    (given_up,) = [e.workload for e in world.events(WorkloadDeactivated)]
    (family,) = controller.state.families.values()
    scheduled = scheduler.state.world.workloads[given_up]
    assert family.variants[given_up].active == scheduled.active == shown(world)[given_up]
    assert family.active


@pytest.mark.parametrize(("observed", "overtaken"), [(None, False), (0, True), (6, True), (7, False)])
def test_a_deactivation_is_overtaken_by_what_its_writer_had_not_heard_of(
    observed: int | None, overtaken: bool
) -> None:
    """Old logs do not say what that is: there it counts."""
    event = WorkloadDeactivated(cause=9, workload=WorkloadKey("a/b"), reason="x", observed_switch=observed)
    assert is_overtaken(event, 7) is overtaken
    assert not is_overtaken(event, 0)
