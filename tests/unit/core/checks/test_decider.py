"""The admission-check service's decider, rule by rule (AC1-AC8)."""

from typing import Any

import pytest

from sluice.core.checks.decide import LOST, NOT_SEEN
from sluice.events.base import Event
from sluice.events.checks import (
    AdmissionCheckStatusChanged,
    CheckInputRejected,
    CheckRequestsUpdated,
    ChecksPending,
    ChecksReady,
    ChecksRejected,
    ChecksRequested,
    ChecksRetry,
    CheckStateChanged,
    ChecksWithdrawn,
    PreemptionsAllowed,
    VerdictIgnored,
)
from sluice.events.scheduler import PendingPreemptionsIssued
from tests.support.checks_world import SECOND, ChecksWorld, check, configuration, flavor, queue, world
from tests.support.objects import kueue_object


def kinds(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def one[E: Event](events: list[Event], kind: type[E]) -> E:
    (found,) = [event for event in events if isinstance(event, kind)]
    return found


def waiting(cell: ChecksWorld, name: str = "w", **fields: Any) -> Any:
    """Return a workload that has quota and waits for its checks."""
    key = cell.create(name)
    cell.reserve(key, **fields).settle()
    return key


def test_a_reservation_asks_every_check_of_the_queue() -> None:
    """Quota reserved: one request per relevant check, with what its controller needs to know (AC1)."""
    cell = world("a", "b")
    key = waiting(cell)
    assert one(cell.said, ChecksRequested).checks == ("a", "b")
    request = cell.requests()[key, "a"]
    assert (request.controller, request.attempt, request.state) == ("ctl-a", 1, "Pending")
    assert (request.workload.job, request.workload.cluster_queue) == ("w", "cq")
    assert request.assignment[0].flavors == {"cpu": "default"}
    assert len(cell.requests()) == 2
    cell.verify()


def test_ready_when_the_last_check_is() -> None:
    """ChecksReady is said once, when every check is Ready (AC1)."""
    cell = world("a", "b")
    key = waiting(cell)
    assert kinds(cell.say(key, "a", "Ready").settle()) == ["CheckStateChanged"]
    cell.say(key, "b", "Ready", message="fine")
    assert cell.settle() == [
        CheckStateChanged(
            cause=len(cell.log) - 1, workload=key, check="b", state="Ready", attempt=1, message="fine"
        ),
        ChecksReady(cause=len(cell.log) - 1, workload=key, attempt=1),
    ]
    assert one(cell.admit(key).settle(), CheckRequestsUpdated).admitted
    assert {request.state for request in cell.requests().values()} == {"Ready"}
    assert all(request.admitted for request in cell.requests().values())
    cell.verify()


def test_only_checks_of_the_assigned_flavors_count() -> None:
    """onFlavors that does not meet the assignment makes a check irrelevant (AC1)."""
    cell = world("a", "b", flavors=("spot", "fixed"))
    cell.apply(queue(("a", ["spot"]), ("b", ["fixed"]), flavors=("spot", "fixed")))
    key = waiting(cell, flavor="spot")
    assert [check for _, check in cell.requests()] == ["a"]
    assert one(cell.say(key, "b", "Ready").settle(), VerdictIgnored).reason == "UnknownCheck"
    cell.say(key, "a", "Ready")
    assert "ChecksReady" in kinds(cell.settle())


def test_what_needs_no_check_is_ready_at_once() -> None:
    """A reservation whose checks were taken from the queue meanwhile does not wait (AC1)."""
    cell = world("a")
    cell.apply(queue())
    key = waiting(cell)
    assert one(cell.said, ChecksReady).workload == key
    assert cell.requests() == {}


def test_what_was_admitted_without_checks_is_never_asked_for_any() -> None:
    """A check added later does not concern what is admitted (AC1)."""
    cell = world()
    key = cell.create("w")
    cell.reserve(key)
    cell.admit(key)
    assert cell.settle() == []
    cell.apply(check("a"), queue("a"))
    assert kinds(cell.presence("ctl-a").settle()).count("ChecksRequested") == 0
    cell.verify()


def test_a_check_added_while_waiting_must_pass_too() -> None:
    """Also after ChecksReady, as long as the workload is not admitted."""
    cell = world("a")
    key = waiting(cell)
    assert kinds(cell.say(key, "a", "Ready").settle())[-1] == "ChecksReady"
    cell.apply(check("b"), queue("a", "b"))
    assert kinds(cell.presence("ctl-b").settle())[-2:] == ["ChecksRequested", "ChecksPending"]
    assert cell.requests()[key, "a"].state == "Ready"
    assert kinds(cell.say(key, "b", "Ready").settle())[-1] == "ChecksReady"
    cell.verify()


def test_a_check_taken_from_the_queue_holds_nobody() -> None:
    """The workload is Ready without it, and its controller is told to stop."""
    cell = world("a", "b")
    key = waiting(cell)
    cell.say(key, "a", "Ready").settle()
    assert kinds(cell.apply(queue("a")).settle()) == ["ChecksRequested", "ChecksReady"]
    assert list(cell.requests()) == [(key, "a")]


def test_another_controller_begins_anew() -> None:
    """What the old controller of a check has said does not count for the new one."""
    cell = world("a")
    key = waiting(cell)
    cell.say(key, "a", "Ready").settle()
    cell.delete("AdmissionCheck", "a")
    cell.apply(check("a", "other"))
    assert "ChecksPending" in kinds(cell.settle())
    assert cell.requests()[key, "a"].controller == "other"
    assert one(cell.say(key, "a", "Ready").settle(), VerdictIgnored).reason == "WrongController"
    cell.say(key, "a", "Ready", controller="other")
    assert "ChecksReady" in kinds(cell.settle())
    cell.verify()


def test_retry_waits_for_the_longest_delay() -> None:
    """The latest of the delays counts (AC3)."""
    cell = world("a", "b")
    key = waiting(cell)
    cell.say(key, "a", "Retry", requeueAfterSeconds=30)
    cell.say(key, "b", "Retry", requeueAfterSeconds=300, message="budget used up")
    before = cell.now
    found = one(cell.settle(), ChecksRetry)
    assert (found.checks, found.message) == (["a", "b"], "budget used up")
    assert before + 300 * SECOND < found.requeue_at <= cell.now + 300 * SECOND
    assert cell.requests() == {}
    cell.verify()


def test_retry_backs_off() -> None:
    """A check that names no delay waits 60, 120, 240 ... seconds, at most half an hour (AC3)."""
    cell = world("a")
    key = cell.create("w")
    delays = []
    for attempt in range(1, 8):
        cell.reserve(key).settle()
        assert cell.requests()[key, "a"].retry_count == attempt - 1
        cell.say(key, "a", "Retry", attempt)
        delays.append(one(cell.settle(), CheckStateChanged).requeue_after_s)
        cell.evict(key).settle()
    assert delays == [60, 120, 240, 480, 960, 1800, 1800]
    cell.apply(configuration(admissionChecks={"backoffBaseSeconds": 2, "backoffMaxSeconds": 5}))
    cell.reserve(key).settle()
    assert one(cell.say(key, "a", "Retry", 8).settle(), CheckStateChanged).requeue_after_s == 5
    cell.verify()


@pytest.mark.parametrize(
    ("asked", "delays"),
    [
        (0, [0, 1, 2, 4, 8, 16, 32, 60, 60]),
        (5, [5, 5, 5, 5, 8, 16, 32, 60, 60]),
        (90, [90] * 9),
    ],
)
def test_who_says_retry_over_and_over_is_asked_less_and_less_often(asked: int, delays: list[int]) -> None:
    """Whatever it asks for: every attempt stays in the log, and nothing else is a brake (AC3)."""
    cell = world("a")
    key = cell.create("w")
    found = []
    for attempt in range(1, 10):
        cell.reserve(key).settle()
        cell.say(key, "a", "Ready", attempt)
        events = cell.say(key, "a", "Retry", attempt, requeueAfterSeconds=asked).settle()
        changed = [event for event in events if isinstance(event, CheckStateChanged)]
        found.append(changed[-1].requeue_after_s)
        delay = changed[-1].requeue_after_s or 0
        assert one(events, ChecksRetry).requeue_at == cell.now - 1000 + delay * SECOND
        cell.evict(key).settle()
    assert found == delays
    cell.apply(configuration(admissionChecks={"backoffBaseSeconds": 0, "backoffMaxSeconds": 0}))
    cell.reserve(key).settle()
    cell.say(key, "a", "Retry", 10, requeueAfterSeconds=0)
    assert one(cell.settle(), CheckStateChanged).requeue_after_s == 1
    cell.verify()


@pytest.mark.parametrize(("state", "delay"), [("Ready", 0), ("Pending", 4), ("Retry", 8)])
def test_a_ready_attempt_that_ends_for_another_reason_begins_the_brake_anew(state: str, delay: int) -> None:
    """If the check is Ready when it ends; a Ready by itself does not (AC4)."""
    cell = world("a")
    key = cell.create("w")
    for attempt, said in enumerate(("Retry", "Retry", "Retry", state, "Retry"), 1):
        cell.reserve(key).settle()
        if said == "Retry":
            cell.say(key, "a", said, attempt, requeueAfterSeconds=0)
        else:
            cell.say(key, "a", said, attempt)
        events = cell.settle()
        if attempt < 5:
            cell.evict(key).settle()
    assert one(events, CheckStateChanged).requeue_after_s == delay
    cell.verify()


def test_a_check_that_is_never_answered_is_tried_again() -> None:
    """After the timeout the attempt ends as Retry, with backoff, and says why (AC3)."""
    cell = world("a", "b")
    cell.apply(configuration(admissionChecks={"answerTimeoutSeconds": 90}))
    key = waiting(cell)
    asked = decided(cell)
    cell.say(key, "b", "Ready").settle()
    assert cell.deadline() == asked + 90 * SECOND
    assert cell.settle(89) == []
    said = cell.settle(1)
    text = "check a was not answered within 90 s"
    found = one(said, CheckStateChanged)
    assert (found.check, found.state, found.reason, found.message) == ("a", "Retry", "AnswerTimeout", text)
    retry = one(said, ChecksRetry)
    assert (retry.checks, retry.message, retry.requeue_at) == (["a"], text, decided(cell) + 60 * SECOND)
    assert cell.deadline() is None
    # An answer that comes after that is too late; the next attempt has the whole time again.
    assert one(cell.say(key, "a", "Ready").settle(), VerdictIgnored).reason == "Final"
    cell.evict(key)
    cell.reserve(key).settle()
    assert cell.requests()[key, "a"].retry_count == 1
    assert cell.deadline() == decided(cell) + 90 * SECOND
    assert one(cell.settle(90), ChecksRetry).requeue_at == decided(cell) + 120 * SECOND
    cell.verify()


def test_who_has_answered_may_take_his_time() -> None:
    """Any verdict counts, also Pending without a word; what is admitted waits for nobody."""
    cell = world("a")
    cell.apply(configuration(admissionChecks={"answerTimeoutSeconds": 10}))
    quiet, busy, late, running = (waiting(cell, name) for name in ("w", "x", "y", "z"))
    cell.say(quiet, "a", "Pending")
    cell.say(busy, "a", "Pending", message="a person is asked")
    cell.say(running, "a", "Ready").settle()
    cell.apply(check("b"), queue("a", "b"))
    cell.admit(running).settle(5)
    # The answer is in the log before the service looks: it counts, although the time is over.
    said = cell.say(late, "a", "Ready").settle(5)
    assert "ChecksRetry" not in kinds(said)
    said = cell.settle(60)
    assert [(e.workload, e.check) for e in said if isinstance(e, CheckStateChanged)] == [
        (quiet, "b"),
        (busy, "b"),
        (late, "b"),
    ]
    cell.verify()


def test_a_check_has_a_timeout_of_its_own() -> None:
    """The annotation wins over the configuration, in both directions; both may change meanwhile."""
    cell = world("a", "b", "c")
    cell.apply(configuration(admissionChecks={"answerTimeoutSeconds": 100}))
    cell.apply(annotated("a", "20"), annotated("b", "0"))
    waiting(cell)
    began = decided(cell)
    assert cell.deadline() == began + 20 * SECOND
    cell.apply(annotated("a", "300")).settle(20)
    assert cell.deadline() == began + 100 * SECOND
    cell.apply(configuration())
    assert cell.settle(250) == []
    assert one(cell.settle(40), CheckStateChanged).check == "a"
    cell.verify()


def decided(cell: ChecksWorld) -> int:
    """Return when the service has decided last."""
    return next(entry.at for entry in reversed(cell.log) if entry.suffix == "checks") - 1000


def annotated(name: str, seconds: str) -> dict[str, Any]:
    found = check(name)
    metadata = {**found["metadata"], "annotations": {"kueue.x-k8s.io/answer-timeout-seconds": seconds}}
    return {**found, "metadata": metadata}


def test_rejected_beats_retry() -> None:
    """Whichever came first (AC3)."""
    cell = world("a", "b")
    first, second = waiting(cell, "w"), waiting(cell, "v")
    cell.say(first, "a", "Retry")
    cell.say(first, "b", "Rejected", message="never")
    found = one(cell.settle(), ChecksRejected)
    assert (found.workload, found.checks, found.message, found.attempt) == (first, ["b"], "never", 1)
    cell.say(second, "a", "Retry")
    assert "ChecksRetry" in kinds(cell.settle())
    cell.say(second, "b", "Rejected")
    assert "ChecksRejected" in kinds(cell.settle())
    assert one(cell.say(second, "a", "Ready").settle(), VerdictIgnored).reason == "Final"


def test_a_failed_attempt_stays_failed() -> None:
    """After Retry the workload is being evicted; a change of mind comes too late."""
    cell = world("a")
    key = waiting(cell)
    cell.say(key, "a", "Retry")
    cell.say(key, "a", "Ready")
    assert kinds(cell.settle()) == ["CheckStateChanged", "VerdictIgnored", "ChecksRetry"]


@pytest.mark.parametrize("state", ["Retry", "Rejected"])
def test_an_admitted_workload_loses_its_approval(state: str) -> None:
    """A Ready check that turns Retry or Rejected on an admitted workload says so (AC5)."""
    cell = world("a", "b")
    key = waiting(cell)
    cell.say(key, "a", "Ready")
    cell.say(key, "b", "Ready").settle()
    cell.admit(key).settle()
    assert kinds(cell.say(key, "b", state).settle()) == ["CheckStateChanged", f"Checks{state}"]
    assert list(cell.requests()) == [(key, "a")]


@pytest.mark.parametrize("released", [True, False])
def test_eviction_takes_everything_back(released: bool) -> None:
    """Requests are withdrawn at once, states are Pending again, the next attempt begins anew (AC4)."""
    cell = world("a", "b")
    key = waiting(cell)
    cell.say(key, "a", "Ready").settle()
    cell.evict(key, release=released)
    found = one(cell.settle(), ChecksWithdrawn)
    assert (found.attempt, found.reason) == (1, "Evicted")
    assert cell.requests() == {}
    state = cell.state.workloads[key].states["a"]
    assert state.message == "Reset to Pending after eviction. Previously: Ready"
    if not released:
        cell.release(key)
        assert cell.settle() == []
    cell.reserve(key).settle()
    assert {(r.attempt, r.state) for r in cell.requests().values()} == {(2, "Pending")}
    cell.verify()


def test_quota_given_back_takes_everything_back() -> None:
    """Also without an eviction (AC4)."""
    cell = world("a")
    key = waiting(cell)
    assert one(cell.release(key).settle(), ChecksWithdrawn).reason == "QuotaReleased"
    assert cell.requests() == {}


def test_two_attempts_seen_at_once() -> None:
    """Evicted and reserved again before the service looks: the old request goes, the new one comes."""
    cell = world("a")
    key = waiting(cell)
    cell.evict(key)
    cell.reserve(key)
    cell.say(key, "a", "Ready", 1)
    assert kinds(cell.settle()) == ["ChecksWithdrawn", "ChecksRequested", "VerdictIgnored"]
    assert cell.requests()[key, "a"].attempt == 2
    cell.verify()


def test_the_end_of_a_workload_withdraws_its_requests() -> None:
    """Finished, deleted, or its parent finished (CA4)."""
    cell = world("a")
    key = waiting(cell)
    parent = cell.create("parent")
    variant = cell.create("variant", parent=parent)
    cell.reserve(variant).settle()
    assert len(cell.requests()) == 2
    cell.finish(key)
    assert kinds(cell.finish(parent).settle()) == ["ChecksWithdrawn", "ChecksWithdrawn"]
    assert cell.requests() == {}
    assert cell.state.workloads == {}
    cell.verify()


@pytest.mark.parametrize(
    ("reason", "fields"),
    [
        ("StaleAttempt", {"attempt": 0}),
        ("StaleAttempt", {"attempt": 7}),
        ("UnknownWorkload", {"key": "ns/nobody"}),
        ("UnknownWorkload", {"uid": "another"}),
        ("UnknownCheck", {"check": "nothing"}),
        ("WrongController", {"controller": "ctl-b"}),
        ("Duplicate", {"state": "Pending"}),
    ],
)
def test_what_is_not_meant_is_recorded(reason: str, fields: dict[str, Any]) -> None:
    """A verdict that cannot count changes nothing, and the log says why (AC4)."""
    cell = world("a")
    key = waiting(cell)
    (found,) = cell.say(**{"key": key, "check": "a", "state": "Ready", **fields}).settle()
    assert isinstance(found, VerdictIgnored)
    assert (found.reason, found.cause) == (reason, cell.upto)
    assert cell.requests()[key, "a"].state == "Pending"
    cell.verify()


def test_saying_it_twice() -> None:
    """A controller that answers twice is not heard twice; a new message is."""
    cell = world("a")
    key = waiting(cell)
    cell.say(key, "a", "Ready", message="yes")
    cell.say(key, "a", "Ready", message="yes")
    cell.say(key, "a", "Ready", message="yes!")
    assert kinds(cell.settle()) == ["CheckStateChanged", "VerdictIgnored", "CheckStateChanged", "ChecksReady"]


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        (b"rubbish", "data"),
        (b"{}", "specversion"),
        (b'{"specversion":"1.0","id":"1","source":"x","type":"CheckVerdict","data":{}}', "workload"),
        (b'{"specversion":"1.0","id":"1","source":"x","type":"Surprise","data":{}}', "type"),
        (b"x" * 70_000, ""),
        (
            b'{"specversion":"1.0","id":"1","source":"x","type":"CheckVerdict","data":'
            b'{"workload":"ns/w","check":"a","attempt":1,"state":"Retry","requeueAfterSeconds":-1}}',
            "requeueAfterSeconds",
        ),
    ],
)
def test_what_cannot_be_read_is_recorded(payload: bytes, field: str) -> None:
    """Rubbish stops nobody: it is recorded with what is wrong with it, and what comes next counts."""
    cell = world("a")
    key = waiting(cell)
    seq = cell.append("verdict.ctl-a", payload)
    cell.say(key, "a", "Ready")
    rejected, *rest = cell.settle()
    assert isinstance(rejected, CheckInputRejected)
    assert (rejected.cause, rejected.subject) == (seq, "verdict.ctl-a")
    assert rejected.errors[0].field in (field, "")
    assert kinds(rest) == ["CheckStateChanged", "ChecksReady"]
    cell.verify()


