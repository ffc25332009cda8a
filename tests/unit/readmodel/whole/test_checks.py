"""What people see of the checks of a workload, and since when (AC1-AC4)."""

from types import SimpleNamespace
from typing import Any

from sluice.cli.commands.checks.list import COLUMNS, Row
from sluice.cli.commands.log.log import _REFUSALS, _events
from sluice.cli.commands.objects.describe_jobs import _promised
from sluice.cli.commands.objects.describe_queues import cluster_queue_lines, flavor_lines, local_queue_lines
from sluice.cli.kit.columns import usage_text
from sluice.core.checks.requests import requests
from sluice.core.views.present.times import timestamp
from sluice.events.catalogue import EVENTS, REFUSALS
from sluice.events.checks import CheckStateChanged
from sluice.protocol.subjects import COMMITS
from sluice.readmodel.objects import render
from sluice.readmodel.world import World
from sluice.replay.explain.checks import checks_of
from sluice.replay.explain.why import explain
from tests.support.checked_cell import CheckedCell, checked_cell
from tests.support.family_world import SECOND, cluster_queue, flavor, local_queue


def shown(cell: CheckedCell) -> World:
    api = World()
    api.fold(cell.log)
    return api


def checks_shown(cell: CheckedCell, name: str) -> dict[str, dict[str, Any]]:
    key, _, _ = cell.reservation(name)
    found = render(shown(cell), "Workload", key)
    assert found is not None
    return {check["name"]: check for check in found["status"]["admissionChecks"]}


def since(cell: CheckedCell, name: str) -> dict[str, str]:
    """Return since when each check is what it is, as all pages have it."""
    found = {check: str(said["lastTransitionTime"]) for check, said in checks_shown(cell, name).items()}
    key, _, _ = cell.reservation(name)
    state = cell.services["checks"].state
    told = {note.name: note.since for note in checks_of(state, key)}
    assert {check: text[:19] for check, text in found.items()} == {c: t[:19] for c, t in told.items()}, "why"
    asked = {r.check: timestamp(r.since) for r in requests(state) if r.state == "Pending"}
    assert asked.items() <= found.items(), "check describe"
    return found


def queue_of(*checks: str, **spec: Any) -> dict[str, Any]:
    strategy = {"admissionChecks": [{"name": name} for name in checks]}
    return cluster_queue({"default": 10}, policy={}, admissionChecksStrategy=strategy, **spec)


