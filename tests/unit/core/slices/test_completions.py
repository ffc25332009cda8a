"""Sizes beyond what is left of a job's completions: the slice says at once which pods can never run."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from sluice.core.slices.state import Phase
from sluice.events.base import Event, WorkloadKey
from sluice.events.scheduler import QuotaReleased, WorkloadSliceWithdrawn
from sluice.events.slices import ReclaimablePodsUpdated, WorkloadStopped
from tests.support.slices_world import created, names, refused
from tests.unit.core.slices.test_resize import Elastic, elastic_manifest, running


@pytest.fixture
def world() -> Elastic:
    return Elastic()


def done(world: Elastic, count: int, pods: dict[str, int] | None = None) -> list[Event]:
    report = {"attempt": world.state_of().attempt, "pods": pods or {}, "succeeded": {"main": count}}
    return world.job("JobPodsReclaimable", report)


def not_needed(events: Sequence[Event]) -> list[tuple[WorkloadKey, dict[str, int]]]:
    return [(each.workload, each.pods) for each in events if isinstance(each, ReclaimablePodsUpdated)]


def by_scale(world: Elastic, size: int, **_: Any) -> list[Event]:
    return world.scale(main=size)


def by_manifest(world: Elastic, size: int, *, completions: int) -> list[Event]:
    return world.elastic(parallelism=size, completions=completions)


@pytest.mark.parametrize("ask", [by_scale, by_manifest])
def test_growth_beyond_what_is_left_to_do(world: Elastic, ask: Callable[..., list[Event]]) -> None:
    """Of three completions two are done: of three pods one can run, and only for that quota is asked."""
    running(world, 1, completions=3)
    assert names(done(world, 2)) == ["CompletionsUpdated"]
    events = ask(world, 3, completions=3)
    record = created(events).workload
    assert [pods.count for pods in record.pod_sets] == [3], "the size is what was asked for"
    assert not_needed(events) == [(record.key, {"main": 2})]
    # The executor is to know the size; what was said of the slice holds on when it speaks for the job.
    world.grow()
    assert world.pods() == {"main": (3, 3, 0)}
    assert world.state_of().reclaimable == {"main": 2}
    assert names(done(world, 2, {"main": 2})) == ["InputsIgnored"]
    world.verify()


def test_growth_within_what_is_left_to_do(world: Elastic) -> None:
    running(world, 1, completions=9)
    done(world, 4)
    assert names(world.scale(main=5)) == ["WorkloadCreated"]
    world.verify()


def test_what_is_left_falls_and_the_size_changes_while_the_growth_waits(world: Elastic) -> None:
    """Each size, and each report, is followed by what can never run of the growth."""
    running(world, 1, completions=9)
    second = created(world.scale(main=6)).workload.key
    assert not_needed(done(world, 4)) == [(second, {"main": 1})]
    events = done(world, 6)
    assert names(events) == ["CompletionsUpdated", "ReclaimablePodsUpdated"]
    assert not_needed(events) == [(second, {"main": 3})]
    # Never charged for more than before in between.
    assert names(world.scale(main=8)) == ["ReclaimablePodsUpdated", "WorkloadUpdated"]
    assert world.state_of().pending_reclaimable == {"main": 5}
    assert world.state_of().digest == b"", "the manifest is in force no more"
    assert names(world.scale(main=4)) == ["WorkloadUpdated", "ReclaimablePodsUpdated"]
    assert world.state_of().pending_reclaimable == {"main": 1}
    assert not_needed(world.scale(main=3)) == [(second, {})]
    assert names(done(world, 6)) == ["InputsIgnored"]
    world.verify()


def test_a_size_that_comes_while_a_growth_is_withdrawn(world: Elastic) -> None:
    running(world, 1, completions=4)
    done(world, 2)
    second = created(world.scale(main=4)).workload.key
    first = world.workload()
    world.scale(main=1)
    assert world.scale(main=4) == []
    world.put(WorkloadSliceWithdrawn(cause=world.seq, workload=second, running=first, message=""))
    events = world.settle()
    assert names(events) == ["WorkloadDeleted", "WorkloadCreated", "ReclaimablePodsUpdated"]
    assert not_needed(events)[0][1] == {"main": 2}
    world.verify()


def test_an_admission_that_was_decided_before_the_growth_of_a_growth(world: Elastic) -> None:
    """The further slice knows it, too."""
    running(world, 1, completions=9)
    done(world, 5)
    world.scale(main=5)
    world.scale(main=8)
    events = world.grow(main=5)
    assert names(events)[:2] == ["JobResized", "WorkloadUpdated"]
    assert [each["main"] for each in world.sizes()] == [5, 8]
    assert world.state_of().pending_reclaimable == {"main": 4}
    world.verify()


def test_the_next_attempt_has_everything_to_do_again(world: Elastic) -> None:
    """The job is evicted: it queues with the size that was asked for, and needs all of it."""
    running(world, 1, completions=3)
    done(world, 2)
    second = created(world.scale(main=3)).workload.key
    world.evict()
    world.put(QuotaReleased(cause=world.seq, workload=second))
    world.job("JobStopped", {"attempt": 1})
    assert world.state_of().remaining == {}
    events = world.release()
    assert names(events) == ["ReclaimablePodsUpdated", "WorkloadFinished"]
    assert not_needed(events) == [(second, {})]
    assert world.sizes() == [{"main": 3}]
    world.admit()
    assert world.state_of().reclaimable == {}
    assert names(world.scale(main=3)) == ["InputsIgnored"]
    world.verify()


def test_an_admission_beside_the_loss_of_the_executor(world: Elastic) -> None:
    """What was admitted for less than the next attempt needs does not run that: the job asks anew."""
    running(world, 1, completions=3)
    done(world, 2)
    world.scale(main=3)
    assert any(isinstance(each, WorkloadStopped) for each in world.job("JobStopped", {"attempt": 1}))
    events = world.grow()
    assert names(events) == ["WorkloadCreated", "WorkloadDeleted"]
    assert world.state_of().phase is Phase.PENDING
    world.verify()


def test_other_completions(world: Elastic) -> None:
    """More leave more to do. Of fewer nobody knows yet which are among those that are done."""
    running(world, 2, completions=4)
    done(world, 3)
    assert not_needed(world.elastic(parallelism=6, completions=8))[-1][1] == {"main": 1}
    world.grow()
    assert not_needed(world.elastic(parallelism=7, completions=7)) == []
    assert world.state_of().remaining == {}
    world.verify()
    assert not_needed(done(world, 2))[0][1] == {"main": 2}
    world.verify()


def test_a_manifest_with_neither_parallelism_nor_completions(world: Elastic) -> None:
    """Kubernetes' default is one of each: a larger size runs one pod, as with completions that are given."""
    made = elastic_manifest()
    del made["spec"]["parallelism"]
    world.job("JobSubmitted", made)
    world.admit()
    assert names(world.scale(main=3)) == ["InputsIgnored"]
    world.verify()


