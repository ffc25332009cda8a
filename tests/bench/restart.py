"""How long services take to be ready on a long log: `python -m tests.bench.restart [EVENTS]`.

Ready is a stand-by or leader with its state warm, asked over the wire as an operator would; measured from
the start of the process.
"""

import asyncio
import json
import sys
import time
import zlib
from typing import Any

import msgspec
import nats
import uvloop
from nats.aio.client import Client

from sluice.log.nats.jetstream import JetStreamLog
from sluice.log.nats.objects import ObjectBucket
from sluice.log.runtime.snapshot import Snapshots
from sluice.protocol.query import StatusRequest
from tests.fault.probe import Probe
from tests.support.system import Service, System, usage_of

from .recorded_log import EVENTS, Recorded, recorded

WRITERS = {"scheduler": "scheduler", "slice_aggregator": "slices"}
WAIT_S = 300.0


def run(events: int = EVENTS) -> dict[str, object]:
    log = recorded(events)
    # The log shall be on the machine as after a crash, not warm in the server that took it in.
    log.system.server.restart()
    return uvloop.run(_run(log))


async def _run(log: Recorded) -> dict[str, object]:
    client = await nats.connect(log.system.url)
    try:
        services: dict[str, dict[str, Any]] = {}
        for name in WRITERS:
            services[name] = {"without": await _decider(log.system, client, name)}
        sizes = await _store_snapshots(log)
        for name, writer in WRITERS.items():
            services[name]["with"] = await _decider(log.system, client, name) | sizes[writer]
        services["api"] = {"without": await _api(log.system, client)}
        # It stored one as it ended.
        services["api"]["with"] = await _api(log.system, client)
    finally:
        await client.close()
    return {
        "bench": "restart",
        "events": log.total,
        "messages": log.messages,
        "log_mb": round(log.log_mb, 1),
        "events_behind_snapshot": log.snapshot_tail,
        **log.live,
        "services": services,
    }


async def _decider(system: System, client: Client, name: str) -> dict[str, Any]:
    """Start the service, wait until it is ready, then until it leads; end it."""
    started = time.monotonic()
    service = system.start(name)
    probe = Probe(client)

    def is_ready(answers: dict[int, Any]) -> bool:
        answer = answers.get(service.pid)
        return answer is not None and answer.role in ("standby", "leader")

    ready = await probe.until(name, is_ready, WAIT_S)
    took = time.monotonic() - started
    if ready is None:
        raise TimeoutError(f"{name} is not ready after {WAIT_S} s\n{system.tail_logs()}")
    leads = await probe.until(name, lambda a: service.pid in a and a[service.pid].settled, WAIT_S)
    led = time.monotonic() - started
    if leads is None:
        raise TimeoutError(f"{name} does not lead after {WAIT_S} s\n{system.tail_logs()}")
    return _ended(system, service, ready_s=took, leads_s=led)


async def _api(system: System, client: Client) -> dict[str, Any]:
    """Start the api service and wait until it answers."""
    started = time.monotonic()
    service = system.start("api")
    deadline = started + WAIT_S
    while time.monotonic() < deadline:
        try:
            await client.request("sluice.main.query.status", msgspec.json.encode(StatusRequest()), timeout=5)
            return _ended(system, service, ready_s=time.monotonic() - started)
        except (nats.errors.NoRespondersError, nats.errors.TimeoutError):
            await asyncio.sleep(0.02)
    raise TimeoutError(f"api is not ready after {WAIT_S} s\n{system.tail_logs()}")


def _ended(system: System, service: Service, **times: float) -> dict[str, Any]:
    used = usage_of(service.pid)
    if service.stop() != 0:
        raise RuntimeError(f"{service.name} ended badly\n{system.tail_logs()}")
    return {key: round(value, 2) for key, value in times.items()} | {
        "cpu_s": round(used.cpu_s, 2),
        "peak_mb": round(used.peak_mb),
    }


async def _store_snapshots(log: Recorded) -> dict[str, dict[str, float]]:
    """Put the snapshots where services look for them; returns their sizes by writer."""
    target = await JetStreamLog(log.system.url, name="bench").open()
    store = Snapshots(ObjectBucket(target))
    sizes = {}
    for writer, snapshot in log.snapshots.items():
        await store.store(
            writer, snapshot.state_version, snapshot.data, snapshot.upto, snapshot.at, snapshot.own
        )
        sizes[writer] = {
            "snapshot_mb": round(len(snapshot.data) / 1e6, 1),
            "stored_mb": round(len(zlib.compress(snapshot.data, 1)) / 1e6, 1),
        }
    await target.close()
    return sizes


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS)))