def test_a_check_that_is_deleted_and_in_use_is_terminating() -> None:
    """In the list as on the other pages, whatever its controller says."""
    check: dict[str, Any] = {
        "metadata": {"name": "slow"},
        "status": {"conditions": [{"type": "Active", "status": "True"}]},
    }

    def listed() -> str:
        return next(column.text(Row(check)) for column in COLUMNS if column.title == "ACTIVE")

    assert listed() == "True"
    check["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert listed() == "Terminating"


def test_a_check_that_is_added_is_pending_since_then() -> None:
    """Not since the quota was reserved; a timeout of it comes from the change of the queue."""
    cell = checked_cell("first")
    cell.submit("a").settle_all()
    reserved = timestamp(cell.now)
    cell.now += 600 * SECOND
    cell.add_check("second")
    cell.presence("ctl-second")
    cell.apply(
        {
            "apiVersion": "sluice.dev/v1alpha1",
            "kind": "Configuration",
            "metadata": {"name": "default"},
            "spec": {"admissionChecks": {"answerTimeoutSeconds": 3600}},
        },
        queue_of("first", "second"),
    )
    changed = len(cell.log)
    cell.settle_all()
    assert since(cell, "a") == {"first": reserved, "second": timestamp(cell.now)}
    cell.say("a", "first", "Pending", message="at work").settle_all()
    assert since(cell, "a")["first"] == reserved, "who says that it is at work has not begun anew"
    cell.settle_all(3601)
    (late,) = [event for _, _, event in cell.history if isinstance(event, CheckStateChanged) and event.reason]
    assert (late.check, late.cause) == ("second", changed)


def test_a_check_is_pending_since_the_attempt_that_asks_for_it() -> None:
    """What an earlier attempt came to, and when, is told by its message and by RETRIES."""
    cell = checked_cell("first", "second")
    cell.submit("a").settle_all()
    cell.say("a", "first", "Retry", requeueAfterSeconds=50).settle_all()
    cell.settle_all(51)
    again = timestamp(cell.now)
    assert cell.reservation("a")[2] == 2
    assert since(cell, "a") == {"first": again, "second": again}
    first = checks_shown(cell, "a")["first"]
    assert (first["retryCount"], first["message"]) == (
        1,
        "Reset to Pending after eviction. Previously: Retry",
    )


def test_what_checks_of_some_flavors_have_said_stays_after_the_eviction() -> None:
    """No flavor is assigned then; but what they said is why the job waits."""
    cell = CheckedCell()
    cell.apply(flavor("spot"), flavor("od"))
    for name in ("all", "on-spot", "on-od"):
        cell.add_check(name)
        cell.presence(f"ctl-{name}")
    rules = [
        {"name": "all"},
        {"name": "on-spot", "onFlavors": ["spot"]},
        {"name": "on-od", "onFlavors": ["od"]},
    ]
    queue = cluster_queue({"spot": 1, "od": 1}, policy={}, admissionChecksStrategy={"admissionChecks": rules})
    queue["spec"].pop("concurrentAdmissionPolicy", None)
    cell.apply(queue, local_queue())
    cell.submit("a").settle_all()
    assert set(checks_shown(cell, "a")) == {"all", "on-spot"}
    cell.say("a", "on-spot", "Retry", requeueAfterSeconds=50, message="no spot today").settle_all()
    assert cell.reservation("a")[1] is None
    checks = checks_shown(cell, "a")
    assert set(checks) == {"all", "on-spot"}
    assert checks["on-spot"]["retryCount"] == 1
    assert checks["on-spot"]["message"] == "Reset to Pending after eviction. Previously: Retry"
    rules.pop(1)
    cell.apply(queue)
    assert set(checks_shown(cell, "a")) == {"all"}, "the queue has no such check any more"


class _Queues:
    """An api that has these queues, and knows of nothing else."""

    def __init__(self, *queues: Any) -> None:
        self.queues = queues

    async def list(self, request: Any) -> Any:
        return SimpleNamespace(items=self.queues if request.kind == "ClusterQueue" else ())


async def test_what_is_promised_is_not_borrowed() -> None:
    """AC6: the quota of who is to be preempted is in use once, also while it stops; pages tell both apart."""
    cell = CheckedCell()
    cell.apply(flavor("default"), {**HIGH, "value": 100})
    cell.add_check("late", preemptionPolicy="AfterCheckPassedOrOnDemand")
    cell.presence("ctl-late")
    rules = {"admissionChecks": [{"name": "late"}]}
    preempts = {"withinClusterQueue": "LowerPriority"}
    plain = cluster_queue({"default": 2}, policy={}, preemption=preempts)
    cell.apply(plain, local_queue())
    cell.submit("low", cpu=2).settle_all()
    cell.apply(cluster_queue({"default": 2}, policy={}, preemption=preempts, admissionChecksStrategy=rules))
    cell.submit("high", cpu=2, priority_class="high").settle_all()

    async def shown_as() -> list[str]:
        api = shown(cell)
        queue, local = render(api, "ClusterQueue", "main"), render(api, "LocalQueue", "default/main")
        assert queue is not None
        assert local is not None
        (resource,) = queue["status"]["flavorsReservation"][0]["resources"]
        assert resource["total"] == "4", "as Kueue has it: all that is reserved"
        pages = [usage_text(queue)]
        quiet: Any = _Queues(queue)
        lines = await cluster_queue_lines(quiet, queue)
        assert [line.split() for line in lines if line.startswith("Checks")] == [["Checks:", "late"]]
        pages += lines[(at := lines.index("Usage:")) + 1 : at + 3]
        pages += [line for line in await local_queue_lines(quiet, local) if line.startswith("Uses")]
        pages += (await flavor_lines(quiet, {"metadata": {"name": "default"}, "spec": {}}))[-1:]
        return [" ".join(page.replace("░", "").replace("█", "#").split()) for page in pages]

    expected = [
        "cpu 2/2 (+2 promised)",
        "FLAVOR RESOURCE USED NOMINAL BORROWED PROMISED LIMITS",
        "default cpu 2 2 2 #################### 100%",
        "Uses default: cpu 2 (+2 promised)",
        "main cpu #################### 2/2 (+2 promised)",
    ]
    assert await shown_as() == expected
    cell.say("high", "late", "Ready").settle()
    assert "Stopping" in str(render(shown(cell), "Job", "default/low")), "told to go, and not gone yet"
    assert await shown_as() == expected
    cell.settle_all()
    api = shown(cell)
    assert usage_text(render(api, "ClusterQueue", "main") or {}) == "cpu 2/2"


HIGH = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "WorkloadPriorityClass",
    "metadata": {"name": "high"},
}


