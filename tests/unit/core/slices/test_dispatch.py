"""Where pods go: what flavors and checks add to the template's own placement (AC2)."""

from typing import Any

from sluice.api.core_v1 import Toleration
from sluice.api.kueue import PodSetUpdate
from sluice.events.checks import ChecksRequested, CheckStateChanged
from sluice.events.scheduler import Admitted
from sluice.events.slices import Rejected
from sluice.protocol.dispatch import DispatchPodSet
from tests.support.slices_world import World

RESERVED = Toleration(key="reserved", operator="Exists")


def asked(world: World, *checks: str, attempt: int = 1) -> None:
    """These checks count for the job `a`."""
    world.put(ChecksRequested(cause=0, workload=world.workload(), attempt=attempt, checks=checks))


def said(world: World, check: str, state: str = "Ready", attempt: int = 1, **update: Any) -> None:
    """A check of the job `a` says *state*, and what is to be added to its pods."""
    updates = (PodSetUpdate(name="main", **update),) if update else ()
    world.put(
        CheckStateChanged(
            cause=0,
            workload=world.workload(),
            check=check,
            state=state,
            attempt=attempt,
            pod_set_updates=updates,
        )
    )
    world.settle()


def placed(world: World) -> DispatchPodSet:
    entry = world.dispatch()
    assert entry is not None
    (pods,) = entry.pod_sets
    return pods


def reserved() -> World:
    world = World()
    world.apply_object("ResourceFlavor", "default", spec={"nodeLabels": {"pool": "any", "zone": "a"}})
    world.submit()
    world.reserve()
    asked(world, "a", "b", "c")
    return world


def test_what_checks_add_is_dispatched() -> None:
    """Labels, annotations, selector and tolerations of all checks, beside those of the flavor."""
    world = reserved()
    said(world, "b", labels={"team": "x"}, node_selector={"pool": "gpu"})
    said(world, "a", annotations={"provisioned": "yes"}, tolerations=[RESERVED])
    said(world, "c")
    world.admit()

    pods = placed(world)

    assert pods.node_selector == {"pool": "gpu", "zone": "a"}
    assert pods.labels == {"team": "x"}
    assert pods.annotations == {"provisioned": "yes"}
    assert list(pods.tolerations) == [RESERVED]
    world.verify()


def test_what_a_check_takes_back_is_not_dispatched() -> None:
    """Only what a check that is Ready says now counts."""
    world = reserved()
    said(world, "a", labels={"team": "x"})
    said(world, "a", "Pending")
    said(world, "b", labels={"team": "y"})
    said(world, "b", labels={"zone": "z"})
    world.admit()

    assert placed(world).labels == {"zone": "z"}
    world.verify()


def test_another_attempt_begins_without_what_was_added() -> None:
    """An eviction resets checks (AC4), and with them what they added."""
    world = reserved()
    said(world, "a", node_selector={"pool": "gpu"})
    world.admit()
    world.evict()
    world.job("JobStopped", {"attempt": 1})
    world.release()
    world.admit()

    entry = world.dispatch()
    assert entry is not None
    assert entry.attempt == 2
    assert placed(world).node_selector == {"pool": "any", "zone": "a"}
    world.verify()


def test_what_was_added_when_the_job_was_admitted_stays() -> None:
    """A check that has second thoughts before the job is started does not take its node selector away."""
    world = reserved()
    said(world, "a", node_selector={"rack": "r1"})
    world.put(Admitted(cause=world.seq, workload=world.workload()))
    said(world, "a", "Pending")

    assert placed(world).node_selector == {"pool": "any", "zone": "a", "rack": "r1"}
    world.verify()


def test_a_check_that_does_not_count_any_more_adds_nothing() -> None:
    """The queue's checks were edited while the job waited for them."""
    world = reserved()
    said(world, "a", labels={"team": "x"})
    said(world, "b", labels={"zone": "z"})
    asked(world, "b", "c")
    world.admit()

    assert placed(world).labels == {"zone": "z"}
    world.verify()


def test_what_is_said_of_an_earlier_reservation_adds_nothing() -> None:
    """The check service had not heard of the release."""
    world = reserved()
    world.evict()
    world.release()
    said(world, "a", labels={"team": "x"})
    world.reserve()
    asked(world, "b", attempt=2)
    said(world, "a", labels={"team": "x"})
    said(world, "b", attempt=2, labels={"zone": "z"})
    world.admit()

    assert placed(world).labels == {"zone": "z"}
    world.verify()


def test_an_entry_says_behind_what_its_attempt_stands() -> None:
    """What was reported of an attempt before there was one is not about it; also when it starts again."""
    world = World()
    world.submit()
    (refused,) = world.job("JobFinished", {"success": True, "attempt": 1})
    assert isinstance(refused, Rejected)
    world.reserve()
    world.put(Admitted(cause=world.seq, workload=world.workload()))
    world.message("job.default.a", "JobFinished", {"success": True, "attempt": 1})
    early = world.seq
    said = world.settle()
    assert [type(event).__name__ for event in said] == ["Rejected", "JobResumed"]
    first = world.dispatch()
    assert first is not None
    assert early <= first.since <= world.seq
    world.evict()
    world.job("JobStopped", {"attempt": 1})
    stopped = world.seq
    world.admit()
    second = world.dispatch()
    assert second is not None
    assert second.attempt == 2
    assert stopped < second.since <= world.seq
