"""Edits of a job that runs in another cell, on real processes: passed on, placed anew, or refused."""

import asyncio

import pytest

from sluice.events import dispatch, slices
from tests.support.command import sluice
from tests.support.objects import priority_class
from tests.support.real_cells import Cells, apply
from tests.support.waiting import eventually

pytestmark = [pytest.mark.nats, pytest.mark.long]


async def started(cells: Cells, times: int = 1) -> bool:
    return len({event.offer for event in await cells.said(dispatch.RemoteStarted)}) >= times


async def why(cells: Cells, job: str) -> str:
    env = {"SLUICE_NATS_URL": cells.manager.url}
    return (await asyncio.to_thread(sluice, "why", job, env=env)).ok().out


async def test_a_priority_is_passed_on_or_its_refusal_is_told(cells: Cells) -> None:
    """The cell has it at once; a class that the cell has not is named, and the job runs on as it was."""
    await cells.submit("work", "sleep", "600")
    await eventually(lambda: started(cells))
    await cells.submit("work", "sleep", "600", priority=7)

    async def priorities() -> list[int | None]:
        return [event.priority for event in await cells.said(slices.WorkloadUpdated, "near")]

    await eventually(priorities)
    assert await priorities() == [7]
    await eventually(lambda: cells.said(dispatch.EditAnswered))

    await apply(cells.client, "main", priority_class("urgent", 9))
    await cells.submit("work", "sleep", "600", priorityClassName="urgent")

    async def refused() -> list[str]:
        return [event.message for event in await cells.said(dispatch.EditAnswered) if event.message]

    (message,) = await eventually(refused)
    assert "urgent" in message
    told = await why(cells, "work")
    assert "near: runs there since 20" in told, told
    assert f"it has refused the last change: {message}" in told, told
    assert not await cells.said(dispatch.RemoteEvicted)


async def test_a_job_that_is_deactivated_stops_there_and_is_placed_again(cells: Cells) -> None:
    """It stops in its cell and leaves nothing; activated, it is placed anew."""
    await cells.submit("work", "sleep", "600")
    await eventually(lambda: started(cells))
    await cells.client.deactivate("work")
    await eventually(lambda: cells.said(slices.WorkloadStopped))
    await eventually(cells.nothing_left)
    await cells.client.activate("work")
    await eventually(lambda: started(cells, 2))
    await cells.ran_once()


async def test_queue_and_pods_stay_while_it_is_placed(cells: Cells) -> None:
    """Either is refused by the manager, by the field; the cell hears nothing of it."""
    await cells.submit("work", "sleep", "600")
    await eventually(lambda: started(cells))
    await cells.submit("work", "sleep", "600", queueName="other")
    await cells.submit("work", "sleep", "900")

    async def refusals() -> list[slices.Rejected]:
        found = await cells.said(slices.Rejected)
        return found if len(found) == 2 else []

    queue, command = await eventually(refusals)
    assert [error.field for error in queue.errors] == ["spec.queueName"]
    assert "immutable while the job is running" in command.errors[0].detail
    await cells.submit("work", "sleep", "600", priority=3)
    await eventually(lambda: cells.said(dispatch.EditAnswered))
    (answer,) = await cells.said(dispatch.EditAnswered)
    assert not answer.message, "what was refused here is not passed on with the next edit"


async def test_another_size_of_a_job_that_cannot_grow_places_it_anew(cells: Cells) -> None:
    """It stops in its cell, and is offered again in the size that it has by then."""
    await cells.submit("work", "sleep", "600")
    await eventually(lambda: started(cells))
    await cells.client.scale("work", 2)
    await eventually(lambda: started(cells, 2))
    for cell in {event.cell for event in await cells.said(dispatch.RemoteStarted)}:
        made = [event.workload.pod_sets[0].count for event in await cells.said(slices.WorkloadCreated, cell)]
        assert set(made) <= {1, 2}, made
    assert made[-1] == 2
    await cells.ran_once()
