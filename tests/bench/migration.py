"""From freed capacity to the migrated job running, on an idle cell: `python -m tests.bench.migration`.

One job runs on the better of two flavors, one on the other. The first one finishes; the clock runs from its
JobFinished until the second one is told to run on the better flavor. The executor answers at once when it is
told to stop: how long real processes take to stop and start comes on top.
"""

import json
import sys
import time

import msgspec
import nats
import uvloop

from sluice.events.base import JobKey
from sluice.protocol.dispatch import DispatchEntry, dispatch_key
from tests.support.system import System

from .cell import fresh_cell
from .end_to_end import apply, percentile
from .idle_latency import Client
from .scenario import JobClass, PlannedJob, Scenario, job_manifest, manifests

MOVES = 200
WARM_UP = 10
BEST, REST = "best", "rest"

_CLASS = JobClass("only", 1, 1, 0, 0, 0)
_SCENARIO = Scenario(
    "migration", 1, 1, (_CLASS,), 0.0, nominal_cpu=2, flavors=(BEST, REST), policy="TryPreferredFlavors"
)


def run(moves: int = MOVES) -> dict[str, object]:
    with fresh_cell() as system:
        return uvloop.run(_run(system, moves))


async def _run(system: System, moves: int) -> dict[str, object]:
    control = await nats.connect(system.url)
    await apply(control, manifests(_SCENARIO))
    client = Client(system.url)
    await client.log.open()
    took: list[float] = []
    stopped: list[float] = []
    try:
        before, attempt = "job-0", await _start(client, "job-0", BEST)
        for number in range(1, WARM_UP + moves + 1):
            name = f"job-{number}"
            await _start(client, name, REST)
            freed = time.perf_counter()
            await client.publish(before, "JobFinished", {"attempt": attempt})
            told, attempt = await _move(client, name)
            took.append((time.perf_counter() - freed) * 1000)
            stopped.append((told - freed) * 1000)
            before = name
    finally:
        await client.close()
        await control.close()
    took, stopped = sorted(took[WARM_UP:]), sorted(stopped[WARM_UP:])
    return {
        "bench": "migration",
        "moves": moves,
        "p50_ms": round(percentile(took, 0.5), 2),
        "p99_ms": round(percentile(took, 0.99), 2),
        "max_ms": round(took[-1], 2),
        "to_stop_p50_ms": round(percentile(stopped, 0.5), 2),
        "to_stop_p99_ms": round(percentile(stopped, 0.99), 2),
    }


async def _start(client: Client, name: str, flavor: str) -> int:
    """Submit a job; returns its attempt once it runs on *flavor*."""
    await client.publish(name, "JobSubmitted", job_manifest(PlannedJob(0.0, name, "cq-0-0", _CLASS)))
    while True:
        entry = await _next(client, name)
        if entry is not None and entry.state == "Running" and _flavor(entry) == flavor:
            return entry.attempt


async def _move(client: Client, name: str) -> tuple[float, int]:
    """Stop the job when it is told to; returns when that was, and its attempt on the better flavor."""
    told = 0.0
    while True:
        entry = await _next(client, name)
        if entry is None:
            continue
        if entry.state == "Running" and _flavor(entry) == BEST:
            return told, entry.attempt
        if entry.stop:
            told = time.perf_counter()
            await client.publish(name, "JobStopped", {"attempt": entry.attempt})


async def _next(client: Client, name: str) -> DispatchEntry | None:
    entry, _ = await client.next(dispatch_key(JobKey(f"default/{name}")))
    return msgspec.json.decode(entry.payload, type=DispatchEntry) if entry.payload else None


def _flavor(entry: DispatchEntry) -> str:
    return next(iter(entry.pod_sets[0].flavors.values()))


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]) if len(sys.argv) > 1 else MOVES)))
