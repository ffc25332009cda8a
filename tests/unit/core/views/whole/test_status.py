"""What users see of a history: conditions, counts, places in the queue."""

import msgspec
import pytest

from sluice.api.kueue import CohortSpec
from sluice.core.views import (
    View,
    cluster_queue_status,
    cohort_status,
    job_status,
    local_queue_status,
    notices,
    position,
    positions,
    to_manifest,
)
from sluice.core.views.present.job import Phase
from sluice.core.views.present.workload import conditions
from sluice.core.views.records import HISTORY_LIMIT
from sluice.core.views.totals import series
from sluice.events.base import JobKey, PodSet, WorkloadKey
from sluice.events.checks import ChecksRequested, CheckStateChanged, ChecksWithdrawn, VerdictIgnored
from sluice.events.config import ObjectDeleted
from sluice.events.scheduler import (
    BlockedOnPreemptionGates,
    ClusterQueueStatusChanged,
    Evicted,
    Preempted,
    PreemptionIssued,
    QuotaReleased,
    RequeueBackoffStarted,
    Requeued,
    WorkloadsParked,
)
from sluice.events.slices import (
    JobReference,
    JobResumed,
    JobSuspended,
    ReclaimablePodsUpdated,
    WorkloadDeleted,
    WorkloadFinished,
    WorkloadPodsReady,
    WorkloadStopped,
    WorkloadUpdated,
)
from tests.support.lifecycle_history import (
    SECOND,
    admitted,
    cluster_queue,
    configuration,
    created,
    local_queue,
    reserved,
)

