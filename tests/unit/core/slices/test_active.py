"""Jobs that people deactivate and activate: the message is answered, whatever the job does."""

from typing import Any

import pytest

from sluice.events.scheduler import WorkloadDeactivated
from sluice.events.slices import InputsIgnored, WorkloadUpdated
from tests.support.slices_world import World, names, refused


@pytest.mark.parametrize("state", ["pending", "reserved", "running"])
def test_off_and_on_again(world: World, state: str) -> None:
    """One event each, and none when it is so already."""
    world.submit()
    if state == "reserved":
        world.reserve()
    elif state == "running":
        world.admit()
    for event_type, active in (("JobDeactivated", False), ("JobActivated", True)):
        event: Any
        (event,) = world.job(event_type, {"message": "maintenance"})
        assert (event.workload, event.active, event.message) == (world.workload(), active, "maintenance")
        assert world.state_of().record.active is active
        (event,) = world.job(event_type, {})
        assert event == InputsIgnored(cause=world.seq, seqs=(world.seq,), reason="Duplicate")


def test_what_the_system_deactivated_is_activated(world: World) -> None:
    """Rejected by a check, failed too often: whoever activates it means it."""
    world.submit()
    world.put(WorkloadDeactivated(cause=0, workload=world.workload(), reason="AdmissionCheck"))
    (event,) = world.job("JobActivated", {})
    assert event == WorkloadUpdated(cause=world.seq, workload=world.workload(), active=True)


def test_a_job_that_is_unknown_or_over(world: World) -> None:
    """Refused, or too late."""
    assert refused(world.job("JobActivated", {}, "nobody")) == ['subject: Not found: "default/nobody"']
    world.submit()
    world.admit()
    world.job("JobFinished", {})
    for event_type in ("JobDeactivated", "JobActivated"):
        (event,) = world.job(event_type, {})
        assert isinstance(event, InputsIgnored)
        assert event.reason == "Stale"


def test_while_an_evicted_job_stops(world: World) -> None:
    """The workload is what it was: it counts at once."""
    world.submit()
    world.admit()
    world.evict()
    (event,) = world.job("JobDeactivated", {})
    assert isinstance(event, WorkloadUpdated)
    assert event.active is False


def test_while_a_job_makes_way_for_its_next_workload(world: World) -> None:
    """The message is about what comes: it waits, in its turn."""
    world.submit()
    world.admit()
    assert names(world.submit(parallelism=3)) == ["JobSuspended"]
    assert world.job("JobDeactivated", {}) == []
    assert names(world.job("JobStopped", {}))[-1] == "WorkloadUpdated"
    assert world.state_of().record.active is False
    assert world.state_of().record.pod_sets[0].count == 3


def test_what_came_before_is_done_before(world: World) -> None:
    """A manifest that waits for the job to stop would activate it; the deactivation came after it."""
    world.submit()
    world.admit()
    world.evict()
    assert world.submit(parallelism=3) == []
    assert world.job("JobDeactivated", {}) == []
    world.job("JobStopped", {})
    world.release()
    assert world.state_of().record.active is False
    assert world.state_of().record.pod_sets[0].count == 3


def test_a_deletion_comes_first(world: World) -> None:
    """What waits for the job to stop is not needed any more when it is deleted."""
    world.submit()
    world.admit()
    world.submit(parallelism=3)
    world.job("JobDeactivated", {})
    (ignored, _) = world.job("JobDeleted", {})
    assert isinstance(ignored, InputsIgnored)
    assert ignored.reason == "Superseded"
    assert world.seq - 1 in ignored.seqs


def test_the_manifest_in_force_stays(world: World) -> None:
    """Switching a job says nothing of its manifest: the same one again is a duplicate."""
    world.submit()
    world.job("JobDeactivated", {})
    world.job("JobActivated", {})
    assert names(world.submit()) == ["InputsIgnored"]
