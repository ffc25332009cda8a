"""What `simulate` says of the manifest of a job that is there already."""

from pathlib import Path
from typing import Any

import pytest

from sluice.events.base import JobKey
from sluice.replay.source import json_lines
from tests.support.elastic_cell import Cell
from tests.unit.replay.test_tutorial import run


@pytest.fixture
def world() -> Cell:
    """A queue of six cpus: an elastic job runs with three pods, another job with one."""
    found = Cell()
    found.apply("ResourceFlavor", "default", spec={})
    found.queue("q", 6)
    found.submit("a", "q", 3)
    found.submit("plain", "q", 1, elastic=False)
    found.settle(ready=True)
    return found


def simulated(
    world: Cell, tmp_path: Path, capsys: Any, name: str, count: int, *, elastic: bool = True
) -> str:
    job, log = tmp_path / "job.yaml", tmp_path / "log.jsonl"
    note = '{kueue.x-k8s.io/elastic-job: "true"}' if elastic else "{}"
    job.write_text(
        f"apiVersion: sluice.dev/v1alpha1\nkind: Job\nmetadata: {{name: {name}, annotations: {note}}}\n"
        f"spec: {{queueName: q, replicas: {count}, resources: {{cpu: 1}}, command: ['true']}}\n"
    )
    with log.open("wb") as file:
        json_lines.write(world.entries(), file)
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
    world.scale("a", 5)
    world.settle()
    assert world.running(JobKey("default/a")) == 5


def test_growth_that_would_wait_says_what_it_lacks(world: Cell, tmp_path: Path, capsys: Any) -> None:
    """Also if another growth waits already, which it takes the place of."""
    world.scale("a", 9)
    world.settle()
    out = simulated(world, tmp_path, capsys, "a", 6)
    assert "would wait: WaitingForQuota" in out
    assert "1 more needed" in out
    assert "runs on meanwhile" in out
    assert "would be admitted" in simulated(world, tmp_path, capsys, "a", 5)


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