W = WorkloadKey("ns/w")
EVICTED = Evicted(workload=W, reason="Preempted", message="Preempted to accommodate a workload", cause=0)
RELEASED = QuotaReleased(workload=W, cause=0)
JOB = JobReference(api_version="batch/v1", kind="Job", key=JobKey("ns/train"), uid="u")
QUOTA = {
    "coveredResources": ["cpu"],
    "flavors": [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": 3}]}],
}


class Told(View):
    """A view with a clock: `tell` folds events one second apart."""

    def tell(self, *events):
        for event in events:
            self.apply(event, self.seq + 1, (self.seq + 1) * SECOND)
        return self

    def shown(self, kind, name="w"):
        """Return status, reason and message of a condition."""
        workload = self.workloads[WorkloadKey(f"ns/{name}")]
        for condition in conditions(self, workload):
            if condition.type == kind:
                return condition.status, condition.reason, condition.message
        return None


def cell(*events):
    return Told().tell(cluster_queue(resourceGroups=[QUOTA]), local_queue(), *events)


def parked(*names, reason="WaitingForQuota", message="insufficient quota"):
    keys = [WorkloadKey(f"ns/{name}") for name in names]
    return WorkloadsParked(workloads=keys, reason=reason, message=message, cause=0)


# Conditions


def test_a_new_workload_is_pending_evaluation():
    """Nothing was said of it yet, and nothing is in its way."""
    view = cell(created())
    message = "Workload is pending evaluation in the scheduling queue"
    assert view.shown("QuotaReserved") == ("False", "PendingEvaluation", message)
    assert view.shown("Admitted") == ("False", "NoReservation", "The workload has no reservation")


def test_resources_out_of_range_come_before_gates_and_after_queues():
    """Known before the scheduler has looked, and whatever else holds the workload up (G6)."""
    gated = {"kueue.x-k8s.io/admission-gated-by": "a"}
    view = cell(created(misconfigured="out of range", annotations=gated))
    assert view.shown("QuotaReserved") == ("False", "Misconfigured", "out of range")
    view.tell(cluster_queue(resourceGroups=[QUOTA], stopPolicy="Hold"))
    assert view.shown("QuotaReserved") == ("False", "Suspended", "ClusterQueue cq is inactive")


def test_an_admitted_workload_says_where():
    """The words that Kueue's users know."""
    view = cell(created(), reserved(), admitted())
    assert view.shown("QuotaReserved") == ("True", "QuotaReserved", "Quota reserved in ClusterQueue cq")
    assert view.shown("Admitted") == ("True", "Admitted", "The workload is admitted")
    manifest = to_manifest(view, view.workloads[W])
    assert manifest.status.admission.cluster_queue == "cq"
    assert manifest.status.admission.pod_set_assignments[0].resource_usage == {"cpu": "2"}
    assert manifest.spec.pod_sets[0].template.spec.containers[0].resources.requests == {"cpu": "1"}


def test_a_manifest_reads_back():
    """What is shown is a valid manifest."""
    view = cell(created(), reserved(), admitted(), EVICTED)
    manifest = to_manifest(view, view.workloads[W])
    assert msgspec.json.decode(msgspec.json.encode(manifest), type=type(manifest)) == manifest


def test_a_preemption_and_the_next_attempt():
    """Evicted and Preempted stay True until quota is reserved again; then they say what was."""
    rule = Preempted(workload=W, preemptor=W, rule="InClusterQueue", message="because", cause=0)
    requeued = Requeued(workload=W, reason="Preempted", message=EVICTED.message, cause=0)
    view = cell(created(), reserved(), admitted(), EVICTED, rule)
    assert view.shown("Evicted") == ("True", "Preempted", EVICTED.message)
    assert view.shown("Preempted") == ("True", "InClusterQueue", "because")
    assert view.shown("QuotaReserved")[0] == "True", "the handshake is not over"

    view.tell(RELEASED, requeued)
    assert view.shown("QuotaReserved")[0] == "False"
    assert view.shown("Requeued") == ("True", "Preempted", EVICTED.message)

    view.tell(reserved())
    assert view.shown("Evicted") == ("False", "QuotaReserved", f"Previously: {EVICTED.message}")
    assert view.shown("Preempted") == ("False", "QuotaReserved", "Previously: because")


def test_a_transition_time_changes_with_the_status_only():
    """As Kubernetes keeps lastTransitionTime."""
    view = cell(created(), reserved(), admitted(), EVICTED)
    again = Evicted(workload=W, reason="Deactivated", message="other", cause=0)
    (first,) = [c for c in conditions(view, view.workloads[W]) if c.type == "Evicted"]
    view.tell(again)
    (second,) = [c for c in conditions(view, view.workloads[W]) if c.type == "Evicted"]
    assert (second.reason, second.last_transition_time) == ("Deactivated", first.last_transition_time)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], ("False", "WaitForStart", "Not all pods are ready or succeeded")),
        ([True], ("True", "Started", "All pods reached readiness and the workload is running")),
        (
            [True, False],
            ("False", "WaitForRecovery", "At least one pod has failed, waiting for recovery"),
        ),
        (
            [True, False, True],
            ("True", "Recovered", "All pods reached readiness and the workload is running"),
        ),
    ],
)
def test_pods_ready_tells_start_from_recovery(events, expected):
    """The reasons decide which timeout runs."""
    view = cell(configuration(waitForPodsReady={"enable": True}), created(), reserved(), admitted())
    view.tell(*(WorkloadPodsReady(workload=W, ready=ready, cause=0) for ready in events))
    assert view.shown("PodsReady") == expected


def test_backoff_holds_and_ends():
    """requeueState says when; Requeued turns True when it is over."""
    backoff = RequeueBackoffStarted(workload=W, count=2, requeue_at=500 * SECOND, cause=0)
    timeout = Evicted(workload=W, reason="PodsReadyTimeout", message="late", cause=0)
    view = cell(created(), reserved(), admitted(), backoff, timeout, RELEASED)
    status = to_manifest(view, view.workloads[W]).status
    assert (status.requeue_state.count, status.requeue_state.requeue_at) == (2, "1970-01-01T00:08:20Z")
    assert view.shown("Requeued") == ("False", "PodsReadyTimeout", "late")
    assert view.shown("QuotaReserved") == ("False", "OnHold", "late")

    view.tell(Requeued(workload=W, reason="BackoffFinished", message="over", cause=0))
    assert view.shown("Requeued") == ("True", "BackoffFinished", "over")
    assert view.shown("QuotaReserved")[1] == "PendingEvaluation"