def test_all_that_is_wrong_with_a_verdict_is_named_at_once() -> None:
    """What contradicts itself beside what cannot be read."""
    cell = world("a")
    data = b'{"workload":"w","check":"a","attempt":"1","state":"ready","requeueAfterSeconds":-1,"x":1}'
    event = b'{"specversion":"1.0","id":"1","source":"x","type":"CheckVerdict","data":' + data + b"}"
    cell.append("verdict.ctl-a", event)
    (rejected,) = cell.settle()
    assert isinstance(rejected, CheckInputRejected)
    named = sorted(error.field for error in rejected.errors)
    assert named == ["attempt", "requeueAfterSeconds", "state", "workload", "x"]


def test_updates_of_the_pods_are_kept_with_the_verdict() -> None:
    """What a check adds goes into its state, and from there into dispatch (AC2)."""
    cell = world("a")
    key = waiting(cell)
    updates = [{"name": "main", "labels": {"x": "1"}, "nodeSelector": {"zone": "b"}}]
    cell.say(key, "a", "Ready", podSetUpdates=updates)
    (update,) = one(cell.settle(), CheckStateChanged).pod_set_updates
    assert (update.labels, update.node_selector) == ({"x": "1"}, {"zone": "b"})
    cell.say(key, "a", "Ready", message="other", podSetUpdates=[])
    assert one(cell.settle(), VerdictIgnored).reason == "Immutable"
    cell.verify()


