"""Eviction, release and return to the queue, and when each is decided."""

import pytest

from sluice.core.timing import MICROS_PER_S, backoff_s
from sluice.events.base import WorkloadKey
from sluice.events.checks import ChecksReady, ChecksRejected, ChecksRetry
from sluice.events.config import ObjectDeleted
from sluice.events.scheduler import (
    Admitted,
    Evicted,
    PendingReasonChanged,
    Preempted,
    QuotaReleased,
    RequeueBackoffStarted,
    Requeued,
    WorkloadDeactivated,
)
from sluice.events.slices import (
    WorkloadDeleted,
    WorkloadFinished,
    WorkloadPodsReady,
    WorkloadStopped,
    WorkloadUpdated,
)
from tests.support.lifecycle_history import (
    SECOND,
    History,
    checked_queue,
    cluster_queue,
    configuration,
    created,
    local_queue,
    reserved,
    running,
)

W = WorkloadKey("ns/w")
STOPPED = WorkloadStopped(workload=W, cause=0)
PREEMPTED = Evicted(workload=W, reason="Preempted", message="Preempted to accommodate a workload", cause=0)


def kinds(events):
    return [type(event).__name__ for event in events]


def wait_for_pods(timeout_s=60, **settings):
    return configuration(waitForPodsReady={"enable": True, "timeoutSeconds": timeout_s, **settings})


def waiting_for_checks():
    history = History().tell(checked_queue(), local_queue(), created(), reserved())
    assert history.settle() == []
    return history


# The handshake


def test_quota_is_held_until_the_pods_have_stopped():
    """Evicted is only a request; the executor's answer frees the quota (G9)."""
    history = running().tell(PREEMPTED)
    assert history.settle(100) == []
    assert history.workload().assignment is not None

    history.tell(STOPPED)
    assert history.settle(101) == [
        QuotaReleased(workload=W, cause=history.seq),
        Requeued(workload=W, reason="Preempted", message=PREEMPTED.message, cause=history.seq),
    ]


def test_quota_that_was_only_reserved_is_free_at_once():
    """What was never admitted has no pods to wait for (G9)."""
    history = waiting_for_checks().tell(PREEMPTED)
    assert kinds(history.settle()) == ["QuotaReleased", "Requeued"]


def test_a_second_stop_changes_nothing():
    """Stopped twice, released once."""
    history = running().tell(PREEMPTED, STOPPED, STOPPED)
    assert kinds(history.settle()) == ["QuotaReleased", "Requeued"]
    assert history.tell(STOPPED).settle() == []


def test_an_unexpected_stop_is_a_node_failure():
    """Pods that end though nobody asked: evicted, released and requeued in one step (G8)."""
    stop = WorkloadStopped(workload=W, reason="NodeFailures", message="agent a1 was lost", cause=0)
    history = running().tell(stop)
    assert history.settle() == [
        Evicted(workload=W, reason="NodeFailures", message="agent a1 was lost", cause=history.seq),
        QuotaReleased(workload=W, cause=history.seq),
        Requeued(workload=W, reason="NodeFailures", message="agent a1 was lost", cause=history.seq),
    ]


@pytest.mark.parametrize("end", [WorkloadFinished(workload=W, cause=0), WorkloadDeleted(workload=W, cause=0)])
@pytest.mark.parametrize("evicted", [False, True])
def test_the_end_of_a_workload_ends_all_that_was_due(end, evicted):
    """Nothing is decided for a workload that has finished or was deleted, whatever was under way."""
    history = running(maximum_execution_time_s=60)
    if evicted:
        history.tell(PREEMPTED)
    history.tell(end)
    assert history.settle(1000) == []
    assert history.deadline_s() is None
    assert history.tell(STOPPED).settle() == []


# Stop policies


