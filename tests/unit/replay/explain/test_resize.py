"""What `simulate` says of the manifest of a job that is there already."""

from pathlib import Path
from typing import Any

import pytest

from sluice.events.base import JobKey
from sluice.replay.explain.why import explain
from sluice.replay.explain.why_text import plain_words
from sluice.replay.source import json_lines
from sluice.replay.source.source import ListSource
from sluice.replay.source.time_travel import scheduler_at
from tests.support.elastic_cell import Cell
from tests.unit.replay.whole.test_tutorial import run


@pytest.fixture
def world() -> Cell:
    """A queue of six cpus: an elastic job runs with three pods, another job with one."""
    found = Cell()
    found.queue("q", 6)
    found.submit("a", "q", 3)
    found.submit("plain", "q", 1, elastic=False).settle(ready=True)
    return found


def simulated(
    world: Cell, tmp_path: Path, capsys: Any, name: str, count: int, *, elastic: bool = True, more: str = ""
) -> str:
    job, log = tmp_path / "job.yaml", tmp_path / "log.jsonl"
    note = '{kueue.x-k8s.io/elastic-job: "true"}' if elastic else "{}"
    job.write_text(
        f"apiVersion: sluice.dev/v1alpha1\nkind: Job\nmetadata: {{name: {name}, annotations: {note}}}\n"
        f"spec: {{queueName: q, {more}replicas: {count}, resources: {{cpu: 1}}, command: ['true']}}\n"
    )
    with log.open("wb") as file:
        json_lines.write(world.log, file)
    code, out, err = run(["simulate", "-f", str(job), "-l", str(log)], capsys)
    assert code == 0, err
    return out


def test_growth_is_charged_for_what_it_adds(world: Cell, tmp_path: Path, capsys: Any) -> None:
    """Five pods of which three run need two more cpus; as a job of its own it would find no room."""
    running = next(
        w for w in world.scheduler.state.world.workloads.values() if w.record.job.key == "default/a"
    )
    out = simulated(world, tmp_path, capsys, "a", 5)
    assert "default/job-a-simulated would be admitted in q: 5 of main on default (cpu)" in out
    assert f"It would take the place of its slice {running.key}, whose pods run on." in out
    world.scale("a", 5).settle()
    assert world.running(JobKey("default/a")) == 5


def test_growth_that_would_wait_says_what_it_lacks(world: Cell, tmp_path: Path, capsys: Any) -> None:
    """Also if another growth waits already, which it takes the place of."""
    world.scale("a", 9).settle()
    out = simulated(world, tmp_path, capsys, "a", 6)
    assert "would wait: WaitingForQuota" in out
    assert "1 more needed" in out
    assert "runs on meanwhile" in out
    assert "would be admitted" in simulated(world, tmp_path, capsys, "a", 5)


def test_a_slice_that_waits_for_its_checks_has_no_pods(tmp_path: Path, capsys: Any) -> None:
    """Nothing runs on a reservation: neither of the job itself, nor of whom it would preempt later."""
    world = Cell()
    policy = "AfterCheckPassedOrOnDemand"
    world.configure("AdmissionCheck", "gpu", {"controllerName": "x", "preemptionPolicy": policy})
    checks = {"admissionChecks": [{"name": "gpu"}]}
    preemption = {"withinClusterQueue": "LowerPriority"}
    world.queue("q", 6, admissionChecksStrategy=checks, preemption=preemption)
    world.submit("low", "q", 3, elastic=False, priority=-1)
    world.submit("a", "q", 3).settle()
    (low,) = [key for key in world.scheduler.state.world.workloads if "low" in key]
    out = simulated(world, tmp_path, capsys, "a", 5)
    assert "which has no pods yet" in out
    assert f"It would preempt {low}, once its admission checks allow it; until then that one keeps its" in out
    out = simulated(world, tmp_path, capsys, "a", 9)
    assert "keeps what it has reserved, and has no pods yet: they start when its checks say Ready: gpu" in out
    world.checks_say(ready=True)
    world.settle()
    assert "until then that one runs on" in simulated(world, tmp_path, capsys, "a", 5)
    assert "runs on meanwhile" in simulated(world, tmp_path, capsys, "a", 9)


def test_growth_of_a_job_that_is_partly_done(tmp_path: Path, capsys: Any) -> None:
    """What is done is not asked for again; with more completions there is more to do."""
    world = Cell()
    world.queue("q", 3)
    world.submit("a", "q", 1, completions=8)
    world.submit("plain", "q", 1, elastic=False).settle(ready=True)
    world.do("a", 8, 6).settle(ready=True)
    done = "completions: 8, "
    out = simulated(world, tmp_path, capsys, "a", 5, more=done)
    assert "would be admitted in q: 5 of main" in out
    assert "would wait" in simulated(world, tmp_path, capsys, "a", 5, more="completions: 9, ")
    world.submit("b", "q", 1, elastic=False).settle()
    world.scale("a", 4).settle()
    fold = scheduler_at(source := ListSource(world.log), source.end)
    report = explain(fold.state, "a", source.end, fold.at)
    assert (report.numbers[0].requested, report.not_needed) == ("1", {"main": 2})
    assert "2 of its pods of main can never run" in "\n".join(plain_words(report))


def test_fewer_pods_need_nothing(world: Cell, tmp_path: Path, capsys: Any) -> None:
    out = simulated(world, tmp_path, capsys, "a", 2)
    assert out == "default/a would go on with 2 x main instead of 3 x main, at once.\n"
    assert simulated(world, tmp_path, capsys, "a", 3) == "default/a runs with 3 x main already.\n"


def test_of_other_jobs_that_are_there_it_says_so(world: Cell, tmp_path: Path, capsys: Any) -> None:
    """They are stopped for another size: what is told is of a second job like it."""
    out = simulated(world, tmp_path, capsys, "plain", 2, elastic=False)
    assert out.startswith("default/plain is there already; this is about another job like it.\n")
    assert "would be admitted" in out
    assert "is there already" not in simulated(world, tmp_path, capsys, "new", 1)


def test_a_rejected_growth_says_what_it_is_and_both_ways_out() -> None:
    """The job runs on: only its growth is switched off."""
    world = Cell()
    world.configure("AdmissionCheck", "gpu", {"controllerName": "x"})
    world.queue("q", 6, admissionChecksStrategy={"admissionChecks": [{"name": "gpu"}]})
    world.submit("e", "q", 2).settle()
    world.checks_say(ready=True)
    world.settle()
    world.scale("e", 4).settle()
    world.checks_reject()
    world.settle()
    fold = scheduler_at(source := ListSource(world.log), len(world.log))
    text = "\n".join(plain_words(explain(fold.state, "e", source.end, fold.at)))
    old = next(key for key, w in fold.state.world.workloads.items() if w.admitted_at is not None)
    assert "is Inactive: Deactivated" in text
    assert "tried again with `sluice job activate e`, or with any size (`sluice job scale e COUNT`)." in text
    assert f"It is the growth of its job from 2 to 4 x main. Its slice {old} runs on meanwhile." in text
    world.scale("e", 3).settle()
    assert world.checks_asked() == [3], "the other way"