@pytest.mark.parametrize(
    ("update", "why"),
    [
        ({"name": "main", "labels": {"app": "other"}}, "conflicts with the job"),
        ({"name": "main", "nodeSelector": {"pool": "x"}}, "conflicts with flavor default"),
        ({"name": "main", "annotations": {"said-by": "b"}}, "conflicts with admission check a"),
        ({"name": "nobody"}, 'Unsupported value: "nobody"'),
    ],
)
def test_updates_that_cannot_be_made_fail_the_admission(update: dict[str, Any], why: str) -> None:
    """What contradicts the job, its flavor or another check is Rejected, and says why (AC2)."""
    cell = world("a", "b")
    cell.apply(flavor("default", pool="default"))
    key = waiting(cell)
    cell.say(key, "a", "Ready", podSetUpdates=[{"name": "main", "annotations": {"said-by": "a"}}])
    events = cell.say(key, "b", "Ready", podSetUpdates=[update]).settle()
    assert kinds(events) == ["CheckStateChanged", "CheckStateChanged", "ChecksRejected"]
    assert isinstance(events[1], CheckStateChanged)
    assert (events[1].state, events[1].reason) == ("Rejected", "InvalidPodSetUpdates")
    assert why in one(events, ChecksRejected).message
    cell.verify()


