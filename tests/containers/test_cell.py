"""A cell in containers, of one server and of three: the tour, strangers, a check, deaths; then its log."""

import asyncio
import json
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import nats
import pytest
import yaml
from docker.models.containers import Container

from tests.support.system import ROOT
from tests.support.waiting import wait_until

if "SLUICE_CONTAINERS" not in os.environ:
    pytest.skip("`make test-containers` runs it", allow_module_level=True)

from .cell import DECIDING, Cell, built, why_not

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

QUEUES = ROOT / "examples" / "kueue" / "single-cluster-queue.yaml"
CHECK = """
from sluice.sdk.checks import Controller, Ready, Request, Verdict

app = Controller("example.com/greeter")


@app.check
async def greet(request: Request) -> Verdict:
    return Ready(message=f"hello, {request.workload.job}")


app.run()
"""


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    if reason := why_not():
        pytest.skip(reason)
    with built() as name:
        yield name


@pytest.mark.parametrize("servers", [1, 3])
def test_a_cell_from_its_first_job_to_its_replay(
    image: str, servers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the README shows works from outside; so do strangers and a check; no death loses a job."""
    monkeypatch.chdir(ROOT)
    with ExitStack() as stack:
        cell = Cell(image, servers, stack)
        services = {name: [cell.run(name), cell.run(name)] for name in DECIDING}
        cell.run("api")
        cell.run("agent")
        wait_until(lambda: leaders(cell).keys() >= set(DECIDING))
        wait_until(lambda: "Ready" in cell.sluice("status").out)
        tour(cell)
        asyncio.run(from_outside(cell))
        ended(cell, "stranger")
        with_a_check(cell, tmp_path)
        leaders_die(cell, services)
        a_server_dies(cell)
        replayed(cell, tmp_path / "log.slog")


def submit(cell: Cell, name: str, *command: str, queue: str = "user-queue") -> None:
    words = ("-q", queue, "--name", name, "--cpu", "1", "--", *(command or ("true",)))
    wait_until(lambda: cell.sluice("submit", *words).code == 0)


def ended(cell: Cell, name: str) -> dict[str, Any]:
    """Return the job once it has succeeded."""

    def succeeded() -> dict[str, Any] | None:
        said = cell.sluice("get", "job", name, "-o", "json")
        job: dict[str, Any] = said.json if said.code == 0 else {}
        return job if job.get("status", {}).get("phase") == "Succeeded" else None

    found: dict[str, Any] = wait_until(succeeded)
    return found


def leaders(cell: Cell) -> dict[str, str]:
    """Return service -> the leading replica's instance."""
    said = cell.sluice("status", "-o", "json")
    rows = json.loads(said.out)["services"] if said.out.startswith("{") else []
    return {row["service"]: row["instance"] for row in rows if row["role"] == "leader"}


def tour(cell: Cell) -> None:
    """The commands of the README's first tour. The cell is up; logs of jobs are where the agent is."""
    section = (ROOT / "README.md").read_text().partition("## A first tour")[2]
    shown = section.partition("A log can be asked")[0]
    commands = {words[1]: words[1:] for words in map(shlex.split, re.findall(r"(?m)^\$ (sluice .*)$", shown))}
    assert commands.keys() == {"up", "apply", "submit", "logs", "describe", "log", "down"}
    said = {}
    for name in ("apply", "submit", "describe", "log"):
        done = cell.sluice(*commands[name]).ok()
        said[name] = done.out + done.err
    assert "clusterqueue.kueue.x-k8s.io/cluster-queue created" in said["apply"]
    assert "default/hello: Succeeded (on default-flavor)" in said["submit"]
    assert "Job finished successfully" in said["describe"]
    assert "WorkloadFinished default/job-hello" in said["log"]


async def from_outside(cell: Cell) -> None:
    """A job by a program that has nothing of Sluice: one CloudEvent on a subject."""
    manifest = yaml.safe_load((ROOT / "examples" / "hello.yaml").read_text())
    manifest["metadata"] |= {"name": "stranger", "namespace": "default"}
    event = {
        "specversion": "1.0",
        "id": "stranger-1",
        "source": "a/farm",
        "type": "JobSubmitted",
        "data": manifest,
    }
    connection = await nats.connect(cell.url.split(","))
    try:
        ack = await connection.jetstream().publish(
            "sluice.main.job.default.stranger", json.dumps(event).encode()
        )
        assert ack.stream == "SLUICE_main"
    finally:
        await connection.close()


def with_a_check(cell: Cell, directory: Path) -> None:
    """A controller in a container of its own has its say."""
    program, objects = directory / "greeter.py", directory / "checked.yaml"
    program.write_text(CHECK)
    documents = list(yaml.safe_load_all(QUEUES.read_text()))
    queue = next(one for one in documents if one["kind"] == "ClusterQueue")
    local = next(one for one in documents if one["kind"] == "LocalQueue")
    queue["metadata"]["name"], local["metadata"]["name"] = "checked-queue", "checked"
    queue["spec"]["admissionChecksStrategy"] = {"admissionChecks": [{"name": "greeter"}]}
    local["spec"]["clusterQueue"] = "checked-queue"
    check = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "AdmissionCheck",
        "metadata": {"name": "greeter"},
        "spec": {"controllerName": "example.com/greeter"},
    }
    objects.write_text(yaml.safe_dump_all([check, queue, local]))
    cell.sluice("apply", "-f", str(objects)).ok()
    submit(cell, "greeted", queue="checked")
    assert cell.sluice("get", "job", "greeted", "-o", "{.status.phase}").out != "Succeeded"
    cell.run("greeter", file=program)
    ended(cell, "greeted")
    assert "hello, " in cell.sluice("events", "job", "greeted").out


def leaders_die(cell: Cell, services: dict[str, list[Container]]) -> None:
    """Of each service, while a job runs: it runs on, and what comes after it is decided by others."""
    submit(cell, "through-deaths", "sleep", "3")
    before = leaders(cell)
    assert before.keys() >= set(DECIDING)
    for name, replicas in services.items():
        # An instance begins with the host's name, which is the container's id.
        [leading] = [one for one in replicas if before[name].startswith(str(one.short_id))]
        leading.kill()
    submit(cell, "after-deaths")
    for job in ("through-deaths", "after-deaths"):
        ended(cell, job)
    assert re.search(r"Attempts: +1\n", cell.sluice("describe", "job", "through-deaths").out)
    after = leaders(cell)
    assert not {name for name in DECIDING if after[name] == before[name]}


def a_server_dies(cell: Cell) -> None:
    """Of three, two go on without it; the only one has its log when it is back."""
    cell.servers[0].kill()
    if len(cell.servers) > 1:
        submit(cell, "without-a-server")
        ended(cell, "without-a-server")
    cell.servers[0].start()
    submit(cell, "with-all-servers")
    ended(cell, "with-all-servers")
    assert cell.sluice("get", "job", "hello").code == 0


def replayed(cell: Cell, file: Path) -> None:
    """The log of all this is decided again, word for word, and breaks no invariant."""
    cell.sluice("log", "export", str(file)).ok()
    verified = cell.sluice("replay", "verify", "-l", str(file), "-o", "json").ok()
    print(verified.out)
    found = cell.sluice("log", "lint", "-l", str(file))
    print(found.out)
    assert found.code == 0, found.out