@pytest.mark.parametrize(
    ("stop", "start", "reason", "message", "back"),
    [
        (
            cluster_queue(stopPolicy="HoldAndDrain"),
            cluster_queue(),
            "ClusterQueueStopped",
            "The ClusterQueue is stopped",
            "ClusterQueueRestarted",
        ),
        (
            local_queue(stopPolicy="HoldAndDrain"),
            local_queue(),
            "LocalQueueStopped",
            "The LocalQueue is stopped",
            "LocalQueueRestarted",
        ),
    ],
)
def test_a_drained_queue_gives_its_workloads_back_when_restarted(stop, start, reason, message, back):
    """HoldAndDrain evicts; the workload waits for the restart and is queued again then."""
    history = running().tell(stop)
    assert history.settle() == [Evicted(workload=W, reason=reason, message=message, cause=history.seq)]
    assert kinds(history.tell(STOPPED).settle()) == ["QuotaReleased"]
    history.reload()
    assert history.settle(3600) == []
    requeued = history.tell(start).settle()
    assert [(type(e), e.reason) for e in requeued] == [(Requeued, back)]


def test_hold_lets_running_workloads_run():
    """Hold only keeps new ones out (SC7)."""
    assert running().tell(cluster_queue(stopPolicy="Hold")).settle() == []
    assert running().tell(local_queue(stopPolicy="Hold")).settle() == []


@pytest.mark.parametrize(
    ("change", "reason", "message"),
    [
        (local_queue(stopPolicy="Hold"), "Suspended", "LocalQueue lq is stopped"),
        (cluster_queue(stopPolicy="Hold"), "Suspended", "ClusterQueue cq is stopped"),
        (
            ObjectDeleted(kind="LocalQueue", name="lq", namespace="ns", cause=0),
            "Misconfigured",
            "LocalQueue lq is terminating or missing",
        ),
        (
            ObjectDeleted(kind="ClusterQueue", name="cq", cause=0),
            "Misconfigured",
            "ClusterQueue cq is terminating or missing",
        ),
    ],
)
def test_a_reservation_without_admission_ends_with_its_queue(change, reason, message):
    """Quota that was only reserved is given up without an eviction when its queue stops or goes."""
    history = waiting_for_checks().tell(change)
    assert history.settle() == [
        QuotaReleased(workload=W, cause=history.seq),
        PendingReasonChanged(workloads=(W,), reason=reason, message=message, cause=history.seq),
    ]


def test_a_queue_stopped_and_restarted_in_one_batch_evicts_nobody():
    """Only the state at the time of deciding counts."""
    assert running().tell(cluster_queue(stopPolicy="HoldAndDrain"), cluster_queue()).settle() == []


# Deactivation


def test_a_deactivated_workload_waits_for_its_reactivation():
    """spec.active=false evicts; spec.active=true queues it again, with a clean slate."""
    history = running().tell(WorkloadUpdated(workload=W, active=False, cause=0))
    (evicted,) = history.settle()
    assert (evicted.reason, evicted.message) == ("Deactivated", "The workload is deactivated")
    assert kinds(history.tell(STOPPED).settle(50)) == ["QuotaReleased"]
    assert history.workload().past_execution_us == 50 * MICROS_PER_S

    history.tell(WorkloadUpdated(workload=W, active=True, cause=0))
    (requeued,) = history.settle()
    assert requeued.reason == "Reactivated"
    assert history.workload().past_execution_us == 0


def test_the_maximum_execution_time_counts_earlier_attempts():
    """120 s in all: 50 s before a preemption, 70 s after it (SC7)."""
    history = running(maximum_execution_time_s=120)
    assert history.deadline_s() == 120
    history.at = 50 * SECOND
    history.tell(PREEMPTED, STOPPED).settle()
    stopped = history.seq
    assert history.deadline_s() is None

    history.at = 100 * SECOND
    history.tell(reserved(), Admitted(workload=W, cause=0))
    assert history.settle() == []
    assert history.deadline_s() == 170
    assert history.settle(169.9) == []
    deactivated, evicted = history.settle(170)
    assert deactivated == WorkloadDeactivated(
        workload=W,
        reason="MaximumExecutionTimeExceeded",
        message="exceeding the maximum execution time",
        observed_switch=0,
        cause=stopped,
    )
    assert evicted.reason == "Deactivated"
    assert evicted.underlying_cause == "MaximumExecutionTimeExceeded"
    assert kinds(history.tell(STOPPED).settle()) == ["QuotaReleased"]


# PodsReady