def test_a_closed_gate_is_shown():
    """CA11: both conditions, with the message."""
    view = cell(created(), BlockedOnPreemptionGates(workload=W, message="it's gated", cause=0))
    assert view.shown("BlockedOnPreemptionGates") == ("True", "PreemptionGated", "it's gated")
    assert view.shown("QuotaReserved") == ("False", "AdmissionGated", "it's gated")


# Reasons of pending workloads


@pytest.mark.parametrize(
    ("event", "reason", "message"),
    [
        (local_queue(stopPolicy="Hold"), "Suspended", "LocalQueue lq is inactive"),
        (cluster_queue(stopPolicy="HoldAndDrain"), "Suspended", "ClusterQueue cq is inactive"),
        (
            ObjectDeleted(kind="LocalQueue", name="lq", namespace="ns", cause=0),
            "Misconfigured",
            "LocalQueue lq doesn't exist",
        ),
        (
            ObjectDeleted(kind="ClusterQueue", name="cq", cause=0),
            "Misconfigured",
            "ClusterQueue cq doesn't exist",
        ),
        (
            ClusterQueueStatusChanged(
                cluster_queue="cq", active=False, reason="FlavorNotFound", message="m", cause=0
            ),
            "Suspended",
            "ClusterQueue cq is inactive",
        ),
        (WorkloadUpdated(workload=W, active=False, cause=0), "Deactivated", "The workload is deactivated"),
        (
            WorkloadUpdated(workload=W, annotations={"kueue.x-k8s.io/admission-gated-by": "a.io/x"}, cause=0),
            "AdmissionGated",
            "Admission is gated by: a.io/x",
        ),
    ],
)
def test_what_stops_a_queue_is_seen_without_an_event(event, reason, message):
    """Reasons that follow from the queues are derived, not recorded for each workload (G7)."""
    view = cell(created(), event)
    assert view.shown("QuotaReserved") == ("False", reason, message)


def test_a_restarted_queue_shows_no_old_reason():
    """A verdict older than the queue's manifest may be out of date."""
    view = cell(created(), parked("w"))
    assert view.shown("QuotaReserved")[1] == "WaitingForQuota"
    view.tell(local_queue(stopPolicy="Hold"))
    assert view.shown("QuotaReserved")[1] == "Suspended"
    view.tell(local_queue())
    assert view.shown("QuotaReserved")[1] == "PendingEvaluation"


def test_a_local_queue_that_leads_where_it_led_keeps_its_verdicts():
    """Nobody is looked at anew for it, so what was said stands."""
    view = cell(created(), parked("w"))
    view.tell(local_queue(fairSharing={"weight": "2"}))
    assert view.shown("QuotaReserved") == ("False", "WaitingForQuota", "insufficient quota")


BLOCKS = configuration(waitForPodsReady={"enable": True, "blockAdmission": True})


def blocked():
    """Return a view of `w`, which waits for the pods of `runs`."""
    view = cell(BLOCKS, created("runs"), reserved("runs"), admitted("runs"), created("w"))
    return view.tell(parked("w", reason="WaitingForPodsReady", message="waiting"))


@pytest.mark.parametrize(
    "event",
    [
        ObjectDeleted(kind="Configuration", name="default", cause=0),
        configuration(waitForPodsReady={"enable": True}),
        WorkloadPodsReady(workload=WorkloadKey("ns/runs"), ready=True, cause=0),
        WorkloadFinished(workload=WorkloadKey("ns/runs"), cause=0),
    ],
)
def test_nobody_waits_for_pods_that_nobody_awaits(event):
    """Whether or not it has been looked at since: who is behind the head of a StrictFIFO queue has not."""
    view = blocked()
    assert view.shown("QuotaReserved") == ("False", "WaitingForPodsReady", "waiting")
    assert view.tell(event).shown("QuotaReserved")[1] == "PendingEvaluation"


