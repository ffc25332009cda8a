"""Those that wait are shown in the order in which the scheduler has them, whatever becomes of it."""

from typing import Any

import pytest

from sluice.core.views import View, positions
from sluice.core.views.present.pending import why_pending
from sluice.events.base import WorkloadKey
from sluice.events.checks import AdmissionCheckStatusChanged
from tests.support.objects import resource_group
from tests.support.scheduler_cell import Cell
from tests.support.shown_usage import wrong_places


def pods_ready(timestamp: str) -> dict[str, object]:
    strategy = {"backoffBaseSeconds": 1, "timestamp": timestamp}
    return {"waitForPodsReady": {"enable": True, "timeoutSeconds": 10, "requeuingStrategy": strategy}}


def shown(cell: Cell) -> View:
    view = View()
    for event, seq, at in cell.dated():
        view.apply(event, seq, at)
    return view


def sent_back() -> Cell:
    """Return a cell in which `a` queues again, since its pods were not ready in time; `b` runs, `c` waits."""
    cell = Cell()
    cell.queue("q", 1).settings(**pods_ready("Eviction"))
    for name in "abc":
        cell.submit(name, "q")
    cell.settle()
    cell.settle(11)
    cell.stopped("a")
    for _ in range(3):
        cell.settle(1)
    return cell


def test_places_follow_the_time_that_counts_when_the_configuration_changes() -> None:
    cell = sent_back()
    assert list(positions(shown(cell), "q")) == ["ns/c", "ns/a"]
    cell.settings(**pods_ready("Creation"))
    cell.settle(1)
    assert list(positions(shown(cell), "q")) == ["ns/a", "ns/c"]
    assert not wrong_places(shown(cell), cell.state)


def test_who_had_quota_again_since_queues_by_its_creation() -> None:
    """It was evicted, got quota, and gave it back as its queue was stopped before its check had answered."""
    cell = sent_back()
    cell.configure("AdmissionCheck", "chk", {"controllerName": "x.dev/x"})
    spec: dict[str, Any] = {"namespaceSelector": {}, "resourceGroups": [resource_group({"default": 1})]}
    spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": "chk"}]}
    cell.configure("ClusterQueue", "q", spec)
    cell.put(AdmissionCheckStatusChanged(cause=0, check="chk", active=True, reason="Active", message=""))
    cell.finish("b", "c")
    cell.settle(1)
    assert cell.workload("a").assignment is not None
    cell.submit("n", "q")
    cell.configure("LocalQueue", "q", {"clusterQueue": "q", "stopPolicy": "Hold"}, "ns")
    cell.settle(1)
    cell.configure("ClusterQueue", "q", {**spec, "stopPolicy": "Hold"})
    cell.configure("LocalQueue", "q", {"clusterQueue": "q"}, "ns")
    cell.settle(1)
    assert (cell.workload("a").assignment, cell.workload("a").last_evicted_at) == (None, None)
    assert list(positions(shown(cell), "q")) == ["ns/a", "ns/n"]
    assert not wrong_places(shown(cell), cell.state)


@pytest.mark.parametrize("shared", [True, False])
def test_what_is_said_of_one_is_said_of_its_equals_unless_each_is_looked_at_for_itself(shared: bool) -> None:
    """Nobody has looked at the one behind the head of a StrictFIFO queue (SC2)."""
    cell = Cell()
    cell.queue("q", 1, queueingStrategy="StrictFIFO")
    cell.settings(featureGates={"SchedulingEquivalenceHashing": shared})
    for name in "abc":
        cell.submit(name, "q").settle()
    view = shown(cell)
    reasons = [why_pending(view, view.workloads[WorkloadKey(f"ns/{name}")])[0] for name in "bc"]
    assert reasons == [cell.reason("b")[0], cell.reason("c")[0] or "PendingEvaluation"]
    assert reasons == ["WaitingForQuota", "WaitingForQuota" if shared else "PendingEvaluation"]
