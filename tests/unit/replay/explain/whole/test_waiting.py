"""What is to be waited for: for pods that must be ready or must stop, and for checks beyond the quota."""

import io
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from sluice.api.labels import ELASTIC_JOB
from sluice.core.views import notices
from sluice.events.base import JobKey
from sluice.events.codec import rfc3339
from sluice.events.scheduler import QuotaReserved
from sluice.events.slices import Rejected
from sluice.replay.explain.executors import Executors
from sluice.replay.explain.why import Others, explain
from sluice.replay.explain.why_text import plain_words
from sluice.replay.source import json_lines
from sluice.replay.source.source import ListSource
from sluice.replay.source.time_travel import scheduler_at
from tests.support.checked_cell import checked_cell
from tests.support.family_world import FamilyWorld, cell, cluster_queue, configuration, job, local_queue
from tests.unit.core.slices.test_limits import OUT_OF_RANGE
from tests.unit.core.workload.whole.test_limited_cell import limit_range
from tests.unit.replay.whole.test_tutorial import run


def why(world: FamilyWorld, name: str) -> str:
    source = ListSource(world.log)
    fold = scheduler_at(source, source.end)
    others = Others(executors=Executors(source, source.end))
    return "\n".join(plain_words(explain(fold.state, name, source.end, fold.at, others=others)))


def comes(world: FamilyWorld, executor: str) -> None:
    world.message(f"presence.agent.{executor}", "Seen", {}).settle()


def key(world: FamilyWorld, name: str) -> str:
    return world.services["slices"].state.jobs[f"default/{name}"].record.key


BLOCKS = configuration(waitForPodsReady={"enable": True, "blockAdmission": True, "timeoutSeconds": 60})


def test_who_waits_for_the_pods_of_another_is_told_whose_and_until_when() -> None:
    """As the reason of its status has it."""
    world = cell(cluster_queue({"od": 4}, {}), BLOCKS)
    comes(world, "x")
    for name in ("a", "b"):
        world.submit(name).settle()
    text = why(world, "b")
    a = key(world, "a")
    pods = f"the pods of {a} (which is evicted at 20"
    assert "is Pending: WaitingForPodsReady" in text
    assert f"It would fit by itself, and waits for {pods}" in text
    assert f"→ {pods}" in text
    assert "being ready (waitForPodsReady.blockAdmission)" in text

    world.run_until(60)  # evicted, and not stopped yet
    assert f"→ nothing but time: {a} must stop first" in why(world, "b")


def test_who_lacks_quota_beside_is_told_both() -> None:
    """Who holds it leaves; or it takes more of it."""
    world = cell(cluster_queue({"od": 4}, {}), BLOCKS)
    world.submit("first", cpu=3).settle()
    world.report("first", "JobPodsReady", executor="x").settle()
    world.submit("second").settle()
    world.submit("w", cpu=3).settle()
    text = why(world, "w")
    assert "→ all of these together: the pods of" in text
    assert "3 more cpu of od" in text

    world.message("job.default.first", "JobDeleted", {}).settle()
    text = why(world, "w")
    assert f"→ nothing but time: {key(world, 'first')} must stop first; then the pods of " in text
    assert "more cpu" not in text


def test_no_eviction_is_foretold_of_who_is_not_admitted() -> None:
    """Behind several, those between are named without a time: theirs begins when they are admitted.

    The third one borrows, so that no priority brings it before the second.
    """
    others = [
        each
        for n, nominal in (("second", 2), ("third", 0))
        for each in (cluster_queue({"od": nominal}, {}, name=n, cohortName="c"), local_queue(n, n))
    ]
    world = cell(cluster_queue({"od": 1}, {}), BLOCKS, *others)
    for name in ("main", "second", "third"):
        world.submit(name, queue=name).settle()
    main, second = key(world, "main"), key(world, "second")
    (remedy,) = [line for line in why(world, "third").splitlines() if "→" in line]
    assert f"the pods of {main} (which is evicted at 20" in remedy
    assert f"the pods of {second} (once it is admitted) being ready" in remedy
    assert remedy.count("is evicted at") == 1


@pytest.mark.parametrize("policy", [{}, None], ids=["plain", "variants"])
def test_behind_a_deleted_job_there_is_nothing_but_time(policy: dict[str, object] | None) -> None:
    """Nobody has evicted it, and it stops: no quota has to be added."""
    world = cell(cluster_queue({"od": 2}, policy))
    comes(world, "x")
    world.submit("o1", cpu=2).settle()
    world.submit("o2", cpu=2).settle()
    assert "2 more cpu" in why(world, "o2")
    world.message("job.default.o1", "JobDeleted", {}).settle()

    text = why(world, "o2")
    assert "→ nothing but time: default/job-o1" in text
    assert "more cpu" not in text
    text = why(world, "o1")
    assert "is Admitted: Stopping" in text
    assert "told to stop, as its job was deleted" in text

    world.settle_all()
    assert world.flavor_of("o2") == "od"


