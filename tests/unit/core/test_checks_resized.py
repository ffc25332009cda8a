"""What was asked of checks follows the size of what is reserved (WS3)."""

import pytest

from sluice.events.base import PodSet, PodSetAssignment
from sluice.events.checks import CheckRequestsUpdated
from sluice.events.scheduler import QuotaReserved
from sluice.events.slices import WorkloadUpdated
from tests.checks_world import world


@pytest.mark.parametrize("admitted", [False, True])
def test_a_reservation_that_shrinks_is_asked_for_as_it_is(admitted: bool) -> None:
    """Same attempt, fewer pods, in the request of every check; what they have said still counts."""
    cell = world("a", "b")
    key = cell.create("w")
    pods = PodSetAssignment(name="main", count=4, flavors={"cpu": "default"}, usage={"cpu": 4000})
    cell.tell("scheduler", QuotaReserved(cause=0, workload=key, cluster_queue="cq", pod_sets=(pods,)))
    cell.settle()
    cell.say(key, "a", "Ready")
    cell.settle()
    if admitted:
        cell.say(key, "b", "Ready")
        cell.settle()
        cell.admit(key)
        cell.settle()

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