def promised_cell() -> CheckedCell:
    """`high` is to preempt `low` when the check allows it."""
    cell = checked_cell("gpu", quota=4, preemption={"withinClusterQueue": "LowerPriority"})
    cell.add_check("gpu", preemptionPolicy="AfterCheckPassedOrOnDemand")
    cell.apply({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass",
                "metadata": {"name": "high"}, "value": 9})  # fmt: skip
    for name in ("low", "other"):
        cell.submit(name, cpu=2).settle()
        cell.say(name, "gpu", "Ready").settle()
    cell.submit("high", cpu=4, priority_class="high").settle()
    return cell


def job_shown(cell: CheckedCell, name: str) -> dict[str, Any]:
    found = render(shown(cell), "Job", f"default/{name}")
    assert found is not None
    return found


def test_a_job_says_by_whom_it_is_to_be_preempted_and_when() -> None:
    """As long as that is so: not once it is told, nor when the promise is over (AC6)."""
    cell = promised_cell()
    claimant, _, _ = cell.reservation("high")
    for name in ("low", "other"):
        assert job_shown(cell, name)["status"]["toBePreempted"] == [{"by": claimant, "afterChecks": ["gpu"]}]
        key, _, _ = cell.reservation(name)
        workload = render(shown(cell), "Workload", key)
        assert workload is not None
        assert _promised(workload) == [f"To be preempted:  by {claimant}, when gpu allows it"]
    assert "toBePreempted" not in job_shown(cell, "high")["status"]
    assert "preemption of 2 workload(s) is pending" in job_shown(cell, "high")["status"]["message"]

    cell.report("low", "JobFinished", success=True).settle()
    assert "preemption of 1 workload(s) is pending" in job_shown(cell, "high")["status"]["message"]
    assert "toBePreempted" in job_shown(cell, "other")["status"]
    cell.say("high", "gpu", "Rejected").settle_all()
    assert "toBePreempted" not in job_shown(cell, "other")["status"]


def test_who_waits_for_victims_to_stop_says_so() -> None:
    """With its checks Ready a reservation is not about to be used as long as those who have it run."""
    cell = promised_cell()
    cell.say("high", "gpu", "Ready").settle()
    status = job_shown(cell, "high")["status"]
    assert (status["reason"], status["message"]) == (
        "WaitingForPreemptedWorkloads",
        "Pending the preemption of 2 workload(s)",
    )


def test_who_has_nobody_left_to_preempt_waits_for_its_checks_only() -> None:
    """AC6: quota that nobody uses is not promised, but reserved; no list of victims is empty."""
    cell = promised_cell()
    for name in ("low", "other"):
        cell.report(name, "JobFinished", success=True)
    cell.settle_all()
    assert "preemption" not in job_shown(cell, "high")["status"]["message"]
    queue = render(shown(cell), "ClusterQueue", "main")
    assert queue is not None
    assert usage_text(queue) == "cpu 4/4"
    state = cell.services["scheduler"].state
    said = explain(state, "high", len(cell.log), cell.now, help_=False)
    assert said.message == "It has quota and waits for its admission checks."
    assert not said.claims


def test_all_that_could_not_be_taken_is_counted() -> None:
    """As `log rejected` lists it: messages about jobs, and verdicts."""
    cell = checked_cell("first")
    cell.submit("a").settle_all()
    cell.message("verdict.ctl-first", "CheckVerdict", {"workload": "x", "state": "Ready"})
    cell.message("job.default.a", "JobScaled", {"podSets": {"nobody": 1}}).settle_all()
    world = shown(cell)
    listed = [
        event
        for entry in cell.log
        if entry.suffix in COMMITS
        for event in _events(entry)
        if event["type"] in _REFUSALS
    ]
    assert {event["type"] for event in listed} == {"Rejected", "CheckInputRejected"}
    assert world.jobs.rejected == len(listed) == 2


def test_each_event_that_names_errors_of_a_message_is_a_refusal() -> None:
    fields = {"subject", "event_type", "errors"}
    assert {kind for kind in EVENTS.values() if fields <= set(kind.__struct_fields__)} == set(REFUSALS)
