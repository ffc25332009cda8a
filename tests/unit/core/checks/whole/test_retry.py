"""Several checks that say Retry: the longest delay counts, whoever is heard of when (AC3)."""

import pytest

from sluice.core.views import View
from sluice.core.views.present.history import notices
from sluice.events.base import Micros
from sluice.events.checks import ChecksRetry, VerdictIgnored
from sluice.events.codec import decode_commit
from sluice.events.commit import Step
from sluice.events.scheduler import Admitted, Evicted, QuotaReserved, RequeueBackoffStarted
from tests.support.checked_cell import CheckedCell, checked_cell
from tests.support.family_world import SECOND, job


def steps(cell: CheckedCell, writer: str = "scheduler") -> list[Step]:
    return [step for e in cell.log if e.suffix == writer for step in decode_commit(e.payload).steps]


def reserved_at(cell: CheckedCell, name: str = "w") -> list[Micros]:
    """Return when the job got quota, each time."""
    key, _, _ = cell.reservation(name)
    return [
        step.at
        for step in steps(cell)
        for event in step.events
        if isinstance(event, QuotaReserved) and event.workload == key
    ]


def view_of(cell: CheckedCell) -> View:
    view = View()
    for entry in cell.log:
        if "." not in entry.suffix:
            for step in decode_commit(entry.payload).steps:
                for event in step.events:
                    view.apply(event, entry.seq, step.at)
    return view


def lines(cell: CheckedCell, name: str = "w") -> list[tuple[str, str]]:
    """Return the history of a job's workload as people read it."""
    key, _, _ = cell.reservation(name)
    return [(notice.reason, notice.message) for notice in notices(view_of(cell).workloads[key])]


def reserved_cell(*, admitted: bool = False) -> CheckedCell:
    """Return a cell in which `w` has quota and waits for `a` and `b`, or has passed them and runs."""
    cell = checked_cell("a", "b")
    cell.submit("w", cpu=4).settle()
    if admitted:
        cell.say("w", "a", "Ready")
        cell.say("w", "b", "Ready").settle()
        assert cell.events(Admitted)
    return cell


@pytest.mark.parametrize("running", [False, True], ids=["waits", "runs"])
@pytest.mark.parametrize("lag", ["together", "decided", "evicted", "evicted-unseen", "stopped"])
@pytest.mark.parametrize("delays", [(300, 5), (5, 300)], ids=["first", "second"])
def test_the_longest_delay_counts(delays: tuple[int, int], lag: str, running: bool) -> None:
    """Also when the other one has had its effect already, or half of it (AC3)."""
    cell = reserved_cell(admitted=running)
    began = cell.now
    cell.say("w", "a", "Retry", requeueAfterSeconds=delays[0])
    if lag != "together":
        cell.step("checks")
    if lag.startswith("evicted") or lag == "stopped":
        cell.step("scheduler")
    if lag == "evicted":
        cell.step("checks")
    if lag == "stopped":
        cell.settle_all()
    cell.say("w", "b", "Retry", requeueAfterSeconds=delays[1]).settle_all()
    cell.run_until(250)
    assert len(reserved_at(cell)) == 1
    cell.run_until(100)
    _, again = reserved_at(cell)
    assert again >= began + 300 * SECOND
    cell.verify()


def test_it_counts_for_what_is_back_in_its_queue() -> None:
    """Without a delay it queues again at once, and is taken out when another check wants it to wait."""
    cell = reserved_cell()
    version = "kueue.x-k8s.io/v1beta2"
    high = {"apiVersion": version, "kind": "WorkloadPriorityClass", "metadata": {"name": "high"}, "value": 9}
    cell.apply(high)
    cell.submit("large", cpu=10, priority_class="high")
    cell.step("slices")
    cell.say("w", "a", "Retry", requeueAfterSeconds=0)
    cell.step("checks")
    cell.step("scheduler")
    (key, _, _) = cell.reservation("w")
    assert cell.services["scheduler"].state.world.workloads[key].peers is not None
    began = cell.now
    cell.say("w", "b", "Retry", requeueAfterSeconds=300)
    cell.step("checks")
    cell.step("scheduler")
    assert cell.services["scheduler"].state.world.workloads[key].peers is None
    pending = view_of(cell).workloads[key]
    assert (pending.conditions["Requeued"].status, pending.requeue_at is not None) == (False, True)
    cell.message("job.default.large", "JobDeleted", {}).run_until(250)
    assert len(reserved_at(cell)) == 1
    cell.run_until(100)
    assert reserved_at(cell)[-1] >= began + 300 * SECOND
    cell.verify()


