"""A manager whose link has a user of its own in the worker: enough to place jobs there, and no more."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from sluice.events import dispatch
from sluice.events.codec import encode_message
from sluice.log.errors import AppendRefusedError, EventLogError
from sluice.log.nats.jetstream import JetStreamLog
from sluice.protocol.cells import end_of_names
from sluice.rights.roles import User
from sluice.sdk import AsyncClient
from tests.support.objects import kueue_object
from tests.support.real_cells import OWN, Cells, apply, held_queue
from tests.support.system import System
from tests.support.waiting import eventually

from .secured import SecuredCell

pytestmark = [pytest.mark.nats, pytest.mark.long]

LINK = User(name="link", role="manager", manager="hub")


@pytest.fixture
async def cells(tmp_path: Path) -> AsyncIterator[tuple[SecuredCell, Cells]]:
    """A worker with keys and gate, an agent in it; a manager `hub` whose link is the user `link`."""
    with SecuredCell(tmp_path / "near", users=(LINK,)) as worker:
        worker.start_services()
        objects = [
            kueue_object("AdmissionCheck", "hold", {"controllerName": "sluice.dev/hold.hub"}),
            *held_queue("default", 4, "hold"),
        ]
        manifests = tmp_path / "worker.json"
        manifests.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        applied = await asyncio.to_thread(worker.sluice, "admin", "apply", "-f", str(manifests))
        assert applied.code == 0, applied.out + applied.err
        worker.service("agent", AGENT_NAME="agent-0", SLUICE_DATA_DIR=str(tmp_path / "agent"))
        async with AsyncExitStack() as stack:
            hub = stack.enter_context(System(tmp_path / "hub", cell="hub"))
            client = await stack.enter_async_context(AsyncClient(hub.url, "hub", source="test"))
            await apply(client, "hub", *ladder(), *held_queue("elsewhere", 100, "cells"))
            links = tmp_path / "links"
            links.mkdir()
            (links / "near.json").write_text(json.dumps({"server": worker.url("link")}))
            hub.env["DISPATCHER_LINKS"] = str(links)
            for service in ("slice_aggregator", "scheduler", "admission_check", "dispatcher"):
                hub.start(service)
            yield worker, Cells(hub, client)


def ladder() -> list[dict[str, object]]:
    parameters = {"apiGroup": "sluice.dev", "kind": "CellLadder", "name": "all"}
    return [
        kueue_object("MultiKueueCluster", "near", {"clusterSource": {"kubeConfig": {"location": "near"}}}),
        {"apiVersion": OWN, "kind": "CellLadder", "metadata": {"name": "all"}, "spec": {"cells": ["near"]}},
        kueue_object(
            "AdmissionCheck", "cells", {"controllerName": "sluice.dev/cells", "parameters": parameters}
        ),
    ]


async def test_its_rights_are_enough(cells: tuple[SecuredCell, Cells]) -> None:
    """A job is placed, runs, is edited, ends and is taken away; the server has refused nothing."""
    worker, found = cells

    async def said[E](kind: type[E]) -> list[E]:
        return [event for event in await found.events("main") if isinstance(event, kind)]

    await found.submit("work", "sleep", "3")
    await eventually(lambda: said(dispatch.RemoteStarted))
    await found.submit("work", "sleep", "3", priority=3)
    await eventually(lambda: said(dispatch.EditAnswered))
    (finished,) = await eventually(lambda: said(dispatch.RemoteFinished))
    assert finished.success
    await eventually(lambda: said(dispatch.PlacementEnded))
    assert [refused for refused in worker.violations() if refused.startswith("link")] == []


async def test_what_is_not_its_own_is_refused(cells: tuple[SecuredCell, Cells]) -> None:
    """Jobs of others, reports on its own, verdicts of others, and what manifests say."""
    worker, _ = cells
    log = JetStreamLog(worker.url("link"))
    try:
        own = f"job.default.x{end_of_names('hub')}"
        for suffix in ("job.default.x", f"job.default.x{end_of_names('other')}"):
            with pytest.raises(AppendRefusedError):
                await log.append(suffix, _message("JobDeleted"))
        for event in ("JobFinished", "JobScaled", "JobPodsReady"):
            with pytest.raises(AppendRefusedError):
                await log.append(own, _message(event))
        with pytest.raises((AppendRefusedError, EventLogError)):
            await log.append("verdict.other", b"{}")
        with pytest.raises(EventLogError):
            async for _entries in log.read(1, ["job.>"]):
                pass
        assert (await log.append(own, _message("JobDeleted"))).seq
    finally:
        await log.close()


def _message(event: str) -> bytes:
    return encode_message(message_id="m", source="test", event_type=event, subject="x", at=1, data={})