@pytest.mark.parametrize(
    ("count", "base_s", "max_s", "wait_s"),
    [
        (1, 60, 3600, 60),
        (2, 60, 3600, 120),
        (4, 10, 3600, 80),
        (7, 60, 3600, 3600),
        (11, 10, 7200, 7200),
        (3, 10, 0, 40),
        (1, 0, 3600, 0),
        (10_000, 1, 3600, 3600),
    ],
)
def test_backoff_doubles_up_to_its_maximum(count, base_s, max_s, wait_s):
    """base * 2^(n-1), at most the maximum; 0 means none."""
    assert backoff_s(count, base_s, max_s) == wait_s


def test_pods_that_are_not_ready_in_time_send_the_workload_back():
    """The timeout evicts with a cause; the backoff runs from then on, and ends by itself."""
    history = running().tell(wait_for_pods(requeuingStrategy={"backoffBaseSeconds": 30}))
    assert history.settle() == []
    assert history.deadline_s() == 60
    backoff, evicted = history.settle(60)
    created_seq = 3
    assert backoff == RequeueBackoffStarted(workload=W, count=1, requeue_at=90 * SECOND, cause=created_seq)
    assert evicted == Evicted(
        workload=W,
        reason="PodsReadyTimeout",
        message="Exceeded the PodsReady timeout ns/w",
        underlying_cause="WaitForStart",
        cause=created_seq,
    )
    history.at = 61 * SECOND
    assert kinds(history.tell(STOPPED).settle()) == ["QuotaReleased"]
    history.reload()
    assert history.deadline_s() == 90
    (requeued,) = history.settle(90)
    assert (requeued.reason, requeued.message) == ("BackoffFinished", "The workload backoff was finished")
    assert history.deadline_s() is None


def test_a_stop_after_the_backoff_requeues_at_once():
    """Waiting for the executor counts as waiting."""
    history = running().tell(wait_for_pods(requeuingStrategy={"backoffBaseSeconds": 30}))
    history.settle(60)
    history.at = 200 * SECOND
    assert kinds(history.tell(STOPPED).settle()) == ["QuotaReleased", "Requeued"]


def test_too_many_timeouts_deactivate():
    """backoffLimitCount requeues, then none."""
    history = running().tell(
        wait_for_pods(requeuingStrategy={"backoffBaseSeconds": 1, "backoffLimitCount": 2})
    )
    for attempt in (1, 2):
        assert kinds(history.settle(attempt * 1000)) == ["RequeueBackoffStarted", "Evicted"]
        history.tell(STOPPED).settle()
        history.settle(attempt * 1000 + 900)
        history.tell(reserved(), Admitted(workload=W, cause=0)).settle()
    deactivated, evicted = history.settle(3000)
    assert deactivated.reason == "RequeuingLimitExceeded"
    assert evicted.message == (
        "The workload is deactivated due to exceeding the maximum number of re-queuing retries"
    )
    assert kinds(history.tell(STOPPED).settle(9999)) == ["QuotaReleased"]


def test_pods_that_were_ready_have_the_recovery_timeout():
    """Without one they may recover for ever."""
    ready = WorkloadPodsReady(workload=W, cause=0)
    lost = WorkloadPodsReady(workload=W, ready=False, cause=0)
    history = running().tell(wait_for_pods(), ready)
    assert history.settle(1000) == []
    assert history.deadline_s() is None
    assert history.tell(lost).settle(5000) == []

    history = running().tell(wait_for_pods(recoveryTimeoutSeconds=3), ready)
    history.at = 1000 * SECOND
    assert history.tell(lost).settle() == []
    assert history.deadline_s() == 1003
    backoff, evicted = history.settle(1003)
    assert (type(backoff), evicted.underlying_cause) == (RequeueBackoffStarted, "WaitForRecovery")


# Admission checks


def test_all_checks_ready_admit():
    """The second stage of admission (AC1)."""
    history = waiting_for_checks().tell(ChecksReady(workload=W, cause=0))
    assert history.settle() == [Admitted(workload=W, cause=history.seq)]


@pytest.mark.parametrize("admit", [False, True])
def test_a_retry_evicts_and_waits(admit):
    """Quota is given back even if it was never admitted; requeued when the delay is over (AC3, AC5)."""
    history = waiting_for_checks()
    if admit:
        history.tell(ChecksReady(workload=W, cause=0)).settle()
    history.tell(ChecksRetry(workload=W, checks=["late"], requeue_at=40 * SECOND, cause=0))
    events = history.settle(1)
    assert kinds(events)[:2] == ["RequeueBackoffStarted", "Evicted"]
    assert events[1].message == 'Evicted due to AdmissionCheck in Retry state: "late"'
    if admit:
        assert len(events) == 2
        events = history.tell(STOPPED).settle()
    assert kinds(events)[-1] == "QuotaReleased"
    assert history.settle(39) == []
    (requeued,) = history.settle(40)
    assert requeued.reason == "BackoffFinished"


