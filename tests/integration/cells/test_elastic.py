"""A job that grows and shrinks in the cell that it was placed in (KEP-77), on real servers and processes."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from sluice.events import dispatch, slices
from tests.support.command import sluice
from tests.support.real_cells import Cells, running_cells
from tests.support.waiting import eventually

pytestmark = [pytest.mark.nats, pytest.mark.long]

JOB = "stretch"


@pytest.fixture
async def cells(tmp_path: Path) -> AsyncIterator[Cells]:
    async with running_cells(tmp_path, near=4, far=8) as found:
        yield found


def pods(cells: Cells, cell: str) -> int:
    """Return how many processes of the job its agent runs."""
    (agent,) = cells.workers[cell].live("agent")
    found = set()
    for process in psutil.Process(agent.pid).children(recursive=True):
        try:
            env = process.environ()
            if env.get("SLUICE_JOB_NAME", "").startswith(JOB) and process.status() != "zombie":
                found.add(env["SLUICE_POD_INDEX"])
        except (psutil.Error, OSError):
            continue
    return len(found)


async def test_a_job_grows_shrinks_waits_and_ends_in_its_cell(cells: Cells, tmp_path: Path) -> None:
    """Growth is asked of the job's cell only, waits there if need be, and the job ends with it pending."""
    gate = tmp_path / "gate"
    await cells.submit(JOB, "sh", "-c", f"until test -e {gate}; do sleep 0.1; done", replicas=2)
    await eventually(lambda: pods(cells, "near") == 2)

    await cells.client.scale(JOB, 4)
    await eventually(lambda: pods(cells, "near") == 4)
    (resized,) = await cells.said(slices.JobResized)
    assert resized.pods == {"main": 4}

    await cells.client.scale(JOB, 3)
    await eventually(lambda: pods(cells, "near") == 3)

    await cells.client.scale(JOB, 6)

    async def waits() -> list[dispatch.GrowthAnswered]:
        found = await cells.said(dispatch.GrowthAnswered)
        return [event for event in found if event.answer == "NoRoom" and event.message]

    await eventually(waits)
    assert pods(cells, "near") == 3
    assert len(await cells.said(slices.JobResized)) == 1, "the manager has room for it, and does not admit it"
    env = {"SLUICE_NATS_URL": cells.manager.url}
    told = (await asyncio.to_thread(sluice, "why", JOB, env=env)).ok().out
    assert "near: the growth waits there for room since 20" in told, told
    assert "insufficient" in told, told

    gate.touch()
    await eventually(lambda: cells.finished(1))
    await eventually(cells.nothing_left)
    assert {event.cell for event in await cells.said(dispatch.Won)} == {"near"}
    assert len(await cells.said(dispatch.RemoteStarted)) >= 1
    assert not await cells.said(dispatch.RemoteEvicted)
    finished = await cells.said(dispatch.RemoteFinished)
    assert [event.success for event in finished] == [True]


async def test_a_job_that_is_deleted_leaves_no_slice(cells: Cells) -> None:
    """Deleted while its growth waits in the cell, it goes with all of its slices."""
    await cells.submit(JOB, "sleep", "600", replicas=2)
    await eventually(lambda: pods(cells, "near") == 2)
    await cells.client.scale(JOB, 6)
    await eventually(lambda: cells.said(dispatch.GrowthAnswered))
    await cells.client.delete(JOB)
    await eventually(lambda: cells.said(dispatch.PlacementEnded))
    await eventually(cells.nothing_left)
    assert pods(cells, "near") == 0


async def test_growth_outlasts_a_cut_and_a_new_dispatcher(cells: Cells, tmp_path: Path) -> None:
    """Asked while the cell is out of reach and the dispatcher is killed, it comes once both are back."""
    gate = tmp_path / "gate"
    await cells.submit(JOB, "sh", "-c", f"until test -e {gate}; do sleep 0.1; done", replicas=2)
    await eventually(lambda: pods(cells, "near") == 2)
    cells.proxies["near"].cut()
    await cells.client.scale(JOB, 4)
    await eventually(lambda: cells.said(dispatch.CellLost))
    (dispatcher,) = cells.manager.live("dispatcher")
    cells.manager.kill(dispatcher)
    cells.proxies["near"].heal()
    cells.manager.start("dispatcher")
    await eventually(lambda: pods(cells, "near") == 4)
    assert not await cells.said(dispatch.OfferAbandoned)
    gate.touch()
    await eventually(lambda: cells.finished(1))
    await eventually(cells.nothing_left)
    await cells.ran_once()
