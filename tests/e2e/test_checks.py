"""Two-stage admission on a real server: KEP-993's transitions, bad input, and what people see and do."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.check_controllers import Controller, Request, approve, silent
from tests.support.command import Said, sluice
from tests.support.objects import priority_class
from tests.support.system import System
from tests.support.waiting import wait_until

pytestmark = pytest.mark.nats

CONFIGURATION = """
apiVersion: sluice.dev/v1alpha1
kind: Configuration
metadata: {name: default}
spec: {admissionChecks: {backoffBaseSeconds: 1, controllerGraceSeconds: 1}}
"""

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with System(tmp_path_factory.mktemp("checks")) as system:
        for service in ("api", "slice_aggregator", "variant_controller", "scheduler", "admission_check"):
            system.start(service)
        work = system.directory / "work"
        system.start("agent", {"AGENT_NAME": "one", "AGENT_WORK_DIR": str(work), "AGENT_GRACE_S": "1"})
        env = {"SLUICE_NATS_URL": system.url}
        with system.logs_of_failures():
            wait_until(lambda: sluice("apply", "-f", "-", stdin=CONFIGURATION, env=env).code == 0)
        yield system


class Queue:
    """A queue of its own with some checks, each with a controller of its own unless told otherwise."""

    def __init__(self, cell: System, *checks: str, cpu: int = 4, **more: Any) -> None:
        self.cell, self.checks, self.cpu = cell, checks, cpu
        self.name = f"q{next(_numbers)}"
        self.flavors: dict[str, int] = more.pop("flavors", {f"{self.name}-f": cpu})
        self.on_flavors: dict[str, list[str]] = more.pop("on_flavors", {})
        self.more = more
        for flavor in self.flavors:
            self.apply("ResourceFlavor", flavor, {"nodeLabels": {"pool": flavor}})
        for check in checks:
            self.check(check)
        self.define()
        manifest = {"clusterQueue": self.name}
        self.apply("LocalQueue", self.name, manifest, namespace="default")

    def check(self, name: str, annotations: dict[str, str] | None = None, **spec: Any) -> None:
        spec = {"controllerName": self.controller(name), **spec}
        self.apply("AdmissionCheck", self.full(name), spec, annotations=annotations or {})

    def full(self, check: str) -> str:
        return f"{self.name}-{check}"

    def controller(self, check: str) -> str:
        return f"example.com/{self.name}-{check}"

    def define(self) -> None:
        """Apply the cluster queue as it should be now."""
        rules = [
            {"name": self.full(each), **({"onFlavors": on} if (on := self.on_flavors.get(each)) else {})}
            for each in self.checks
        ]
        quotas = [
            {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": cpu}]}
            for flavor, cpu in self.flavors.items()
        ]
        groups = [{"coveredResources": ["cpu"], "flavors": quotas}]
        spec: dict[str, Any] = {"namespaceSelector": {}, "resourceGroups": groups, **self.more}
        if rules:
            spec["admissionChecksStrategy"] = {"admissionChecks": rules}
        self.apply("ClusterQueue", self.name, spec)

    def apply(self, kind: str, name: str, spec: Any, **metadata: Any) -> None:
        manifest = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": kind,
            "metadata": {"name": name, **metadata},
            "spec": spec,
        }
        self.run("apply", "-f", "-", stdin=json.dumps(manifest)).ok()

    def run(self, *arguments: str, stdin: str = "") -> Said:
        return sluice(*arguments, stdin=stdin, env={"SLUICE_NATS_URL": self.cell.url})

    def play(self, check: str, answer: Any = silent) -> Controller:
        """Return the controller of a check, to be entered."""
        return Controller(self.cell.url, self.controller(check), answer)

    def submit(self, name: str = "job", cpu: int = 1, run: str = "sleep 60", priority: str = "") -> str:
        full = f"{self.name}-{name}"
        given = ("--cpu", str(cpu), *(("--priority-class", priority) if priority else ()))
        self.run("submit", "-q", self.name, "--name", full, *given, "--", "sh", "-c", run).ok()
        return full

    def job(self, name: str) -> dict[str, Any]:
        return dict(self.run("get", "job", name, "-o", "json").ok().json.get("status") or {})

    def workload(self, job: str) -> dict[str, Any]:
        name = self.wait(lambda: self.job(job).get("workload"))
        return dict(self.run("get", "workload", name, "-o", "json").ok().json)

    def states(self, job: str) -> dict[str, str]:
        """Return check -> state, as people see it."""
        found = self.workload(job)["status"].get("admissionChecks", ())
        return {each["name"].removeprefix(f"{self.name}-"): each["state"] for each in found}

    def is_in(self, job: str, *phases: str) -> None:
        self.wait(lambda: self.job(job).get("phase") in phases)

    def reason(self, job: str) -> str:
        return str(self.job(job).get("reason", ""))

    def wait(self, condition: Any) -> Any:
        try:
            return wait_until(condition)
        except AssertionError as error:
            text = self.run("log", "tail", "--no-follow", "-n", "60").out
            raise AssertionError(f"{error}\n{text}\n{self.cell.tail_logs(5)}") from error

    def request(self, controller: Controller, job: str, attempt: int = 1) -> Request:
        """Return what the controller is asked for a job, waiting for that attempt."""
        return dict(
            self.wait(lambda: (found := controller.of(job)) and found["attempt"] == attempt and found)
        )


def test_suspended_to_prechecked_to_admitted(cell: System) -> None:
    """Quota first, then every check, then the pods, with what the checks have added (AC1, AC2)."""
    queue = Queue(cell, "a", "b")
    with queue.play("a") as a, queue.play("b") as b:
        job = queue.submit(run="true; sleep 1")
        request = queue.request(a, job)
        queue.is_in(job, "QuotaReserved")
        assert queue.reason(job) == "UnsatisfiedAdmissionChecks"
        assert queue.states(job) == {"a": "Pending", "b": "Pending"}
        assert request["assignment"][0]["usage"] == {"cpu": 1000}
        a.say(request, "Ready", podSetUpdates=[{"name": "main", "labels": {"by": "a"}}])
        queue.wait(lambda: queue.states(job) == {"a": "Ready", "b": "Pending"})
        assert queue.job(job)["phase"] == "QuotaReserved"
        b.say(queue.request(b, job), "Ready", podSetUpdates=[{"name": "main", "nodeSelector": {"zone": "b"}}])
        queue.is_in(job, "Running")
        (pods,) = b.value("dispatch", f"default.{job}")["podSets"]
        assert pods["labels"] == {"by": "a"}
        assert pods["nodeSelector"] == {"pool": f"{queue.name}-f", "zone": "b"}
        queue.wait(lambda: (found := a.of(job)) and found.get("admitted"))
        queue.is_in(job, "Succeeded")
        queue.wait(lambda: not a.requests and not b.requests)
    text = queue.run("describe", "job", job).ok().out
    assert "AdmissionCheckUpdated" in text


def test_without_checks_there_is_one_stage(cell: System) -> None:
    """With 0 checks a workload is admitted at once."""
    queue = Queue(cell)
    job = queue.submit(run="true")
    queue.is_in(job, "Succeeded")
    assert queue.states(job) == {}


@pytest.mark.parametrize("count", [1, 2])
def test_prechecked_to_suspended_by_retry(cell: System, count: int) -> None:
    """Retry gives the quota back; after the longest delay it begins anew, and late answers count no more."""
    names = ("a", "b")[:count]
    queue = Queue(cell, *names, cpu=1)
    with queue.play("a") as a, queue.play("b", approve) as b:
        job, waiting = queue.submit(), None
        first = queue.request(a, job)
        waiting = queue.submit("second")
        a.say(first, "Retry", message="come back later", requeueAfterSeconds=2)
        # While it waits, the other one has its quota.
        queue.request(a, waiting)
        queue.wait(lambda: a.of(job) is None and (count == 1 or b.of(job) is None))
        assert "Reset to Pending after eviction. Previously: Retry" in str(queue.workload(job)["status"])
        assert queue.workload(job)["status"]["requeueState"]["requeueAt"]
        queue.run("job", "delete", waiting).ok()
        second = queue.request(a, job, attempt=2)
        assert second["retryCount"] == 1
        a.say(first, "Rejected")
        a.say(second, "Ready")
        queue.is_in(job, "Running")
    text = queue.run("describe", "workload", queue.job(job)["workload"]).ok().out
    assert "StaleAttempt" in text
    assert "EvictedDueToAdmissionCheck" in text
    queue.run("job", "delete", job).ok()


def test_a_check_that_is_never_answered(cell: System) -> None:
    """Its quota is for others after the timeout, also when the service was killed while it waited (AC3)."""
    queue = Queue(cell, "a", "b", cpu=1)
    queue.check("a", annotations={"kueue.x-k8s.io/answer-timeout-seconds": "3"})
    with queue.play("a") as a, queue.play("b", approve):
        job = queue.submit()
        queue.request(a, job)
        queue.wait(lambda: queue.states(job) == {"a": "Pending", "b": "Ready"})
        (service,) = cell.live("admission_check")
        cell.kill(service)
        cell.start("admission_check")
        second = queue.request(a, job, attempt=2)
        text = f"check {queue.full('a')} was not answered within 3 s"
        described = queue.run("describe", "workload", queue.job(job)["workload"]).ok().out
        assert text in described
        assert "EvictedDueToAdmissionCheck" in described
        assert second["retryCount"] == 1
        assert "3 s, by its annotation" in queue.run("check", "describe", queue.full("a")).ok().out
        why = queue.run("why", f"default/{job}").ok().out
        assert "not answered yet; Retry after 3 s" in why
        a.say(second, "Pending", message="a person is asked")
        queue.wait(lambda: "a person is asked" in str(queue.workload(job)["status"]))
        assert "; Retry after" not in queue.run("why", f"default/{job}").ok().out
        queue.run("job", "delete", job).ok()


@pytest.mark.parametrize("count", [1, 2])
def test_prechecked_to_rejected(cell: System, count: int) -> None:
    """One Rejected is enough, and beats Retry: deactivated, with the reason, and the quota is free."""
    names = ("a", "b")[:count]
    queue = Queue(cell, *names, cpu=1)
    with queue.play("a") as a, queue.play("b") as b:
        job = queue.submit()
        a.say(queue.request(a, job), "Rejected", message="no money")
        if count == 2 and (request := b.of(job)) is not None:
            b.say(request, "Retry")
        queue.wait(lambda: queue.workload(job)["spec"].get("active") is False)
        queue.wait(lambda: not a.requests and not b.requests)
        other = queue.submit("other")
        queue.request(a, other)
    text = queue.run("describe", "workload", queue.job(job)["workload"]).ok().out
    assert "AdmissionCheckRejected" in text
    assert "no money" in text
    queue.run("job", "delete", job, other).ok()


@pytest.mark.parametrize("state", ["Retry", "Rejected"])
def test_an_approval_is_taken_back(cell: System, state: str) -> None:
    """A check that flips after admission stops the job's processes; only then is the quota free (AC5, G9)."""
    queue = Queue(cell, "a", cpu=1)
    with queue.play("a") as a:
        job = queue.submit()
        request = queue.request(a, job)
        a.say(request, "Ready")
        queue.is_in(job, "Running")
        a.say(request, state, message="over budget")
        queue.wait(lambda: queue.job(job).get("phase") not in ("Running", "Admitted"))
        if state == "Retry":
            a.say(queue.request(a, job, attempt=2), "Ready")
            queue.is_in(job, "Running")
            assert queue.job(job)["attempts"] == 2
        else:
            queue.wait(lambda: queue.workload(job)["spec"].get("active") is False)
    queue.run("job", "delete", job).ok()


