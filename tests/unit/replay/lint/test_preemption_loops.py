"""What lint advises about work that is begun and stopped again and again."""

import msgspec
import pytest

from sluice.events.base import Event, JobKey, WorkloadKey
from sluice.events.scheduler import Admitted, Evicted
from sluice.events.slices import (
    JobReference,
    JobResumed,
    WorkloadCreated,
    WorkloadDeleted,
    WorkloadRecord,
)
from sluice.replay.lint.preemption_loops import _advice, _Finder


@pytest.mark.parametrize(
    ("reasons", "text"),
    [
        ({"NodeFailures": 2, "Preempted": 1}, "See what NodeFailures comes from with `sluice trace`."),
        (
            {"NodeFailures": 1, "Preempted": 1},
            "See what NodeFailures and Preempted come from with `sluice trace`.",
        ),
        (
            {"FlavorMigration": 1, "NodeFailures": 1, "ConcurrentAdmission": 1},
            "See what FlavorMigration, NodeFailures and ConcurrentAdmission come from with `sluice trace`.",
        ),
    ],
)
def test_causes_that_were_as_frequent_are_all_named(reasons: dict[str, int], text: str) -> None:
    assert _advice(reasons) == text


def made(name: str) -> WorkloadCreated:
    """Make another workload of the one job."""
    job = JobReference(api_version="batch/v1", kind="Job", key="default/a", uid="u")  # type: ignore[arg-type]
    record = WorkloadRecord(
        namespace="default", name=name, uid=name, queue_name="q", created_at=0, pod_sets=(), job=job
    )
    return WorkloadCreated(cause=0, workload=record)


def admitted(name: str) -> Admitted:
    return Admitted(cause=0, workload=WorkloadKey(f"default/{name}"))


def resumed() -> JobResumed:
    return JobResumed(cause=0, job=JobKey("default/a"), workload=WorkloadKey("default/one"), attempt=1)


def evicted(name: str, reason: str = "Preempted", why: str = "") -> Evicted:
    return Evicted(cause=0, workload=WorkloadKey(f"default/{name}"), reason=reason, underlying_cause=why)


def told(*events: Event, dispatched: bool = True) -> list[str]:
    """Return the warnings of a log in which these happen, one a second; what is admitted is told to run."""
    finder = _Finder()
    for seq, event in enumerate((made("one"), made("two"), made("three"), *events), 1):
        finder.take(event, seq, seq * 1_000_000)
        if dispatched and isinstance(event, Admitted):
            finder.take(resumed(), seq, seq * 1_000_000)
    return [violation.text for violation in finder.thrashing()]


def test_a_growth_that_gets_nothing_stops_nothing() -> None:
    """Its checks say no, over and over: the slice beside it runs on."""
    refused = [evicted("two", "AdmissionCheck"), evicted("two", "Deactivated", "AdmissionCheck")]
    assert not told(admitted("one"), *refused, *refused)


def test_a_job_that_grows_has_run_since_its_first_slice() -> None:
    """Stopped with the second one: what is lost began with the first."""
    grown = [admitted("one"), admitted("two"), evicted("two")]
    (text,) = told(*grown, *grown, *grown)
    assert "was stopped 3 times (3 x Preempted), at 6, 9, 12; it had run for 6.0 s" in text


def test_what_people_stop_is_no_thrashing() -> None:
    assert not told(*[admitted("one"), evicted("one", "Deactivated")] * 3)
    assert told(*[admitted("one"), evicted("one", "Deactivated", "RequeuingLimitExceeded")] * 3)


def test_what_ended_otherwise_runs_no_more() -> None:
    """An edit made another workload of it: the time of the old one is not that of the new one."""
    exchanged = [admitted("one"), WorkloadDeleted(cause=0, workload=WorkloadKey("default/one"))]
    (text,) = told(*exchanged, *[admitted("two"), evicted("two")] * 3)
    assert "it had run for 3.0 s" in text


def test_what_was_never_dispatched_was_not_stopped() -> None:
    """Admitted and given up before anybody was told to run it, also right after an attempt that ran."""
    given_up = [admitted("two"), evicted("two")]
    assert not told(*given_up * 3, dispatched=False)
    assert not told(admitted("one"), resumed(), evicted("one"), *given_up * 3, dispatched=False)
    late = [admitted("one"), evicted("one"), resumed()]
    assert not told(*late * 3, dispatched=False), "what is dispatched after it was stopped is taken back"


def test_jobs_that_were_submitted_under_one_name_are_not_one() -> None:
    """One that runs each night, and is moved once each night, is stopped once each time."""
    nights: list[Event] = []
    for night in ("u1", "u2", "u3"):
        again = made(night)
        assert again.workload.job is not None
        job = msgspec.structs.replace(again.workload.job, uid=night)
        nights += [WorkloadCreated(cause=0, workload=msgspec.structs.replace(again.workload, job=job))]
        nights += [admitted(night), evicted(night)]
    finder = _Finder()
    for seq, event in enumerate(nights, 1):
        finder.take(event, seq, seq * 1_000_000)
        if isinstance(event, Admitted):
            resume = JobResumed(cause=0, job=JobKey("default/a"), workload=event.workload, attempt=1)
            finder.take(resume, seq, seq * 1_000_000)
    assert [len(life.evictions) for life in finder.lives.values()] == [1, 1, 1]
