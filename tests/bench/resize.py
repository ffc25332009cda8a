"""1,000 elastic jobs resized 20 times each: `python -m tests.bench.resize [JOBS]`.

All services are processes of their own; the client is upstream and executor in one. Half of the resizes of
each job come at a fixed rate, for the time from the resize to the dispatch entry with the new pods ungated;
the other half as fast as the cell takes them, each job's next one when the last one has come through. There
is quota for all, so what is measured is the way of a resize through the cell, not waiting.
"""

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field

import msgspec
import nats
import uvloop

from sluice.log.nats.connection import Connection
from sluice.log.nats.jetstream import JetStreamLog, JetStreamTail
from sluice.protocol.dispatch import DispatchEntry
from tests.support.system import System, Usage

from .cell import fresh_cell
from .end_to_end import apply, percentile

JOBS = 1000
RESIZES = 20
PACED = 10
RATE_PER_S = 300
QUEUES = 20
MOST = 16
"""Pods of a job."""
START = 4
WAIT_S = 120.0

Figures = dict[str, object]


def run(jobs: int = JOBS) -> Figures:
    """Run it in a fresh cell and return its figures."""
    with fresh_cell() as system:
        return uvloop.run(_run(system, jobs))


def manifests(jobs: int) -> list[dict[str, object]]:
    """Return queues in cohorts of five, with quota for every job at its largest."""
    objects: list[dict[str, object]] = [
        {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "default"}}
    ]
    quota = {"name": "cpu", "nominalQuota": MOST * (jobs // QUEUES + 1)}
    for index in range(QUEUES):
        group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}
        spec = {"namespaceSelector": {}, "cohortName": f"cohort-{index % 4}", "resourceGroups": [group]}
        head = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue"}
        objects.append({**head, "metadata": {"name": f"q{index}"}, "spec": spec})
        local = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue"}
        metadata = {"name": f"q{index}", "namespace": "default"}
        objects.append({**local, "metadata": metadata, "spec": {"clusterQueue": f"q{index}"}})
    return objects


def size_of(index: int, number: int) -> int:
    """Return the size after so many resizes: never the one before, up as often as down."""
    if number == 0:
        return START
    before = size_of(index, number - 1)
    found = 1 + (index * 7919 + number * 104729) % MOST
    return found if found != before else found % MOST + 1


@dataclass(slots=True)
class Job:
    index: int
    sizes: list[int]
    number: int = 0
    """Of the last resize that was sent; 0 is the submission."""
    sent_at: float = 0.0
    done: bool = False


@dataclass
class Client:
    """Submits and resizes, follows dispatch, and says that pods are ready."""

    connection: Connection
    jobs: list[Job]
    waits_s: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    """(phase, up or down) -> times from a resize to its dispatch entry."""
    phase: str = "submit"
    left: int = 0
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    """Some resize has come through."""
    last: int = 0
    """Number of the last resize of this phase."""
    at_once: bool = False

    def publish(self, job: Job, kind: str, data: object) -> None:
        name = f"j{job.index}"
        message = {
            "specversion": "1.0",
            "id": f"{kind}-{name}-{job.number}",
            "source": "bench",
            "type": kind,
            "subject": f"default/{name}",
            "time": "2026-01-01T00:00:00Z",
            "data": data,
        }
        self.connection.publish(f"sluice.main.job.default.{name}", msgspec.json.encode(message))

    def submit(self, job: Job) -> None:
        container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": 1}}}
        spec = {"parallelism": START, "template": {"spec": {"restartPolicy": "Never"}}}
        spec["template"]["spec"]["containers"] = [container]  # type: ignore[index]
        metadata = {
            "name": f"j{job.index}",
            "namespace": "default",
            "labels": {"kueue.x-k8s.io/queue-name": f"q{job.index % QUEUES}"},
            "annotations": {"kueue.x-k8s.io/elastic-job": "true"},
        }
        job.sent_at = time.monotonic()
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
        self.publish(job, "JobSubmitted", body)

    def resize(self, job: Job) -> None:
        job.number += 1
        job.done = False
        job.sent_at = time.monotonic()
        self.publish(job, "JobScaled", {"podSets": {"main": job.sizes[job.number]}})

    def heed(self, entry: DispatchEntry) -> None:
        """An entry has come: is it what was asked for last?"""
        job = self.jobs[int(entry.job.partition("/")[2][1:])]
        if job.done or entry.state != "Running":
            return
        pods = entry.pod_sets[0]
        size = job.sizes[job.number]
        if pods.ungated != size or pods.gated:
            return
        job.done = True
        self.moved.set()
        way = "up" if job.number == 0 or size > job.sizes[job.number - 1] else "down"
        self.waits_s.setdefault((self.phase, way), []).append(time.monotonic() - job.sent_at)
        if way == "up":
            self.publish(job, "JobPodsReady", {"attempt": entry.attempt})
        if job.number >= self.last:
            self.left -= 1
            if not self.left:
                self.finished.set()
        elif self.at_once:
            self.resize(job)

    async def play(self, phase: str, last: int, *, rate_per_s: int = 0) -> float:
        """Resize every job up to number *last*; returns how long that took, in seconds."""
        self.phase, self.last, self.left, self.at_once = phase, last, len(self.jobs), not rate_per_s
        self.finished.clear()
        began = time.monotonic()
        if rate_per_s:
            await self._paced(last, rate_per_s, began)
        else:
            for job in self.jobs:
                self.submit(job) if phase == "submit" else self.resize(job)
        async with asyncio.timeout(WAIT_S):
            await self.finished.wait()
        return time.monotonic() - began

    async def _paced(self, last: int, rate_per_s: int, began: float) -> None:
        sent = 0
        while self.jobs[0].number < last:
            for job in self.jobs:
                while not job.done:
                    self.moved.clear()
                    await self.moved.wait()
                early = began + sent / rate_per_s - time.monotonic()
                if early > 0:
                    await asyncio.sleep(early)
                self.resize(job)
                sent += 1


async def _run(system: System, count: int) -> Figures:
    client = await nats.connect(system.url)
    await apply(client, manifests(count))
    log = await JetStreamLog(system.url, name="bench").open()
    arrived = asyncio.Event()
    bucket = "sluice_main_dispatch"
    tail = JetStreamTail(
        system.url, "bench", f"KV_{bucket}", f"$KV.{bucket}.", 1, [">"], arrived.set, whole=False
    )
    jobs = [Job(index, [size_of(index, number) for number in range(RESIZES + 1)]) for index in range(count)]
    bench = Client(await log.connection(), jobs)
    decoder = msgspec.json.Decoder(DispatchEntry)

    async def follow() -> None:
        while True:
            arrived.clear()
            for entry in tail.take():
                if entry.payload:
                    bench.heed(decoder.decode(entry.payload))
            await arrived.wait()

    following = asyncio.create_task(follow())
    try:
        await bench.play("submit", 0)
        before = system.usage()
        await bench.play("paced", PACED, rate_per_s=RATE_PER_S)
        between = system.usage()
        took_s = await bench.play("at once", RESIZES)
        after = system.usage()
        info = await client.jetstream().stream_info("SLUICE_main")
    finally:
        following.cancel()
        await tail.close()
        await log.close()
        await client.close()
    return {
        "bench": "resize",
        "jobs": count,
        "resizes": count * RESIZES,
        "resizes_per_s": round(count * (RESIZES - PACED) / took_s),
        "rate_per_s": RATE_PER_S,
        **_latencies(bench.waits_s),
        "cpu_us_per_resize": _per(between, before, count * PACED),
        "cpu_us_per_resize_at_once": _per(after, between, count * (RESIZES - PACED)),
        "log_mb": round(info.state.bytes / 1e6, 1),
    }


def _latencies(waits_s: dict[tuple[str, str], list[float]]) -> Figures:
    found: Figures = {}
    for (phase, way), waits in waits_s.items():
        if phase != "submit":
            ordered = sorted(waits)
            name = f"{phase.replace(' ', '_')}_{way}"
            found[f"{name}_p50_ms"] = round(percentile(ordered, 0.5) * 1000, 1)
            found[f"{name}_p99_ms"] = round(percentile(ordered, 0.99) * 1000, 1)
    return found


def _per(after: dict[str, Usage], before: dict[str, Usage], count: int) -> dict[str, int]:
    """Return CPU by service, in microseconds per resize."""
    return {
        name: round((used.cpu_s - before.get(name, Usage()).cpu_s) / count * 1e6)
        for name, used in sorted(after.items())
    }


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]) if len(sys.argv) > 1 else JOBS)))