@pytest.mark.parametrize(
    ("update", "field"),
    [
        ({"labels": {"not a key": "x"}}, "podSetUpdates[0].labels"),
        ({"labels": {"key": "no value"}}, "podSetUpdates[0].labels"),
        ({"annotations": {"not a key": "x"}}, "podSetUpdates[0].annotations"),
        ({"nodeSelector": {"zone": "no value"}}, "podSetUpdates[0].nodeSelector"),
        (
            {"tolerations": [{"key": "not a key", "operator": "Exists"}]},
            "podSetUpdates[0].tolerations[0].key",
        ),
    ],
)
def test_updates_that_no_pod_could_have_are_no_verdict(update: dict[str, Any], field: str) -> None:
    """As Kueue refuses to store them: the check is asked on, and its job not deactivated (AC2)."""
    cell = world("a")
    key = waiting(cell)
    cell.say(key, "a", "Ready", podSetUpdates=[{"name": "main", **update}])
    (rejected,) = cell.settle()
    assert isinstance(rejected, CheckInputRejected)
    assert [error.field.startswith(field) for error in rejected.errors] == [True]
    assert {request.state for request in cell.requests().values()} == {"Pending"}
    assert kinds(cell.say(key, "a", "Ready").settle()) == ["CheckStateChanged", "ChecksReady"]
    cell.verify()


