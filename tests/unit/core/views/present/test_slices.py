"""What users see of workload slices and of constraints: lineage, events, totals (WS9, AX4)."""

import pytest

from sluice.core.views import View, notices
from sluice.core.views import snapshot as views
from sluice.core.views.present.slices import described, lineage, place
from sluice.core.views.totals import series
from sluice.events.base import Event, JobKey, PodSet, PodSetAssignment, WorkloadKey
from sluice.events.scheduler import (
    Admitted,
    QuotaReserved,
    WorkloadSliceReplaced,
    WorkloadSliceWithdrawn,
    WorkloadsParked,
)
from sluice.events.slices import (
    JobReference,
    WorkloadCreated,
    WorkloadDeleted,
    WorkloadRecord,
    WorkloadUpdated,
)
from tests.support.lifecycle_history import SECOND, cluster_queue, local_queue

JOB = JobReference(api_version="batch/v1", kind="Job", key=JobKey("ns/train"), uid="u")
OLD, NEW = WorkloadKey("ns/old"), WorkloadKey("ns/new")


def record(key: WorkloadKey, count: int, replaces: WorkloadKey | None = None) -> WorkloadRecord:
    return WorkloadRecord(
        namespace="ns",
        name=key.partition("/")[2],
        uid=key,
        queue_name="lq",
        created_at=0,
        pod_sets=(PodSet(name="main", count=count, requests={"cpu": 1000}),),
        job=JOB,
        annotations={"kueue.x-k8s.io/workload-slice-name": "old", "kueue.x-k8s.io/elastic-job": "true"},
        replaces=replaces,
    )


def had(key: WorkloadKey, count: int) -> tuple[Event, ...]:
    assigned = PodSetAssignment(
        name="main", count=count, flavors={"cpu": "default"}, usage={"cpu": 1000 * count}
    )
    reserved = QuotaReserved(cause=0, workload=key, cluster_queue="cq", pod_sets=(assigned,))
    return reserved, Admitted(cause=0, workload=key)


@pytest.fixture
def view() -> View:
    """A view of a job with three pods that is to grow to five."""
    found = View()
    tell(
        found, cluster_queue("cq"), local_queue("lq", "cq"), WorkloadCreated(cause=0, workload=record(OLD, 3))
    )
    tell(found, *had(OLD, 3), WorkloadCreated(cause=0, workload=record(NEW, 5, OLD)))
    return found


def tell(view: View, *events: Event) -> None:
    for event in events:
        view.apply(event, view.seq + 1, (view.seq + 1) * SECOND)


def totals(view: View) -> dict[str, float]:
    prefix = "sluice_workload_slices_"
    return {
        name.removeprefix(prefix): value for name, _, value in series(view.totals) if name.startswith(prefix)
    }


def test_lineage_before_and_after_the_replacement(view: View) -> None:
    """Each slice says what it is, whom it replaces, how many pods wait for it."""
    job = view.jobs[JOB.key]
    assert [w.key for w in lineage(job)] == [OLD, NEW]
    old, new = view.workloads[OLD], view.workloads[NEW]
    assert place(job, old) == {
        "name": "old",
        "state": "Admitted",
        "pods": {"main": 3},
        "toBeReplacedBy": "new",
    }
    assert place(job, new) == {
        "name": "old",
        "state": "Pending",
        "pods": {"main": 5},
        "replaces": "old",
        "gated": {"main": 2},
    }
    tell(view, *had(NEW, 5), WorkloadSliceReplaced(cause=0, workload=OLD, by=NEW, message="Replaced"))
    assert place(job, old)["replacedBy"] == "new"
    assert [(each["name"], each["state"]) for each in described(job)] == [
        ("old", "Replaced"),
        ("new", "Admitted"),
    ]
    assert "gated" not in place(job, new)


def test_withdrawn_growth_is_told_of_the_slice_that_runs_on(view: View) -> None:
    """The slice that was withdrawn is deleted next, and its events with it (WS9)."""
    message = f"The job is to have no more pods than {OLD} has"
    withdrawn = WorkloadSliceWithdrawn(cause=0, workload=NEW, running=OLD, message=message)
    tell(view, withdrawn, WorkloadDeleted(cause=0, workload=NEW))
    assert NEW not in view.workloads
    assert notices(view.workloads[OLD])[-1].message == message


def test_life_of_slices_is_counted(view: View) -> None:
    """Made, resized in place, replaced after so long, deleted; a snapshot keeps the numbers."""
    smaller = (PodSet(name="main", count=4, requests={"cpu": 1000}),)
    tell(view, WorkloadUpdated(cause=0, workload=NEW, pod_sets=smaller))
    tell(view, *had(NEW, 4), WorkloadSliceReplaced(cause=0, workload=OLD, by=NEW, message="Replaced"))
    waited_s = view.seq
    tell(view, WorkloadDeleted(cause=0, workload=OLD))
    expected = {
        "created_total": 1,
        "resized_total": 1,
        "replaced_total": 1,
        "waited_seconds_total": waited_s,
        "deleted_total": 1,
    }
    assert totals(view) == expected
    assert totals(views.load(views.dump(view))) == expected
    assert [n.message for n in notices(view.workloads[NEW])][:2] == [
        "Workload slice to replace ns/old",
        "Resized in place to 4 x main",
    ]


def test_an_unsatisfied_constraint_is_an_event_and_a_number(view: View) -> None:
    """AX4: it is named, apart from what waits for others."""
    message = "couldn't assign flavors: 1 more needed, and the workload cannot borrow (cannot-borrow)"
    parked = WorkloadsParked(cause=0, workloads=(NEW,), reason="WaitingForQuota", message=message)
    tell(view, parked)
    notice = notices(view.workloads[NEW])[-1]
    assert (notice.type, notice.reason) == ("Warning", "AdmissionConstraintUnsatisfied")
    assert notice.message == f"cannot-borrow: WaitingForQuota: {message}"
    assert [each for each in series(view.totals) if "constraints" in each[0]] == [
        (
            "sluice_unsatisfied_admission_constraints_total",
            {"cluster_queue": "cq", "constraint": "cannot-borrow"},
            1,
        )
    ]
