"""An approval outlives the absence of whom it is from, and what people answer needs no program (AC7-AC9)."""

from typing import Any

import pytest

from sluice.events.checks import (
    AdmissionCheckStatusChanged,
    ChecksReady,
    ChecksRetry,
    CheckStateChanged,
)
from sluice.events.scheduler import ClusterQueueStatusChanged, QuotaReleased, QuotaReserved
from tests.support.checks_world import SECOND, ChecksWorld, check, configuration, queue, world
from tests.support.scheduler_cell import Cell, admitted, evicted, key
from tests.unit.core.scheduler.whole.test_pending_preemptions import cell_with

PEOPLE = "people.sluice.dev"


def away(cell: Cell, name: str, *, there: bool = False) -> None:
    cell.put(AdmissionCheckStatusChanged(cause=0, check=name, active=there, reason="ControllerLost"))


def ready(cell: Cell, *names: str) -> None:
    for name in names:
        cell.put(ChecksReady(cause=0, workload=key(name), attempt=cell.workload(name).reservations))


def checked(**spec: Any) -> Cell:
    """Return a cell whose queue has a check; `w` has quota and waits for it."""
    cell = Cell()
    cell.configure("AdmissionCheck", "gpu", {"controllerName": "x"})
    cell.queue("a", cpu=4, admissionChecksStrategy={"admissionChecks": [{"name": "gpu"}]}, **spec)
    cell.submit("w", "a").settle()
    return cell


@pytest.mark.parametrize("order", ["away-first", "ready-first", "settled-between"])
def test_a_complete_set_of_verdicts_survives_the_controller(order: str) -> None:
    """Whoever is away by then, and whichever is heard of first: all Ready is admitted (AC9)."""
    cell = checked()
    if order == "ready-first":
        ready(cell, "w")
        away(cell, "gpu")
    else:
        away(cell, "gpu")
        if order == "settled-between":
            assert any(isinstance(event, ClusterQueueStatusChanged) for event in cell.settle())
        ready(cell, "w")
    said = cell.settle()
    assert admitted(said) == ["w"]
    assert not [event for event in said if isinstance(event, QuotaReleased)]


def test_nothing_new_is_reserved_while_the_controller_is_away() -> None:
    """The queue is inactive: who waits goes on waiting, until somebody is there again (AC8)."""
    cell = checked()
    away(cell, "gpu")
    cell.submit("next", "a")
    assert not [event for event in cell.settle() if isinstance(event, QuotaReserved)]
    away(cell, "gpu", there=True)
    assert [event.workload for event in cell.settle() if isinstance(event, QuotaReserved)] == [key("next")]
    ready(cell, "w", "next")
    assert admitted(cell.settle()) == ["w", "next"]


def test_reserved_and_admitted_workloads_stay_as_they_are() -> None:
    """An absence evicts nobody and takes nobody's quota; also when it ends."""
    cell = checked()
    ready(cell, "w")
    cell.settle()
    cell.submit("waits", "a").settle()
    for there in (False, True, False):
        away(cell, "gpu", there=there)
        said = cell.settle()
        assert evicted(said) == []
        assert not [event for event in said if isinstance(event, QuotaReleased)]
    assert cell.workload("waits").assignment is not None


@pytest.mark.parametrize("broken", ["check", "flavor"])
def test_a_queue_that_is_broken_otherwise_admits_nobody(broken: str) -> None:
    """A missing check or flavor is no absence: the admission is rechecked and fails (AC7)."""
    cell = checked()
    away(cell, "gpu")
    if broken == "check":
        names = [{"name": "gpu"}, {"name": "nowhere"}]
        cell.queue("a", cpu=4, admissionChecksStrategy={"admissionChecks": names})
    else:
        cell.queue("a", cpu={"default": 4, "second": 4}, admissionChecksStrategy={
            "admissionChecks": [{"name": "gpu"}]
        })  # fmt: skip
        cell.delete("ResourceFlavor", "second")
    ready(cell, "w")
    said = cell.settle()
    assert admitted(said) == []
    assert [event.workload for event in said if isinstance(event, QuotaReleased)] == [key("w")]