def test_who_waits_for_pods_goes_on_waiting_for_those_of_others():
    view = blocked().tell(created("other"), reserved("other"), admitted("other"))
    view.tell(WorkloadPodsReady(workload=WorkloadKey("ns/runs"), ready=True, cause=0))
    assert view.shown("QuotaReserved")[1] == "WaitingForPodsReady"
    view.tell(WorkloadPodsReady(workload=WorkloadKey("ns/other"), ready=True, cause=0))
    assert view.shown("QuotaReserved")[1] == "PendingEvaluation"
    view.tell(WorkloadPodsReady(workload=WorkloadKey("ns/other"), ready=False, cause=0))
    assert view.shown("QuotaReserved")[1] == "WaitingForPodsReady"


def test_other_settings_void_what_was_said_before():
    """Those that the scheduler goes by: it looks at everything again (SC2)."""
    view = cell(created(), parked("w"), configuration(fairSharing={"enable": True}))
    assert view.shown("QuotaReserved")[1] == "PendingEvaluation"
    view.tell(parked("w"), configuration(fairSharing={"enable": True}, queueVisibilityMaxCount=3))
    assert view.shown("QuotaReserved")[1] == "WaitingForQuota"


def test_equal_workloads_share_a_verdict():
    """Those to come included; others do not (SC2)."""
    view = cell(created("w", 1), parked("w"), created("same", 2), created("other", 3, priority=7))
    assert view.shown("QuotaReserved", "same") == ("False", "WaitingForQuota", "insufficient quota")
    assert view.shown("QuotaReserved", "other")[1] == "PendingEvaluation"

    view.tell(parked("same", message="new"))
    assert view.shown("QuotaReserved", "w") == ("False", "WaitingForQuota", "new")


def test_a_preemptor_says_what_it_waits_for():
    """Of itself only, not of its equals."""
    issued = PreemptionIssued(
        workload=W, victims=[WorkloadKey("ns/x")], usage={}, message="Pending the preemption", cause=0
    )
    view = cell(created(), created("same", 2), parked("w"), issued)
    assert view.shown("QuotaReserved")[1] == "WaitingForPreemptedWorkloads"
    assert view.shown("QuotaReserved", "same")[1] == "WaitingForQuota"


# Admission checks

CHECKS = {"admissionChecks": [{"name": "a"}, {"name": "b", "onFlavors": ["spot"]}, {"name": "c"}]}


def states(view):
    return [
        (s.name, s.state, s.message, s.retry_count)
        for s in to_manifest(view, view.workloads[W]).status.admission_checks
    ]


def test_checks_follow_the_assigned_flavors():
    """Relevant ones only, Pending until their controller speaks (AC1)."""
    queue = cluster_queue(resourceGroups=[QUOTA], admissionChecksStrategy=CHECKS)
    view = cell(queue, created(), reserved())
    assert states(view) == [("a", "Pending", "", None), ("c", "Pending", "", None)]
    assert view.shown("Admitted")[1] == "UnsatisfiedAdmissionChecks"
    view.tell(CheckStateChanged(workload=W, check="c", state="Ready", message="ok", cause=0))
    assert states(view) == [("a", "Pending", "", None), ("c", "Ready", "ok", None)]


def test_a_check_added_after_the_admission_is_not_shown():
    """It is not asked (AC1); once the workload has lost its quota it concerns it like all others."""
    queue = cluster_queue(
        resourceGroups=[QUOTA], admissionChecksStrategy={"admissionChecks": [{"name": "a"}]}
    )
    view = cell(queue, created(), reserved())
    view.tell(CheckStateChanged(workload=W, check="a", state="Ready", cause=0), admitted())
    view.tell(cluster_queue(resourceGroups=[QUOTA], admissionChecksStrategy=CHECKS))
    assert states(view) == [("a", "Ready", "", None)]
    view.tell(CheckStateChanged(workload=W, check="a", state="Pending", cause=0))
    assert states(view) == [("a", "Pending", "", None)]
    view.tell(EVICTED, RELEASED)
    assert [name for name, *_ in states(view)] == ["a", "c"]