def test_who_does_not_say_what_is_done(world: Elastic) -> None:
    """An older executor: all pods are taken to be needed, until it says what has ended."""
    running(world, 1, completions=3)
    assert names(world.scale(main=3)) == ["WorkloadCreated"]
    world.verify()


@pytest.mark.parametrize("completions", [None, 3])
def test_nothing_follows_for_other_jobs(world: Elastic, completions: int | None) -> None:
    """Without completions, or a size that can change, what is done bounds nothing."""
    elastic = "true" if completions is None else "false"
    fields: dict[str, Any] = {} if completions is None else {"completions": completions}
    world.job("JobSubmitted", elastic_manifest(value=elastic, parallelism=2, **fields))
    world.admit()
    assert names(done(world, 1)) == ["InputsIgnored"]
    if elastic == "true":
        assert names(world.scale(main=4)) == ["WorkloadCreated"]
    world.verify()


def test_reports_that_cannot_be(world: Elastic) -> None:
    running(world, 1, completions=3)
    report: dict[str, Any] = {"pods": {}, "succeeded": {"main": -1}}
    assert refused(world.job("JobPodsReclaimable", report)) == [
        "succeeded[main]: Invalid value: -1: must be between 0 and 2147483647"
    ]
    report["succeeded"] = {"other": 1}
    assert refused(world.job("JobPodsReclaimable", report)) == ['succeeded[other]: Not found: "other"']
