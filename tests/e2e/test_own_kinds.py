"""A kind of a team's own, from its description to the end of its jobs, with an executor that runs it."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sluice.api.mapped import Mapping, message_of, put, state_of
from sluice.sdk import AsyncClient, Client, Executor, ExecutorSettings, Outcome, Work
from tests.support.command import Sluice
from tests.support.own_kinds import job_kind, simulation
from tests.support.system import System
from tests.support.waiting import PATIENCE_S, wait_until

from .conftest import queue_yaml

pytestmark = pytest.mark.nats

EXAMPLE = Path("examples/own-kind")
KIND, JOB = (EXAMPLE / "jobkind.yaml").read_text(), (EXAMPLE / "simulation.yaml").read_text()


class Laboratory:
    """An executor of Simulations: makes an object of each, unsuspended, and reports what that says of itself.

    The objects are in memory; `say` is what a controller writes into the status of one.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.objects: dict[str, dict[str, Any]] = {}
        self.sizes: dict[str, list[tuple[str, int]]] = {}
        self._up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self) -> "Laboratory":
        self._thread.start()
        assert self._up.wait(PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._executor.stop)
        self._thread.join(PATIENCE_S)

    def say(self, name: str, **status: Any) -> None:
        self.objects[name] = {**self.objects[name], "status": status}

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        settings = ExecutorSettings(heartbeat_s=0.3, ttl_s=1, kinds=("Simulation",))
        async with AsyncClient(self.url) as client:
            self._executor = Executor(client, "laboratory", self._run, settings)
            self._up.set()
            await self._executor.serve()

    async def _run(self, work: Work) -> Outcome:
        manifest, mapping = msgspec.json.decode(await work.manifest()), work.entry.mapping
        assert mapping is not None
        for path in mapping.suspend:
            manifest = put(manifest, path, False)
        name = manifest["metadata"]["name"]
        self.objects[name] = manifest
        self.sizes[name] = [(pods.name, pods.count) for pods in work.entry.pod_sets]
        return await self._followed(work, mapping, name)

    async def _followed(self, work: Work, mapping: Mapping, name: str) -> Outcome:
        said_ready = False
        while True:
            state = state_of(mapping.status, self.objects[name])
            if state == "Ready" and not said_ready:
                said_ready = True
                await work.ready()
            elif state in ("Succeeded", "Failed"):
                text = message_of(mapping.status, self.objects[name])
                return Outcome(success=state == "Succeeded", message=text)
            await asyncio.sleep(0.05)


def phase(run: Sluice, name: str) -> str:
    return run("get", "job", name, "-o", "{.status.phase}").ok().out.strip()


def of_queue(name: str) -> str:
    return JOB.replace("user-queue", name)


def test_a_kind_is_described_its_jobs_are_submitted_run_and_listed(cell: System, run: Sluice) -> None:
    """The kind, its queue and a first job may come in one file."""
    run("apply", "-f", "-", stdin="\n---\n".join([of_queue("lab"), KIND, queue_yaml("lab", cpu=20)])).ok()
    assert "Simulation" in run("get", "jobkinds").ok().out
    assert "simulations " in run("api-resources").ok().out
    item = run("get", "simulation", "weather", "-o", "json").ok().json
    assert item["kind"] == "Simulation"
    assert [(pods["name"], pods["count"]) for pods in item["status"]["podSets"]] == [
        ("coordinator", 1),
        ("fine", 4),
        ("coarse", 1),
    ]
    assert "weather" in run("get", "sim").ok().out
    columns = "NAME:.metadata.name,NODES:.spec.grids[*].nodes,WHY:.status.nothing"
    table = run("get", "simulation", "weather", "-o", f"custom-columns={columns}").ok().out
    assert [line.split() for line in table.splitlines()] == [
        ["NAME", "NODES", "WHY"],
        ["weather", "4,1", "<none>"],
    ]
    wait_until(lambda: phase(run, "weather") == "Admitted")

    with Laboratory(cell.url) as laboratory:
        wait_until(lambda: "weather" in laboratory.objects)
        assert laboratory.sizes["weather"] == [("coordinator", 1), ("fine", 4), ("coarse", 1)]
        assert laboratory.objects["weather"]["spec"]["paused"] is False
        laboratory.say("weather", conditions=[{"type": "Running", "status": "True"}])
        wait_until(lambda: phase(run, "weather") == "Running")
        laboratory.say("weather", phase="Crashed", why="the sun went out")
        wait_until(lambda: phase(run, "weather") == "Failed")
    described = run("describe", "simulation", "weather").ok().out
    assert "the sun went out" in described
    assert "Ran on:           laboratory" in described


def test_its_jobs_are_checked_by_its_mapping_and_by_who_may_be_asked(cell: System, run: Sluice) -> None:
    """The command names fields before anything is sent; the SDK hears the same from the cell."""
    run("apply", "-f", "-", stdin="\n---\n".join([KIND, queue_yaml("checked", cpu=2)])).ok()
    wrong = of_queue("checked").replace("nodes: 4", "nodes: four").replace("name: weather", "name: wrong")
    refused = run("submit", "-f", "-", stdin=wrong)
    assert refused.code
    assert 'spec.grids[0].nodes: Invalid value: "four"' in refused.err
    unknown = run("submit", "-f", "-", stdin=JOB.replace("Simulation", "Dissimulation"))
    assert "A JobKind must describe" in unknown.err
    with Client(cell.url) as client:
        client.submit(simulation("by-program", queue="checked", nodes=1))
    wait_until(lambda: "by-program" in run("get", "simulations").ok().out)


def test_a_job_outlives_its_kind(cell: System, run: Sluice) -> None:
    """What is deleted, or edited, is for new jobs; and the log decides as it did."""
    run("apply", "-f", "-", stdin="\n---\n".join([KIND, queue_yaml("outlived", cpu=20)])).ok()
    run("submit", "-f", "-", stdin=of_queue("outlived").replace("name: weather", "name: first")).ok()
    wait_until(lambda: phase(run, "first") == "Admitted")
    gone = run("delete", "jobkind", job_kind()["metadata"]["name"]).ok()
    assert "on by the mapping that it had; new ones are refused" in gone.err
    late = run("submit", "-f", "-", stdin=of_queue("outlived").replace("name: weather", "name: late"))
    assert late.code
    with Laboratory(cell.url) as laboratory:
        wait_until(lambda: "first" in laboratory.objects)
        laboratory.say("first", phase="Done")
        wait_until(lambda: phase(run, "first") == "Succeeded")
    assert "Simulation" in run("describe", "job", "first").ok().out
    assert "first" in run("get", "jobs", "--field-selector", "kind=Simulation").ok().out
    run("replay", "verify").ok()
    run("log", "lint").ok()