def test_a_flavor_is_taken_away_while_checks_run(cell: System) -> None:
    """Prechecked to Suspended: the assigned flavor has left the queue when the checks pass (AC7)."""
    queue = Queue(cell, "a", flavors={"old-flavor": 1, "new-flavor": 1})
    with queue.play("a") as a:
        job = queue.submit()
        first = queue.request(a, job)
        assert first["assignment"][0]["flavors"] == {"cpu": "old-flavor"}
        queue.flavors = {"new-flavor": 1}
        queue.define()
        a.say(first, "Ready")
        second = queue.request(a, job, attempt=2)
        assert second["assignment"][0]["flavors"] == {"cpu": "new-flavor"}
        a.say(second, "Ready")
        queue.is_in(job, "Running")
    queue.run("job", "delete", job).ok()


def test_quota_is_taken_away_while_checks_run(cell: System) -> None:
    """Prechecked to Suspended: the quota is too small when the checks pass (AC7)."""
    queue = Queue(cell, "a", cpu=2)
    with queue.play("a") as a:
        job = queue.submit(cpu=2)
        request = queue.request(a, job)
        queue.flavors = dict.fromkeys(queue.flavors, 1)
        queue.define()
        a.say(request, "Ready")
        queue.is_in(job, "Queued")
        queue.wait(lambda: a.of(job) is None)
        queue.flavors = dict.fromkeys(queue.flavors, 2)
        queue.define()
        a.say(queue.request(a, job, attempt=2), "Ready")
        queue.is_in(job, "Running")
    queue.run("job", "delete", job).ok()