def test_an_eviction_resets_checks():
    """Retries are counted, all else is forgotten (AC4)."""
    queue = cluster_queue(resourceGroups=[QUOTA], admissionChecksStrategy=CHECKS)
    view = cell(queue, created(), reserved())
    view.tell(CheckStateChanged(workload=W, check="a", state="Retry", requeue_after_s=5, cause=0))
    view.tell(CheckStateChanged(workload=W, check="c", state="Ready", cause=0), EVICTED)
    reset = "Reset to Pending after eviction. Previously: "
    assert states(view) == [("a", "Pending", reset + "Retry", 1), ("c", "Pending", reset + "Ready", None)]


# Queues


def counts(view):
    queue, local = view.cluster_queues["cq"], view.local_queues["ns/lq"]
    status, local_status = cluster_queue_status(view, queue), local_queue_status(view, local)
    names = ("pendingWorkloads", "reservingWorkloads", "admittedWorkloads")
    assert [status[n] for n in names] == [local_status[n] for n in names]
    (flavor,) = status["flavorsUsage"]
    return [status[n] for n in names] + [flavor["resources"][0]["total"]]


def test_counts_follow_a_whole_life():
    """Pending, reserving, admitted and usage at every station."""
    view = cell(created())
    assert counts(view) == [1, 0, 0, "0"]
    assert counts(view.tell(reserved())) == [0, 1, 0, "0"]
    assert counts(view.tell(admitted())) == [0, 1, 1, "2"]
    assert counts(view.tell(ReclaimablePodsUpdated(workload=W, pods={"main": 1}, cause=0))) == [0, 1, 1, "1"]
    assert counts(view.tell(EVICTED, WorkloadStopped(workload=W, cause=0))) == [0, 1, 1, "1"]
    assert counts(view.tell(RELEASED)) == [1, 0, 0, "0"]
    assert counts(view.tell(reserved(), admitted())) == [0, 1, 1, "2"]
    assert counts(view.tell(WorkloadFinished(workload=W, cause=0))) == [0, 0, 0, "0"]
    assert view.shown("QuotaReserved")[0] == "True", "a finished workload shows what it had"
    assert counts(view.tell(WorkloadDeleted(workload=W, cause=0))) == [0, 0, 0, "0"]
    assert view.workloads == {}


@pytest.mark.parametrize("at", ["pending", "reserved", "admitted", "evicted", "finished"])
def test_a_deleted_workload_leaves_nothing(at):
    """Counters go back to nothing from every phase."""
    stations = {
        "pending": [],
        "reserved": [reserved()],
        "admitted": [reserved(), admitted()],
        "evicted": [reserved(), admitted(), EVICTED],
        "finished": [reserved(), admitted(), WorkloadFinished(workload=W, cause=0)],
    }
    view = cell(created("w", 1, job=JOB), *stations[at], WorkloadDeleted(workload=W, cause=0))
    assert counts(view) == [0, 0, 0, "0"]
    assert view.jobs == {}
    assert view.cluster_queues["cq"].reservation == {}


def test_borrowed_is_what_exceeds_the_nominal_quota():
    """Quota 3, in use 4."""
    view = cell(created("a", 1), created("b", 2), reserved("a"), reserved("b"), admitted("a"), admitted("b"))
    (flavor,) = cluster_queue_status(view, view.cluster_queues["cq"])["flavorsReservation"]
    assert flavor == {"name": "default", "resources": [{"name": "cpu", "total": "4", "borrowed": "1"}]}


def test_a_cut_in_place_frees_its_share():
    """Counts go down at once, in usage and admission (WS3)."""
    view = cell(created(), reserved(), admitted())
    pod_set = PodSet(name="main", count=1, requests={"cpu": 1000})
    assert counts(view.tell(WorkloadUpdated(workload=W, pod_sets=(pod_set,), cause=0))) == [0, 1, 1, "1"]
    assert to_manifest(view, view.workloads[W]).status.admission.pod_set_assignments[0].count == 1


