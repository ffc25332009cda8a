"""What is done to the cell, and when it is well again: each fault returns the seconds that this took."""

import asyncio
import contextlib
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from sluice.log.nats import jetstream_api as api
from sluice.log.nats.kv import Bucket
from sluice.protocol.dispatch import claim_key, dispatch_key, key_token
from tests.support.nats_cluster import SERVERS
from tests.support.waiting import eventually

from .cell import AFTER_S, UNAVAILABLE, Run, StoreCell
from .comparing import divergent, whole_log

RUBBISH = b'\xff{"'
BUCKETS = ("dispatch", "claims", "checks", "leases", "heartbeats")
LONG_S = 60.0
PROBE_S = 0.2


async def tried[T](question: Callable[[], Awaitable[T]]) -> T | None:
    """Return the answer, None while nobody answers."""
    with contextlib.suppress(*UNAVAILABLE):
        return await question()
    return None


class Faults:
    """Each method is a fault; its docstring says when it has healed."""

    def __init__(self, cell: StoreCell) -> None:
        self.cell = cell
        self._backup: Path | None = None

    async def probe(self) -> None:
        """Wait until jobs that are submitted now, one to each kind of executor, have finished."""
        cell = self.cell
        jobs = [await cell.submit(queue, PROBE_S) for queue in ("plain", "leased", "waits")]
        for job in jobs:
            await cell.begun(job)
            await eventually(lambda job=job: tried(lambda: cell.client.wait(job, timeout_s=2.0)))

    async def _bucket_back(self, stream: str, made: str) -> None:
        async def back() -> bool:
            connection = await self.cell.client.log.connection()
            try:
                return bool((await api.info(connection, stream)).get("created", "") != made)
            except UNAVAILABLE:
                return False

        await eventually(lambda: tried(back))

    # buckets

    async def lose(self, what: str) -> float:
        """the bucket is there again, a job of each kind has run"""
        connection = await self.cell.client.log.connection()
        bucket = self.cell.client.log.cell.bucket(what)
        stream = f"OBJ_{bucket}" if what == "snapshots" else f"KV_{bucket}"
        made = (await api.info(connection, stream)).get("created", "")
        began = time.monotonic()
        await connection.ask(f"$JS.API.STREAM.DELETE.{stream}")
        await self.probe()
        await self._bucket_back(stream, made)
        return time.monotonic() - began

    async def spoil(self, what: str) -> float:
        """the value is what it should be, a job of each kind has run"""
        cell = self.cell
        job = await cell.submit("plain", LONG_S)
        run = await cell.begun(job)
        key = self._key(what, run)
        bucket = Bucket(cell.client.log, what, memory=what in ("leases", "heartbeats"))
        connection = await cell.client.log.connection()
        began = time.monotonic()
        await connection.request(f"$KV.{cell.client.log.cell.bucket(what)}.{key}", RUBBISH)

        async def mended() -> bool:
            found = await bucket.get(key)
            return found is None or found.value != RUBBISH

        await self.probe()
        await eventually(lambda: tried(mended))
        took = time.monotonic() - began
        await cell.client.delete(job)
        return took

    def _key(self, what: str, run: Run) -> str:
        job = f"default/{run.job}"
        return {
            "dispatch": dispatch_key(job),  # type: ignore[arg-type]
            "claims": claim_key(job, run.uid, run.attempt),  # type: ignore[arg-type]
            "checks": "default.nothing.none",
            "leases": "scheduler",
            "heartbeats": f"agent.{key_token(run.executor)}",
        }[what]

    # servers

    async def _leader(self) -> int:
        async def found() -> str:
            log = self.cell.client.log
            return str((await api.info(await log.connection(), log.cell.stream))["cluster"].get("leader", ""))

        name = await eventually(lambda: tried(found))
        return int(name[1:])

    async def kill_server(self, whose: str) -> float:
        """a job of each kind has run; then it is started again"""
        leads = await self._leader()
        number = leads if whose == "leader" else (leads + 1) % SERVERS
        self.cell.system.cluster.kill_one(number)
        began = time.monotonic()
        try:
            await self.probe()
            took = time.monotonic() - began
        finally:
            self.cell.system.cluster.start_one(number)
        await self._current(time.monotonic())
        return took

    async def pause_server(self) -> float:
        """a job of each kind has run, though connections to it stay open; then it goes on"""
        cluster, number = self.cell.system.cluster, (await self._leader() + 1) % SERVERS
        cluster.pause_one(number)
        began = time.monotonic()
        try:
            await self.probe()
            took = time.monotonic() - began
        finally:
            cluster.resume_one(number)
        await self._current(time.monotonic())
        return took

    async def _current(self, since: float) -> None:
        """Wait until all servers have all of every stream, and have said so after *since*.

        Leases and heartbeats are in memory: a server that was started again has no copy at first. With
        the next server gone by then, two of three copies would be lost, and nobody may write those buckets
        before all servers are back.
        """

        async def current() -> bool:
            connection = await self.cell.client.log.connection()
            streams = api.checked(await connection.ask("$JS.API.STREAM.NAMES"), "streams")["streams"]
            asked = time.monotonic()
            found = [(await api.info(connection, name))["cluster"].get("replicas", []) for name in streams]
            return all(
                len(others) == SERVERS - 1
                and all(
                    other["current"] and not other.get("lag") and other["active"] < (asked - since) * 1e9
                    for other in others
                )
                for others in found
            )

        await eventually(lambda: tried(current))

    async def restart_servers(self) -> float:
        """a job of each kind has run"""
        cluster = self.cell.system.cluster
        await asyncio.to_thread(cluster.stop)
        if self._backup is None:
            self._back_up()
        began = time.monotonic()
        for number in range(SERVERS):
            cluster.start_one(number)
        await self.probe()
        took = time.monotonic() - began
        await self._current(began)
        return took

    def _back_up(self) -> Path:
        """Copy what the servers, which are stopped, have stored."""
        self._backup = self.cell.system.directory / "backup"
        for number in range(SERVERS):
            shutil.copytree(self.cell.system.cluster.store(number), self._backup / str(number))
        return self._backup

    async def restore(self) -> float:
        """a job of each kind has run, and what is not in that log runs no more"""
        cell, cluster = self.cell, self.cell.system.cluster
        if self._backup is None:
            await self.restart_servers()
        backup = self._backup
        assert backup is not None
        gone = await cell.submit("plain", LONG_S)
        run = await cell.begun(gone)
        await asyncio.to_thread(cluster.stop)
        for number in range(SERVERS):
            shutil.rmtree(cluster.store(number))
            shutil.copytree(backup / str(number), cluster.store(number))
        began = time.monotonic()
        cell.restored.append(began)
        for number in range(SERVERS):
            cluster.start_one(number)
        entries = await eventually(lambda: tried(lambda: whole_log(cell.client)))
        wrong = await asyncio.to_thread(divergent, entries, settled=False)
        assert not wrong, f"the log that was put back: {wrong[0]}"
        await self.probe()
        await eventually(lambda: run.end is not None)
        took = time.monotonic() - began
        await self._current(began)
        return took

    # executors

    async def partition(self, how: str) -> float:
        """its job runs elsewhere, having been ended here before"""
        cell = self.cell
        job = await cell.submit("leased", LONG_S)
        first = await cell.begun(job)
        worker = cell.workers[first.executor]
        began = time.monotonic()
        worker.each(how)
        second = await cell.begun(job, 2)
        took = time.monotonic() - began
        assert first.end is not None, "it has ended"
        assert first.end - began < AFTER_S
        assert second.executor != first.executor
        worker.each("heal")
        await cell.client.delete(job)
        await self.probe()
        return took

    async def partition_waiting(self) -> float:
        """back after 14 s, its job has finished where it was, in its first attempt"""
        cell = self.cell
        job = await cell.submit("waits", 8.0)
        await cell.begun(job)
        worker = cell.workers["waits"]
        worker.each("cut")
        await asyncio.sleep(14.0)
        began = time.monotonic()
        worker.each("heal")
        await eventually(lambda: tried(lambda: cell.client.wait(job, timeout_s=2.0)))
        took = time.monotonic() - began
        assert [run.attempt for run in cell.of(job)] == [1]
        return took

    async def hold_shortly(self) -> float:
        """no job was lost of who was held for 3 s"""
        cell = self.cell
        job = await cell.submit("plain", 6.0)
        worker = cell.workers[(await cell.begun(job)).executor]
        worker.each("hold")
        await asyncio.sleep(3.0)
        began = time.monotonic()
        worker.each("heal")
        await eventually(lambda: tried(lambda: cell.client.wait(job, timeout_s=2.0)))
        assert [run.attempt for run in cell.of(job)] == [1]
        return max(0.0, time.monotonic() - began - 3.0)

    async def delay(self) -> float:
        """jobs run through a connection that is 0.5 s late each way"""
        workers = [self.cell.workers[name] for name in ("plain-1", "leased-1", "waits")]
        for worker in workers:
            for proxy in worker.proxies:
                proxy.delay_s = 0.5
        began = time.monotonic()
        await self.probe()
        took = time.monotonic() - began
        await asyncio.sleep(3.0)
        for worker in workers:
            worker.each("heal")
        return took

    # clocks

    async def clock(self) -> float:
        """a deadline of 1 s is kept, after the schedulers' clocks were two hours ahead for two seconds"""
        cell = self.cell
        cell.system.clock.write_text("7200")
        await asyncio.sleep(2.0)
        cell.system.clock.write_text("0")
        began = time.monotonic()
        job = await cell.submit("plain", LONG_S, **{"kueue.x-k8s.io/max-exec-time-seconds": "1"})
        run = await cell.begun(job)
        await eventually(lambda: run.end is not None)
        took = time.monotonic() - began - 1.0
        await cell.client.delete(job)
        return took


__all__ = ["BUCKETS", "Faults"]
