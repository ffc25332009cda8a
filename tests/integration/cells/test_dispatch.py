"""Jobs that are placed by a manager, on real servers and processes: their life, and cells that are lost."""

from pathlib import Path

import pytest

from sluice.events import dispatch, slices
from tests.support.real_cells import Cells
from tests.support.waiting import eventually

pytestmark = [pytest.mark.nats, pytest.mark.long]


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
    # It is said again when all of its pods are ready.
    lost = (await eventually(lambda: cells.said(dispatch.RemoteStarted)))[0].cell
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