def test_who_waits_for_victims_may_lose_the_controller_meanwhile() -> None:
    """The preemptions were allowed by the verdicts; that the controller has gone undoes neither (AC6)."""
    cell = cell_with({"low": 10})
    cell.submit("high", "q", 10, priority=10).settle()
    ready(cell, "high")
    assert evicted(cell.settle()) == ["low"]
    away(cell, "late")
    cell.settle()
    assert admitted(cell.stopped("low").settle()) == ["high"]


# The admission-check service


def by_people(*names: str, controller: str = PEOPLE) -> ChecksWorld:
    """Return a world whose queue has these checks, which people answer; nobody was ever there."""
    cell = ChecksWorld()
    cell.apply(*[check(name, controller) for name in names], queue(*names)).settle()
    return cell


def statuses(cell: ChecksWorld) -> list[bool]:
    return [event.active for event in cell.said if isinstance(event, AdmissionCheckStatusChanged)]


@pytest.mark.parametrize("controller", [PEOPLE, f"{PEOPLE}/finance"])
def test_what_people_answer_is_active_without_a_controller(controller: str) -> None:
    """No program need ever be there; one that comes and goes changes nothing (AC9)."""
    cell = by_people("ok", controller=controller)
    assert statuses(cell) == [True]
    for there in (True, False):
        cell.presence(controller, there=there).settle(100)
        assert cell.deadline() is None
    assert statuses(cell) == [True]
    waiting = cell.create("w")
    cell.reserve(waiting).settle()
    cell.say(waiting, "ok", "Ready", controller=controller)
    assert [type(event).__name__ for event in cell.settle()] == ["CheckStateChanged", "ChecksReady"]
    cell.verify()


def test_a_name_that_only_begins_alike_is_a_controller_as_any_other() -> None:
    """`people.sluice.dev.example.com` is somebody's program."""
    assert statuses(by_people("ok", controller=f"{PEOPLE}.example.com")) == [False]


def test_people_may_take_their_time_unless_their_check_says_otherwise() -> None:
    """The cell's answer timeout is for programs; a check's own is for whoever answers it (AC3)."""
    cell = by_people("ok", "soon")
    soon = check("soon", PEOPLE)
    soon["metadata"]["annotations"] = {"kueue.x-k8s.io/answer-timeout-seconds": "600"}
    cell.apply(configuration(admissionChecks={"answerTimeoutSeconds": 10}), soon)
    waiting = cell.create("w")
    cell.reserve(waiting).settle()
    assert cell.settle(500) == []
    (late,) = [event for event in cell.settle(200) if isinstance(event, CheckStateChanged)]
    assert (late.check, late.state) == ("soon", "Retry")
    cell.verify()


def test_people_answer_while_the_controller_is_away_and_it_comes_back() -> None:
    """Its requests are as they were, but for the state; what was said stands (AC9)."""
    cell = world("a", "b")
    waiting = cell.create("w")
    cell.reserve(waiting).settle()
    cell.say(waiting, "a", "Ready")
    cell.presence("ctl-a", there=False).settle()
    cell.settle(100)
    assert statuses(cell)[-1] is False
    cell.say(waiting, "b", "Ready")
    assert any(isinstance(event, ChecksReady) for event in cell.settle())
    cell.presence("ctl-a")
    back = [type(event).__name__ for event in cell.settle(50)]
    assert back == ["ControllerSeen", "AdmissionCheckStatusChanged"]
    assert {request.state for request in cell.requests().values()} == {"Ready"}
    assert not [event for event in cell.said if isinstance(event, ChecksRetry)]
    cell.verify()


def test_silence_is_counted_from_the_request_only() -> None:
    """Who has answered is never late, however long its controller is away afterwards (AC3)."""
    cell = world("a", "b")
    cell.apply(configuration(admissionChecks={"answerTimeoutSeconds": 60}))
    waiting = cell.create("w")
    cell.reserve(waiting).settle()
    for name in ("a", "b"):
        cell.say(waiting, name, "Ready")
        cell.presence(f"ctl-{name}", there=False)
    cell.settle()
    assert cell.deadline() is not None, "the checks become inactive"
    cell.settle(1000)
    assert not [event for event in cell.said if isinstance(event, ChecksRetry)]
    assert cell.now > 1000 * SECOND
    cell.verify()
