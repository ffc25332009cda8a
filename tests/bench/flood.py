"""How soon others are answered while one publisher floods the cell: `python -m tests.bench flood`.

One publisher submits as many jobs at once as the server takes. Meanwhile an executor runs the jobs of another
team, reports of them, and that team submits the next ones; a third publisher submits to the flood's own
namespace, a little. All times are the server's: from a message in the log to the commit that answers it.
"""

import asyncio
import heapq
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

import msgspec
import nats
import uvloop

from sluice.events.codec import decode_commit, type_of
from sluice.events.scheduler import Admitted
from sluice.events.slices import WorkloadCreated
from sluice.log.contract import Entry
from sluice.log.nats.blocking import BulkReader
from sluice.log.nats.connection import Connection
from sluice.log.nats.jetstream import JetStreamLog, JetStreamTail
from sluice.log.nats.protocol import publish_frame
from tests.support.objects import job_manifest, kueue_object, local_queue, resource_group
from tests.support.system import System, Usage

from .cell import fresh_cell
from .driver import Dispatch
from .end_to_end import apply, percentile
from .messages import job_message

FLOOD = 50_000
RUNNING = 50
"""Jobs of the other team that run at once; twice as many are there, half of which wait for quota."""
RUN_S = 1.0
QUIET_S = 3.0
"""Before the flood."""
ALONE_EVERY_S = 0.1
"""Between two submissions of the third publisher."""
PART = 500
"""Messages of the flood sent at once; so many parts are under way, which the server's inbound queue takes."""
PARTS = 4
MOST_S = 280.0

REPORTS = ("JobPodsReady", "JobFinished")


def objects() -> list[dict[str, object]]:
    return [
        kueue_object("ResourceFlavor", "default"),
        *(
            kueue_object(
                "ClusterQueue",
                name,
                {"namespaceSelector": {}, "resourceGroups": [resource_group({"default": cpu})]},
            )
            for name, cpu in (("flood", 10), ("team", RUNNING))
        ),
        local_queue("main", "flood"),
        local_queue("main", "team", "team"),
    ]


def submission(name: str, namespace: str = "default", source: str = "bench") -> bytes:
    manifest = job_manifest(name, namespace=namespace)
    message = job_message("JobSubmitted", f"{namespace}/{name}", manifest)
    return message.replace(b'"source":"bench"', b'"source":"%s"' % source.encode(), 1)


@dataclass
class Team:
    """The other team and its executor: as soon as one of its jobs has finished, it submits the next one."""

    connection: Connection
    tail: JetStreamTail
    names: Iterator[int] = field(default_factory=count)
    due: list[tuple[float, str, int]] = field(default_factory=list)
    attempts: dict[str, int] = field(default_factory=dict)

    def publish(self, name: str, message: bytes) -> None:
        self.connection.publish(f"sluice.main.job.team.{name}", message)

    def submit(self) -> None:
        name = f"t-{next(self.names)}"
        self.publish(name, submission(name, "team", "team"))

    def report(self, kind: str, name: str, attempt: int) -> None:
        self.publish(name, job_message(kind, f"team/{name}", {"attempt": attempt}, attempt=attempt))

    async def run(self) -> None:
        decode = msgspec.json.Decoder(Dispatch).decode
        while True:
            for entry in self.tail.take():
                found = decode(entry.payload) if entry.payload else None
                namespace, _, name = found.job.partition("/") if found else ("", "", "")
                if found and namespace == "team" and found.attempt > self.attempts.get(name, 0):
                    self.attempts[name] = found.attempt
                    self.report("JobPodsReady", name, found.attempt)
                    heapq.heappush(self.due, (time.monotonic() + RUN_S, name, found.attempt))
            while self.due and self.due[0][0] <= time.monotonic():
                _, name, attempt = heapq.heappop(self.due)
                self.report("JobFinished", name, attempt)
                self.submit()
            await asyncio.sleep(0.005)


async def flood(connection: Connection, jobs: int) -> float:
    """Submit *jobs* as fast as the server takes them; returns the seconds until it has the last one."""
    frames = [(name := f"f-{number}", submission(name)) for number in range(jobs)]
    began = time.monotonic()
    under_way: list[asyncio.Future[object]] = []
    for begin in range(0, jobs, PART):
        written = []
        futures: list[asyncio.Future[object]] = []
        for name, payload in frames[begin : begin + PART]:
            subject = f"sluice.main.job.default.{name}"
            reply, future = connection.expect(subject)
            written.append(publish_frame(subject, payload, reply, {}))
            futures.append(future)  # type: ignore[arg-type]
        connection.write(b"".join(written))
        under_way.append(asyncio.gather(*futures))  # type: ignore[arg-type]
        if len(under_way) == PARTS:
            await under_way.pop(0)
    for part in under_way:
        await part
    return time.monotonic() - began


async def alone(connection: Connection) -> None:
    """Submit now and then, as a publisher of its own in the flood's namespace."""
    for number in count():
        name = f"alone-{number}"
        connection.publish(f"sluice.main.job.default.{name}", submission(name, source="alone"))
        await asyncio.sleep(ALONE_EVERY_S)


