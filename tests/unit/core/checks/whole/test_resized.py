"""What was asked of checks follows the workload: its size (WS3), and whatever else a request says of it."""

from typing import Any

import pytest

from sluice.events.base import PodSet, PodSetAssignment
from sluice.events.checks import CheckRequestsUpdated
from sluice.events.scheduler import QuotaReserved
from sluice.events.slices import WorkloadUpdated
from sluice.events.variants import VariantUpdated
from tests.support.checks_world import world


@pytest.mark.parametrize("admitted", [False, True])
def test_a_reservation_that_shrinks_is_asked_for_as_it_is(admitted: bool) -> None:
    """Same attempt, fewer pods, in the request of every check; what they have said still counts."""
    cell = world("a", "b")
    key = cell.create("w")
    pods = PodSetAssignment(name="main", count=4, flavors={"cpu": "default"}, usage={"cpu": 4000})
    cell.tell("scheduler", QuotaReserved(cause=0, workload=key, cluster_queue="cq", pod_sets=(pods,)))
    cell.settle()
    cell.say(key, "a", "Ready").settle()
    if admitted:
        cell.say(key, "b", "Ready").settle()
        cell.admit(key).settle()

    fewer = (PodSet(name="main", count=2, requests={"cpu": 1000}),)
    cell.tell("slices", WorkloadUpdated(cause=0, workload=key, pod_sets=fewer))
    (event,) = cell.settle()

    assert isinstance(event, CheckRequestsUpdated)
    assert (event.admitted, event.attempt) == (admitted, 1)
    for check in ("a", "b"):
        request = cell.requests()[key, check]
        assert [pods.count for pods in request.pod_sets] == [2]
        assert [(pods.count, pods.usage) for pods in request.assignment] == [(2, {"cpu": 2000})]
    assert cell.requests()[key, "a"].state == "Ready"
    assert cell.settle() == []
    cell.verify()


CHANGES: dict[str, Any] = {
    "queue_name": "other",
    "priority": 100,
    "priority_class": "high",
    "active": True,
    "maximum_execution_time_s": 60,
    "pod_sets": (PodSet(name="main", count=0, requests={"cpu": 1000}),),
    "labels": {"team": "red"},
    "annotations": {"team": "red"},
    "misconfigured": "why",
}


def test_every_change_of_a_workload_is_looked_at_below() -> None:
    fields = set(WorkloadUpdated.__struct_fields__) | set(VariantUpdated.__struct_fields__)
    assert fields - {"cause", "workload", "message", "preference", "allowed_flavors"} == set(CHANGES)


@pytest.mark.parametrize("changed", CHANGES)
@pytest.mark.parametrize("over", [False, True])
def test_a_request_says_what_its_workload_is_like_now(changed: str, over: bool) -> None:
    """Whatever a request shows of a workload that is edited is said anew, and nothing else is."""
    cell = world("a")
    key = cell.create("w")
    cell.reserve(key).settle()
    if over:
        cell.evict(key, release=False).settle()
    before = cell.requests()
    assert bool(before) is not over
    cell.tell("slices", WorkloadUpdated(cause=0, workload=key, **{changed: CHANGES[changed]}))
    events = cell.settle()

    differs = cell.requests() != before
    assert differs is (changed not in ("priority_class", "active", "misconfigured") and not over)
    assert [type(event) for event in events] == [CheckRequestsUpdated] * differs
    assert list(cell.state.touched) == [("ctl-a", key, "a")] * differs
    assert cell.settle() == []
    cell.verify()


@pytest.mark.parametrize("state", ["Rejected", "Retry"])
def test_a_request_follows_its_workload_when_a_check_has_said_no(state: str) -> None:
    """Until the scheduler has acted on it the request stands, and whoever leads next would write it so."""
    cell = world("a")
    key = cell.create("w")
    cell.reserve(key).settle()
    cell.say(key, "a", state).settle()
    cell.tell("slices", WorkloadUpdated(cause=0, workload=key, labels={"team": "red"}))
    (event,) = cell.settle()
    assert isinstance(event, CheckRequestsUpdated)
    assert cell.settle() == []
    cell.verify()
