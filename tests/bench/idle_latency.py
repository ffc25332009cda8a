"""From JobSubmitted to its dispatch entry on an idle cell: `python -m tests.bench.idle_latency [JOBS]`.

All services are processes of their own. One job at a time; the next one comes when the last one is over
and all is quiet. The hops are from the log's own timestamps.
"""

import asyncio
import json
import sys
import time
from collections import deque

import msgspec
import nats
import uvloop

from sluice.events.base import JobKey
from sluice.log.contract import Entry
from sluice.log.nats.blocking import BulkReader
from sluice.log.nats.jetstream import JetStreamLog, JetStreamTail
from sluice.protocol.dispatch import DispatchEntry, dispatch_key
from tests.support.system import System

from .cell import fresh_cell
from .end_to_end import apply, percentile
from .messages import job_message
from .scenario import JobClass, PlannedJob, Scenario, job_manifest, manifests

JOBS = 300
WARM_UP = 20
PAUSE_S = 0.02
WAIT_S = 10.0

_CLASS = JobClass("only", 1, 1, 0, 0, 0)
_SCENARIO = Scenario("idle", 1, 1, (_CLASS,), 0.0)

HOPS = (
    "publish to log",
    "slice-aggregator: workload created",
    "scheduler: quota reserved and admitted",
    "slice-aggregator: job resumed",
    "dispatch entry stored",
    "dispatch entry received",
)


def run(jobs: int = JOBS) -> dict[str, object]:
    with fresh_cell() as system:
        return uvloop.run(_run(system, jobs))


class Client:
    """Upstream and executor in one: submits a job, awaits its entry, finishes it, awaits its end."""

    def __init__(self, url: str) -> None:
        self.log = JetStreamLog(url, name="bench")
        self._arrived = asyncio.Event()
        self._left: deque[tuple[Entry, int]] = deque()
        """What has come and was not looked at, with the time when it came."""
        bucket = "sluice_main_dispatch"
        self._tail = JetStreamTail(
            url, "bench", f"KV_{bucket}", f"$KV.{bucket}.", 1, [">"], self._arrived.set, whole=False
        )

    async def next(self, key: str) -> tuple[Entry, int]:
        """Return the next entry of *key*, and when it came (us since the epoch)."""
        async with asyncio.timeout(WAIT_S):
            while True:
                while self._left:
                    entry, came = self._left.popleft()
                    if entry.suffix == key:
                        return entry, came
                self._arrived.clear()
                now = time.time_ns() // 1000
                self._left += [(entry, now) for entry in self._tail.take()]
                if not self._left:
                    await self._arrived.wait()

    async def publish(self, name: str, kind: str, data: object) -> None:
        connection = await self.log.connection()
        message = job_message(kind, f"default/{name}", data)
        connection.publish(f"sluice.main.job.default.{name}", message)

    async def close(self) -> None:
        await self._tail.close()
        await self.log.close()


async def _run(system: System, jobs: int) -> dict[str, object]:
    control = await nats.connect(system.url)
    await apply(control, manifests(_SCENARIO))
    client = Client(system.url)
    await client.log.open()
    seen: dict[str, tuple[int, Entry, int]] = {}
    try:
        for number in range(WARM_UP + jobs):
            name = f"job-{number}"
            seen[name] = await _one(client, name)
    finally:
        await client.close()
        await control.close()
    for number in range(WARM_UP):
        del seen[f"job-{number}"]
    hops = _hops(system.url, seen)
    totals = sorted(received - sent for sent, _, received in seen.values())
    return {
        "bench": "idle-latency",
        "jobs": jobs,
        "p50_ms": round(percentile(list(map(float, totals)), 0.5) / 1000, 2),
        "p99_ms": round(percentile(list(map(float, totals)), 0.99) / 1000, 2),
        "max_ms": round(totals[-1] / 1000, 2),
        "hops_p50_ms": {hop: _share(times, 0.5) for hop, times in hops.items()},
        "hops_p99_ms": {hop: _share(times, 0.99) for hop, times in hops.items()},
    }


async def _one(client: Client, name: str) -> tuple[int, Entry, int]:
    """Bring one job through; returns when it was sent, its entry, and when that was received (us)."""
    manifest = job_manifest(PlannedJob(0.0, name, "cq-0-0", _CLASS))
    key = dispatch_key(JobKey(f"default/{name}"))
    sent = time.time_ns() // 1000
    await client.publish(name, "JobSubmitted", manifest)
    entry, received = await client.next(key)
    running = msgspec.json.decode(entry.payload, type=DispatchEntry)
    assert running.state == "Running", running
    await client.publish(name, "JobFinished", {"attempt": running.attempt})
    await client.next(key)
    await asyncio.sleep(PAUSE_S)
    return sent, entry, received


def _hops(url: str, seen: dict[str, tuple[int, Entry, int]]) -> dict[str, list[float]]:
    """Return the times between a job's stations, sorted, in us."""
    hops: dict[str, list[float]] = {hop: [] for hop in HOPS}
    entries = [entry for batch in BulkReader(url, "main") for entry in batch]
    for index, first in enumerate(entries):
        name = first.suffix.removeprefix("job.default.")
        if name not in seen or b'"JobSubmitted"' not in first.payload[:200]:
            continue
        sent, dispatched, received = seen[name]
        # Nothing else goes on, so what follows is about this job.
        stations = [sent, first.at]
        for entry in entries[index + 1 :]:
            if entry.suffix != ("slices", "scheduler", "slices")[len(stations) - 2]:
                continue
            stations.append(entry.at)
            if len(stations) == 5:
                break
        stations += [dispatched.at, received]
        for hop, begin, end in zip(HOPS, stations, stations[1:], strict=False):
            hops[hop].append(float(end - begin))
    return {hop: sorted(times) for hop, times in hops.items()}


def _share(times: list[float], share: float) -> float:
    return round(percentile(times, share) / 1000, 2)


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]) if len(sys.argv) > 1 else JOBS)))
