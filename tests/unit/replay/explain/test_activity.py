"""Why a job, or its queue, is switched off; and whom a job that is not there yet would preempt."""

from typing import Any

import pytest

from sluice.core.views.present.pending import position
from sluice.events.base import WorkloadKey
from sluice.events.ids import uid
from sluice.events.slices import WorkloadCreated, WorkloadRecord
from sluice.replay.explain.sandbox import Sandbox
from sluice.replay.explain.submission import told
from sluice.replay.explain.why import explain
from sluice.replay.explain.why_text import plain_words
from sluice.replay.source.source import ListSource
from sluice.replay.source.time_travel import scheduler_at
from tests.support.checked_cell import CheckedCell, checked_cell
from tests.support.explained import explained
from tests.support.family_world import cell as racing_cell
from tests.support.family_world import cluster_queue, local_queue
from tests.support.runs import cell_at
from tests.unit.replay.lint.test_invariants import events_of
from tests.unit.replay.simulate.test_what_if import claiming

GATED = {"kueue.x-k8s.io/admission-gated-by": "example.com/one"}


def why(cell: CheckedCell, name: str) -> str:
    return "\n".join(plain_words(explained(cell, name)))


def simulated(source: ListSource, seq: int, **changes: Any) -> str:
    """Return what is said of a job like the newest one, submitted after *seq*."""
    fold = scheduler_at(source, seq)
    like = max(fold.state.world.workloads.values(), key=lambda w: w.uid).record
    fields = {
        "namespace": like.namespace,
        "queue_name": like.queue_name,
        "pod_sets": like.pod_sets,
        **changes,
    }
    record = WorkloadRecord(name="job-s-simulated", uid=uid(seq + 1), created_at=fold.at, **fields)
    sandbox = Sandbox(fold.state, seq, fold.at)
    outcome = sandbox.attempt((WorkloadCreated(cause=seq, workload=record),), record.key)
    return "\n".join(told(fold.state, record, outcome))


def waiting_cell() -> CheckedCell:
    cell = checked_cell("a")
    cell.submit("w", cpu=4).settle()
    return cell


@pytest.mark.parametrize("inactive", [False, True], ids=["open", "inactive"])
@pytest.mark.parametrize("stopped", [False, True], ids=["evicted", "stopped"])
def test_a_rejected_job_says_by_whom_and_what_to_do(inactive: bool, stopped: bool) -> None:
    """At every moment after the verdict, and whether activating it would be enough or not."""
    cell = waiting_cell()
    if inactive:
        cell.presence("ctl-a", there=False).settle()
        cell.run_until(60)
    cell.say("w", "a", "Rejected", message="not this year")
    (cell.settle_all if stopped else cell.settle)()
    text = why(cell, "w")
    assert 'It was deactivated: AdmissionCheck in Rejected state: "a" (not this year).' in text
    assert "queued again with `sluice job activate w`" in text
    assert "spec.active" not in text
    if stopped and not inactive:
        assert "`sluice job activate w`, and Ready from its checks (a)" in text


def test_a_job_that_people_stopped_says_so() -> None:
    """Also when a check had sent it back before: that is not why it does not come again."""
    cell = waiting_cell()
    cell.say("w", "a", "Retry", message="later", requeueAfterSeconds=300).settle_all()
    cell.message("job.default.w", "JobDeactivated", {}).settle_all()
    text = why(cell, "w")
    assert "It was deactivated by people" in text
    assert "later" not in text
    assert "queued again with `sluice job activate w`" in text


def test_of_a_racing_job_that_is_switched_off_nothing_is_said_that_was_not_tried() -> None:
    """Only that it waits for nothing but to be activated."""
    cell = racing_cell(cluster_queue({"f0": 1, "f1": 1}))
    cell.submit("w").settle_all()
    cell.message("w", "JobDeactivated", {}).settle_all()
    text = "\n".join(plain_words(explained(cell, "w")))
    assert "queued again with `sluice job activate w`" in text
    assert "tried" not in text
    assert "would admit" not in text


