"""What a change of configuration means for reservations that wait for their checks (AC1, AC2)."""

from typing import Any

from sluice.events.base import WorkloadKey
from sluice.events.checks import ChecksReady, ChecksRequested
from tests.support.checks_world import ChecksWorld, check, configuration, flavor, queue, world
from tests.support.objects import kueue_object


def limits(**spec: Any) -> dict[str, Any]:
    return kueue_object("ProvisioningRequestConfig", "tight", {"provisioningClassName": "c", **spec})


def waiting(cell: ChecksWorld, name: str = "w") -> WorkloadKey:
    key = cell.create(name)
    cell.reserve(key).settle()
    return key


def test_other_parameters_are_told_to_the_controller() -> None:
    """Parameters that come, change and go are asked about anew, each time once; what was said stays said."""
    cell = world()
    reference = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "tight"}
    cell.apply(check("a", parameters=reference), queue("a"))
    cell.presence("ctl-a").settle()
    key = waiting(cell)
    cell.say(key, "a", "Pending", message="on it").settle()

    found = [cell.requests()[key, "a"].parameters_spec]
    for spec in ({}, {"parameters": {"x": "1"}}, None):
        if spec is None:
            cell.delete("ProvisioningRequestConfig", "tight")
        else:
            cell.apply(limits(**spec))
        assert [type(event) for event in cell.settle()] == [ChecksRequested]
        found.append(cell.requests()[key, "a"].parameters_spec)

    one = {"provisioningClassName": "c"}
    assert found == [None, one, {**one, "parameters": {"x": "1"}}, None]
    cell.verify()


def test_a_check_that_is_applied_as_it_was_asks_nothing_anew() -> None:
    """The same spec again is no change."""
    cell = world("a")
    waiting(cell)
    cell.apply(check("a"))
    assert not cell.settle()
    cell.verify()


def test_objects_that_are_deleted_are_forgotten() -> None:
    """Flavor, queue and settings go; a queue that is made again asks as if it had never been gone."""
    cell = world("a")
    cell.apply(flavor("other"), configuration(admissionChecks={"backoffBaseSeconds": 5})).settle()
    cell.delete("ResourceFlavor", "other")
    cell.delete("Configuration", "default")
    cell.delete("ClusterQueue", "cq").settle()
    cell.verify()

    cell.apply(queue("a"))
    key = waiting(cell)

    assert (key, "a") in cell.requests()
    cell.verify()


def test_a_queue_without_its_check_lets_what_waits_go_on() -> None:
    """The check is not the queue's any more: nothing is left to wait for."""
    cell = world("a", "b")
    key = waiting(cell)
    cell.say(key, "a", "Ready").settle()
    events = cell.apply(queue("a")).settle()

    assert any(isinstance(event, ChecksReady) for event in events)
    assert not [event for event in events if isinstance(event, ChecksRequested) and "b" in event.checks]
    assert (key, "b") not in cell.requests()
    cell.verify()
