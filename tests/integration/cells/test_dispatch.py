"""Three cells on one server, as real processes: a manager, two workers, their links through proxies."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sluice.events import dispatch, slices
from sluice.events.base import Event
from sluice.events.codec import decode_commit, encode_commit
from sluice.events.commit import Step
from sluice.sdk import AsyncClient
from tests.support.objects import applied, kueue_object, resource_group
from tests.support.system import System
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import eventually

pytestmark = [pytest.mark.nats, pytest.mark.long]

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

    async def submit(self, name: str, *command: str) -> None:
        spec = {"queueName": "lq", "command": list(command), "resources": {"cpu": 1}}
        await self.client.submit({"apiVersion": OWN, "kind": "Job", "metadata": {"name": name}, "spec": spec})

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


def _queue(flavor: str, cpu: int, check: str) -> list[dict[str, Any]]:
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


@pytest.fixture
async def cells(tmp_path: Path) -> AsyncIterator[Cells]:
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
            *_queue("elsewhere", 100, "cells"),
        ]
        await apply(found.client, "main", *objects)
        for name in WORKERS:
            proxy = found.proxies[name] = await stack.enter_async_context(
                TcpProxy(lambda: int(manager.url.rpartition(":")[2]))
            )
            (links / f"{name}.json").write_text(json.dumps({"server": proxy.url, "cell": name}))
            client = await stack.enter_async_context(AsyncClient(manager.url, name, source="test"))
            found.clients[name] = client
            hold = kueue_object("AdmissionCheck", "hold", {"controllerName": "sluice.dev/hold.main"})
            await apply(client, name, hold, *_queue("default", 2, "hold"))
            worker = found.workers[name] = System(
                tmp_path / name, cell=name, env={"SLUICE_NATS_URL": manager.url}
            )
            stack.callback(lambda worker=worker: [s.kill() for s in worker.services if s.alive])
            worker.server = manager.server
            for service in ("slice_aggregator", "scheduler", "admission_check"):
                worker.start(service)
            worker.start("agent", {"AGENT_NAME": f"agent-{name}", "SLUICE_DATA_DIR": str(tmp_path / name)})
        manager.env["DISPATCHER_LINKS"] = str(links)
        for service in ("slice_aggregator", "scheduler", "admission_check", "dispatcher"):
            manager.start(service)
        yield found


async def test_jobs_run_in_the_preferred_cell_that_has_room(cells: Cells) -> None:
    """Jobs are placed, run and finish in workers; the manager hears of the end, and nothing is left there."""
    for number in range(3):
        await cells.submit(f"j{number}", "true")
    await eventually(lambda: cells.finished(3))
    finished = await cells.said(dispatch.RemoteFinished)
    assert all(event.success and 0 < event.started_at <= event.finished_at for event in finished)
    await eventually(cells.nothing_left)
    await cells.ran_once()


async def test_a_cell_that_is_lost_and_a_dispatcher_that_is_killed(cells: Cells, tmp_path: Path) -> None:
    """A job in a cell that is cut off begins anew elsewhere; what is left goes when the cell is back."""
    gate = tmp_path / "gate"
    await cells.submit("long", "sh", "-c", f"until test -e {gate}; do sleep 0.1; done")
    (started,) = await eventually(lambda: cells.said(dispatch.RemoteStarted))
    lost = started.cell
    cells.proxies[lost].cut()
    await eventually(lambda: cells.said(dispatch.OfferAbandoned))
    (dispatcher,) = cells.manager.live("dispatcher")
    cells.manager.kill(dispatcher)
    cells.manager.start("dispatcher")

    async def started_elsewhere() -> bool:
        return any(event.cell != lost for event in await cells.said(dispatch.RemoteStarted))

    await eventually(started_elsewhere)
    cells.proxies[lost].heal()
    await eventually(lambda: cells.said(slices.WorkloadDeleted, lost))
    gate.touch()
    await eventually(lambda: cells.finished(1))
    await eventually(cells.nothing_left)
    await cells.ran_once()