@pytest.mark.parametrize("policy", [{}, None], ids=["plain", "variants"])
@pytest.mark.parametrize("known", [False, True], ids=["never", "lost"])
def test_behind_one_whom_no_executor_can_answer_for_it_takes_an_executor(
    policy: dict[str, object] | None, known: bool
) -> None:
    """An attempt that nobody has begun is answered for by any executor, if there is one."""
    world = cell(cluster_queue({"od": 2}, policy))
    if known:
        comes(world, "x")
        world.message("presence.agent.x", "Lost", {}).settle()
    world.submit("o1", cpu=2).settle()
    world.submit("o2", cpu=2).settle()
    assert "An executor has to take it, and none is there (see `sluice get agents`)." in why(world, "o1")
    world.message("job.default.o1", "JobDeleted", {}).settle()

    text = why(world, "o2")
    assert "nothing but time" not in text
    assert "→ an executor that comes: default/job-o1" in text
    nobody = "o executor is there to say that it has (see `sluice get agents`)"
    assert f"must stop first, and n{nobody}" in text
    assert f"It has not yet. N{nobody}." in why(world, "o1")

    comes(world, "y")
    assert "→ nothing but time: default/job-o1" in why(world, "o2")


@pytest.mark.parametrize("claim", [{"executor": "z", "ready": False}, {}], ids=["claimed", "no name"])
def test_behind_one_whom_somebody_has_there_is_nothing_but_time(claim: dict[str, object]) -> None:
    """It stops when that one says so, or is lost; whether or not anybody else is there."""
    world = cell(cluster_queue({"od": 2}, {}))
    world.submit("o1", cpu=2).settle()
    world.submit("o2", cpu=2).settle()
    world.report("o1", "JobPodsReady", **claim).settle()
    world.message("job.default.o1", "JobDeleted", {}).settle()
    assert "→ nothing but time: default/job-o1" in why(world, "o2")
    assert "no executor is there" not in why(world, "o1")


@pytest.mark.parametrize("policy", [{}, None], ids=["plain", "variants"])
def test_of_one_that_is_taken_it_is_said_by_whom_and_since_when(policy: dict[str, object] | None) -> None:
    """Until its pods run; and of the present attempt only."""
    world = cell(cluster_queue({"od": 2}, policy))
    world.submit("a").settle()
    at = rfc3339(world.now)[:16]
    world.report("a", "JobPodsReady", executor="z", ready=False).settle()
    text = why(world, "a")
    assert f'Executor "z" (which nobody has seen, or is lost) took it at {at}' in text
    assert "and has not said yet that its pods run." in text
    comes(world, "z")
    assert 'Executor "z" took it at' in why(world, "a")

    world.message("presence.agent.z", "Lost", {}).settle()
    assert world.dispatch("a").attempt == 2
    assert "An executor has to take it, and none is there" in why(world, "a")
    comes(world, "z")
    assert "none has said yet that its pods run (see `sluice get agents`)." in why(world, "a")
    world.report("a", "JobPodsReady", executor="z").settle()
    assert "xecutor" not in why(world, "a")


def test_that_no_executor_runs_jobs_of_its_kind_is_said() -> None:
    """Who has said no kinds, as all of old, runs any."""
    world = cell(cluster_queue({"od": 2}, None))
    world.message("presence.agent.torch", "Seen", {"kinds": ["PyTorchJob"]}).settle()
    world.submit("a").settle()
    assert "An executor has to take it, and no executor that is there (torch) runs a Job." in why(world, "a")
    comes(world, "z")
    assert "none has said yet that its pods run (see `sluice get agents`)." in why(world, "a")
    world.message("presence.agent.z", "Lost", {}).settle()
    assert "(torch) runs a Job." in why(world, "a")
    world.message("presence.agent.torch", "Lost", {}).settle()
    world.message("presence.agent.torch", "Seen", {"kinds": ["Job", "JobSet"]}).settle()
    assert "none has said yet that its pods run" in why(world, "a")


def test_a_controller_that_was_never_there_appears_and_another_comes_back() -> None:
    world = checked_cell("boss")
    world.configure("AdmissionCheck", "boss", {"controllerName": "ctl-other"}).settle()
    world.submit("a").settle()
    assert "the controller of its admission check boss (ctl-other) appearing" in why(world, "a")

    world.presence("ctl-other").settle()
    world.presence("ctl-other", there=False).settle()
    world.run_until(60)
    world.submit("b").settle()
    assert "the controller of its admission check boss (ctl-other) coming back" in why(world, "b")


