"""No step of a decider is larger than a message, whatever it is about (`core.step_size`).

Once with real sizes, for what one job may bring; else with steps of a few kilobytes, in which everything is
decided in many parts: what is decided in the end is the same.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core import step_size
from sluice.core.workload.inputs import MAX_BYTES
from sluice.events.base import Event
from sluice.events.checks import ChecksReady, PreemptionsAllowed
from sluice.events.codec import decode_commit, encode_step
from sluice.events.scheduler import PendingPreemptionsIssued, Preempted, PreemptionIssued
from sluice.events.slices import WorkloadUpdated
from sluice.events.variants import VariantCreated, VariantUpdated
from sluice.log.contract import MAX_PAYLOAD
from sluice.log.writer import ENVELOPE_ROOM
from sluice.protocol.checks import VERDICT_MOST
from tests.support import checks_world
from tests.support.family_world import FamilyWorld, cell, cluster_queue, job
from tests.support.scheduler_cell import RECLAIMS, Cell, admitted, evicted, key, preempting
from tests.support.slices_world import World, manifest

ROOM = MAX_PAYLOAD - ENVELOPE_ROOM
NEARLY = MAX_BYTES - 20_000
"""Bytes of tolerations in a manifest that is hardly taken."""


def tolerations(size: int) -> list[dict[str, str]]:
    """Return tolerations that take about so many bytes in a manifest."""
    one = len('{"key":"example.com/key-000000","operator":"Exists"},')
    return [{"key": f"example.com/key-{i:06d}", "operator": "Exists"} for i in range(size // one)]


def with_tolerations(name: str, size: int, **extra: Any) -> dict[str, Any]:
    found = job(name, **extra)
    found["spec"]["template"]["spec"]["tolerations"] = tolerations(size)
    return found


def sizes(world: FamilyWorld) -> list[int]:
    """Return the sizes of all steps in the log."""
    commits = [entry.payload for entry in world.log if "." not in entry.suffix]
    return [len(encode_step(step)) for payload in commits for step in decode_commit(payload).steps]


def families_of(flavors: int, size: int, edited: int) -> FamilyWorld:
    """Return a cell with one job of so many variants, whose tolerations take *size* bytes, then *edited*."""
    world = cell(cluster_queue({f"f{n:02}": 0 for n in range(flavors)}))
    world.message("job.default.a", "JobSubmitted", with_tolerations("a", size))
    world.settle()
    variants = [event.workload for event in world.events(VariantCreated)]
    assert [variant.preference for variant in variants] == list(range(flavors))
    assert len({variant.uid for variant in variants}) == flavors
    assert world.active("a") == [f"f{n:02}" for n in range(flavors)]
    world.message("job.default.a", "JobSubmitted", with_tolerations("a", edited, parallelism=2))
    world.settle()
    for variant in world.variants("a").values():
        assert variant.record.pod_sets[0].count == 2
        assert len(variant.record.pod_sets[0].tolerations) == len(tolerations(edited))
    assert len(world.events(VariantUpdated, VariantCreated)) >= 2 * flavors
    return world


def test_a_family_as_large_as_can_be() -> None:
    """One parent's variants, and what has changed of it for them, may be more than a step holds (CA4)."""
    assert max(sizes(families_of(16, NEARLY, NEARLY - 1000))) <= ROOM


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 16), st.integers(0, 4000), st.integers(0, 4000), st.sampled_from((1500, 6000, 30_000)))
def test_a_family_in_small_steps(flavors: int, size: int, edited: int, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_size, "MOST", most)
        families_of(flavors, size, edited).verify()


def test_small_messages_about_large_jobs() -> None:
    """A size of a few bytes says anew what the whole pod set is; a limit range, of all that wait."""
    world = World()
    for n in range(12):
        large = manifest(f"j{n}")
        large["spec"]["template"]["spec"]["tolerations"] = tolerations(NEARLY)
        world.job("JobSubmitted", large, f"j{n}")
    for n in range(12):
        world.message(f"job.default.j{n}", "JobScaled", {"podSets": {"main": 3}})
    changed = world.settle()
    assert sum(isinstance(event, WorkloadUpdated) for event in changed) == 12
    most = {"limits": [{"type": "Container", "defaultRequest": {"memory": "1Gi"}}]}
    changed = world.apply_object("LimitRange", "all", "default", spec=most)
    assert sum(isinstance(event, WorkloadUpdated) for event in changed) == 12
    assert max(len(encode_step(step)) for step in world.steps) <= ROOM