def test_a_retry_without_delay_requeues_in_the_same_step():
    """A delay that is over already is none."""
    history = waiting_for_checks()
    history.tell(ChecksRetry(workload=W, checks=["late"], requeue_at=0, cause=0))
    assert kinds(history.settle(1)) == ["Evicted", "QuotaReleased", "Requeued"]


def test_a_rejection_deactivates():
    """AC3, with the check and its message for the user."""
    history = waiting_for_checks()
    history.tell(ChecksRejected(workload=W, checks=["late"], message="quota exceeded", cause=0))
    deactivated, evicted, released = history.settle()
    assert deactivated.message == 'AdmissionCheck in Rejected state: "late" (quota exceeded)'
    assert (evicted.reason, evicted.underlying_cause) == ("Deactivated", "AdmissionCheck")
    assert isinstance(released, QuotaReleased)
    assert not history.workload().active


def test_an_answer_of_an_earlier_reservation_counts_no_more():
    """What the checks said before the eviction says nothing about the next attempt (AC4)."""
    history = waiting_for_checks().tell(ChecksReady(workload=W, cause=0))
    history.settle()
    history.tell(PREEMPTED, STOPPED).settle()
    history.tell(reserved())
    assert history.settle() == []


def test_ready_checks_do_not_admit_into_an_inactive_queue():
    """The admission is rechecked; if it does not hold the quota is given up (AC7)."""
    history = waiting_for_checks()
    history.world.cluster_queues["cq"].active = False
    history.tell(ChecksReady(workload=W, cause=0))
    assert kinds(history.settle()) == ["QuotaReleased", "PendingReasonChanged"]


# In general


def test_what_follows_from_own_events_has_their_cause():
    """A chain can be followed back to the message that began it (DB1)."""
    history = waiting_for_checks()
    preemption = Evicted(workload=W, reason="Preempted", message="m", cause=7)
    rule = Preempted(workload=W, preemptor=W, rule="InClusterQueue", message="m", cause=7)
    assert {event.cause for event in history.tell(preemption, rule).settle()} == {7}


def test_many_workloads_are_decided_in_uid_order():
    """Order does not depend on which event came first (G4)."""
    names = ["b", "a", "c"]
    history = running(*names)
    for name in reversed(names):
        history.tell(WorkloadStopped(workload=WorkloadKey(f"ns/{name}"), reason="NodeFailures", cause=0))
    evicted = [event.workload for event in history.settle() if isinstance(event, Evicted)]
    assert evicted == ["ns/b", "ns/a", "ns/c"]


def test_a_reloaded_state_decides_as_the_live_one():
    """Deadlines and waits survive a restart: they are derived from the world."""
    live = running("a", "b", "c", maximum_execution_time_s=50)
    live.tell(wait_for_pods(40))
    live.settle(10)
    live.tell(cluster_queue(stopPolicy="HoldAndDrain")).settle()
    for name in "ab":
        live.tell(WorkloadStopped(workload=WorkloadKey(f"ns/{name}"), cause=0))
    live.settle()
    loaded = live.reload()
    assert loaded.lc.due == {}
    assert list(loaded.lc.held) == ["ns/lq"]
    assert kinds(loaded.tell(cluster_queue()).settle()) == ["Requeued", "Requeued"]


def test_deadlines_that_are_over_do_not_pile_up():
    """A day-long limit on jobs of a second costs nothing after they have ended."""
    history = History().tell(cluster_queue(), local_queue())
    for number in range(1, 500):
        name = f"w{number}"
        history.tell(created(name, number, maximum_execution_time_s=86_400), reserved(name))
        history.tell(Admitted(workload=WorkloadKey(f"ns/{name}"), cause=0))
        history.at += SECOND
        history.tell(WorkloadFinished(workload=WorkloadKey(f"ns/{name}"), cause=0))
    assert len(history.lc.deadlines._heap) < 100
    assert history.deadline_s() is None
