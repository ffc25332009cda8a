"""`sluice cells`, on real servers and processes."""

import asyncio

import pytest

from sluice.events import dispatch
from tests.support.command import Said, sluice
from tests.support.real_cells import Cells
from tests.support.waiting import eventually

pytestmark = [pytest.mark.nats, pytest.mark.long]


async def test_a_cell_is_drained_and_resumed(cells: Cells) -> None:
    """No more jobs come; with --move those that run go; resumed, it is asked again."""
    cells.manager.start("api")

    async def run(*arguments: str) -> Said:
        return await asyncio.to_thread(sluice, *arguments, env={"SLUICE_NATS_URL": cells.manager.url})

    async def cell_of(number: int) -> str:
        found = {event.offer: event.cell for event in await cells.said(dispatch.RemoteStarted)}
        return list(found.values())[number] if len(found) > number else ""

    async def listed() -> bool:
        return (await run("get", "multikueueclusters")).code == 0

    await eventually(listed)
    await cells.submit("first", "sleep", "600")
    assert await eventually(lambda: cell_of(0)) == "near"
    assert (await run("cells", "drain", "near")).ok().lines == ["cell near drained"]
    await cells.submit("second", "sleep", "600")
    assert await eventually(lambda: cell_of(1)) == "far"
    rows = {row["name"]: row for row in (await run("cells", "list", "-o", "json")).ok().json}
    assert [rows[name]["counts"]["running"] for name in ("near", "far")] == [1, 1]
    assert (rows["near"]["drained"], rows["far"]["drained"]) == ("stay", "")

    (await run("cells", "drain", "near", "--move")).ok()
    assert await eventually(lambda: cell_of(2)) == "far"
    assert "near: is not asked" not in (await run("why", "first")).ok().out
    assert (await run("cells", "resume", "near")).ok().lines == ["cell near resumed"]
    await cells.submit("third", "sleep", "600")
    assert await eventually(lambda: cell_of(3)) == "near"
    assert (await run("cells", "drain", "nowhere")).code != 0
    await cells.ran_once()