async def answered(url: str, jobs: int) -> None:
    """Return when every job of the flood has its workload."""
    arrived = asyncio.Event()
    async with asyncio.timeout(MOST_S):
        log = await JetStreamLog(url, name="bench").open()
        tail = log.tail(1, ["slices"], arrived.set)
        try:
            while True:
                arrived.clear()
                for entry in tail.take():
                    jobs -= entry.payload.count(b'"key":"default/f-')
                if jobs <= 0:
                    return
                await arrived.wait()
        finally:
            await tail.close()
            await log.close()


def run(jobs: int = FLOOD) -> dict[str, object]:
    with fresh_cell() as system:
        published_s, used = uvloop.run(_play(system, jobs))
        entries = [entry for batch in BulkReader(system.url, "main") for entry in batch]
    return {
        "bench": "flood",
        "jobs": jobs,
        "published_s": round(published_s, 2),
        **figures(entries),
        "cpu_s": used,
    }


async def _play(system: System, jobs: int) -> tuple[float, dict[str, float]]:
    control = await nats.connect(system.url)
    await apply(control, objects())
    await control.close()
    logs = [await JetStreamLog(system.url, name=f"bench-{number}").open() for number in range(2)]
    others, flooding = [await log.connection() for log in logs]
    bucket = "sluice_main_dispatch"
    tail = JetStreamTail(
        system.url, "bench", f"KV_{bucket}", f"$KV.{bucket}.", 1, [">"], lambda: None, whole=False
    )
    team = Team(others, tail)
    for _ in range(2 * RUNNING):
        team.submit()
    tasks = [asyncio.create_task(team.run()), asyncio.create_task(alone(others))]
    try:
        await asyncio.sleep(QUIET_S)
        before = system.usage()
        published_s = await flood(flooding, jobs)
        await answered(system.url, jobs)
        used = {
            name: round(usage.cpu_s - before.get(name, Usage()).cpu_s, 2)
            for name, usage in sorted(system.usage().items())
        }
        return published_s, used
    finally:
        for task in tasks:
            task.cancel()
        await tail.close()
        for log in logs:
            await log.close()


def figures(entries: Sequence[Entry]) -> dict[str, object]:
    """Return how soon whom was answered, before the flood and while it was answered."""
    asked = {entry.seq: (who, entry.at) for entry in entries if (who := _asks(entry))}
    begin = min((at for who, at in asked.values() if who == "flood"), default=0)
    took: dict[str, list[tuple[int, int]]] = {}
    finishes, admissions, end = [], [], begin
    for entry in entries:
        if entry.suffix not in ("slices", "scheduler"):
            if entry.suffix.startswith("job.team.") and type_of(entry.payload) == "JobFinished":
                finishes.append(entry.at)
            continue
        for step in decode_commit(entry.payload, entry.suffix, entry.seq).steps:
            for event in step.events:
                if isinstance(event, Admitted) and event.workload.startswith("team/"):
                    admissions.append(entry.at)
                if entry.suffix == "slices" and (found := asked.pop(event.cause, None)):
                    who, at = found
                    took.setdefault(who, []).append((at, entry.at - at))
                    if who == "flood" and isinstance(event, WorkloadCreated):
                        end = entry.at
    # Each that finishes makes room for one: the first to be admitted found room at once.
    took["room"] = [(done, given - done) for done, given in zip(finishes, admissions[RUNNING:], strict=False)]
    rows: dict[str, object] = {"flood_s": round((end - begin) / 1e6, 2), "unanswered": len(asked)}
    for who, times in sorted(took.items()):
        rows[f"{who}_quiet_ms"] = _shares([t for at, t in times if at < begin])
        rows[f"{who}_ms"] = _shares([t for at, t in times if begin <= at <= end])
    return rows


def _asks(entry: Entry) -> str:
    """Return which party wants an answer to the entry; "" if it is none of a party."""
    if not entry.suffix.startswith("job."):
        return ""
    if entry.suffix.startswith("job.default."):
        return "flood" if entry.suffix.startswith("job.default.f-") else "alone"
    return "reports" if type_of(entry.payload) in REPORTS else "team"


def _shares(times: list[int]) -> dict[str, float]:
    ordered = sorted(t / 1000 for t in times)
    return {
        "count": len(ordered),
        "p50": round(percentile(ordered, 0.5), 1),
        "p99": round(percentile(ordered, 0.99), 1),
        "max": round(percentile(ordered, 1.0), 1),
    }


def key(found: dict[str, object]) -> str:
    """Return what counts: executors' reports, quota that comes free, other publishers, beside the flood."""
    parts = []
    for who in ("reports", "room", "team", "alone"):
        times = found.get(f"{who}_ms")
        if isinstance(times, dict):
            parts.append(f"{who} p50 {times['p50']} ms, p99 {times['p99']} ms")
    return f"flood {found['flood_s']} s; {'; '.join(parts)}"


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]) if len(sys.argv) > 1 else FLOOD)))
