"""How fast the log is: `python -m tests.bench.log_rates [messages]`. Prints one JSON line per measurement.

CPU microseconds are this process's own; wall rates depend on what else the machine does.
"""

import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import ClassVar

import msgspec
import structlog
import uvloop

from sluice.events.base import PodSetAssignment, WorkloadKey
from sluice.events.codec import encode_commit
from sluice.events.commit import Step
from sluice.events.scheduler import Admitted, QuotaReserved
from sluice.local.server import EmbeddedServer
from sluice.log.fold import Fold
from sluice.log.nats.blocking import BulkReader
from sluice.log.nats.jetstream import JetStreamLog
from sluice.log.nats.protocol import publish_frame
from sluice.log.runtime.runner import Runner
from sluice.log.writer import CommitWriter
from tests.integration.log.bank import Bank, order

COMMITS, HOPS = 2000, 300
BODY = b'{"name":"o%d","amount":1,"pad":"' + b"x" * 400 + b'"}'


class Count:
    """A decider that only counts: what is left is the cost of reading and decoding."""

    writer: ClassVar[str] = "scheduler"
    reads: ClassVar[frozenset[str]] = frozenset({"job.>", "slices"})
    state_version: ClassVar[int] = 1

    def initial(self) -> list[int]:
        return [0]

    def decide(self, state, at):  # noqa: ARG002
        return ()

    def deadline(self, state):  # noqa: ARG002
        return None

    def dump(self, state):
        return msgspec.json.encode(state)

    def load(self, data):
        return msgspec.json.decode(data)

    def apply(self, state, event, seq, at):  # noqa: ARG002
        state[0] += 1


class Meter:
    """Wall and CPU time of a block, per item."""

    def __init__(self, name, count):
        self.name, self.count = name, count

    def __enter__(self):
        self.wall, self.cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_):
        wall, cpu = time.perf_counter() - self.wall, time.process_time() - self.cpu
        report(
            self.name,
            n=self.count,
            per_s=round(self.count / wall),
            cpu_us=round(cpu / self.count * 1e6, 2),
        )


def report(bench, **figures):
    print(json.dumps({"bench": bench, **figures}), flush=True)


async def fill(log, count):
    """Store *count* job messages, acknowledgements of every 500th awaited."""
    connection = await log.connection()
    with Meter("raw_publish", count):
        for begin in range(0, count, 500):
            reply, future = connection.expect("x")
            frames = []
            for n in range(begin, begin + 500):
                last = n == begin + 499
                frames.append(
                    publish_frame(
                        f"sluice.main.job.ns{n % 10}.o{n}",
                        BODY % n,
                        reply if last else "",
                        {"Nats-Msg-Id": f"m{n}"},
                    )
                )
            connection.write(b"".join(frames))
            await connection.answer(reply, future, 30)


async def live_read(log, count):
    done = asyncio.Event()
    seen = 0

    def collect():
        nonlocal seen
        seen += len(tail.take())
        if seen >= count:
            done.set()

    with Meter("live_read", count):
        tail = log.tail(1, ["job.>"], collect)
        await done.wait()
    await tail.close()


def bulk_read(url, count):
    with Meter("bulk_read", count):
        seen = sum(len(batch) for batch in BulkReader(url, "main", filters=["job.>"]))
    assert seen == count
    fold: Fold[list[int]] = Fold(Count())
    with Meter("bulk_read_and_fold_messages", count):
        for batch in BulkReader(url, "main", filters=["job.>"]):
            for entry in batch:
                fold.fold(entry)


async def fold_commits(log, url, events):
    """A log of commits of 100 events each, folded by another decider."""
    size = 100
    for n in range(events // size):
        made = tuple(
            Admitted(cause=n, workload=WorkloadKey(f"team/w-{n}-{i}"))
            if i % 2
            else QuotaReserved(
                cause=n,
                workload=WorkloadKey(f"team/w-{n}-{i}"),
                cluster_queue="q",
                pod_sets=[PodSetAssignment(name="main", count=1, flavors={"cpu": "x"}, usage={"cpu": 1})],
            )
            for i in range(size)
        )
        payload = encode_commit("main", "slices", f"s{n}", [Step(upto=n, at=n + 1, events=made)])
        await log.append("slices", payload)
    fold: Fold[list[int]] = Fold(Count())
    with Meter("bulk_read_and_fold_commit_events", events):
        for batch in BulkReader(url, "main", filters=["slices"]):
            for entry in batch:
                fold.fold(entry)
    assert fold.state[0] == events


async def commit_latency(log):
    count, key = COMMITS, WorkloadKey("a/w")
    writer = CommitWriter(log, "checks")
    seen = []
    with Meter("commit", count):
        for n in range(count):
            await writer.write(
                [Step(upto=n, at=n + 1, events=(Admitted(cause=n, workload=key),))],
                seen.append,
            )
    times = sorted(w.seconds * 1000 for w in seen)
    report("commit_ms", p50=round(statistics.median(times), 3), p99=round(times[int(count * 0.99)], 3))


async def hop_latency(url):
    """From publishing an order to its decision being pushed to a reader, when idle."""
    service = JetStreamLog(url, "hop")
    await service.open()
    runner = Runner(Bank(), service)
    task = asyncio.create_task(runner.run())
    upstream = await JetStreamLog(url, "hop").open()
    arrived = asyncio.Event()
    tail = upstream.tail(1, ["scheduler"], arrived.set)
    times = []
    while runner.role != "leader":  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    for n in range(HOPS):
        await asyncio.sleep(0.003)
        arrived.clear()
        started = time.perf_counter()
        asyncio.create_task(upstream.append("job.a.b", order(f"o{n}")))  # noqa: RUF006
        while not tail.take():
            arrived.clear()
            await arrived.wait()
        times.append((time.perf_counter() - started) * 1000)
    times.sort()
    report("idle_hop_ms", p50=round(statistics.median(times), 3), p99=round(times[int(HOPS * 0.99)], 3))
    runner.stop()
    await task
    await tail.close()
    await service.close()
    await upstream.close()


def run(messages=100_000):
    with tempfile.TemporaryDirectory() as directory, EmbeddedServer(Path(directory)) as server:
        uvloop.run(_run(server.url, messages))


async def _run(url, count):
    log = await JetStreamLog(url).open()
    await fill(log, count)
    await live_read(log, count)
    bulk_read(url, count)
    await fold_commits(log, url, count)
    await commit_latency(log)
    await hop_latency(url)
    await log.close()


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    run(*map(int, sys.argv[1:]))
