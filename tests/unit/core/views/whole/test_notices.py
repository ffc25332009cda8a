"""A history in the words of Kueue's Kubernetes events."""

from typing import Any

import pytest

from sluice.core.views import notices
from sluice.events.base import PodSet, WorkloadKey
from sluice.events.scheduler import Preempted
from sluice.events.slices import WorkloadUpdated
from tests.support.lifecycle_history import admitted, created, reserved
from tests.unit.core.views.whole.test_status import Told, W, cell, parked

GATE = "kueue.x-k8s.io/admission-gated-by"


def said(view: Told, name: str = "w") -> list[tuple[Any, str, str]]:
    """Return type, reason and message of all but the workload's creation."""
    found = notices(view.workloads[WorkloadKey(f"ns/{name}")])
    return [(notice.type, notice.reason, notice.message) for notice in found][1:]


def test_a_verdict_is_an_event_with_its_own_reason() -> None:
    """`Warning WaitingForQuota`, as in Kueue, not one reason for all that is pending."""
    view = cell(created(), parked("w", message="insufficient quota"))

    assert said(view) == [("Warning", "WaitingForQuota", "insufficient quota")]


def test_a_preemption_is_told_of_both_who_has_to_go_and_who_came() -> None:
    view = cell(created("low", 1), reserved("low"), admitted("low"), created("high", 2))
    event = Preempted(
        cause=0,
        workload=WorkloadKey("ns/low"),
        preemptor=WorkloadKey("ns/high"),
        rule="InClusterQueue",
        message="Preempted to accommodate a workload (UID: u, JobUID: j)",
        preemptee_path="/root/cq",
    )
    view.tell(event)

    assert said(view, "low")[-1] == ("Normal", "Preempted", event.message)
    assert said(view, "high") == [
        ("Normal", "PreemptedWorkload", "Preempted workload ns/low in ClusterQueue cq")
    ]


def test_gates_are_told_of_when_they_come_and_when_they_have_gone() -> None:
    view = cell(created(annotations={GATE: "a,b"}))
    view.tell(WorkloadUpdated(cause=0, workload=W, annotations={GATE: "b"}))
    view.tell(WorkloadUpdated(cause=0, workload=W, priority=1))
    view.tell(WorkloadUpdated(cause=0, workload=W, annotations={}))

    assert [line for line in said(view) if "dmission" in line[2]] == [
        ("Normal", "AdmissionGated", "Workload admission is gated by: a,b"),
        ("Normal", "AdmissionGated", "Workload admission is gated by: b"),
        ("Normal", "AdmissionGateCleared", "Admission gate cleared, workload is now admissible"),
    ]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"pod_sets": (PodSet(name="main", count=3),)}, "Resized in place to 3 x main"),
        (
            {"pod_sets": (PodSet(name="main", count=2, requests={"cpu": 7}),)},
            "Adjusted to the limit ranges of its namespace: 2 x main",
        ),
        ({"misconfigured": ""}, "Adjusted to the limit ranges of its namespace"),
    ],
)
def test_a_resize_and_other_requests_are_told_apart(change: dict[str, object], text: str) -> None:
    view = cell(created())
    assert [pods.count for pods in view.workloads[W].record.pod_sets] == [2]
    view.tell(WorkloadUpdated(cause=0, workload=W, **change))  # type: ignore[arg-type]

    assert said(view) == [("Normal", "UpdatedWorkload", text)]


def test_what_runs_is_not_said_to_be_adjusted() -> None:
    """How limit ranges judge it has no effect while it has quota; when it has lost that, it says why."""
    view = cell(created(), reserved("w"), admitted("w"))
    before = said(view)
    view.tell(WorkloadUpdated(cause=0, workload=W, misconfigured="out of range"))

    assert said(view) == before
