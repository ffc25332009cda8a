"""The stories of KEP-8729 on real services: `examples/constraints/`."""

import pytest

from .conftest import eventually

pytestmark = pytest.mark.nats


def job(run, name):
    return run("get", "job", name, "-o", "json").ok().json["status"]


def test_a_job_that_must_not_borrow_waits(run):
    """The cohort has room; the reason names the constraint. Without it the job gets in."""
    run("apply", "-f", "examples/constraints/queues.yaml").ok()
    run("apply", "-f", "examples/constraints/cannot-borrow.yaml").ok()
    status = eventually(lambda: (s := job(run, "no-borrowing")) and "cannot-borrow" in s["message"] and s)
    assert status["phase"] == "Queued"
    described = run("describe", "job", "no-borrowing").ok().out
    assert "AdmissionConstraintUnsatisfied" in described
    totals = run("status", "-o", "json").ok().json["totals"]
    (counted,) = [t for t in totals if t["metric"] == "sluice_unsatisfied_admission_constraints_total"]
    assert counted["labels"] == {"cluster_queue": "careful", "constraint": "cannot-borrow"}
    assert counted["value"] >= 1
    run("submit", "-q", "careful", "--name", "borrower", "--cpu", "3", "--", "sleep", "5").ok()
    eventually(lambda: job(run, "borrower")["phase"] == "Admitted")
    run("job", "finish", "borrower").ok()
    run("job", "delete", "no-borrowing").ok()


def test_a_job_that_must_not_preempt_waits(run):
    """One of lower priority stays; with the slot free the job gets in."""
    run("apply", "-f", "examples/constraints/queues.yaml").ok()
    for name, queue in (("low-1", "careful"), ("low-2", "lender")):
        run("submit", "-q", queue, "--name", name, "--cpu", "2", "--", "sleep", "5").ok()
        eventually(lambda name=name: job(run, name)["phase"] == "Admitted")
    run("apply", "-f", "examples/constraints/cannot-preempt.yaml").ok()
    eventually(lambda: "cannot-preempt" in job(run, "no-preemption")["message"])
    assert job(run, "low-1")["phase"] == "Admitted"
    run("job", "finish", "low-1").ok()
    eventually(lambda: job(run, "no-preemption")["phase"] == "Admitted")
    run("job", "finish", "no-preemption").ok()
    run("job", "finish", "low-2").ok()