UPDATES = [
    [{"name": "main", "nodeSelector": {"zone": "b"}}],
    [{"name": "main", "annotations": {"said-by": "b"}}],
    [{"name": "mian"}],
    [{"name": "main", "labels": {"app": "other"}}],
    [],
]
"""Other than what check b adds, of which some could not be added at all."""


def approved(admitted: bool) -> tuple[ChecksWorld, Any]:
    """Return a workload all of whose checks are Ready."""
    cell = world("a", "b")
    key = waiting(cell)
    cell.say(key, "a", "Ready", podSetUpdates=[{"name": "main", "annotations": {"said-by": "a"}}])
    cell.say(key, "b", "Ready", podSetUpdates=[{"name": "main", "labels": {"x": "1"}}]).settle()
    if admitted:
        cell.admit(key).settle()
    return cell, key


@pytest.mark.parametrize("updates", UPDATES)
@pytest.mark.parametrize("admitted", [False, True])
def test_a_repeated_ready_takes_no_approval_back(admitted: bool, updates: list[Any]) -> None:
    """All checks are Ready: whatever a further Ready would add, only Retry and Rejected change that (AC5)."""
    cell, key = approved(admitted)
    for message in ("", "again"):
        cell.say(key, "b", "Ready", message=message, podSetUpdates=updates)
        (ignored,) = cell.settle()
        assert isinstance(ignored, VerdictIgnored)
        assert ignored.reason == "Immutable"
        invalid = updates != UPDATES[0] and bool(updates)
        assert ("Invalid podSetUpdates" in ignored.message) is invalid
    assert {request.state for request in cell.requests().values()} == {"Ready"}
    cell.verify()


