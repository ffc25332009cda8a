"""A job that was stopped while a growth of it waited: what holds it back is the job's (WS6)."""

from typing import Any

import pytest

from sluice.core.timing import MICROS_PER_S
from sluice.core.views import View
from sluice.core.views.present.pending import why_pending
from sluice.core.world.workload import Workload
from sluice.events.base import Event
from sluice.events.checks import ChecksRejected, ChecksRetry
from sluice.events.scheduler import QuotaReserved, WorkloadDeactivated
from tests.support.elastic_cell import Cell
from tests.support.objects import configuration, kueue_object

CHECK = kueue_object("AdmissionCheck", "any", {"controllerName": "sluice.dev/external"})
CHECKED = {"admissionChecksStrategy": {"admissionChecks": [{"name": "any", "onFlavors": []}]}}
NEVER_READY = {
    "enable": True,
    "timeoutSeconds": 2,
    "requeuingStrategy": {"backoffBaseSeconds": 20, "backoffLimitCount": 1},
}


def growing(cell: Cell, quota: int, **spec: Any) -> Workload:
    """Let a job run with two pods, and wait to have three; return its slice that runs."""
    cell.queue("q", quota, **spec)
    cell.submit("a", "q", 2).settle()
    if cell.checks_say(ready=True):
        cell.settle()
    cell.scale("a", 3).settle()
    (runs,) = [w for w in cell.scheduler.state.world.workloads.values() if w.admitted_at is not None]
    return runs


def left(cell: Cell, former: Workload) -> Workload:
    """Return the slice that is all of the job now."""
    (found,) = cell.scheduler.state.world.workloads.values()
    assert found.record.replaces == former.key
    return found


def why(cell: Cell, workload: Workload) -> tuple[str, str]:
    view = View()
    for event, seq, at in cell.dated():
        view.apply(event, seq, at)
    return why_pending(view, view.workloads[workload.key])


def test_it_is_held_back_as_long_as_its_check_has_asked_for() -> None:
    cell = Cell()
    cell.apply(CHECK)
    former = growing(cell, 8, **CHECKED)
    later = cell.now + 3600 * MICROS_PER_S
    cell.tell("checks", ChecksRetry(cause=0, workload=former.key, checks=("any",), requeue_at=later))
    cell.settle()
    now = left(cell, former)
    assert (now.assignment, why(cell, now)[0]) == (None, "OnHold")
    cell.settle(3500)
    assert now.assignment is None
    cell.run_until(200)
    assert now.assignment is not None


def test_its_failed_attempts_are_counted_on() -> None:
    cell = Cell()
    cell.apply(configuration(waitForPodsReady=NEVER_READY))
    former = growing(cell, 2)
    cell.run_until(3)
    cell.settle()
    cell.scale("a", 1).settle()
    now = left(cell, former)
    cell.run_until(15)
    assert (now.assignment, now.requeue_count, why(cell, now)[0]) == (None, 1, "OnHold")
    cell.run_until(5)
    assert now.admitted_at is not None
    cell.run_until(3)
    cell.settle()
    (given_up,) = cell.events(WorkloadDeactivated)
    assert (given_up.workload, given_up.reason) == (now.key, "RequeuingLimitExceeded")


@pytest.mark.parametrize("again", [False, True])
def test_it_is_known_why_it_was_switched_off(*, again: bool) -> None:
    cell = Cell()
    cell.apply(CHECK)
    former = growing(cell, 8, **CHECKED)
    rejected: Event = ChecksRejected(cause=0, workload=former.key, checks=("any",), message="no licence")
    cell.tell("checks", rejected)
    cell.settle()
    now = left(cell, former)
    assert not now.active
    assert "no licence" in now.deactivated_message + now.evicted_message
    reason, message = why(cell, now)
    assert reason == "Deactivated"
    assert "no licence" in message
    if again:
        before = len(cell.events(QuotaReserved))
        cell.message("a", "JobActivated", {}).settle()
        assert len(cell.events(QuotaReserved)) == before + 1
