"""The decider: statuses, causes, settling, snapshots."""

from sluice.events.checks import AdmissionCheckStatusChanged, ChecksReady
from sluice.events.scheduler import (
    Admitted,
    ClusterQueueStatusChanged,
    LocalQueueStatusChanged,
    QuotaReserved,
)
from sluice.events.slices import ReclaimablePodsUpdated, WorkloadUpdated
from tests.support.scheduler_cell import RECLAIMS, Cell, admitted, evicted, key


def test_one_queue_one_flavor_one_job() -> None:
    """The walking skeleton: quota, then admission, by what brought the workload about."""
    cell = Cell()
    cell.queue("a", cpu=4)
    cell.settle()
    cell.submit("w", "a", cpu=2, count=2)

    reserved, done = cell.settle()

    assert isinstance(reserved, QuotaReserved)
    assert reserved.cluster_queue == "a"
    assert reserved.pod_sets[0].usage == {"cpu": 4000}
    assert isinstance(done, Admitted)
    assert reserved.cause == done.cause == cell.seq


def test_an_admission_names_the_release_that_made_it_possible() -> None:
    """The cause is the newer of the workload's own arrival and of what freed the quota (DB1)."""
    cell = Cell()
    cell.queue("a", cpu=1)
    cell.submit("first", "a")
    cell.submit("second", "a")
    cell.settle()
    cell.finish("first")
    release = cell.seq

    causes = [event.cause for event in cell.settle() if isinstance(event, QuotaReserved)]

    assert causes == [release]


def test_queue_statuses_say_why_they_are_inactive() -> None:
    """Missing flavors and checks, stop policies and the way back are recorded once each."""
    cell = Cell()
    cell.queue("a", cpu=1, admissionChecksStrategy={"admissionChecks": [{"name": "gpu"}]})
    cell.delete("ResourceFlavor", "default")

    assert _statuses(cell) == {
        "a": (
            "FlavorNotFound",
            "Can't admit new workloads: references missing ResourceFlavor(s): default, "
            "references missing AdmissionCheck(s): gpu.",
        ),
        "ns/a": ("ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue"),
    }
    cell.configure("ResourceFlavor", "default", {})
    cell.configure("AdmissionCheck", "gpu", {"controllerName": "x"})
    assert _statuses(cell)["a"] == ("Ready", "Can admit new workloads")
    cell.put(AdmissionCheckStatusChanged(cause=0, check="gpu", active=False, reason="Lost"))
    assert _statuses(cell)["a"][0] == "AdmissionCheckInactive"
    cell.queue("a", cpu=1, stopPolicy="HoldAndDrain")
    assert _statuses(cell)["a"] == ("Stopped", "Can't admit new workloads: is stopped.")
    assert cell.settle() == []


def _statuses(cell: Cell) -> dict[str, tuple[str, str]]:
    found = {}
    for event in cell.settle():
        if isinstance(event, ClusterQueueStatusChanged):
            found[event.cluster_queue] = (event.reason, event.message)
        elif isinstance(event, LocalQueueStatusChanged):
            found[event.local_queue] = (event.reason, event.message)
    return found


def test_checks_come_between_quota_and_admission() -> None:
    """With checks that apply, quota is reserved first and admission follows ChecksReady (AC1)."""
    cell = Cell()
    cell.configure("AdmissionCheck", "gpu", {"controllerName": "x"})
    cell.queue("a", cpu=1, admissionChecksStrategy={"admissionChecks": [{"name": "gpu"}]})
    cell.submit("w", "a")

    assert admitted(cell.settle()) == []
    assert cell.workload("w").assignment is not None
    cell.put(ChecksReady(cause=0, workload=key("w")))
    assert admitted(cell.settle()) == ["w"]


def test_checks_of_other_flavors_do_not_apply() -> None:
    """A check that is only for flavors that were not assigned is not waited for (AC1)."""
    cell = Cell()
    cell.configure("AdmissionCheck", "gpu", {"controllerName": "x"})
    rule = {"name": "gpu", "onFlavors": ["second"]}
    cell.queue("a", cpu={"first": 1, "second": 1}, admissionChecksStrategy={"admissionChecks": [rule]})
    cell.submit("w", "a")

    assert admitted(cell.settle()) == ["w"]


def test_reclaimable_pods_give_their_quota_back() -> None:
    """Pods that have ended no longer count, and what they held is used at once (SC7)."""
    cell = Cell()
    cell.queue("a", cpu=4)
    cell.submit("w", "a", count=4)
    cell.settle()
    cell.submit("next", "a", cpu=3)
    assert admitted(cell.settle()) == []

    cell.put(ReclaimablePodsUpdated(cause=0, workload=key("w"), pods={"main": 3}))

    assert admitted(cell.settle()) == ["next"]


def test_a_smaller_workload_gives_the_difference_back() -> None:
    """Scaling down in place frees quota for others (WS3)."""
    cell = Cell()
    cell.queue("a", cpu=4)
    cell.submit("w", "a", count=4)
    cell.settle()
    cell.submit("next", "a", cpu=2)
    cell.settle()
    (pod_set,) = cell.workload("w").record.pod_sets
    smaller = type(pod_set)(name="main", count=2, requests=pod_set.requests)

    cell.put(WorkloadUpdated(cause=0, workload=key("w"), pod_sets=(smaller,)))

    assert admitted(cell.settle()) == ["next"]
    assert cell.workload("w").usage == {("default", "cpu"): 2000}


def test_a_snapshot_decides_as_the_state_that_it_was_taken_of() -> None:
    """Parked classes, waiting preemptors and statuses survive; derived things are made anew."""
    cell = Cell()
    cell.queue("a", cpu=4, cohort="c", preemption=RECLAIMS)
    cell.queue("b", cpu=2, cohort="c", preemption=RECLAIMS, queueingStrategy="StrictFIFO")
    cell.submit("low", "a", cpu=4)
    cell.submit("in-b", "b", cpu=2)
    cell.settle()
    cell.submit("high", "a", cpu=4, priority=10)
    cell.submit("too-big", "b", cpu=9)
    cell.submit("behind", "b", cpu=1)
    cell.settle()

    cell.restart()

    assert cell.settle() == []
    assert cell.waits_for("a") == ["low"]
    assert cell.reason("too-big")[0] == "ExceedsMaxQuota"
    cell.stopped("low")
    assert admitted(cell.settle()) == ["high"]


def test_deleting_a_queue_evicts_and_sends_home() -> None:
    """Workloads of a queue that has gone are told to stop, and wait for a queue to come (SC7)."""
    cell = Cell()
    cell.queue("a", cpu=2)
    cell.submit("runs", "a", cpu=2)
    cell.submit("waits", "a", cpu=2)
    cell.settle()

    cell.delete("ClusterQueue", "a")

    assert evicted(cell.settle()) == ["runs"]
    cell.stopped("runs")
    cell.settle()
    cell.queue("a", cpu=2)
    assert admitted(cell.settle()) == ["runs"]