@pytest.mark.parametrize("updates", UPDATES)
def test_ready_after_pending_stops_nothing_that_runs(updates: list[Any]) -> None:
    """A check of an admitted workload that says Pending in between is Ready again, with what it has added."""
    cell, key = approved(admitted=True)
    cell.say(key, "b", "Pending", message="looking").settle()
    cell.say(key, "b", "Ready", podSetUpdates=updates)
    changed, said = cell.settle()
    assert isinstance(changed, CheckStateChanged)
    assert (changed.state, changed.pod_set_updates[0].labels) == ("Ready", {"x": "1"})
    assert isinstance(said, ChecksReady)
    cell.verify()


def test_approvals_in_one_step_are_as_firm() -> None:
    """Whether the service has looked in between makes no difference."""
    cell = world("a")
    key = waiting(cell)
    cell.say(key, "a", "Ready")
    cell.say(key, "a", "Ready", podSetUpdates=[{"name": "mian"}])
    assert kinds(cell.settle()) == ["CheckStateChanged", "VerdictIgnored", "ChecksReady"]
    cell.verify()


def test_the_same_ready_is_not_judged_twice() -> None:
    """A label that the flavor has got since takes nothing back, while other checks are waited for."""
    cell = world("a", "b")
    key = waiting(cell)
    updates = [{"name": "main", "nodeSelector": {"pool": "x"}}]
    cell.say(key, "a", "Ready", podSetUpdates=updates).settle()
    cell.apply(flavor("default", pool="default"))
    cell.say(key, "a", "Ready", podSetUpdates=updates)
    cell.say(key, "a", "Ready", message="still", podSetUpdates=updates)
    assert kinds(cell.settle()) == ["VerdictIgnored", "CheckStateChanged"]
    cell.say(key, "b", "Ready")
    assert "ChecksReady" in kinds(cell.settle())
    cell.verify()


