"""A cell with agents, for tests with real processes."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from sluice.events.base import Event
from sluice.events.codec import decode_commit
from sluice.sdk import AsyncClient
from tests.integration.jobs.conftest import client, scheduler, system
from tests.integration.jobs.quick_scheduler import RunningScheduler
from tests.support.slices_world import manifest
from tests.support.system import Service, System

__all__ = ["client", "scheduler", "system"]


class Cluster:
    """A cell, its client, and agents by name."""

    def __init__(self, system: System, client: AsyncClient, scheduler: RunningScheduler) -> None:
        self.system, self.client, self.scheduler = system, client, scheduler

    def agent(self, name: str = "x", **env: str) -> Service:
        """Start an agent; *env*: its AGENT_* settings, in lower case."""
        settings = {
            "name": name,
            "work_dir": str(self.work_dir(name)),
            "grace_s": "2",
            "retry_delay_s": "0.05",
        }
        settings |= {"heartbeat_s": "0.3", "heartbeat_ttl_s": "1"} | env
        variables = {f"AGENT_{key.upper()}": value for key, value in settings.items()}
        return self.system.start("agent", variables, label=f"agent-{name}")

    def work_dir(self, name: str = "x") -> Path:
        return self.system.directory / "work" / name

    def log(self, job: str, pod: str = "main-0", attempt: int = 1, agent: str = "x") -> str:
        """Return what a pod has said, '' before it said anything."""
        path = self.work_dir(agent) / "default" / job / str(attempt) / f"{pod}.log"
        return path.read_text() if path.exists() else ""

    def pods(self, job: str = "", program: str = "") -> list[psutil.Process]:
        """Return the live processes of a job in the namespace `default`, or of all jobs of this test.

        *program*: only those that run it; asked here, since a process may end while it is looked at.
        """
        found = []
        for process in psutil.process_iter():
            try:
                env = process.environ()
                here = env.get("SLUICE_WORK_DIR", "").startswith(str(self.system.directory))
                mine = here and job in ("", env.get("SLUICE_JOB_NAME"))
                if mine and process.status() != "zombie" and program in ("", process.name()):
                    found.append(process)
            except (psutil.Error, OSError):
                continue
        return found

    async def run(self, name: str, script: str, **spec: Any) -> Any:
        """Submit a shell script as a job."""
        return await self.client.submit(shell(name, script, **spec))

    async def events(self, kind: type[Event]) -> list[Any]:
        """Return all events of a kind that the slice-aggregator has written."""
        found = []
        async for entries in self.client.log.read(1, ["slices"]):
            for entry in entries:
                for step in decode_commit(entry.payload).steps:
                    found += [event for event in step.events if isinstance(event, kind)]
        return found


def shell(name: str, script: str, **spec: Any) -> dict[str, Any]:
    return manifest(name, command=("/bin/sh", "-c", script), **spec)


@pytest.fixture
async def cluster(system: System, client: AsyncClient, scheduler: RunningScheduler) -> AsyncIterator[Cluster]:
    cluster = Cluster(system, client, scheduler)
    yield cluster
    for service in system.live("agent"):
        service.kill()
    for process in cluster.pods():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
