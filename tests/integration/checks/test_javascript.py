"""The check in JavaScript, on the `nats` package alone, against a real server: the protocol is enough."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from sluice.cli.commands.checks.new import render
from sluice.log.nats.kv import Bucket
from tests.support.nats import nats_server
from tests.support.node import installed
from tests.support.system import ROOT
from tests.support.waiting import PATIENCE_S, eventually

from .conftest import Cell

__all__ = ["nats_server"]

EXAMPLE = ROOT / "examples" / "checks" / "javascript"
NAME = "example.com/hello"


@pytest.fixture
def project(pytestconfig: pytest.Config, tmp_path: Path) -> Path:
    cache = pytestconfig.cache
    assert cache is not None
    copy = tmp_path / "javascript"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("node_modules"))
    return installed(copy, Path(cache.mkdir("javascript")))


@pytest.fixture
def start(project: Path, cell: Cell, tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """A function that starts a replica."""

    def begin() -> subprocess.Popen[bytes]:
        with (tmp_path / "replicas.log").open("ab") as log:
            process = subprocess.Popen(
                ["node", "index.js"],
                cwd=project,
                stderr=log,
                env={**os.environ, "SLUICE_NATS_URL": cell.server.url},
            )
        cell.processes.append(process)
        return process

    return begin  # type: ignore[return-value]


def test_example_is_what_the_command_makes() -> None:
    """One text, not two: the example is `sluice check new hello --language javascript`."""
    made = dict(render("hello", "javascript", NAME))
    found = {path.name: path.read_text() for path in EXAMPLE.iterdir() if path.name != "node_modules"}
    assert found == made


def test_lock_file_names_no_host() -> None:
    """Whoever installs takes the packages from wherever their npm takes them; hashes say what they are."""
    lock = json.loads((EXAMPLE / "package-lock.json").read_text())
    packages = [package for path, package in lock["packages"].items() if path]
    assert packages
    assert all("resolved" not in package and package["integrity"] for package in packages)
    assert "omit-lockfile-registry-resolved=true" in (EXAMPLE / ".npmrc").read_text()


def test_its_own_tests_pass(project: Path) -> None:
    done = subprocess.run(["npm", "test"], cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.nats
async def test_requests_are_answered(cell: Cell, start: Callable[[], subprocess.Popen[bytes]]) -> None:
    """Requests before and after the start; a restart repeats nothing; another attempt is another request."""
    await Bucket(cell.client.log, "heartbeats", memory=True).ensure()
    await cell.ask("early", controller=NAME)
    big = await cell.ask("big", controller=NAME, requests={"cpu": 2_000_000})
    replica = start()
    await eventually(lambda: _states(cell, 2))
    await cell.ask("held", controller=NAME, uid="u2", pod_labels={"hold": "true"})
    assert [v.state for v in await eventually(lambda: _states(cell, 3))] == ["Ready", "Rejected", "Pending"]
    replica.kill()
    replica = start()
    await cell.put(msgspec.structs.replace(big, attempt=2))
    verdicts = await eventually(lambda: _states(cell, 4))
    assert [(v.workload, v.attempt, v.state) for v in verdicts] == [
        ("default/early", 1, "Ready"),
        ("default/big", 1, "Rejected"),
        ("default/held", 1, "Pending"),
        ("default/big", 2, "Rejected"),
    ]
    assert {v.uid for v in verdicts} == {"uid-early", "uid-big", "u2"}
    replica.terminate()
    assert replica.wait(PATIENCE_S) == 0


@pytest.mark.nats
async def test_an_approval_is_taken_back(
    cell: Cell, project: Path, start: Callable[[], subprocess.Popen[bytes]]
) -> None:
    """What was approved is watched, also by the next replica; once taken back it is left alone."""
    await Bucket(cell.client.log, "heartbeats", memory=True).ensure()
    one = await cell.ask("one", controller=NAME)
    other = await cell.ask("other", controller=NAME)
    replica = start()
    await eventually(lambda: _states(cell, 2))
    for request in (one, other):
        await cell.put(msgspec.structs.replace(request, state="Ready", admitted=True))
    replica.kill()
    (project / "denied.txt").write_text(f"{one.workload.job}\n")
    replica = start()
    verdicts = await eventually(lambda: _states(cell, 3))
    assert [(v.workload, v.state, v.requeue_after_seconds) for v in verdicts[2:]] == [
        ("default/one", "Retry", 60)
    ]
    (project / "denied.txt").write_text(f"{one.workload.job} {other.workload.job}\n")
    verdicts = await eventually(lambda: _states(cell, 4))
    assert [(v.workload, v.state) for v in verdicts[3:]] == [("default/other", "Retry")]
    replica.terminate()
    assert replica.wait(PATIENCE_S) == 0


async def _states(cell: Cell, number: int) -> list[object] | None:
    found = await cell.verdicts(controller=NAME)
    return list(found) if len(found) >= number else None
