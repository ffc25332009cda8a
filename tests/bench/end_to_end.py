"""A scenario through the real server and services: makespan, latencies, CPU, memory, log size."""

import asyncio
import os
from statistics import fmean

import msgspec
import nats
import uvloop
from nats.aio.client import Client

from sluice.cli.cell.client import decode
from sluice.protocol.query import ApplyRequest, ChangeAnswer
from tests.support.system import System, Usage, usage_of

from .cell import fresh_cell
from .driver import Driver
from .scenario import Scenario, manifests

CHUNK = 200
"""Objects per apply request: well below the server's largest message."""
REST_S = 1.0
"""After which nobody has anything to do with a new configuration any more."""


def run(scenario: Scenario, timeout_s: float = 600, env: dict[str, str] | None = None) -> dict[str, object]:
    """Run the scenario in a fresh cell and return its figures.

    Raises:
        TimeoutError: not all jobs finished.
    """
    with fresh_cell(env=env) as system:
        return uvloop.run(_run(scenario, system, timeout_s))


async def apply(client: Client, objects: list[dict[str, object]], cell: str = "main") -> None:
    """Apply configuration as `sluice apply` does, and let the cell come to rest."""
    for begin in range(0, len(objects), CHUNK):
        request = ApplyRequest(objects=objects[begin : begin + CHUNK])
        answer = await _ask(client, f"sluice.{cell}.api.apply", request)
        refused = [r for r in answer.results if r.outcome == "refused"]
        if refused:
            raise RuntimeError(f"configuration refused: {refused[0]}")
    await asyncio.sleep(REST_S)


async def _ask(client: Client, subject: str, request: ApplyRequest) -> ChangeAnswer:
    for attempt in range(200):
        try:
            reply = await client.request(subject, msgspec.json.encode(request), timeout=30)
            return decode(reply.data, ChangeAnswer)
        except nats.errors.NoRespondersError:
            # The service is still starting, which takes minutes where many others want the processors.
            await asyncio.sleep(0.1 * (1 + attempt / 10))
    raise TimeoutError(f"nobody answers {subject}")


async def _run(scenario: Scenario, system: System, timeout_s: float) -> dict[str, object]:
    client = await nats.connect(system.url, pending_size=64 * 1024 * 1024)
    try:
        await apply(client, manifests(scenario))
        before = system.usage()
        own_before = usage_of(_own_pid())
        driver = Driver(system.url, scenario)
        await driver.run(timeout_s)
        after = system.usage()
        own = usage_of(_own_pid())
        info = await client.jetstream().stream_info("SLUICE_main")
        used = {name: _difference(after[name], before.get(name, Usage())) for name in after}
        used["client"] = _difference(own, own_before)
        return _figures(scenario, driver, used, info.state.bytes, info.state.messages)
    finally:
        await client.close()


def _own_pid() -> int:
    return os.getpid()


def _difference(after: Usage, before: Usage) -> Usage:
    return Usage(after.cpu_s - before.cpu_s, after.peak_mb)


def percentile(ordered: list[float], share: float) -> float:
    """Return the value below which *share* of a sorted list lies; 0 for an empty one."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def _figures(
    scenario: Scenario, driver: Driver, used: dict[str, Usage], log_bytes: int, messages: int
) -> dict[str, object]:
    makespan = driver.ended_at - driver.started_at
    waits = {c.name: driver.waits_s(c) for c in scenario.classes}
    return {
        "bench": scenario.name,
        "jobs": scenario.jobs,
        "makespan_s": round(makespan, 2),
        "ideal_s": scenario.ideal_s,
        "ratio": round(makespan / scenario.ideal_s, 3),
        "admissions_per_s": round(sum(r.attempt for r in driver.runs.values()) / makespan),
        "preemptions": sum(r.stops for r in driver.runs.values()),
        "run_time_lost_s": round(sum(r.lost_s for r in driver.runs.values()), 1),
        "wait_mean_ms": {name: round(fmean(w) * 1000, 1) for name, w in waits.items()},
        "wait_p99_ms": {name: round(percentile(w, 0.99) * 1000, 1) for name, w in waits.items()},
        "quota_use": round(driver.quota_use(), 3),
        "cpu_s": {name: round(u.cpu_s, 2) for name, u in sorted(used.items())},
        "peak_mb": {name: round(u.peak_mb) for name, u in sorted(used.items())},
        "scheduler_cpu_us_per_job": round(used["scheduler"].cpu_s / scenario.jobs * 1e6),
        "finished_after_10_s": sum(
            0 < run.finished_at < driver.started_at + 10 for run in driver.runs.values()
        ),
        "client_lag_max_ms": round(driver.lag_max_s * 1000, 1),
        "log_mb": round(log_bytes / 1e6, 1),
        "log_messages": messages,
    }