@pytest.mark.parametrize("how", ["Ready", "PreemptionRequired"])
def test_preemptions_wait_for_the_check(cell: System, how: str) -> None:
    """The victim runs on until the guarding check is Ready, or asks for its room (AC6)."""
    queue = Queue(cell, "a", cpu=1, preemption={"withinClusterQueue": "LowerPriority"})
    queue.check("a", preemptionPolicy="AfterCheckPassedOrOnDemand")
    classes = priority_class("urgent", 100)
    queue.run("apply", "-f", "-", stdin=json.dumps(classes)).ok()
    with queue.play("a") as a:
        low = queue.submit("low")
        a.say(queue.request(a, low), "Ready")
        queue.is_in(low, "Running")
        high = queue.submit("high", priority="urgent")
        request = queue.request(a, high)
        assert request["preemptionsPending"]
        assert queue.job(low)["phase"] == "Running"
        if how == "Ready":
            a.say(request, "Ready")
        else:
            a.say(request, "Pending", reason="PreemptionRequired", message="needs the room")
            queue.is_in(low, "Queued", "Evicted")
            queue.wait(lambda: not (a.of(high) or {}).get("preemptionsPending"))
            a.say(request, "Ready")
        queue.is_in(high, "Running")
        queue.is_in(low, "Queued", "Evicted")
    text = queue.run("log", "tail", "--no-follow", "-n", "60").ok().out
    assert f"PreemptionsAllowed default/job-{high}" in text
    queue.run("job", "delete", low, high).ok()


