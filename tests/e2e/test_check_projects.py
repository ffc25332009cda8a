"""What `sluice check new` makes holds and releases real jobs, in Python and in JavaScript."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.command import Sluice
from tests.support.node import installed
from tests.support.system import ROOT, System
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.nats

Start = Callable[[Path], subprocess.Popen[bytes]]


@pytest.fixture(scope="module", autouse=True)
def _agent(cell: System) -> None:
    cell.start("agent", {"AGENT_NAME": "worker", "AGENT_WORK_DIR": str(cell.directory / "work")})


@pytest.fixture
def start(cell: System, tmp_path: Path) -> Iterator[Start]:
    """A function that runs a project as its README says; what it starts is ended."""
    processes: list[subprocess.Popen[bytes]] = []

    def begin(project: Path) -> subprocess.Popen[bytes]:
        program = [sys.executable, "check.py"] if (project / "check.py").exists() else ["node", "index.js"]
        with (tmp_path / "controller.log").open("ab") as log:
            process = subprocess.Popen(
                program,
                cwd=project,
                stdout=log,
                stderr=log,
                env={**os.environ, "SLUICE_NATS_URL": cell.url, "PYTHONPATH": f"{ROOT / 'libs'}"},
            )
        processes.append(process)
        return process

    yield begin
    for process in processes:
        process.kill()
        process.wait(10)
    if (tmp_path / "controller.log").exists():
        print((tmp_path / "controller.log").read_text()[-3000:])


@pytest.mark.parametrize("language", ["python", "javascript"])
def test_a_new_check_holds_and_releases(
    run: Sluice, start: Start, tmp_path: Path, pytestconfig: pytest.Config, language: str
) -> None:
    """With its controller one job runs; another is held until a person agrees."""
    name = f"hello-{language}"
    project = tmp_path / name
    run("check", "new", name, "--language", language, "--directory", str(project)).ok()
    if language == "javascript":
        cache = pytestconfig.cache
        assert cache is not None
        installed(project, Path(cache.mkdir("javascript")))

    run("apply", "-f", str(project / "manifests.yaml")).ok()
    wait_until(lambda: _listed(run, name)["active"] == "False")
    controller = start(project)
    wait_until(lambda: _listed(run, name)["active"] == "True")
    assert _listed(run, name)["queues"] == [name]

    said = run("submit", "-f", str(project / "job.yaml"), "--wait", "--timeout", "120s").ok()
    assert "Succeeded" in said.out + said.err

    held = yaml.safe_load((project / "job.yaml").read_text())
    held["metadata"]["name"] = f"{name}-held"
    held["spec"]["template"]["metadata"]["labels"]["hold"] = "true"
    run("submit", "-f", "-", stdin=yaml.safe_dump(held)).ok()
    told = wait_until(lambda: _told(run, f"{name}-held", "held by the label of its pods"))
    assert "Pending" in told
    assert _listed(run, name)["pending"] == 1
    described = run("check", "describe", name).ok().out
    assert f"(pid {controller.pid} on " in described
    assert "1 pending, 0 approved" in described

    # A person agrees; the controller's opinion is not asked any more.
    run("check", "approve", f"{name}-held", name).ok()
    wait_until(lambda: _phase(run, f"{name}-held") == "Succeeded")
    wait_until(lambda: _listed(run, name)["pending"] == 0)

    controller.terminate()
    assert controller.wait(PATIENCE_S) == 0


WATCHED = """
import os
from pathlib import Path

from sluice.sdk.checks import Controller, Pending, Ready, Request, Retry, Settings, Verdict

app = Controller("example.com/watched", Settings(ttl_s=1))
revoked = Path("revoked")


@app.check
async def check(request: Request) -> Verdict:
    return Pending("revoked", 0.2) if revoked.exists() else Ready()


@check.watch(every=0.2)
async def watch(request: Request) -> Verdict | None:
    return Retry(1, "taken back") if revoked.exists() else None


app.run()
"""


def test_an_approval_is_taken_back(run: Sluice, start: Start, tmp_path: Path) -> None:
    """Also by the next life of a controller that was killed: the running job stops, and runs again later."""
    project = tmp_path / "watched"
    run("check", "new", "watched", "--directory", str(project)).ok()
    (project / "check.py").write_text(WATCHED)
    run("apply", "-f", str(project / "manifests.yaml")).ok()
    first = start(project)
    wait_until(lambda: _listed(run, "watched")["active"] == "True")
    gate = tmp_path / "gate"
    waiting = f"while [ ! -e {gate} ]; do sleep 0.1; done"
    run("submit", "-q", "watched", "--name", "long", "--cpu", "1", "--", "sh", "-c", waiting).ok()
    wait_until(lambda: _phase(run, "long") == "Running")

    first.kill()
    (project / "revoked").touch()
    start(project)
    wait_until(lambda: "taken back" in run("events", "job", "long").out)
    wait_until(lambda: _told(run, "long", "revoked"))
    (project / "revoked").unlink()
    wait_until(lambda: _phase(run, "long") == "Running")
    gate.touch()
    wait_until(lambda: _phase(run, "long") == "Succeeded")


def _listed(run: Sluice, name: str) -> dict[str, object]:
    found = run("check", "list", "-o", "json").ok().json
    return next(row for row in found if row["name"] == name)


def _told(run: Sluice, job: str, message: str) -> str:
    text = run("describe", "job", job).out
    return text if message in text else ""


def _phase(run: Sluice, job: str) -> str:
    return run("get", "job", job, "-o", "{.status.phase}").out.strip()