def test_a_cohort_sums_its_subtree():
    """Over cohorts of cohorts."""
    view = Told().tell(
        cluster_queue("left", cohortName="team", resourceGroups=[QUOTA]),
        cluster_queue("cq", cohortName="root", resourceGroups=[QUOTA]),
        local_queue(),
        created(),
        reserved(),
    )
    view.cohorts["team"] = CohortSpec(parent_name="root")
    status = cohort_status(view, "root")
    assert status["clusterQueues"] == ["cq", "left"]
    assert status["nominalQuota"][0]["resources"] == [{"name": "cpu", "total": "6"}]
    assert status["flavorsReservation"][0]["resources"] == [{"name": "cpu", "total": "2"}]


def test_an_inactive_cluster_queue_makes_its_local_queues_inactive():
    """Until the scheduler says so itself, it is derived."""
    view = cell(cluster_queue(stopPolicy="Hold"))
    (active,) = cluster_queue_status(view, view.cluster_queues["cq"])["conditions"]
    assert (active["status"], active["reason"]) == ("False", "Stopped")
    (active,) = local_queue_status(view, view.local_queues["ns/lq"])["conditions"]
    assert (active["status"], active["reason"]) == ("False", "ClusterQueueIsInactive")


# Places in the queue


def test_places_are_by_priority_then_time_then_uid():
    """SC1's order, over all local queues of the cluster queue."""
    view = cell(
        local_queue("other"),
        created("late", 3, created_at=9),
        created("early", 2, created_at=5),
        created("twin", 1, created_at=5),
        created("first", 4, created_at=20, priority=1, queue_name="other"),
    )
    assert positions(view, "cq") == {"ns/first": 1, "ns/twin": 2, "ns/early": 3, "ns/late": 4}
    view.tell(reserved("first"))
    assert position(view, view.workloads[WorkloadKey("ns/late")]) == 3
    assert position(view, view.workloads[WorkloadKey("ns/first")]) is None


def test_who_is_gated_has_no_place():
    """It is in no queue, and nobody stands behind it."""
    gate = {"kueue.x-k8s.io/admission-gated-by": "example.com/gate"}
    view = cell(
        created("gated", 1, created_at=1, annotations=gate),
        created("next", 2, created_at=2),
    )
    places = {name: position(view, view.workloads[WorkloadKey(f"ns/{name}")]) for name in ("gated", "next")}
    assert places == {"gated": None, "next": 1}
    assert list(positions(view, "cq")) == ["ns/next", "ns/gated"], "it is listed with those that wait"
    view.tell(WorkloadUpdated(cause=1, workload=WorkloadKey("ns/gated"), annotations={}))
    assert position(view, view.workloads[WorkloadKey("ns/gated")]) == 1


def test_an_eviction_for_readiness_moves_to_the_end():
    """Its queue time is that of the eviction (requeuing strategy Eviction); a preemption keeps its place."""
    timeout = Evicted(workload=W, reason="PodsReadyTimeout", message="", cause=0)
    for evicted, place in ((EVICTED, 1), (timeout, 2)):
        view = cell(created(), created("b", 2), reserved(), admitted(), evicted, RELEASED)
        assert position(view, view.workloads[W]) == place


# Jobs


def test_a_job_goes_through_its_phases():
    """As its owner sees it."""
    key = JobKey("ns/train")
    view = cell(created("w", 1, job=JOB))

    def phase():
        return job_status(view, view.jobs[key]).phase

    assert phase() is Phase.QUEUED
    view.tell(reserved())
    assert phase() is Phase.RESERVED
    view.tell(admitted(), JobResumed(job=key, workload=W, attempt=1, cause=0))
    assert phase() is Phase.ADMITTED
    view.tell(WorkloadPodsReady(workload=W, cause=0))
    assert phase() is Phase.RUNNING
    view.tell(EVICTED)
    assert phase() is Phase.STOPPING
    view.tell(RELEASED)
    assert phase() is Phase.QUEUED
    view.tell(WorkloadUpdated(workload=W, active=False, cause=0))
    assert phase() is Phase.SUSPENDED
    view.tell(WorkloadFinished(workload=W, reason="Failed", message="exit code 1", cause=0))
    status = job_status(view, view.jobs[key])
    assert (status.phase, status.message, status.evictions) == (Phase.FAILED, "exit code 1", 1)


