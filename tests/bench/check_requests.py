"""Requests that wait when a controller starts: `python -m tests.bench.check_requests [REQUESTS]`.

A process of the SDK against a real server: when the first and the last request are in the hands of the
check's function, when all verdicts are in the log, and what that costs in CPU.
"""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import uvloop

from sluice.log.nats.jetstream import JetStreamLog
from sluice.log.nats.kv import Bucket
from sluice.log.nats.streams import WHOLE
from sluice.protocol.checks import request_key
from sluice.sdk.checks.testing import make_request
from tests.support.system import System, usage_of

from .check_controller import NAME

REQUESTS = 10_000
WAIT_S = 120.0


def run(requests: int = REQUESTS) -> dict[str, object]:
    with (
        tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder,
        System(Path(folder), env={"SLUICE_LOG_LEVEL": "warning"}) as system,
    ):
        return uvloop.run(_run(system, requests))


async def _run(system: System, requests: int) -> dict[str, object]:
    log = await JetStreamLog(system.url, system.cell).open()
    bucket = Bucket(log, "checks")
    await bucket.ensure()
    await _fill(log, bucket, requests)
    notes = system.directory / "notes.json"
    started = time.time()
    service = system.start(
        "controller", {"BENCH_NOTES": str(notes)}, command=("-m", "tests.bench.check_controller")
    )
    deadline = time.monotonic() + WAIT_S
    while await log.end() < requests:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{await log.end()} of {requests} verdicts\n{system.tail_logs()}")
        await asyncio.sleep(0.01)
    answered, usage = time.time(), usage_of(service.pid)
    await asyncio.to_thread(service.stop)
    await log.close()
    found = json.loads(notes.read_text())
    return {
        "requests": requests,
        "calls": found["calls"],
        "process_start_s": round(found["began"] - started, 3),
        "first_s": round(found["first"] - found["began"], 3),
        "last_s": round(found["last"] - found["began"], 3),
        "answered_s": round(answered - found["began"], 3),
        "cpu_us_per_request": round(usage.cpu_s * 1e6 / requests),
        "peak_mb": round(usage.peak_mb),
    }


async def _fill(log: JetStreamLog, bucket: Bucket, requests: int) -> None:
    """Put the requests there, pipelined; the acknowledgement of the last one is that of all."""
    connection = await log.connection()
    for number in range(requests):
        request = make_request(name=f"job-{number}", controller=NAME)
        key = request_key(NAME, "default", f"job-{number}", request.check)
        connection.publish(bucket.prefix + key, msgspec.json.encode(request))
        if number % 1000 == 999:
            await bucket.keys("none")
    await connection.request(bucket.prefix + WHOLE, b"", {"KV-Operation": "DEL"})


if __name__ == "__main__":
    print(json.dumps(run(*map(int, sys.argv[1:]))))
