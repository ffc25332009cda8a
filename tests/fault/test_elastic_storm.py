"""A storm of resizes on real services and a real agent, which are killed meanwhile (KEP-77, DB6).

Deciders lose their leaders, or all replicas at once; the agent is killed once. What ran must go on with the
same processes as long as its agent lives, and the log must hold every promise at every position.
"""

import asyncio
import contextlib
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from sluice.log.nats.blocking import BulkReader
from sluice.sdk import AsyncClient
from tests.support.command import sluice
from tests.support.log_check import wrong_with
from tests.support.system import Service, System

pytestmark = [pytest.mark.nats, pytest.mark.timeout(400)]

JOBS = ("a", "b", "c", "d")
MOST = 6
SETTLE_S = 120.0
PHASES = 2
ROUNDS = 3
QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: storm}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: storm}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: storm, resources: [{name: cpu, nominalQuota: 16}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: storm, namespace: default}
spec: {clusterQueue: storm}
"""


def manifest(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "sluice.dev/v1alpha1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {"kueue.x-k8s.io/elastic-job": "true"},
        },
        "spec": {
            "queueName": "storm",
            "replicas": 3,
            "resources": {"cpu": 1},
            "command": ["sleep", "600"],
            "terminationGracePeriodSeconds": 1,
        },
    }


@dataclass
class Storm:
    """The cell, the sizes that were asked for, and what was seen of the processes."""

    system: System
    client: AsyncClient
    random: random.Random
    agent: Service
    wanted: dict[str, int] = field(default_factory=lambda: dict.fromkeys(JOBS, 3))
    least: dict[str, int] = field(default_factory=lambda: dict.fromkeys(JOBS, 3))
    """The smallest size asked for since `rest`."""
    seen: dict[str, dict[int, tuple[int, str]]] = field(default_factory=dict)
    kills: int = 0

    def pods(self) -> dict[str, dict[int, tuple[int, str]]]:
        """Return job -> index -> (pid, attempt) of the processes that run."""
        found: dict[str, dict[int, tuple[int, str]]] = {name: {} for name in JOBS}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError, KeyError):
                env = process.environ()
                if env.get("SLUICE_AGENT") == "storm" and process.status() != "zombie":
                    place = found[env["SLUICE_JOB_NAME"]]
                    place[int(env["SLUICE_POD_INDEX"])] = (process.pid, env["SLUICE_ATTEMPT"])
        return found

    async def resize(self) -> None:
        for _ in range(self.random.randint(1, 6)):
            await self.scale(self.random.choice(JOBS), self.random.randint(2, MOST))

    async def damage(self) -> None:
        """Kill a decider's leader or stand-by, or all of them, and start what is missing."""
        folder = self.random.choice(("scheduler", "slice_aggregator"))
        live = self.system.live(folder)
        for service in live if self.random.random() < 0.3 else [self.random.choice(live)]:
            self.system.kill(service)
            self.kills += 1
        await asyncio.sleep(self.random.random() * 0.4)
        while len(self.system.live(folder)) < 2:
            self.system.start(folder)

    def look(self) -> None:
        """Survivors have kept their pid: the lowest indexes, as many as were wanted ever since `rest`."""
        now = self.pods()
        for name, before in self.seen.items():
            for index in sorted(before)[: self.least[name]]:
                assert now[name].get(index) == before[index], f"{name}-{index}: was {before}, is {now[name]}"

    async def rest(self) -> None:
        """Let everything settle with sizes for which there is quota, and look from there on."""
        for name in JOBS:
            await self.scale(name, self.random.randint(2, 4))
        deadline = time.monotonic() + SETTLE_S
        while True:
            if {name: len(found) for name, found in self.pods().items()} == self.wanted:
                break
            assert time.monotonic() < deadline, (
                f"{self.pods()}, wanted {self.wanted}\n{self.system.tail_logs(8)}"
            )
            await asyncio.sleep(0.1)
        self.look()
        self.seen = self.pods()
        self.least = dict(self.wanted)

    async def scale(self, name: str, size: int) -> None:
        self.wanted[name] = size
        self.least[name] = min(size, self.least[name])
        await self.client.scale(name, size)


def start_agent(system: System) -> Service:
    env = {
        "AGENT_NAME": "storm",
        "AGENT_WORK_DIR": str(system.directory / "work"),
        "AGENT_GRACE_S": "1",
    }
    return system.start("agent", env)


async def test_resizes_survive_kills(tmp_path: Path) -> None:
    """No pod beyond what is granted, two slices at most, no slice lost, pids kept; the log decides alike."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    with System(tmp_path, env={"SLUICE_LOG_LEVEL": "warning", "SLUICE_SNAPSHOT_EVENTS": "100"}) as system:
        for name in ("api", "variant_controller", *("scheduler", "slice_aggregator") * 2):
            system.start(name)
        env = {"SLUICE_NATS_URL": system.url}
        while (await asyncio.to_thread(sluice, "apply", "-f", "-", stdin=QUEUE, env=env)).code:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)
        async with AsyncClient(system.url) as client:
            storm = Storm(system, client, random.Random(seed), start_agent(system))
            for name in JOBS:
                await client.submit(manifest(name))
            await storm.rest()
            for phase in range(PHASES):
                for _ in range(ROUNDS):
                    await storm.resize()
                    await storm.damage()
                    await storm.resize()
                    await asyncio.sleep(storm.random.random() * 0.5)
                    storm.look()
                if phase == PHASES - 1:
                    # What the agent ran is gone with it; the same sizes come back, in a further attempt.
                    system.kill(storm.agent)
                    storm.seen = {}
                    storm.agent = start_agent(system)
                await storm.rest()
            batches = await asyncio.to_thread(list, BulkReader(system.url, "main"))
    entries = [entry for batch in batches for entry in batch]
    attempts = {attempt for found in storm.seen.values() for _, attempt in found.values()}
    assert attempts == {"2"}, "nothing but the agent's end may stop a job"
    assert not (wrong := wrong_with(entries)), wrong
