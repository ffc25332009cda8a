"""A machine whose clock is set wrong, under a running service: what is decided keeps to the server's time."""

import asyncio
import os
import time

import pytest

from sluice.events.codec import decode_commit
from sluice.events.scheduler import Requeued
from tests.support.forked import Forked
from tests.support.waiting import eventually

from .bank import order

pytestmark = pytest.mark.nats

TWO_HOURS_S = 7200


@pytest.fixture
def skewed(nats_server, tmp_path, bank):
    """A function that starts the toy service, and the file that sets its clock."""
    clock = tmp_path / "clock"
    clock.write_text("0")

    def start():
        env = {
            "SLUICE_NATS_URL": nats_server.url,
            "SLUICE_LOG_FORMAT": "json",
            "BANK_CLOCK": str(clock),
            "SLUICE_INSTANCE": "skewed",
        }
        log = tmp_path / "skewed.log"
        process = Forked(["tests.integration.log.bank_skewed"], {**os.environ, **env}, log)
        bank.processes.append(process)
        return process, log

    return start, clock


async def steps(log):
    found = []
    async for entries in log.read(1, ["scheduler"]):
        for entry in entries:
            found += [(entry.at, step) for step in decode_commit(entry.payload).steps]
    return found


async def interests(log):
    return sum(isinstance(event, Requeued) for _, step in await steps(log) for event in step.events)


def set_clock(clock, seconds):
    partial = clock.with_suffix(".new")
    partial.write_text(str(seconds))
    partial.rename(clock)


async def test_two_hours_ahead_for_two_seconds(bank, skewed, open_log):
    """No step is dated ahead of the server's time, deadlines go on, and the service says what was wrong."""
    start, clock = skewed
    log = await open_log()
    process, said = start()
    await bank.until_role(process, "leader")
    await log.append("job.a.first", order("first"))
    await eventually(lambda: interests(log))
    set_clock(clock, TWO_HOURS_S)
    began = time.monotonic()
    number = 0
    while time.monotonic() - began < 2:
        number += 1
        await log.append(f"job.a.ahead-{number}", order(f"ahead-{number}"))
        await asyncio.sleep(0.1)
    set_clock(clock, 0)
    await log.append("job.a.after", order("after"))
    before = await interests(log)
    await eventually(lambda: _more(log, before), 30)
    assert max(step.at - stored for stored, step in await steps(log)) < 1_500_000
    assert "clock is off" in said.read_text()
    await eventually(lambda: "clock agrees with the server's again" in said.read_text())


async def test_a_clock_that_is_always_wrong(bank, skewed, open_log):
    """A machine that is two hours behind, and stays so, decides at the server's time from its start on."""
    start, clock = skewed
    set_clock(clock, -TWO_HOURS_S)
    log = await open_log()
    process, said = start()
    await bank.until_role(process, "leader")
    await log.append("job.a.first", order("first"))
    await eventually(lambda: interests(log), 30)
    assert max(abs(step.at - stored) for stored, step in await steps(log)) < 1_500_000
    assert "clock is off" in said.read_text()


async def _more(log, than):
    return await interests(log) > than
