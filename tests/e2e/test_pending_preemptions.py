"""Preemptions that wait for a check, and the second look on admission: real server, controller, agent."""

import os
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.support.command import Sluice
from tests.support.waiting import wait_until

pytestmark = pytest.mark.nats

CONFIGURATION = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {{name: late}}
spec: {{controllerName: example.com/late, preemptionPolicy: AfterCheckPassedOrOnDemand}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {{name: urgent}}
value: 1000
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {{name: first}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {{name: second}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: checked}}
spec:
  namespaceSelector: {{}}
  preemption: {{withinClusterQueue: LowerPriority}}
  admissionChecksStrategy: {{admissionChecks: [{{name: late}}]}}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - {{name: {flavor}, resources: [{{name: cpu, nominalQuota: {cpu}}}]}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: checked, namespace: default}}
spec: {{clusterQueue: checked}}
"""


@dataclass
class Checked:
    """The queue `checked` of two CPUs, an agent, and a check that says what it is told to."""

    run: Sluice
    agent_pid: int
    answers: Path

    def configure(self, cpu: int = 2, flavor: str = "first") -> None:
        self.run("apply", "-f", "-", stdin=CONFIGURATION.format(cpu=cpu, flavor=flavor)).ok()

    def answer(self, job: str, said: str) -> None:
        (self.answers / job).write_text(said)

    def submit(self, name: str, cpu: int, *more: str) -> None:
        self.run("submit", "-q", "checked", "--name", name, "--cpu", cpu, *more, "--", "sleep", "300").ok()

    def phase(self, job: str) -> str:
        return self.run("get", "job", job, "-o", "json").ok().json["status"]["phase"]

    def runs(self, job: str) -> bool:
        """Has the job a live process?"""
        for process in psutil.Process(self.agent_pid).children(recursive=True):
            try:
                if process.environ().get("SLUICE_JOB_NAME") == job and process.status() != "zombie":
                    return True
            except (psutil.Error, OSError):
                continue
        return False

    def start(self, name: str, cpu: int) -> None:
        """Let a job run that anybody of high priority may preempt."""
        self.answer(name, "ready")
        self.submit(name, cpu)
        wait_until(lambda: self.runs(name))

    def describe(self, job: str) -> str:
        return self.run("describe", "job", job).ok().out

    def end(self, *jobs: str) -> None:
        """Delete the jobs, and wait until they are gone: the next test has some of the same names."""
        self.run("job", "delete", *jobs).ok()
        wait_until(lambda: self.run("get", "wl", "-o", "json").ok().json["items"] == [])
        assert not any(self.runs(job) for job in jobs)
        for job in jobs:
            (self.answers / job).unlink(missing_ok=True)


@pytest.fixture(scope="module")
def processes(cell):
    answers = cell.directory / "answers"
    answers.mkdir()
    work_dir = cell.directory / "work"
    agent = cell.start("agent", {"AGENT_NAME": "one", "AGENT_WORK_DIR": str(work_dir), "AGENT_GRACE_S": "2"})
    cell.start(
        "late_check",
        {"CHECK_ANSWERS": str(answers), "PYTHONPATH": os.pathsep.join(["libs", "."])},
        command=("-m", "tests.e2e.late_check"),
    )
    return agent.pid, answers


@pytest.fixture
def checked(run, processes):
    found = Checked(run, *processes)
    found.configure()
    wait_until(lambda: _is_active(run))
    return found


def _is_active(run: Sluice) -> bool:
    conditions = run("get", "cq", "checked", "-o", "json").ok().json["status"]["conditions"]
    return any(c["type"] == "Active" and c["status"] == "True" for c in conditions)


def test_a_victim_runs_until_the_check_has_passed(checked):
    """Quota is reserved beside the victim; it is stopped when the check is Ready, and only then."""
    checked.start("low", 2)
    checked.submit("high", 2, "--priority-class", "urgent")
    wait_until(lambda: checked.phase("high") == "QuotaReserved")
    expected = "The preemption of 1 workload(s) is pending until its checks allow it"
    assert expected in checked.describe("high")
    assert "pending until late says Ready" in checked.run("why", "high").ok().out
    assert checked.runs("low")
    assert not checked.runs("high")

    checked.answer("high", "ready")
    wait_until(lambda: checked.runs("high"))
    assert not checked.runs("low"), "admitted beside its victim"
    assert checked.phase("low") != "Admitted"
    checked.end("high", "low")


def test_a_check_can_ask_for_the_preemption(checked):
    """PreemptionRequired stops the victim although the check has not passed; the place is kept."""
    checked.start("low", 2)
    checked.submit("high", 2, "--priority-class", "urgent")
    wait_until(lambda: checked.phase("high") == "QuotaReserved")
    checked.answer("high", "preempt")
    wait_until(lambda: not checked.runs("low"))
    assert checked.phase("high") == "QuotaReserved"
    assert not checked.runs("high")
    checked.answer("high", "ready")
    wait_until(lambda: checked.runs("high"))
    checked.end("high", "low")


def test_quota_taken_away_before_the_admission(checked):
    """The reservation is given up and said so; with the quota back the job runs."""
    checked.submit("late", 2)
    wait_until(lambda: checked.phase("late") == "QuotaReserved")
    checked.configure(cpu=1)
    checked.answer("late", "ready")
    wait_until(lambda: checked.phase("late") == "Queued")
    assert "The reserved quota is no longer enough" in checked.describe("late")
    checked.configure(cpu=2)
    wait_until(lambda: checked.runs("late"))
    checked.end("late")


def test_a_flavor_taken_away_before_the_admission(checked):
    """What was reserved on it is given up; the job gets the flavor that the queue has now."""
    checked.submit("late", 2)
    wait_until(lambda: checked.phase("late") == "QuotaReserved")
    checked.configure(flavor="second")
    checked.answer("late", "ready")
    wait_until(lambda: checked.runs("late"))
    assert "second" in checked.describe("late")
    checked.end("late")