def test_the_queue_says_that_a_controller_is_gone(cell: System) -> None:
    """Missing check, missing controller, lost controller: inactive, with the reason; back: active (AC8)."""
    queue = Queue(cell, "a")

    def queue_status() -> tuple[str, str]:
        found = queue.run("get", "cq", queue.name, "-o", "json").ok().json["status"]["conditions"]
        return next((c["status"], c["reason"]) for c in found if c["type"] == "Active")

    def check_status() -> tuple[str, str]:
        found = queue.run("get", "admissioncheck", queue.full("a"), "-o", "json").ok().json
        return next((c["status"], c["reason"]) for c in found["status"]["conditions"])

    queue.wait(lambda: queue_status() == ("False", "AdmissionCheckInactive"))
    assert check_status() == ("False", "ControllerNotSeen")
    job = queue.submit()
    with queue.play("a") as a:
        queue.wait(lambda: queue_status() == ("True", "Ready"))
        request = queue.request(a, job)
        a.beating = False
        queue.wait(lambda: check_status() == ("False", "ControllerLost"))
        queue.wait(lambda: queue_status() == ("False", "AdmissionCheckInactive"))
        row = queue.run("get", "admissionchecks").ok()
        assert next(line for line in row.lines if queue.full("a") in line).split()[2:4] == ["False", "1"]
        a.beating = True
        queue.wait(lambda: queue_status() == ("True", "Ready"))
        a.say(request, "Ready")
        queue.is_in(job, "Running")
    queue.checks = ("a", "missing")
    queue.define()
    queue.wait(lambda: queue_status() == ("False", "AdmissionCheckNotFound"))
    assert queue.job(job)["phase"] == "Running"
    queue.run("job", "delete", job).ok()


