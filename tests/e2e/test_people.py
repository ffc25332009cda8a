"""A check that people answer, before others are preempted: `examples/checks/people/` on real services."""

import pytest

from tests.support.waiting import wait_until

pytestmark = pytest.mark.nats
FOLDER = "examples/checks/people"


@pytest.fixture(scope="module")
def agent(cell):
    env = {"AGENT_NAME": "people", "AGENT_WORK_DIR": str(cell.directory / "work"), "AGENT_GRACE_S": "1"}
    return cell.start("agent", env)


def phase(run, name):
    return run("get", "job", name, "-o", "json").ok().json["status"]["phase"]


def test_nobody_is_stopped_for_what_people_refuse(run, agent):
    """Asked first; rejected, the one that runs has noticed nothing; approved, it gives its place."""
    assert agent.pid
    run("apply", "-f", f"{FOLDER}/queues.yaml").ok()
    run("submit", "-f", f"{FOLDER}/job.yaml").ok()
    wait_until(lambda: phase(run, "nightly") == "QuotaReserved")
    wait_until(lambda: run("check", "approve", "nightly", "sign-off").code == 0)
    wait_until(lambda: phase(run, "nightly") == "Running")

    run("submit", "-f", f"{FOLDER}/urgent.yaml").ok()
    wait_until(lambda: phase(run, "urgent") == "QuotaReserved")
    why = run("why", "urgent").ok().out
    assert "is pending until sign-off says Ready" in why
    assert "Ready from sign-off (people.sluice.dev/finance); then default/job-nightly-" in why
    wait_until(lambda: run("check", "reject", "urgent", "sign-off", "-m", "not today").code == 0)
    wait_until(lambda: phase(run, "urgent") == "Suspended")
    assert "not today" in run("describe", "job", "urgent").ok().out
    assert phase(run, "nightly") == "Running"

    run("job", "activate", "urgent").ok()
    wait_until(lambda: phase(run, "urgent") == "QuotaReserved")
    assert phase(run, "nightly") == "Running"
    wait_until(lambda: run("check", "approve", "urgent", "sign-off").code == 0)
    wait_until(lambda: phase(run, "urgent") == "Running")
    assert phase(run, "nightly") == "Queued"
    run("job", "delete", "urgent", "nightly").ok()
