"""A manager and two workers as real processes, each cell on a server of its own, links through proxies."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sluice.api import labels
from sluice.events import dispatch, slices
from sluice.events.base import Event
from sluice.events.codec import decode_commit, encode_commit
from sluice.events.commit import Step
from sluice.sdk import AsyncClient

from .objects import applied, kueue_object, resource_group
from .system import System
from .tcp_proxy import TcpProxy
from .waiting import eventually

OWN = "sluice.dev/v1alpha1"
WORKERS = ("near", "far")


@dataclass
class Cells:
    """A manager and its workers."""

    manager: System
    client: AsyncClient
    workers: dict[str, System] = field(default_factory=dict)
    clients: dict[str, AsyncClient] = field(default_factory=dict)
    proxies: dict[str, TcpProxy] = field(default_factory=dict)

    async def events(self, cell: str = "main", writer: str = "dispatch") -> list[Event]:
        client = self.client if cell == "main" else self.clients[cell]
        return [
            event
            async for entries in client.log.read(1, [writer])
            for entry in entries
            for step in decode_commit(entry.payload).steps
            for event in step.events
        ]

    async def said[E: Event](self, kind: type[E], cell: str = "main") -> list[E]:
        writer = {dispatch.__name__: "dispatch", slices.__name__: "slices"}[kind.__module__]
        return [event for event in await self.events(cell, writer) if isinstance(event, kind)]

    async def submit(self, name: str, *command: str, **more: Any) -> None:
        """Submit a job; with *replicas* an elastic one, *priority* is what else it may have."""
        spec = {"queueName": "lq", "command": list(command), "resources": {"cpu": 1}, **more}
        metadata: dict[str, Any] = {"name": name}
        if "replicas" in more:
            metadata["annotations"] = {labels.ELASTIC_JOB: "true"}
        await self.client.submit({"apiVersion": OWN, "kind": "Job", "metadata": metadata, "spec": spec})

    async def finished(self, count: int) -> bool:
        return len(await self.said(slices.WorkloadFinished)) >= count

    async def ran_once(self) -> None:
        """Hold that no attempt was started twice, in whatever cell."""
        attempt_of = {
            e.offer.partition("/")[2]: (e.workload, e.attempt) for e in await self.said(dispatch.Offered)
        }
        starts: dict[tuple[str, int], int] = {}
        for name in self.workers:
            for event in await self.said(slices.JobResumed, name):
                offer = event.job.partition("/")[2].rpartition("-")[0]
                starts[attempt_of[offer]] = starts.get(attempt_of[offer], 0) + 1
        assert starts
        assert set(starts.values()) == {1}, f"an attempt was started more than once: {starts}"

    async def nothing_left(self) -> bool:
        for name in self.workers:
            made = {event.workload.key for event in await self.said(slices.WorkloadCreated, name)}
            gone = {event.workload for event in await self.said(slices.WorkloadDeleted, name)}
            if made != gone:
                return False
        return True


async def apply(client: AsyncClient, cell: str, *objects: dict[str, Any]) -> None:
    await client.log.open()
    step = Step(upto=0, at=1, events=tuple(map(applied, objects)))
    await client.log.append("config", encode_commit(cell, "config", "test", [step]))


def held_queue(flavor: str, cpu: int, check: str) -> list[dict[str, Any]]:
    """Return the queue `default/lq` of so many cpus of a flavor, all of whose jobs a check holds."""
    strategy = {"admissionChecks": [{"name": check}]}
    return [
        kueue_object("Namespace", "default"),
        kueue_object("ResourceFlavor", flavor),
        kueue_object(
            "ClusterQueue",
            "cq",
            {
                "namespaceSelector": {},
                "resourceGroups": [resource_group({flavor: cpu})],
                "admissionChecksStrategy": strategy,
            },
        ),
        kueue_object("LocalQueue", "lq", {"clusterQueue": "cq"}, namespace="default"),
    ]


@asynccontextmanager
async def running_cells(tmp_path: Path, near: int = 2, far: int = 2) -> AsyncIterator[Cells]:
    """Run a manager, and workers with so many cpus; `near` is preferred."""
    room = {"near": near, "far": far}
    links = tmp_path / "links"
    links.mkdir()
    async with AsyncExitStack() as stack:
        manager = stack.enter_context(System(tmp_path / "main"))
        found = Cells(manager, await stack.enter_async_context(AsyncClient(manager.url, source="test")))
        ladder = {"cells": list(WORKERS), "lostAfterSeconds": 5, "retryAfterSeconds": 1, "standSeconds": 30}
        parameters = {"apiGroup": "sluice.dev", "kind": "CellLadder", "name": "all"}
        objects = [
            *(
                kueue_object("MultiKueueCluster", name, {"clusterSource": {"kubeConfig": {"location": name}}})
                for name in WORKERS
            ),
            {"apiVersion": OWN, "kind": "CellLadder", "metadata": {"name": "all"}, "spec": ladder},
            kueue_object(
                "AdmissionCheck", "cells", {"controllerName": "sluice.dev/cells", "parameters": parameters}
            ),
            *held_queue("elsewhere", 100, "cells"),
        ]
        await apply(found.client, "main", *objects)
        for name in WORKERS:
            worker = found.workers[name] = stack.enter_context(System(tmp_path / name, cell=name))
            port = int(worker.url.rpartition(":")[2])
            proxy = found.proxies[name] = await stack.enter_async_context(TcpProxy(lambda port=port: port))
            (links / f"{name}.json").write_text(json.dumps({"server": proxy.url, "cell": name}))
            client = await stack.enter_async_context(AsyncClient(worker.url, name, source="test"))
            found.clients[name] = client
            hold = kueue_object("AdmissionCheck", "hold", {"controllerName": "sluice.dev/hold.main"})
            await apply(client, name, hold, *held_queue("default", room[name], "hold"))
            for service in ("slice_aggregator", "scheduler", "admission_check"):
                worker.start(service)
            worker.start("agent", {"AGENT_NAME": f"agent-{name}", "SLUICE_DATA_DIR": str(tmp_path / name)})
        manager.env["DISPATCHER_LINKS"] = str(links)
        for service in ("slice_aggregator", "scheduler", "admission_check", "dispatcher"):
            manager.start(service)

        async def reached() -> bool:
            return len(await found.said(dispatch.CellBack)) == len(WORKERS)

        await eventually(reached)
        yield found
