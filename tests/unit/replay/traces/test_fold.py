"""Jobs as traces: what the spans are, that they hang together, and that they are the same each time."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.trace import StatusCode

from sluice.replay.history.causes import Happening, happenings
from sluice.replay.source.source import FileSource
from sluice.replay.traces.fold import traces
from tests.support.checked_cell import CheckedCell, checked_cell
from tests.unit.structure import ROOT

from .story import a_full_life, approve, submit_traced


@pytest.fixture(scope="module")
def life() -> CheckedCell:
    return a_full_life()


def _traces(cell: CheckedCell, job: str = "") -> dict[str, list[Any]]:
    """Return the traces by the name of their job."""
    found: Any = traces(happenings(cell.log), "main", job)
    return {str(trace[0].attributes["sluice.job.name"]): trace for trace in found}


def _named(trace: list[Any], name: str) -> list[Any]:
    return sorted((span for span in trace if span.name == name), key=lambda span: span.start_time)


def _seconds(span: Any) -> float:
    return (span.end_time - span.start_time) / 1e9


def test_a_job_through_variants_a_check_a_migration_and_a_preemption(life: CheckedCell) -> None:
    train = _traces(life)["train"]
    attempts = _named(train, "attempt")
    told = [a.attributes for a in attempts]
    assert [(each["sluice.flavors"], each.get("sluice.attempt.stopped")) for each in told] == [
        ("od", "migrated"),
        ("res", "preempted"),
        ("od", None),
    ]
    phases = [
        [span.name for span in train if span.parent and span.parent.span_id == attempt.context.span_id]
        for attempt in attempts
    ]
    ran = ["QuotaReserved", "Admitted", "Running", "Stopping", "check"]
    assert phases == [ran, ran, ["QuotaReserved", "Admitted", "check"]]
    checks = _named(train, "check")
    assert [(c.attributes["sluice.check"], c.attributes["sluice.check.state"]) for c in checks] == [
        ("approval", "Ready")
    ] * 3
    assert [w.attributes["sluice.workload.kind"] for w in _named(train, "workload")] == ["variant", "variant"]
    waits = [span for span in _named(train, "Queued") if span.parent == train[0].context]
    assert len(waits) == 2, "before the first reservation, and after the preemption"


def test_a_migration_lasts_from_the_eviction_until_the_job_runs_elsewhere(life: CheckedCell) -> None:
    train = _traces(life)["train"]
    before, after, _ = _named(train, "attempt")
    [migration] = _named(train, "migration")
    assert (migration.attributes["sluice.flavors.from"], migration.attributes["sluice.flavors.to"]) == (
        "od",
        "res",
    )
    assert [(link.context, link.attributes["sluice.link"]) for link in migration.links] == [
        (before.context, "from"),
        (after.context, "to"),
    ]
    first, second = _named(train, "Running")
    assert (migration.start_time, migration.end_time) == (first.end_time, second.start_time)


def test_a_preempted_attempt_is_linked_to_the_job_of_its_preemptor(life: CheckedCell) -> None:
    train, urgent = _traces(life)["train"], _traces(life, "default/urgent")["urgent"]
    preempted = _named(train, "attempt")[1]
    [link] = preempted.links
    assert link.context == urgent[0].context
    assert link.attributes["sluice.preemptor"] == "default/urgent"
    assert urgent[0].context.trace_id != train[0].context.trace_id
    assert [event.name for event in train[0].events] == ["Migrated", "Preempted"]


def test_a_job_that_came_with_a_traceparent_is_in_its_submitters_trace(life: CheckedCell) -> None:
    found = _traces(life)
    root = found["train"][0]
    assert f"{root.parent.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert f"{root.parent.span_id:016x}" == "b7ad6b7169203331"
    assert root.parent.is_remote
    assert root.context.trace_state.get("vendor") == "1"
    assert {span.context.trace_id for span in found["train"]} == {root.parent.trace_id}
    assert found["first"][0].parent is None


@pytest.mark.parametrize("broken", ["", "00-0-0-01", f"00-{'0' * 32}-b7ad6b7169203331-01", "ff-x", 12, None])
def test_a_traceparent_that_is_none_refuses_no_job_and_begins_a_trace(broken: object) -> None:
    cell = checked_cell()
    submit_traced(cell, "a", broken).settle_all()  # type: ignore[arg-type]
    cell.report("a", "JobFinished").settle_all()
    [root] = [trace[0] for trace in _traces(cell).values()]
    assert root.parent is None
    assert root.context.is_valid


LOGS = (ROOT / "tests/unit/replay/logs/takeovers.jsonl", ROOT / "examples/logs/incident.slog")


@pytest.mark.parametrize("log", ["", *LOGS], ids=["a full life", *(path.name for path in LOGS)])
def test_spans_hang_together(life: CheckedCell, log: Path | str) -> None:
    """Each has an id of its own, its parent is in the trace, and it lies within its parent's time.

    Also where services' clocks differ, as in the log of a cell whose leaders were killed.
    """
    entries = [entry for batch in FileSource(Path(log)).read() for entry in batch] if log else life.log
    made: list[Any] = list(traces(happenings(entries), "main"))
    assert made
    for trace in made:
        ids = Counter(span.context.span_id for span in trace)
        assert max(ids.values()) == 1
        by_id = {span.context.span_id: span for span in trace}
        for span in trace[1:]:
            parent = by_id[span.parent.span_id]
            assert parent.start_time <= span.start_time <= span.end_time <= parent.end_time, span.name


def test_a_trace_that_is_made_again_is_the_same(life: CheckedCell) -> None:
    """Alone or with all others, and from a log that has gone on since."""
    once = [span.to_json() for span in _traces(life)["train"]]
    assert [span.to_json() for span in _traces(life, "default/train")["train"]] == once
    longer = a_full_life()
    longer.submit("another").settle_all(60)
    assert [span.to_json() for span in _traces(longer)["train"]] == once


def test_a_job_that_is_not_over_has_a_trace_if_it_is_asked_for() -> None:
    """Up to the end of the log; its ids are those that it will have."""
    cell = checked_cell("approval")
    cell.submit("a").settle_all()
    cell.settle(30)
    assert _traces(cell) == {}
    early = _traces(cell, "default/a")["a"]
    assert "sluice.job.result" not in early[0].attributes
    approve(cell, "a")
    cell.report("a", "JobFinished").settle_all()
    late = _traces(cell)["a"]
    assert late[0].attributes["sluice.job.result"] == "Succeeded"
    assert {span.context.span_id for span in early} <= {span.context.span_id for span in late}


def test_a_job_that_failed_says_so_and_one_of_the_same_name_is_another() -> None:
    cell = checked_cell()
    cell.submit("a").settle_all()
    cell.report("a", "JobFinished", success=False, message="exit code 3").settle_all(5)
    cell.message("a", "JobDeleted", {}).settle_all()
    cell.submit("a").settle_all()
    cell.message("a", "JobDeleted", {}).settle_all()
    found: list[Any] = [trace[0] for trace in traces(happenings(cell.log), "main")]
    assert [root.attributes["sluice.job.result"] for root in found] == ["Failed", "Deleted"]
    assert found[0].status.status_code is StatusCode.ERROR
    assert len({root.context.trace_id for root in found}) == 2


def test_reasons_of_a_wait_are_events_of_its_span() -> None:
    cell = checked_cell(quota=1)
    for name in ("a", "b"):
        cell.submit(name).settle_all(1)
    cell.settle(10)
    cell.report("a", "JobFinished").settle_all()
    cell.report("b", "JobFinished").settle_all()
    [wait] = [span for span in _traces(cell)["b"] if span.name == "Queued"]
    assert _seconds(wait) > 10
    assert [event.attributes["sluice.reason"] for event in wait.events] == ["WaitingForQuota"]


def test_deciders_do_not_see_the_trace_context(life: CheckedCell) -> None:
    """Nothing that they wrote has it, so what they decide cannot depend on it."""
    for entry in life.log:
        if "." not in entry.suffix:
            assert b"0af7651916cd43dd8448eb211c80319c" not in entry.payload
    [told] = [json.loads(e.payload) for e in life.log if b"traceparent" in e.payload]
    assert told["subject"] == "job.default.train"


def test_a_check_that_is_withdrawn_ends_with_its_attempt() -> None:
    """Who withdraws it is another service than who gave the quota back."""
    cell = checked_cell("approval")
    cell.submit("a").settle_all(1)
    cell.message("a", "JobDeactivated", {}).settle_all(1)
    cell.message("a", "JobDeleted", {}).settle_all(1)
    trace = _traces(cell)["a"]
    [attempt], [check] = _named(trace, "attempt"), _named(trace, "check")
    assert check.parent == attempt.context
    assert check.end_time == attempt.end_time
    assert "sluice.check.state" not in check.attributes


def test_a_job_that_leaves_for_one_of_several_flavors_migrates_once() -> None:
    """Variants race for the next flavor while it stops: it went where it ran first."""

    def told(seq: int, kind: str, workload: object, **data: Any) -> Happening:
        return Happening(seq, "scheduler", seq * 1_000_000, 0, kind, {"workload": workload, **data})

    def reserved(seq: int, flavor: str) -> Happening:
        pods = [{"name": "main", "count": 1, "flavors": {"cpu": flavor}}]
        return told(seq, "QuotaReserved", f"default/{flavor}", podSets=pods)

    record = {"namespace": "default", "name": "w", "uid": "1", "createdAt": 1, "queueName": "q"}
    variants = [
        told(2, "VariantCreated", {"namespace": "default", "name": name, "parent": "default/w"})
        for name in ("worst", "better", "best")
    ]
    found = [
        told(1, "WorkloadCreated", record),
        *variants,
        reserved(3, "worst"),
        told(4, "WorkloadPodsReady", "default/worst"),
        told(5, "Evicted", "default/worst", reason="FlavorMigration"),
        reserved(6, "better"),
        reserved(7, "best"),
        told(8, "QuotaReleased", "default/worst"),
        told(9, "VariantPodsReady", "default/best"),
        told(10, "WorkloadFinished", "default/w"),
    ]
    [trace] = list(traces(found, "main"))
    [migration] = _named(trace, "migration")
    assert migration.attributes["sluice.flavors.to"] == "best"
    assert (migration.start_time, migration.end_time) == (5 * 10**9, 9 * 10**9)