def test_people_answer(cell: System) -> None:
    """`sluice check approve|retry|reject`, on a workload or a job; `describe` shows what was said."""
    queue = Queue(cell, "a")
    with queue.play("a") as a:
        job = queue.submit()
        queue.request(a, job)
        refused = queue.run("check", "approve", job, "nothing")
        assert refused.code == 1
        assert queue.full("a") in refused.err
        check = queue.full("a")
        queue.run("check", "retry", job, check, "--after", "1s", "-m", "not today").ok()
        queue.request(a, job, attempt=2)
        queue.run("check", "approve", queue.job(job)["workload"], check, "-m", "agreed").ok()
        queue.is_in(job, "Running")
        assert "said before" in queue.run("check", "approve", job, check, "-m", "agreed").ok().out
        lines = queue.run("describe", "job", job).ok().lines
        (row,) = [line.split() for line in lines if line.strip().startswith(check)]
        assert row[:4] == [check, "Ready", "2", "1"]
        assert row[-1] == "agreed"
        queue.run("check", "reject", job, check).ok()
        queue.wait(lambda: queue.workload(job)["spec"].get("active") is False)
    assert queue.run("check", "approve", job, check).code == 1
    queue.run("job", "delete", job).ok()


def test_what_people_say_of_a_job_is_for_its_growth(cell: System) -> None:
    """A rejection ends the growth that asks; what runs is stopped by its own name only (AC9, WS4)."""
    queue = Queue(cell, "a")
    check = queue.full("a")
    job = f"{queue.name}-grows"
    manifest = {
        "apiVersion": "sluice.dev/v1alpha1",
        "kind": "Job",
        "metadata": {"name": job, "annotations": {"kueue.x-k8s.io/elastic-job": "true"}},
        "spec": {
            "queueName": queue.name,
            "replicas": 1,
            "resources": {"cpu": 1},
            "command": ["sleep", "60"],
        },
    }

    def growth() -> str:
        """Return the slice that waits for its check."""
        slices = queue.job(job).get("slices", ())
        return next((each["name"] for each in slices if each["state"] == "QuotaReserved"), "")

    with queue.play("a") as a:
        queue.run("submit", "-f", "-", stdin=json.dumps(manifest)).ok()
        queue.request(a, job)
        queue.run("check", "approve", job, check).ok()
        queue.is_in(job, "Running")
        running = queue.job(job)["workload"]
        queue.run("job", "scale", job, "2").ok()
        rejected = queue.wait(growth)
        queue.wait(lambda: any(each["workload"]["name"] == rejected for each in a.requests.values()))
        assert rejected in queue.run("check", "reject", job, check, "-m", "too large").ok().out
        queue.wait(lambda: not growth())
        assert queue.job(job)["phase"] == "Running"
        # Nobody waits now: what runs is not hit because it is what is left.
        refused = queue.run("check", "reject", job, check)
        assert refused.code == 1
        assert f"{running}: Ready" in refused.err
        queue.run("job", "scale", job, "3").ok()
        queue.wait(growth)
        queue.wait(lambda: queue.run("check", "approve", job, check).code == 0)
        queue.wait(lambda: queue.job(job).get("pods") == 3)
        queue.wait(lambda: queue.job(job)["workload"] != running)
    queue.run("job", "deactivate", job).ok()
    scaled = queue.run("job", "scale", job, "2").ok().out
    assert f"sluice job activate {job}" in scaled
    queue.run("job", "delete", job).ok()


