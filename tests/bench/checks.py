"""Workloads through two instant checks each: `python -m tests.bench.checks [WORKLOADS]`.

All services are processes of their own, and one controller of the SDK performs both checks. All jobs are
submitted at once, and there is quota for all: what is measured is the way from a job to its admission.
"""

import asyncio
import json
import sys
import time

import nats
import uvloop

from sluice.events.codec import decode_commit
from sluice.events.scheduler import Admitted
from sluice.log.nats.jetstream import JetStreamLog, JetStreamTail
from tests.support.system import System, Usage

from .cell import fresh_cell
from .check_controller import NAME
from .end_to_end import apply, percentile
from .messages import job_message

WORKLOADS = 10_000
CHECKS = ("first", "second")
WAIT_S = 300.0
BATCH = 500

Figures = dict[str, object]


def run(workloads: int = WORKLOADS) -> Figures:
    """Run it in a fresh cell and return its figures."""
    with fresh_cell() as system:
        notes = {"BENCH_NOTES": str(system.directory / "notes.json")}
        system.start("controller", notes, command=("-m", "tests.bench.check_controller"))
        return uvloop.run(_run(system, workloads))


def manifests(workloads: int) -> list[dict[str, object]]:
    """Return a queue with quota for all, whose two checks have one controller."""
    cpu = {"name": "cpu", "nominalQuota": workloads}
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [cpu]}]}]
    rules = [{"name": check} for check in CHECKS]
    queue: dict[str, object] = {
        "namespaceSelector": {},
        "resourceGroups": groups,
        "admissionChecksStrategy": {"admissionChecks": rules},
    }
    return [
        _object("ResourceFlavor", "default", {}),
        *[_object("AdmissionCheck", check, {"controllerName": NAME}) for check in CHECKS],
        _object("ClusterQueue", "main", queue),
        _object("LocalQueue", "main", {"clusterQueue": "main"}, namespace="default"),
    ]


def _object(kind: str, name: str, spec: dict[str, object], **metadata: str) -> dict[str, object]:
    version = "kueue.x-k8s.io/v1beta2"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


async def _run(system: System, workloads: int) -> Figures:
    client = await nats.connect(system.url)
    log = await JetStreamLog(system.url, system.cell).open()
    try:
        await apply(client, manifests(workloads))
        await _presence(log)
        before = system.usage()
        began, admitted = await _flow(log, workloads)
        after = system.usage()
    finally:
        await log.close()
        await client.close()
    waits = sorted(admitted)
    took = waits[-1]
    used = {name: _cpu(after[name], before.get(name)) for name in after}
    return {
        "workloads": workloads,
        "verdicts": workloads * len(CHECKS),
        "makespan_s": round(took, 2),
        "workloads_per_s": round(workloads / took),
        "submit_to_admitted_p50_s": round(percentile(waits, 0.5), 2),
        "submitted_s": round(began, 2),
        "cpu_us_per_workload": {n: round(s * 1e6 / workloads) for n, s in sorted(used.items())},
        "peak_mb": {name: round(usage.peak_mb) for name, usage in sorted(after.items())},
    }


def _cpu(after: Usage, before: Usage | None) -> float:
    return after.cpu_s - (before.cpu_s if before is not None else 0.0)


async def _presence(log: JetStreamLog) -> None:
    """Wait until the log knows that the controller is there."""
    deadline = time.monotonic() + 30
    while True:
        async for entries in log.read(1, ("presence.>",)):
            if any(entry.suffix.startswith("presence.controller.") for entry in entries):
                await asyncio.sleep(0.5)
                return
        if time.monotonic() > deadline:
            raise TimeoutError("the controller did not come")
        await asyncio.sleep(0.1)


async def _flow(log: JetStreamLog, workloads: int) -> tuple[float, list[float]]:
    """Submit all jobs; return the seconds that took, and of each admission when it was seen."""
    start = await log.end() + 1
    connection = await log.connection()
    began = time.monotonic()
    for number in range(workloads):
        name = f"job-{number}"
        subject = log.cell.subject(f"job.default.{name}")
        connection.publish(subject, job_message("JobSubmitted", f"default/{name}", _job(name)))
        if number % BATCH == BATCH - 1:
            await log.end()
    submitted = time.monotonic() - began
    arrived = asyncio.Event()
    tail: JetStreamTail = log.tail(start, ("scheduler",), arrived.set)
    seen: list[float] = []
    try:
        async with asyncio.timeout(WAIT_S):
            while len(seen) < workloads:
                arrived.clear()
                for entry in tail.take():
                    steps = decode_commit(entry.payload).steps
                    found = sum(isinstance(event, Admitted) for step in steps for event in step.events)
                    seen += [entry.at / 1e6] * found
                if len(seen) < workloads:
                    await arrived.wait()
    finally:
        await tail.close()
    # The log's own times, so that reading it late does not count.
    first = time.time() - (time.monotonic() - began)
    return submitted, [moment - first for moment in seen]


def _job(name: str) -> dict[str, object]:
    return {
        "apiVersion": "sluice.dev/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"queueName": "main", "command": ["true"], "resources": {"cpu": 1}},
    }


if __name__ == "__main__":
    print(json.dumps(run(*map(int, sys.argv[1:]))))
