"""Storms of resizes with late readers, restarts and preemption: what must hold of elastic jobs (WS1-WS7)."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core.slices.state import Phase
from sluice.events.base import JobKey
from tests.support.elastic_cell import ELASTIC, Cell
from tests.support.examples import examples

JOBS = ("a", "b", "c")


def cell(cpu: int = 8) -> Cell:
    made = Cell()
    made.queue("left", cpu, "all", preemption={"withinClusterQueue": "LowerPriority"})
    made.queue("right", cpu, "all", preemption={"reclaimWithinCohort": "Any"}).settle()
    return made


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("scale"), st.sampled_from(JOBS), st.integers(0, 12)),
        st.tuples(st.just("submit"), st.sampled_from(JOBS), st.integers(1, 8), st.integers(0, 2)),
        st.tuples(st.just("rigid"), st.sampled_from(("x", "y")), st.integers(1, 8), st.integers(0, 3)),
        st.tuples(st.just("delete"), st.sampled_from((*JOBS, "x", "y"))),
        st.tuples(st.just("finish"), st.sampled_from((*JOBS, "x", "y"))),
        st.tuples(st.just("reclaim"), st.sampled_from(JOBS), st.integers(0, 4)),
        st.tuples(st.just("gate"), st.booleans()),
        st.tuples(st.just("scheduler"), st.integers(0, 4)),
        st.tuples(st.just("slices"), st.integers(0, 4)),
        st.tuples(st.just("answer")),
        st.tuples(st.just("ready")),
        st.tuples(st.just("restart"), st.booleans()),
    ),
    min_size=4,
    max_size=40,
)


def play(world: Cell, step: tuple[Any, ...]) -> None:
    match step:
        case ("scale", job, count):
            world.scale(job, count)
        case ("submit", job, count, priority):
            world.submit(job, "left" if job != "c" else "right", count, priority=priority)
        case ("rigid", job, count, priority):
            world.submit(job, "right" if job == "y" else "left", count, elastic=False, priority=priority)
        case ("delete", job):
            world.message(job, "JobDeleted", {})
        case ("finish", job):
            world.message(job, "JobFinished", {})
        case ("reclaim", job, count):
            world.message(job, "JobPodsReclaimable", {"pods": {"main": count}})
        case ("gate", on):
            world.configure("Configuration", "default", {"featureGates": {"ReclaimablePods": on}})
        case ("shown",):
            world.settle(ready=True)
            world.check_settled()
        case ("scheduler", most):
            world.step("scheduler", most)
        case ("slices", most):
            world.step("slices", most)
        case ("answer",):
            world.obey()
        case ("ready",):
            world.say_ready()
        case ("checks", ready):
            world.checks_say(ready=ready)
        case ("reject",):
            world.checks_reject()
        case ("restart", which):
            (world.scheduler if which else world.slices).restart()


@settings(max_examples=examples(60), deadline=None)
@given(STEPS)
def test_storm(steps: list[tuple[Any, ...]]) -> None:
    """No pod beyond quota, two slices at most, and a log that decides the same again, whatever the timing."""
    world = cell()
    for step in steps:
        play(world, step)
    world.settle(ready=True)
    world.check()
    world.check_settled()
    for key, job in world.slices.state.jobs.items():
        live = [w for w in world.scheduler.state.world.workloads.values() if w.record.job.key == key]
        assert {w.key for w in live} == {job.record.key, *([job.pending.key] if job.pending else [])}
        if job.reserved and not job.reclaimable:
            assert world.running(key) == world.charged(key)
    world.verify()


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 3), st.integers(0, 3)), max_size=25))
def test_resizes_within_quota_are_all_had(resizes: list[tuple[int, int, int]]) -> None:
    """With room for everything, the job ends with the last size, in its first attempt: nothing stopped."""
    world = cell(100)
    world.submit("a", "left", 3).settle()
    for count, first, second in resizes:
        world.scale("a", count)
        world.step("slices", first)
        world.step("scheduler", second)
    world.settle()
    job = world.slices.state.jobs[JobKey("default/a")]
    assert job.attempt == 1
    assert job.pending is None
    assert world.running(job.key) == world.charged(job.key) == (resizes[-1][0] if resizes else 3)
    world.verify()


@settings(max_examples=examples(35), deadline=None)
@given(
    st.booleans(),
    st.lists(
        st.tuples(st.integers(1, 9), st.integers(0, 3), st.integers(0, 3), st.booleans(), st.booleans()),
        min_size=2,
        max_size=12,
    ),
)
def test_growth_that_is_taken_back_leaves_the_job_alone(
    checked: bool, resizes: list[tuple[int, int, int, bool, bool]]
) -> None:
    """Whatever it waits for, and whoever reads late: a healthy job is never stopped, nor not ready."""
    world = Cell()
    world.configure("Configuration", "default", {"waitForPodsReady": {"enable": True, "timeoutSeconds": 60}})
    world.configure("AdmissionCheck", "gpu", {"controllerName": "x"})
    strategy = {"admissionChecks": [{"name": "gpu"}] if checked else []}
    policy = {"withinClusterQueue": "LowerPriority"}
    world.queue("left", 6, preemption=policy, admissionChecksStrategy=strategy)
    world.submit("x", "left", 2, elastic=False)
    world.submit("a", "left", 3, priority=10).settle(ready=True)
    world.checks_say(ready=True)
    world.settle(ready=True)
    job = world.slices.state.jobs[JobKey("default/a")]
    assert world.running(job.key) == 3
    for count, first, second, answered, told in resizes:
        world.scale("a", count)
        world.step("slices", first)
        world.step("scheduler", second)
        if answered:
            world.checks_say(ready=True)
        if told:
            world.say_ready()
    world.settle(ready=True)
    while world.checks_say(ready=True):
        world.settle(ready=True)
    world.check_settled()
    world.now += 61_000_000
    world.settle(ready=True)
    assert (job.attempt, job.phase) == (1, Phase.RUNNING)
    assert world.running(job.key) == world.charged(job.key) <= max(count for count, *_ in resizes)
    world.verify()


CHECKED_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("scale"), st.sampled_from(JOBS), st.integers(1, 12)),
        st.tuples(st.just("submit"), st.sampled_from(JOBS), st.integers(1, 8), st.integers(0, 2)),
        st.tuples(st.just("rigid"), st.sampled_from(("x", "y")), st.integers(1, 8), st.integers(0, 3)),
        st.tuples(st.just("delete"), st.sampled_from((*JOBS, "x", "y"))),
        st.tuples(st.just("checks"), st.booleans()),
        st.tuples(st.just("reclaim"), st.sampled_from(JOBS), st.integers(0, 4)),
        st.tuples(st.just("gate"), st.booleans()),
        st.tuples(st.just("shown")),
        st.tuples(st.just("reject")),
        st.tuples(st.just("scheduler"), st.integers(0, 4)),
        st.tuples(st.just("slices"), st.integers(0, 4)),
        st.tuples(st.just("answer")),
        st.tuples(st.just("ready")),
        st.tuples(st.just("restart"), st.booleans()),
    ),
    min_size=4,
    max_size=40,
)


@settings(max_examples=examples(35), deadline=None)
@given(st.sampled_from(("Anytime", "AfterCheckPassedOrOnDemand")), CHECKED_STEPS)
def test_storm_through_checks(policy: str, steps: list[tuple[Any, ...]]) -> None:
    """Between reservation and admission too: both slices charge what either needs, also as a claim (AC6)."""
    world = Cell()
    world.configure("AdmissionCheck", "gpu", {"controllerName": "x", "preemptionPolicy": policy})
    strategy = {"admissionChecks": [{"name": "gpu"}]}
    for name, preemption in (("left", "withinClusterQueue"), ("right", "reclaimWithinCohort")):
        policies = {preemption: "LowerPriority" if name == "left" else "Any"}
        world.queue(name, 8, "all", preemption=policies, admissionChecksStrategy=strategy)
    world.settle()
    for step in steps:
        play(world, step)
    for _ in range(50):
        world.settle()
        if not world.checks_say(ready=True):
            break
    world.settle(ready=True)
    world.check()
    world.check_settled()
    for key, job in world.slices.state.jobs.items():
        if job.reserved and job.admitted:
            assert world.running(key) == world.charged(key)
    world.verify()


COMPLETIONS = 9

PARTLY_DONE = st.lists(
    st.one_of(
        st.tuples(st.just("scale"), st.just("a"), st.integers(1, 14)),
        st.tuples(st.just("edit"), st.integers(1, 9)),
        st.tuples(st.just("do"), st.just("a"), st.integers(0, 4)),
        st.tuples(st.just("rigid"), st.sampled_from(("x", "y")), st.integers(1, 8), st.integers(0, 3)),
        st.tuples(st.just("delete"), st.sampled_from(("x", "y"))),
        st.tuples(st.just("checks"), st.booleans()),
        st.tuples(st.just("scheduler"), st.integers(0, 4)),
        st.tuples(st.just("slices"), st.integers(0, 4)),
        st.tuples(st.just("answer")),
        st.tuples(st.just("shown")),
        st.tuples(st.just("stop")),
        st.tuples(st.just("again"), st.booleans(), st.integers(1, 3)),
        st.tuples(st.just("restart"), st.booleans()),
    ),
    min_size=4,
    max_size=30,
)


@settings(max_examples=examples(50), deadline=None)
@given(st.sampled_from(("", "Anytime", "AfterCheckPassedOrOnDemand")), PARTLY_DONE)
def test_growth_of_a_job_that_is_partly_done(policy: str, steps: list[tuple[Any, ...]]) -> None:
    """What is done is not run again, so nobody goes for it (the log would tell); the rest runs."""
    world = Cell()
    if policy:
        world.configure("AdmissionCheck", "gpu", {"controllerName": "x", "preemptionPolicy": policy})
    strategy = {"admissionChecks": [{"name": "gpu"}] if policy else []}
    world.queue("left", 8, "all", preemption={"reclaimWithinCohort": "Any"}, admissionChecksStrategy=strategy)
    world.queue("right", 2, "all", preemption={"reclaimWithinCohort": "Any"})
    world.submit("a", "left", 2, completions=COMPLETIONS).settle()
    world.checks_say(ready=True)
    world.settle(ready=True)
    key = JobKey("default/a")
    assert world.running(key) == 2
    for step in steps:
        match step:
            case ("do", job, more):
                world.do(job, COMPLETIONS, more)
            case ("edit", size):
                world.submit("a", "left", size, completions=COMPLETIONS)
            case ("stop",):
                if (job := world.slices.state.jobs.get(key)) is not None:
                    world.message("a", "JobStopped", {"attempt": job.attempt})
            case ("again", deleted, size):
                world.message("a", *(("JobDeleted", {}) if deleted else ("JobFinished", {})))
                world.submit("a", "left", size, completions=COMPLETIONS)
            case _:
                play(world, step)
    for _ in range(50):
        world.settle(ready=True)
        world.do("a", COMPLETIONS, 0).settle(ready=True)
        if not world.checks_say(ready=True):
            break
    world.check()
    world.check_settled()
    job = world.slices.state.jobs[key]
    if job.reserved and job.admitted:
        assert world.running(key) == world.charged(key)
    world.verify()


def checked_cell(running: dict[str, int]) -> Cell:
    """Return a cell with room, where a job runs in a queue with a check, with so many pods of each set."""
    world = Cell()
    world.configure("AdmissionCheck", "gpu", {"controllerName": "x"})
    world.queue("left", 20, admissionChecksStrategy={"admissionChecks": [{"name": "gpu"}]})
    metadata = {"name": "a", "namespace": "default", "annotations": {ELASTIC: "true"}}
    groups = [
        {"name": name, "replicas": count, "resources": {"cpu": 1}, "command": ["true"]}
        for name, count in running.items()
    ]
    spec = {"queueName": "left", "podSets": groups}
    manifest = {"apiVersion": "sluice.dev/v1alpha1", "kind": "Job", "metadata": metadata, "spec": spec}
    world.message("a", "JobSubmitted", manifest).settle(ready=True)
    world.checks_say(ready=True)
    world.settle(ready=True)
    assert world.running(JobKey("default/a")) == sum(running.values())
    return world


@pytest.mark.parametrize(
    ("running", "sizes"),
    [
        pytest.param({"main": 2}, [{"main": 2}, {"main": 5}, {"main": 4}], id="to the pods that run"),
        pytest.param({"main": 2}, [{"main": 1}, {"main": 4}], id="to fewer"),
        pytest.param(
            {"main": 2}, [{"main": 1}, {"main": 2}, {"main": 4}], id="to fewer, and up in two steps"
        ),
        pytest.param({"a": 2, "b": 2}, [{"a": 2, "b": 4}], id="in one pod set, for another"),
    ],
)
def test_a_growth_taken_back_and_asked_for_again_begins_anew(
    running: dict[str, int], sizes: list[dict[str, int]]
) -> None:
    """WS3: sizes that come at once are as good as one by one; what checks approve is what the job gets."""
    world = checked_cell(running)
    job = world.slices.state.jobs[JobKey("default/a")]
    first, last = next(iter(running)), sum({**running, **sizes[-1]}.values())
    world.message("a", "JobScaled", {"podSets": {first: 4}}).settle(ready=True)
    assert world.checks_asked() == [4 - running[first] + sum(running.values())]
    for size in sizes:
        world.message("a", "JobScaled", {"podSets": size})
    world.settle(ready=True)
    assert world.checks_asked() == [last]
    world.checks_say(ready=True)
    world.settle(ready=True)
    assert world.running(job.key) == world.charged(job.key) == last
    assert (job.attempt, job.pending) == (1, None)
    world.check_settled()
    world.verify()