def test_another_ready_counts_before_the_last_check_is() -> None:
    """The latest verdict counts: what it cannot add fails the admission, as of the first (AC2)."""
    cell = world("a", "b")
    key = waiting(cell)
    cell.say(key, "a", "Ready").settle()
    cell.say(key, "a", "Ready", podSetUpdates=[{"name": "mian"}])
    assert kinds(cell.settle()) == ["CheckStateChanged", "ChecksRejected"]


def test_pending_again_holds_the_admission_but_evicts_nobody() -> None:
    """Ready that turns Pending: not admitted yet, it must wait; admitted, it goes on."""
    cell = world("a")
    key = waiting(cell)
    cell.say(key, "a", "Ready").settle()
    cell.say(key, "a", "Pending", message="on second thoughts")
    assert isinstance(cell.settle()[-1], ChecksPending)
    assert isinstance(cell.say(key, "a", "Ready").settle()[-1], ChecksReady)
    cell.verify()


def test_preemptions_wait_for_the_checks_that_guard_them() -> None:
    """All checks with AfterCheckPassedOrOnDemand Ready: the pending preemptions may be issued (AC6)."""
    cell = world("a", "b", "c")
    cell.apply(*[check(name, preemptionPolicy="AfterCheckPassedOrOnDemand") for name in "ab"])
    key = waiting(cell, preemptions_pending=True)
    assert cell.requests()[key, "c"].preemptions_pending
    assert kinds(cell.say(key, "a", "Ready").settle()) == ["CheckStateChanged"]
    cell.say(key, "b", "Ready")
    found = one(cell.settle(), PreemptionsAllowed)
    assert (found.attempt, found.reason) == (1, "ChecksReady")
    cell.tell("scheduler", PendingPreemptionsIssued(cause=0, workload=key)).settle()
    assert not cell.requests()[key, "c"].preemptions_pending
    assert kinds(cell.say(key, "c", "Ready").settle())[-1] == "ChecksReady"
    cell.verify()


def test_a_check_asks_for_preemption() -> None:
    """Pending with PreemptionRequired, of whichever check (AC6)."""
    cell = world("a", "b")
    cell.apply(check("a", preemptionPolicy="AfterCheckPassedOrOnDemand"))
    key = waiting(cell, preemptions_pending=True)
    cell.say(key, "b", "Pending", reason="PreemptionRequired")
    assert one(cell.settle(), PreemptionsAllowed).reason == "PreemptionRequired"
    assert cell.settle() == []
    cell.verify()


