"""The stories of KEP-8729 on real services: `examples/constraints/`."""

import pytest

from tests.support.waiting import wait_until

pytestmark = pytest.mark.nats


def job(run, name):
    """Return its status; a job that nobody has looked at yet has no message."""
    return {"message": ""} | run("get", "job", name, "-o", "json").ok().json["status"]


def test_a_job_that_must_not_borrow_waits(run):
    """The cohort has room; the reason names the constraint. Without it the job gets in."""
    run("apply", "-f", "examples/constraints/queues.yaml").ok()
    run("apply", "-f", "examples/constraints/cannot-borrow.yaml").ok()
    status = wait_until(lambda: (s := job(run, "no-borrowing")) and "cannot-borrow" in s["message"] and s)
    assert status["phase"] == "Queued"
    described = run("describe", "job", "no-borrowing").ok().out
    assert "AdmissionConstraintUnsatisfied" in described
    totals = run("status", "-o", "json").ok().json["totals"]
    metric = "sluice_unsatisfied_admission_constraints_total"
    labels = {"cluster_queue": "careful", "constraint": "cannot-borrow"}
    (counted,) = [t for t in totals if t["metric"] == metric and t["labels"] == labels]
    assert counted["value"] >= 1
    run("submit", "-q", "careful", "--name", "borrower", "--cpu", "3", "--", "sleep", "5").ok()
    wait_until(lambda: job(run, "borrower")["phase"] == "Admitted")
    run("job", "finish", "borrower").ok()
    run("job", "delete", "no-borrowing").ok()


def test_a_job_that_must_not_preempt_waits(run):
    """One of lower priority stays; with the slot free the job gets in."""
    run("apply", "-f", "examples/constraints/queues.yaml").ok()
    for name, queue in (("low-1", "careful"), ("low-2", "lender")):
        run("submit", "-q", queue, "--name", name, "--cpu", "2", "--", "sleep", "5").ok()
        wait_until(lambda name=name: job(run, name)["phase"] == "Admitted")
    run("apply", "-f", "examples/constraints/cannot-preempt.yaml").ok()
    wait_until(lambda: "cannot-preempt" in job(run, "no-preemption")["message"])
    assert job(run, "low-1")["phase"] == "Admitted"
    run("job", "finish", "low-1").ok()
    wait_until(lambda: job(run, "no-preemption")["phase"] == "Admitted")
    run("job", "finish", "no-preemption").ok()
    run("job", "finish", "low-2").ok()


def test_a_dispatcher_prefers_the_place_that_disturbs_nobody(run):
    """Story 3: of two queues the one with room of its own wins; in the other nobody is preempted."""
    run("apply", "-f", "examples/constraints/queues.yaml").ok()
    run("submit", "-q", "careful", "--name", "busy", "--cpu", "1", "--", "sleep", "5").ok()
    wait_until(lambda: job(run, "busy")["phase"] == "Admitted")
    run("apply", "-f", "examples/constraints/placement.yaml").ok()
    wait_until(lambda: job(run, "place-lender")["phase"] == "Admitted")
    waits = wait_until(lambda: (s := job(run, "place-careful")) and s["message"] and s)
    assert waits["phase"] == "Queued"
    assert "cannot-borrow" in waits["message"]
    run("job", "delete", "place-careful").ok()
    assert job(run, "busy")["phase"] == job(run, "place-lender")["phase"] == "Admitted"
    for name in ("busy", "place-lender"):
        run("job", "finish", name).ok()


def test_constraints_stay_while_there_is_quota(run):
    """AX1, as users meet it: an edit is refused with the field's path, and the job goes on."""
    run("apply", "-f", "examples/constraints/queues.yaml").ok()
    manifest = """
apiVersion: sluice.dev/v1alpha1
kind: Job
metadata: {name: fixed}
spec: {queueName: lender, replicas: 1, resources: {cpu: 1}, command: [sleep, "5"]}
"""
    run("submit", "-f", "-", stdin=manifest).ok()
    wait_until(lambda: job(run, "fixed")["phase"] == "Admitted")
    changed = manifest.replace("replicas: 1", "replicas: 1, admissionConstraints: {borrowing: Never}")
    run("submit", "-f", "-", stdin=changed)
    path = 'spec.admissionConstraints.borrowing: Invalid value: "Never": field is immutable'
    refused = wait_until(lambda: job(run, "fixed").get("refused"))
    assert (refused["event"], path in refused["message"]) == ("JobSubmitted", True)
    assert job(run, "fixed")["phase"] == "Admitted"
    wrong = manifest.replace("name: fixed", 'name: wrong, annotations: {kueue.x-k8s.io/cannot-borrow: "yes"}')
    said = run("submit", "-f", "-", stdin=wrong)
    assert said.code
    assert (
        'metadata.annotations[kueue.x-k8s.io/cannot-borrow]: Unsupported value: "yes"' in said.err + said.out
    )
    run("job", "finish", "fixed").ok()