def test_many_verdicts_at_once() -> None:
    """A controller that says much while the service is away: all of it is answered, in many steps."""
    world = checks_world.world("slow")
    key = world.create("a")
    world.reserve(key)
    world.settle()
    for n in range(3 * ROOM // VERDICT_MOST):
        text = f"{n}" * (VERDICT_MOST // 2 // len(f"{n}"))
        updates = [{"name": "main", "annotations": {"example.com/text": text}}]
        world.say(key, "slow", "Ready", podSetUpdates=updates)
    before = len(world.log)
    assert world.settle()
    steps = [step for e in world.log[before:] for step in decode_commit(e.payload).steps]
    assert max(len(encode_step(step)) for step in steps) <= ROOM
    world.verify()


# In steps of a few kilobytes


@pytest.fixture(params=[1500, 4000, 20_000])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_size, "MOST", request.param)


in_small_steps = pytest.mark.usefixtures("small")


def told(cell: Cell) -> tuple[list[Event], int]:
    """Settle; return all that was decided, and in how many steps."""
    found: list[Event] = []
    for steps in range(1000):
        events = cell.decide_once()
        if not events:
            return found, steps
        assert step_size.fits(events) or len(events) <= 3, [type(event).__name__ for event in events]
        found += events
    raise AssertionError("never settles")


def full(queues: Sequence[str], jobs: int, **spec: Any) -> Cell:
    """Return a cell in which so many jobs of one cpu run in each queue, and nothing is free."""
    cell = Cell()
    for name in queues:
        cell.queue(name, cpu=jobs, cohort="c", preemption=RECLAIMS, **spec)
        for n in range(jobs):
            cell.submit(f"{name}-{n}", name)
    return cell


@in_small_steps
def test_a_job_that_preempts_very_many() -> None:
    """All its victims are told, however many steps that takes; it waits for all of them from the first on."""
    cell = full(["a"], 60)
    told(cell)
    cell.submit("large", "a", cpu=50, priority=10)
    events, steps = told(cell)
    victims = [event.workload for event in events if isinstance(event, Preempted)]
    assert len(victims) == len(set(victims)) == 50 == len(evicted(events))
    waits = [event for event in events if isinstance(event, PreemptionIssued)]
    assert [event.more for event in waits] == [True] * (len(waits) - 1) + [False]
    assert sorted(waits[-1].victims) == sorted(victims)
    assert all(set(event.victims) == set(victims) for event in waits), "it waits for fewer meanwhile"
    assert steps > 1 or step_size.fits(events)
    cell.stopped(*(name.partition("/")[2] for name in victims))
    assert admitted(told(cell)[0]) == ["large"]


@in_small_steps
def test_nobody_takes_what_it_waits_for_in_between() -> None:
    """Who stops after the first part makes no room for others."""
    cell = full(["a", "b"], 30)
    told(cell)
    cell.submit("large", "a", cpu=20, priority=10)
    first = cell.decide_once()
    cell.stopped(*evicted(first))
    cell.submit("small", "a", priority=5)
    events = [*first, *told(cell)[0]]
    assert admitted(events) == ["large"] if len(evicted(first)) == 20 else admitted(events) == []
    assert len(evicted(events)) == 20


@in_small_steps
def test_many_preemptors_and_parked_ones() -> None:
    """A cycle that is cut goes on with the next entry; in the end as many have got what they need."""
    queues = [f"q{n}" for n in range(12)]
    cell = full(queues, 4)
    told(cell)
    for name in queues:
        cell.submit(f"{name}-high", name, cpu=3, priority=10)
        cell.submit(f"{name}-huge", name, cpu=99)
    events, _ = told(cell)
    assert len(evicted(events)) == 36
    assert set(preempting(events)) == {f"{name}-high" for name in queues}
    for name in queues:
        assert cell.reason(f"{name}-huge")[0]
    cell.stopped(*evicted(events))
    assert sorted(admitted(told(cell)[0])) == sorted(f"{name}-high" for name in queues)


@in_small_steps
def test_a_queue_that_is_drained() -> None:
    """All that run in it are evicted, in as many steps as that takes."""
    cell = full(["a"], 60)
    told(cell)
    cell.queue("a", cpu=60, cohort="c", preemption=RECLAIMS, stopPolicy="HoldAndDrain")
    events, _ = told(cell)
    assert len(evicted(events)) == 60
    cell.queue("a", cpu=60, cohort="c", preemption=RECLAIMS)
    cell.stopped(*evicted(events))
    assert len(admitted(told(cell)[0])) == 60


@in_small_steps
def test_pending_preemptions_of_very_many() -> None:
    """AC6: they are issued with the last victim that is told; when all have gone the claimant is admitted."""
    cell = Cell()
    cell.configure(
        "AdmissionCheck", "late", {"controllerName": "c", "preemptionPolicy": "AfterCheckPassedOrOnDemand"}
    )
    checks: dict[str, Any] = {"admissionChecksStrategy": {"admissionChecks": [{"name": "late"}]}}
    cell.queue("a", cpu=40, preemption=RECLAIMS, **checks)
    low = [f"low-{n}" for n in range(40)]
    for name in low:
        cell.submit(name, "a")
    told(cell)
    for name in low:
        cell.put(ChecksReady(cause=0, workload=key(name), attempt=1))
    assert len(admitted(told(cell)[0])) == 40
    large = key("large")
    assert evicted(told(cell.submit("large", "a", cpu=30, priority=10))[0]) == []
    cell.put(PreemptionsAllowed(cause=0, workload=large, attempt=1, reason="PreemptionRequired"))
    events, _ = told(cell)
    victims = evicted(events)
    assert len(victims) == len(set(victims)) == 30
    issued = [event for event in events if isinstance(event, PendingPreemptionsIssued)]
    assert [sorted(event.victims) for event in issued] == [sorted(f"ns/{name}" for name in victims)]
    cell.put(ChecksReady(cause=0, workload=large, attempt=1))
    assert admitted(told(cell)[0]) == []
    cell.stopped(*victims)
    assert admitted(told(cell)[0]) == ["large"]