@pytest.mark.parametrize("ends", ["retry", "quota"])
def test_what_a_check_asked_for_ends_with_its_attempt(ends: str) -> None:
    """Of a check that was Pending, too: nobody is preempted in the next one before it asks again (AC4)."""
    cell = world("a", "b")
    cell.apply(check("a", preemptionPolicy="AfterCheckPassedOrOnDemand"))
    key = waiting(cell, preemptions_pending=True)
    cell.say(key, "b", "Pending", reason="PreemptionRequired", message="room, please").settle()
    if ends == "retry":
        cell.say(key, "a", "Retry").settle()
        cell.evict(key).settle()
    else:
        cell.release(key).settle()
    cell.reserve(key, preemptions_pending=True)
    assert kinds(cell.settle()) == ["ChecksRequested"]
    cell.say(key, "b", "Pending", attempt=2, reason="PreemptionRequired", message="room, please")
    assert one(cell.settle(), PreemptionsAllowed).attempt == 2
    cell.verify()


def test_two_checks_that_take_turns_at_retry_are_slowed_down() -> None:
    """Each is Ready when the other one sends the job back: that forgets no retries (AC4)."""
    cell = world("a", "b")
    key = waiting(cell)
    delays = []
    for attempt in range(1, 9):
        ready, retry = ("a", "b") if attempt % 2 else ("b", "a")
        cell.say(key, ready, "Ready", attempt=attempt)
        cell.say(key, retry, "Retry", attempt=attempt, requeueAfterSeconds=0)
        delays.append(one(cell.settle(), ChecksRetry).requeue_at - cell.now)
        cell.evict(key)
        cell.reserve(key).settle()
    assert [round(delay / SECOND) for delay in delays] == [0, 0, 1, 1, 2, 2, 4, 4]
    cell.verify()


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("delays", [(9, 2), (2, 9)])
def test_of_two_retries_of_one_check_the_longer_delay_counts(delays: tuple[int, int], together: bool) -> None:
    """Whether they are heard of together, or the second when the attempt has ended (AC3)."""
    cell = world("a")
    key = waiting(cell)
    begun = cell.now
    for delay in delays:
        cell.say(key, "a", "Retry", requeueAfterSeconds=delay)
        if not together:
            cell.settle()
            cell.evict(key)
    cell.settle()
    until = max(event.requeue_at for event in cell.said if isinstance(event, ChecksRetry))
    assert 9 * SECOND <= until - begun < 10 * SECOND
    cell.verify()


def test_nobody_preempts_who_need_not() -> None:
    """Without pending preemptions nothing is allowed."""
    cell = world("a")
    key = waiting(cell)
    cell.say(key, "a", "Pending", reason="PreemptionRequired")
    assert kinds(cell.settle()) == ["CheckStateChanged"]


def test_a_check_is_active_while_its_controller_is_there() -> None:
    """Never seen: inactive at once; lost: inactive after the grace period; back: active at once (AC8)."""
    cell = ChecksWorld()
    assert one(cell.apply(check("a")).settle(), AdmissionCheckStatusChanged).reason == NOT_SEEN
    assert one(cell.presence("ctl-a").settle(), AdmissionCheckStatusChanged).active
    assert kinds(cell.presence("ctl-a", there=False).settle()) == ["ControllerLost"]
    deadline = cell.deadline()
    assert deadline is not None
    assert cell.settle(29) == []
    found = one(cell.settle(1), AdmissionCheckStatusChanged)
    assert (found.active, found.reason) == (False, LOST)
    assert cell.now >= deadline
    assert cell.deadline() is None
    assert one(cell.presence("ctl-a").settle(), AdmissionCheckStatusChanged).active
    cell.verify()


def test_a_controller_that_is_soon_back_was_never_away() -> None:
    """Within the grace period nothing is said of its checks."""
    cell = world("a")
    for _ in range(3):
        cell.presence("ctl-a", there=False).settle(5)
        cell.presence("ctl-a").settle(100)
    assert [event.active for event in cell.said if isinstance(event, AdmissionCheckStatusChanged)] == [True]
    cell.verify()


def test_parameters_are_passed_on() -> None:
    """The object that the check names, when it is stored; a change of it is passed on, too (AC8)."""
    cell = world()
    reference = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "p"}
    parameters = kueue_object("ProvisioningRequestConfig", "p", {"provisioningClassName": "x"})
    cell.apply(check("a", parameters=reference), queue("a"))
    cell.presence("ctl-a")
    key = waiting(cell)
    request = cell.requests()[key, "a"]
    assert request.parameters is not None
    assert (request.parameters.name, request.parameters_spec) == ("p", None)
    assert kinds(cell.apply(parameters).settle()) == ["ChecksRequested"]
    assert cell.requests()[key, "a"].parameters_spec == {"provisioningClassName": "x"}
    cell.verify()
