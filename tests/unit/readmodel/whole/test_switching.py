"""Jobs that people switch off and on: every page says why, and nothing of it stays when it is over (AC9)."""

from typing import Any

from sluice.core.timing import MICROS_PER_S
from sluice.core.views import notices
from sluice.readmodel.objects import render
from sluice.readmodel.world import World
from sluice.replay.explain.why import explain
from tests.support.checked_cell import CheckedCell, checked_cell
from tests.support.family_world import cluster_queue

PAUSE = "the data is broken"
OFF = f"The workload is deactivated due to {PAUSE}"


def switch(cell: CheckedCell, on: bool, message: str = "") -> None:
    cell.message("job.default.a", "JobActivated" if on else "JobDeactivated", {"message": message})
    cell.settle_all()


def quota(cell: CheckedCell, cpu: int, **spec: Any) -> None:
    cell.apply(cluster_queue({"default": cpu}, policy={}, **spec)).settle_all()


def conditions(cell: CheckedCell) -> dict[str, tuple[str, str, str]]:
    """Return type -> (status, reason, message) of the conditions of the job's workload."""
    api = shown(cell)
    key, _, _ = cell.reservation("a")
    found = render(api, "Workload", key)
    assert found is not None
    return {c["type"]: (c["status"], c["reason"], c["message"]) for c in found["status"]["conditions"]}


def shown(cell: CheckedCell) -> World:
    api = World()
    api.fold(cell.log)
    return api


def job(cell: CheckedCell) -> dict[str, Any]:
    found = render(shown(cell), "Job", "default/a")
    assert found is not None
    return dict(found["status"])


def told(cell: CheckedCell) -> list[tuple[str, str]]:
    """Return reason and message of what is told of the workload's history."""
    key, _, _ = cell.reservation("a")
    return [(each.reason, each.message) for each in notices(shown(cell).view.workloads[key])]


def why(cell: CheckedCell) -> str:
    return explain(cell.services["scheduler"].state, "default/a", seq=1, at=cell.now, help_=False).message


def test_why_a_job_that_waits_was_switched_off() -> None:
    """It never ran, so nobody has to stop, and nothing but the switch says why."""
    cell = checked_cell(quota=0)
    cell.submit("a").settle_all()
    switch(cell, False, PAUSE)
    status = job(cell)
    assert (status["phase"], status["reason"], status["message"]) == ("Suspended", "Deactivated", OFF)
    assert conditions(cell)["Evicted"] == ("True", "Deactivated", OFF)
    assert ("Deactivated", OFF) in told(cell)
    assert why(cell).startswith(f"It was deactivated: {PAUSE}.")
    switch(cell, True, "mended")
    assert ("Activated", "mended") in told(cell)
    assert job(cell)["phase"] == "Queued"
    assert PAUSE not in str(job(cell))
    assert conditions(cell)["Evicted"] == ("False", "Reactivated", f"Previously: {OFF}")
    switch(cell, False)
    assert job(cell)["message"] == "The workload is deactivated", "what was said the last time is over"
    assert conditions(cell)["Evicted"][0] == "True"


def test_why_a_job_that_runs_was_switched_off() -> None:
    """It has to stop: the eviction says why, also to its executor."""
    cell = checked_cell(quota=1)
    cell.submit("a").settle_all()
    assert job(cell)["phase"] == "Admitted"
    switch(cell, False, PAUSE)
    assert job(cell)["message"] == OFF
    assert conditions(cell)["Evicted"] == ("True", "Deactivated", OFF)
    assert why(cell).startswith(f"It was deactivated: {PAUSE}.")
    entry = cell.dispatch("a")
    assert entry is not None
    assert entry.message == OFF
    quota(cell, 0)
    switch(cell, True)
    after = conditions(cell)
    assert after["Requeued"][:2] == ("True", "Reactivated")
    assert after["Evicted"] == ("True", "Deactivated", OFF), "until it has quota again, as in Kueue"
    quota(cell, 1)
    assert conditions(cell)["Evicted"] == ("False", "QuotaReserved", f"Previously: {OFF}")


def test_switching_a_job_on_hold_says_nothing_else_of_its_eviction() -> None:
    """It was a check that sent it back, and it is held back still, whoever switches it meanwhile."""
    cell = checked_cell("first")
    cell.submit("a").settle_all()
    cell.say("a", "first", "Retry", requeueAfterSeconds=500, message="later").settle_all()
    before = conditions(cell)
    assert before["Evicted"][:2] == ("True", "AdmissionCheck")
    switch(cell, False, PAUSE)
    assert conditions(cell)["Evicted"] == before["Evicted"]
    assert job(cell)["message"] == OFF
    switch(cell, True)
    assert conditions(cell) == before


def test_earlier_attempts_count_no_longer_whenever_it_was_switched() -> None:
    """Whether it had to stop for it, waited, or was held back."""
    cell = checked_cell(quota=1)
    cell.submit("a").settle_all()
    cell.settle_all(100)
    quota(cell, 1, stopPolicy="HoldAndDrain")
    key, _, _ = cell.reservation("a")
    ran = cell.services["scheduler"].state.world.workloads[key]
    assert ran.past_execution_us == shown(cell).view.workloads[key].past_execution_us >= 100 * MICROS_PER_S
    switch(cell, False)
    assert ran.past_execution_us >= 100 * MICROS_PER_S
    switch(cell, True)
    assert ran.past_execution_us == shown(cell).view.workloads[key].past_execution_us == 0