@pytest.mark.parametrize("ready", [False, True])
def test_a_job_that_is_told_to_stop_for_good_is_stopping(ready):
    """Although nobody evicts it, it goes; what it was stopped for before it was admitted again is over."""
    key = JobKey("ns/train")
    before = JobSuspended(job=key, workload=W, attempt=1, reason="Preempted", message="p", cause=0)
    view = cell(
        created("w", 1, job=JOB), reserved(), admitted(), before, EVICTED, RELEASED, reserved(), admitted()
    )
    assert job_status(view, view.jobs[key]).phase is Phase.ADMITTED
    view.tell(JobResumed(job=key, workload=W, attempt=2, cause=0))
    if ready:
        view.tell(WorkloadPodsReady(workload=W, cause=0))
    said = "The job was deleted"
    view.tell(JobSuspended(job=key, workload=W, attempt=2, reason="JobDeleted", message=said, cause=0))
    status = job_status(view, view.jobs[key])
    assert (status.phase, status.reason, status.message) == (Phase.STOPPING, "JobDeleted", said)


# History


def test_the_history_is_bounded_and_keeps_its_beginning():
    """Many attempts do not make a workload large."""
    view = cell(created())
    for _ in range(50):
        view.tell(reserved(), admitted(), EVICTED, RELEASED)
    history = view.workloads[W].history
    assert len(history) == HISTORY_LIMIT
    assert type(history[0].event).__name__ == "WorkloadCreated"
    assert history[-1].event is RELEASED


def test_the_history_reads_as_kubernetes_events():
    """With the waits that users know."""
    view = cell(created("w", 1, created_at=0), reserved(), admitted(), EVICTED)
    lines = [(n.type, n.reason, n.message) for n in notices(view.workloads[W])][1:]
    assert lines == [
        (
            "Normal",
            "QuotaReserved",
            "Quota reserved in ClusterQueue cq, wait time since queued was 4s",
        ),
        ("Normal", "Admitted", "Admitted by ClusterQueue cq, wait time since reservation was 1s"),
        ("Normal", "EvictedDueToPreempted", EVICTED.message),
    ]


def test_events_of_unknown_objects_change_nothing():
    """A view may start late in a log that was cut."""
    view = Told().tell(
        reserved(), admitted(), EVICTED, RELEASED, parked("w"), WorkloadDeleted(workload=W, cause=0)
    )
    assert view.workloads == {}


def test_waits_are_counted():
    """How long a workload waited for quota, and then for its checks, in histograms."""
    asked = ChecksRequested(workload=W, attempt=1, checks=("c",), cause=0)
    withdrawn = ChecksWithdrawn(workload=W, attempt=1, reason="Finished", cause=0)
    view = cell(created(), reserved(), asked, admitted(), withdrawn)
    found = {(name, labels.get("le", "")): value for name, labels, value in series(view.totals)}
    name = "sluice_admission_checks_wait_time_seconds"
    assert (found[f"{name}_count", ""], found[f"{name}_sum", ""]) == (1, 2)
    assert (found[f"{name}_bucket", "2"], found[f"{name}_bucket", "+Inf"]) == (1, 1)
    assert (f"{name}_bucket", "1") not in found
    assert found["sluice_quota_reserved_wait_time_seconds_count", ""] == 1


def test_ignored_verdicts_are_part_of_the_history():
    """Each kind once in a row, so that who goes on does not push out what else happened."""
    ignored = VerdictIgnored(
        workload=W, check="a", controller="c", attempt=1, state="Ready", reason="StaleAttempt", cause=0
    )
    view = cell(created(), reserved(), *[ignored] * 30)
    shown = [notice for notice in notices(view.workloads[W]) if notice.reason.endswith("VerdictIgnored")]
    assert len(shown) == 1
    assert "StaleAttempt" in shown[0].message
