"""Kill -9 of a leader to the first commit of its stand-by: `python -m tests.bench.take_over [KILLS]`.

Jobs come in all the while, so the new leader has something to decide at once. Most of the time is the
lease running out (SLUICE_LEASE_TTL_S); what is left is noticing that, folding the rest and deciding.
"""

import asyncio
import json
import sys
import time

import nats
import uvloop

from sluice.log.nats.jetstream import JetStreamLog
from tests.fault.probe import Probe, leader, standby
from tests.support.system import System

from .cell import SERVICES, fresh_cell
from .end_to_end import apply, percentile
from .messages import job_message
from .scenario import JobClass, PlannedJob, Scenario, job_manifest, manifests

KILLS = 10
EVERY_S = 0.01
WAIT_S = 20.0
RENEWAL_S = 0.34
"""How often the lease is renewed, by default."""

_CLASS = JobClass("only", 1, 1, 0, 0, 0)
_SCENARIO = Scenario("take-over", 1, 1, (_CLASS,), 0.0, nominal_cpu=1_000_000)


def run(kills: int = KILLS) -> dict[str, object]:
    with fresh_cell(*SERVICES, "scheduler") as system:
        return uvloop.run(_run(system, kills))


async def _run(system: System, kills: int) -> dict[str, object]:
    client = await nats.connect(system.url)
    await apply(client, manifests(_SCENARIO))
    log = await JetStreamLog(system.url, name="bench").open()
    submitting = asyncio.create_task(_submit(log))
    times = []
    try:
        for number in range(kills):
            # At every phase of the lease's renewal.
            wait_s = RENEWAL_S * number / kills
            times.append(await _kill_leader(system, Probe(client), log, wait_s))
            system.start("scheduler")
    finally:
        submitting.cancel()
        await log.close()
        await client.close()
    times.sort()
    return {
        "bench": "take-over",
        "kills": kills,
        "p50_s": round(percentile(times, 0.5), 2),
        "max_s": round(times[-1], 2),
        "min_s": round(times[0], 2),
    }


async def _submit(log: JetStreamLog) -> None:
    """Submit a job every now and then, for ever."""
    connection = await log.connection()
    number = 0
    while True:
        number += 1
        name = f"job-{number}"
        manifest = job_manifest(PlannedJob(0.0, name, "cq-0-0", _CLASS))
        message = job_message("JobSubmitted", f"default/{name}", manifest)
        connection.publish(f"sluice.main.job.default.{name}", message)
        await asyncio.sleep(EVERY_S)


async def _kill_leader(system: System, probe: Probe, log: JetStreamLog, wait_s: float) -> float:
    """Kill the scheduler that leads *wait_s* after another one is warm; return seconds to the next commit."""
    pids = {service.pid for service in system.live("scheduler")}
    found = await probe.until(
        "scheduler", lambda a: leader(a, pids) is not None and standby(a, pids) is not None, WAIT_S
    )
    if found is None:
        raise TimeoutError(f"no leader and stand-by within {WAIT_S} s")
    victim = next(service for service in system.live() if service.pid == leader(found, pids))
    await asyncio.sleep(wait_s)
    # What the victim had sent is in the log once it is dead: later commits are of its successor.
    killed = time.monotonic()
    system.kill(victim)
    arrived = asyncio.Event()
    end = await log.end()
    tail = log.tail(end + 1, ["scheduler"], arrived.set)
    try:
        async with asyncio.timeout(WAIT_S):
            while not tail.take():
                arrived.clear()
                await arrived.wait()
        return time.monotonic() - killed
    finally:
        await tail.close()


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]) if len(sys.argv) > 1 else KILLS)))