def test_a_check_that_is_missing_is_named() -> None:
    world = checked_cell("boss")
    world.delete("AdmissionCheck", "boss").settle()
    world.submit("a").settle()
    assert "an AdmissionCheck boss, which its queue names" in why(world, "a")


def test_who_is_held_back_hears_which_check_has_said_so() -> None:
    """And the other one, that made the wait longer when the first had ended the attempt, by its events."""
    world = checked_cell("boss", "budget")
    world.submit("a").settle()
    world.say("a", "boss", "Retry", message="not today", requeueAfterSeconds=30).settle()
    assert 'Evicted due to AdmissionCheck in Retry state: "boss" (not today).' in why(world, "a")
    world.say("a", "budget", "Retry", message="spent", requeueAfterSeconds=300).settle()
    view = world.view()
    (workload,) = view.jobs[JobKey("default/a")].workloads.values()
    said = [notice.message for notice in notices(workload)]
    assert "Admission check budget is Retry, too: spent" in said


def test_quota_is_not_all_where_checks_have_a_say() -> None:
    """Each remedy that gives quota only says what it takes then."""
    world = checked_cell("boss", quota=2)
    world.submit("a", cpu=2).settle()
    world.submit("b", cpu=2).settle()
    lines = [line for line in why(world, "b").splitlines() if line.strip().startswith(("→", "- "))]
    assert len(lines) > 1
    assert all(line.endswith("; then Ready from its checks (boss)") for line in lines)


def simulate(
    world: FamilyWorld,
    manifest: Any,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> str:
    """What `sluice simulate` says; the manifest comes from standard input."""
    code, out, err = _simulated(world, manifest, folder, monkeypatch, capsys)
    assert (code, err) == (0, "")
    return out


def _simulated(
    world: FamilyWorld,
    manifest: Any,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> tuple[int, str, str]:
    path = folder / "log.jsonl"
    with path.open("wb") as file:
        json_lines.write(world.log, file)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(yaml.safe_dump(manifest).encode())))
    return run(["simulate", "-f", "-", "-l", str(path)], capsys)


def test_behind_the_head_of_a_strict_queue_a_simulated_job_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what it lacks by itself."""
    world = cell(cluster_queue({"od": 2}, {}, queueingStrategy="StrictFIFO"))
    for name in ("a", "head"):
        world.submit(name, cpu=2).settle()
    out = simulate(world, job("c", 1), tmp_path, monkeypatch, capsys)

    assert "default/job-c-simulated would wait: PendingEvaluation" in out
    assert f"The queue is StrictFIFO, and {key(world, 'head')} is at its head" in out
    assert "1 more needed" in out
    assert "What would admit it: " in out


@pytest.mark.parametrize(
    ("resources", "said", "holds"),
    [
        ({}, "would be admitted in main: 1 of main on od (cpu)", 3000),
        ({"requests": {"cpu": 9}, "limits": {"cpu": 9}}, f"would wait: Misconfigured: {OUT_OF_RANGE}", None),
    ],
)
def test_limit_ranges_count_in_simulations(
    resources: dict[str, Any],
    said: str,
    holds: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Their defaults, and what they forbid, as for the job itself."""
    world = cell(cluster_queue({"od": 16}, {}))
    world.apply(limit_range(default={"cpu": 3}, max={"cpu": 4}))
    world.settle()
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "resources": resources}]}}
    assert said in simulate(world, job("a", template=template), tmp_path, monkeypatch, capsys)

    world.submit("a", template=template)
    world.settle()
    reserved = [event.pod_sets[0].usage["cpu"] for event in world.events(QuotaReserved)]
    assert reserved == ([] if holds is None else [holds])


def test_a_simulated_job_without_requests_gets_its_pods_and_no_flavor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}
    out = simulate(cell(cluster_queue({"od": 2}, {})), job("a", template=bare), tmp_path, monkeypatch, capsys)
    assert out.splitlines()[0].endswith("be admitted in main: 1 of main, without requests")


def test_an_elastic_job_is_refused_in_a_racing_queue_as_it_would_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the field that is in the way, and the exit code of what is refused (decision 0013)."""
    elastic = job("grows")
    elastic["metadata"]["annotations"] = {ELASTIC_JOB: "true"}
    plain = simulate(cell(cluster_queue({"od": 2}, {})), elastic, tmp_path, monkeypatch, capsys)
    assert "would be admitted" in plain
    world = cell(cluster_queue({"od": 2}))
    refused = world.message("grows", "JobSubmitted", elastic).settle()
    (said,) = (event for event in refused if isinstance(event, Rejected))
    code, out, err = _simulated(world, elastic, tmp_path, monkeypatch, capsys)
    assert code == 2
    assert not out
    assert said.errors
    assert all(error.detail in err and error.field in err for error in said.errors)