def test_bad_input_is_recorded_and_stops_nobody(cell: System) -> None:
    """Unknown workload, check, controller, old attempts, rubbish, updates that contradict: all visible."""
    queue = Queue(cell, "a", "b")
    with queue.play("a") as a, queue.play("b") as b:
        job, other = queue.submit(), queue.submit("other")
        request, of_b = queue.request(a, job), queue.request(b, job)
        workload = f"default/{request['workload']['name']}"
        good = {"workload": workload, "check": request["check"], "attempt": 1, "state": "Ready"}
        a.send({**good, "workload": "default/nobody"})
        a.send({**good, "check": "nothing"})
        a.send({**good, "attempt": 7})
        a.send({**good, "uid": "of-another"})
        a.send({**good, "surprise": 1})
        a.send({**good, "state": "Maybe"})
        a.send({**good, "check": of_b["check"]})
        a.send(None, payload=b"\x00rubbish")
        a.send({**good, "message": "x" * 100_000})
        a.send({**good, "message": "said twice"})
        a.send({**good, "message": "said twice"})
        updates = [{"name": "main", "nodeSelector": {"pool": "elsewhere"}}]
        b.say(of_b, "Ready", podSetUpdates=updates)
        queue.wait(lambda: queue.workload(job)["spec"].get("active") is False)
        # The neighbour is not disturbed.
        a.say(queue.request(a, other), "Ready")
        b.say(queue.request(b, other), "Ready")
        queue.is_in(other, "Running")
    text = queue.run("log", "tail", "--no-follow", "-n", "200").ok().out
    for reason in ("UnknownWorkload", "UnknownCheck", "StaleAttempt", "WrongController", "Duplicate"):
        assert reason in text, reason
    assert text.count("CheckInputRejected") >= 4
    rejected = queue.run("log", "rejected").ok().out
    assert "may not be more than" in rejected
    assert "surprise" in rejected
    described = queue.run("describe", "workload", workload.partition("/")[2]).ok().out
    assert "conflicts with flavor" in described
    queue.run("job", "delete", job, other).ok()


def test_variants_race_through_different_checks(cell: System) -> None:
    """Each variant passes the checks of its flavor; the better one takes over when its check passes (CA7)."""
    queue = Queue(
        cell,
        "slow",
        "quick",
        flavors={"better": 1, "worse": 1},
        on_flavors={"slow": ["better"], "quick": ["worse"]},
        concurrentAdmissionPolicy={"migration": {"mode": "TryPreferredFlavors"}},
    )
    with queue.play("slow") as slow, queue.play("quick", approve):
        job = queue.submit()
        queue.wait(lambda: queue.job(job).get("flavors") == ["worse"])
        queue.is_in(job, "Running")
        request = queue.request(slow, job)
        assert request["workload"]["parent"]
        slow.say(request, "Ready", podSetUpdates=[{"name": "main", "annotations": {"by": "slow"}}])
        queue.wait(lambda: queue.job(job).get("flavors") == ["better"])
        queue.is_in(job, "Running")
        (pods,) = slow.value("dispatch", f"default.{job}")["podSets"]
        assert pods["annotations"] == {"by": "slow"}
    queue.run("job", "delete", job).ok()