def test_a_shorter_delay_changes_nothing_once_the_attempt_is_over() -> None:
    """It is recorded as stale, as is one of an attempt before the latest (AC4)."""
    cell = reserved_cell()
    cell.say("w", "a", "Retry", requeueAfterSeconds=60).settle()
    cell.say("w", "b", "Retry", requeueAfterSeconds=5).settle()
    cell.run_until(61)
    assert len(reserved_at(cell)) == 2
    cell.say("w", "b", "Retry", attempt=1, requeueAfterSeconds=500).settle()
    assert [event.reason for event in cell.events(VerdictIgnored)] == ["StaleAttempt"] * 2
    assert len(cell.events(Evicted)) == 1
    cell.verify()


def test_a_late_retry_counts_like_the_others() -> None:
    """The backoff of the next one is longer; service and view agree."""
    cell = reserved_cell()
    cell.say("w", "a", "Retry", requeueAfterSeconds=5).settle()
    cell.say("w", "b", "Retry").settle()
    assert [event.checks for event in cell.events(ChecksRetry)] == [["a"], ["b"]]
    key, _, _ = cell.reservation("w")
    known = cell.services["checks"].state.workloads[key].states
    shown = view_of(cell).workloads[key].checks
    for name in ("a", "b"):
        assert (known[name].state, known[name].retry_count) == ("Pending", 1)
        assert (shown[name].state, shown[name].retry_count) == ("Pending", 1)
    cell.run_until(61)
    cell.say("w", "b", "Retry")
    began = cell.now
    cell.settle()
    assert cell.events(RequeueBackoffStarted)[-1].requeue_at >= began + 120 * SECOND
    cell.verify()


# What people read


def test_all_checks_in_retry_are_named_with_their_messages() -> None:
    """In Kueue's words."""
    cell = reserved_cell()
    cell.say("w", "a", "Retry", message="no licence", requeueAfterSeconds=5)
    cell.say("w", "b", "Retry", message="no budget", requeueAfterSeconds=5).settle()
    (evicted,) = cell.events(Evicted)
    text = 'Evicted due to AdmissionChecks in Retry state: "a" (no licence); "b" (no budget)'
    assert evicted.message == text
    assert ("EvictedDueToAdmissionCheck", text) in lines(cell)


@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize("delays", [(40, 2), (2, 40), (5, 5)], ids=["longer-first", "shorter-first", "equal"])
@pytest.mark.parametrize("lag", ["together", "decided"])
def test_the_eviction_names_all_whatever_their_order(delays: tuple[int, int], order: str, lag: str) -> None:
    """Also one that asks for less than the others, as long as the scheduler has not heard of them."""
    cell = reserved_cell()
    for check, delay in zip(order, delays, strict=True):
        cell.say("w", check, "Retry", message=f"no {check}", requeueAfterSeconds=delay)
        if lag == "decided":
            cell.step("checks")
    cell.settle()
    (evicted,) = cell.events(Evicted)
    assert evicted.message == 'Evicted due to AdmissionChecks in Retry state: "a" (no a); "b" (no b)'
    assert len(cell.events(ChecksRetry)) == (2 if lag == "decided" else 1)
    cell.verify()


def test_a_short_delay_does_not_read_as_none() -> None:
    """Seconds are rounded up."""
    cell = reserved_cell()
    cell.say("w", "a", "Retry", requeueAfterSeconds=1).settle()
    assert ("RequeueBackoffStarted", "Requeued after 1s") in lines(cell)


def test_older_events_keep_the_name_of_their_queue() -> None:
    """Also when the workload has no quota any more."""
    cell = reserved_cell(admitted=True)
    cell.say("w", "a", "Retry").settle_all()
    (text,) = [message for reason, message in lines(cell) if reason == "Admitted"]
    assert text.startswith("Admitted by ClusterQueue main, wait time since reservation was ")


def test_a_cleared_gate_is_an_event() -> None:
    """When the last one has gone, and once."""
    gate = "kueue.x-k8s.io/admission-gated-by"
    cell = checked_cell()
    for number, gates in enumerate(("example.com/one,example.com/two", "example.com/two", "", "")):
        manifest = job("w")
        manifest["metadata"]["annotations"] = {"turn": str(number), **({gate: gates} if gates else {})}
        cell.message("job.default.w", "JobSubmitted", manifest).settle()
        cleared = [message for reason, message in lines(cell) if reason == "AdmissionGateCleared"]
        assert cleared == ([] if gates else ["Admission gate cleared, workload is now admissible"])
    assert reserved_at(cell)


def test_several_that_come_late_at_once() -> None:
    """Each is compared with the one before it, not with what was known when they came."""
    cell = reserved_cell()
    cell.say("w", "a", "Retry", requeueAfterSeconds=5)
    cell.step("checks")
    cell.step("scheduler")
    began = cell.now
    for check, delay in (("a", 10), ("b", 300), ("a", 30)):
        cell.say("w", check, "Retry", requeueAfterSeconds=delay)
    cell.step("checks")
    assert [event.checks for event in cell.events(ChecksRetry)] == [["a"], ["a"], ["b"]]
    cell.settle()
    waits = cell.events(RequeueBackoffStarted)[-1]
    assert waits.requeue_at >= began + 300 * SECOND
    cell.verify()
