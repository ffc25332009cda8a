"""Several replicas, killed, paused and stopped: one is active, nothing is lost, nothing done twice."""

import signal

import msgspec
import pytest

from sluice.log.nats.kv import Bucket
from sluice.protocol.checks import ControllerHeartbeat
from tests.support.nats import nats_server
from tests.support.waiting import PATIENCE_S, eventually

from .conftest import Cell

__all__ = ["nats_server"]
pytestmark = pytest.mark.nats

KEY = "controller.example=2Ecom=2Ftest"


async def test_killed_in_the_middle(cell: Cell) -> None:
    """After kill -9 the next life performs what was not answered, and only that."""
    for number in range(20):
        await cell.ask(f"quick-{number}")
    await cell.ask("slow", "wait")
    first = cell.start()
    await eventually(lambda: _answered(cell, 20))
    await eventually(lambda: ("begin", "slow", 1) in cell.did())
    first.kill()
    cell.gate.touch()
    cell.start()
    await eventually(lambda: cell.said("slow"))
    did = [what for what in cell.did() if what[0] == "begin"]
    assert did.count(("begin", "slow", 1)) == 2
    assert len(did) == 22
    assert len(await cell.verdicts()) == 21


async def _answered(cell: Cell, number: int) -> bool:
    return len(await cell.verdicts()) == number


async def test_take_over_from_a_replica_that_hangs(cell: Cell) -> None:
    """A stand-by takes over; the former one, when it comes back, stops performing and says nothing."""
    await cell.ask("a", "wait")
    first = cell.start()
    await eventually(cell.did)
    second = cell.start()
    first.send_signal(signal.SIGSTOP)
    await eventually(lambda: second.pid in cell.pids())
    first.send_signal(signal.SIGCONT)
    await eventually(lambda: first.pid in cell.pids("end"))
    assert await cell.verdicts() == []
    cell.gate.touch()
    await eventually(lambda: cell.said("a"))
    # The former one is a stand-by now.
    second.kill()
    await cell.ask("b")
    await eventually(lambda: cell.said("b"))
    assert cell.pids()[-1] == first.pid
    assert await cell.said("a") == ["Ready"]


async def test_a_stopped_replica_hands_over(cell: Cell) -> None:
    """Told to stop, it finishes what is at work, and the stand-by goes on with the rest."""
    await cell.ask("a", "wait")
    first = cell.start()
    await eventually(cell.did)
    second = cell.start()
    first.terminate()
    await eventually(lambda: '"stopping"' in (cell.directory / "replicas.log").read_text())
    await cell.ask("b")
    cell.gate.touch()
    assert first.wait(PATIENCE_S) == 0
    await eventually(lambda: cell.said("b"))
    assert await cell.said("a") == ["Ready"]
    # Who stands still for long is taken for dead, and what it was at is done again.
    assert (cell.pids()[0], cell.pids()[-1]) == (first.pid, second.pid)
    second.terminate()
    assert second.wait(PATIENCE_S) == 0


async def test_one_of_three_is_active(cell: Cell) -> None:
    """However they race, one holds the heartbeat and performs."""
    replicas = [cell.start() for _ in range(3)]
    for number in range(30):
        await cell.ask(f"job-{number}")
    await eventually(lambda: _answered(cell, 30))
    (active,) = set(cell.pids())
    heartbeats = Bucket(cell.client.log, "heartbeats", memory=True)
    found = await heartbeats.get(KEY)
    assert found is not None
    assert msgspec.json.decode(found.value, type=ControllerHeartbeat).pid == active
    assert active in {replica.pid for replica in replicas}
    assert len(cell.pids()) == 30