def test_a_job_for_an_inactive_queue_is_told_why_it_is() -> None:
    cell = waiting_cell()
    cell.presence("ctl-a", there=False).settle()
    cell.run_until(60)
    source = ListSource(cell.log)
    text = simulated(source, source.end)
    assert "would wait: Suspended: ClusterQueue main is inactive: AdmissionCheckInactive " in text
    assert text.endswith("inactive AdmissionCheck(s): a.")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"queue_name": "nowhere"}, "Misconfigured: LocalQueue nowhere doesn't exist"),
        ({"annotations": GATED}, "AdmissionGated: Admission is gated by: example.com/one"),
    ],
)
def test_what_keeps_a_job_from_queueing_is_told(changes: dict[str, Any], expected: str) -> None:
    cell = waiting_cell()
    source = ListSource(cell.log)
    assert f"would wait: {expected}" in simulated(source, source.end, **changes)


def test_a_pending_preemption_names_the_victim() -> None:
    """It runs on until the checks allow it (AC6)."""
    source = ListSource(claiming())
    at = next(seq for seq, event in events_of(source.entries) if getattr(event, "preemptions_pending", False))
    before = next(
        seq
        for seq, event in events_of(source.entries)
        if type(event).__name__ == "WorkloadCreated" and seq > at - 3
    )
    fold = scheduler_at(source, before - 1)
    (victim,) = fold.state.world.workloads
    text = simulated(source, before - 1, priority=1_000)
    assert "have quota reserved, and wait for its admission checks" in text
    assert f"would preempt {victim}, once its admission checks allow it" in text


@pytest.mark.parametrize("races", [False, True], ids=["plain", "variants"])
@pytest.mark.parametrize("kind", ["ClusterQueue", "LocalQueue"])
@pytest.mark.parametrize("policy", ["Hold", "HoldAndDrain"])
def test_who_is_drained_is_told_what_resumes_it_and_its_place(kind: str, policy: str, races: bool) -> None:
    """Whoever waits behind a stop learns what ends it, and is where `get jobs` shows it."""
    cell = checked_cell()

    def queue(stop: str) -> None:
        spec: dict[str, Any] = {"stopPolicy": stop} if kind == "ClusterQueue" else {}
        cell.apply(cluster_queue({"default": 3}, policy=None if races else {}, **spec))
        local = local_queue()
        if kind == "LocalQueue":
            local["spec"]["stopPolicy"] = stop
        cell.apply(local)

    queue("None")
    cell.settle()
    cell.submit("first")
    cell.submit("second").settle_all()
    queue(policy)
    cell.settle_all()
    cell.submit("third").settle_all()
    names = ["first", "second", "third"] if policy == "HoldAndDrain" else ["third"]
    source = ListSource(cell.log)
    fold, view = scheduler_at(source, source.end), cell_at(source, source.end).state.view
    for place, name in enumerate(names, 1):
        report = explain(fold.state, name, source.end, fold.at)
        for told_of in report.variants or [report]:
            assert (told_of.position, told_of.queue_size) == (place, len(names)), name
            assert position(view, view.workloads[WorkloadKey(told_of.workload)]) == place, name
            assert told_of.numbers, "what it asks for"
        resumed = "resuming main" if kind == "ClusterQueue" else "resuming LocalQueue default/main"
        assert [remedy.text.startswith(resumed) for remedy in report.remedies] == [True], name


def test_who_is_held_back_after_a_retry_has_its_place() -> None:
    """It queues again by the time of its eviction, so whoever comes before that is before it."""
    cell = waiting_cell()
    cell.submit("x", cpu=9).settle_all()
    cell.say("w", "a", "Retry", message="later", requeueAfterSeconds=300).settle_all()
    cell.submit("y", cpu=9).settle_all()
    source = ListSource(cell.log)
    fold, view = scheduler_at(source, source.end), cell_at(source, source.end).state.view
    places = {}
    for name in ("w", "y"):
        report = explain(fold.state, name, source.end, fold.at)
        places[name] = report.position
        assert position(view, view.workloads[WorkloadKey(report.workload)]) == report.position
    assert places == {"w": 1, "y": 2}
