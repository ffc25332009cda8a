"""A cell on three servers, whose executors are behind proxies; what they run is written down here."""

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sluice.events.codec import encode_commit
from sluice.events.commit import Step
from sluice.log.errors import EventLogError
from sluice.sdk import AsyncClient, Executor, ExecutorSettings, Outcome, SdkError, Work
from tests.support.nats_cluster import SERVERS, Cluster
from tests.support.objects import applied, job_manifest, kueue_object, local_queue, resource_group
from tests.support.system import System
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import eventually

RUNS = "runs"
"""Annotation: the seconds that a job runs."""
ENV = {
    "SLUICE_REPLICAS": str(SERVERS),
    "SLUICE_SNAPSHOT_EVENTS": "200",
    "SLUICE_SNAPSHOT_S": "5",
    "API_SNAPSHOT_ENTRIES": "200",
}
SERVICES = ("slice_aggregator", "scheduler", "variant_controller", "admission_check")
AFTER_S = 8.0
FORGOTTEN_S = 60.0
"""So long after an older log was put back its executors have ended what it does not know."""

EXECUTORS = {
    "plain-1": ExecutorSettings(flavors=("plain",)),
    "plain-2": ExecutorSettings(flavors=("plain",)),
    "leased-1": ExecutorSettings(flavors=("leased",), lease=True, requeue_after_s=AFTER_S),
    "leased-2": ExecutorSettings(flavors=("leased",), lease=True, requeue_after_s=AFTER_S),
    "waits": ExecutorSettings(flavors=("waits",), on_loss="Wait"),
}
QUEUES = ("plain", "leased", "waits")
UNAVAILABLE = (EventLogError, ConnectionError, TimeoutError, SdkError)


class StoreSystem(System):
    """Services at three servers instead of one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cluster = Cluster(self.directory / "servers")
        self.clock = self.directory / "clock"
        self.clock.write_text("0")

    def __enter__(self) -> "StoreSystem":
        self.cluster.start()
        return self

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        try:
            super().__exit__(kind)
        finally:
            self.cluster.kill()

    @property
    def url(self) -> str:
        return ",".join(self.cluster.urls)

    def begin(self, replicas: int) -> None:
        """Start the services, so many of each that decides, and one api."""
        self.env |= ENV | {"FAULT_CLOCK": str(self.clock)}
        for name in SERVICES * replicas:
            skewed = ("-m", "tests.fault.store.skewed") if name == "scheduler" else ()
            self.start(name, command=skewed)
        self.start("api")


@dataclass(slots=True)
class Run:
    """One attempt, as its executor has run it; *end* None: it runs."""

    job: str
    uid: str
    attempt: int
    executor: str
    begin: float
    end: float | None = None


@dataclass
class Worker:
    """One executor, and the proxies through which it sees the three servers."""

    name: str
    proxies: list[TcpProxy]
    runs: list[Run]
    executor: Executor = field(init=False)
    task: asyncio.Task[None] = field(init=False)

    async def work(self, work: Work) -> Outcome:
        entry = work.entry
        run = Run(entry.job.partition("/")[2], entry.uid, entry.attempt, self.name, time.monotonic())
        self.runs.append(run)
        try:
            manifest = msgspec.json.decode(await work.manifest())
            await work.ready()
            await asyncio.sleep(float(manifest["metadata"]["annotations"][RUNS]))
        finally:
            run.end = time.monotonic()
        return Outcome()

    def each(self, what: str) -> None:
        for proxy in self.proxies:
            getattr(proxy, what)()


class StoreCell:
    """Everything that runs: `submit` jobs, see `runs`, damage `workers` and `system`."""

    def __init__(self, system: StoreSystem, seed: int) -> None:
        self.system, self.random = system, random.Random(seed)
        self.client = AsyncClient(system.url, source="fault-client")
        self.runs: list[Run] = []
        self.workers: dict[str, Worker] = {}
        self.submitted = 0
        self.restored: list[float] = []
        """When an older log was put back."""
        self._numbers = itertools.count()

    async def set_up(self) -> None:
        flavors = [kueue_object("ResourceFlavor", name) for name in QUEUES]
        queues: list[Any] = []
        for name in QUEUES:
            spec = {"namespaceSelector": {}, "resourceGroups": [resource_group({name: 40})]}
            queues += [kueue_object("ClusterQueue", name, spec), local_queue(name, name)]
        events = tuple(map(applied, [*flavors, *queues]))
        step = encode_commit("main", "config", "test", [Step(upto=0, at=1, events=events)])
        log = await self.system.cluster.log("main")
        await log.append("config", step)
        await log.close()

    @contextlib.asynccontextmanager
    async def executors(self) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for name, settings in EXECUTORS.items():
                ports = self.system.cluster.ports
                proxies = [TcpProxy(lambda port=port: port) for port in ports]
                for proxy in proxies:
                    await stack.enter_async_context(proxy)
                client = AsyncClient(",".join(proxy.url for proxy in proxies), source=name)
                worker = self.workers[name] = Worker(name, proxies, self.runs)
                worker.executor = Executor(client, name, worker.work, settings)
                worker.task = asyncio.create_task(worker.executor.serve())
            try:
                yield
            finally:
                for worker in self.workers.values():
                    worker.each("heal")
                    worker.executor.stop()
                tasks = [worker.task for worker in self.workers.values()]
                await asyncio.wait(tasks, timeout=20)
                for worker in self.workers.values():
                    worker.task.cancel()
                    with contextlib.suppress(asyncio.CancelledError, *UNAVAILABLE):
                        await worker.task
                    await worker.executor.client.close()

    def heal(self) -> None:
        """Let everybody be connected again."""
        for worker in self.workers.values():
            worker.each("heal")

    async def submit(self, queue: str, seconds: float, **labels: str) -> str:
        """Submit a job until the log has it; return its name."""
        name = f"j{next(self._numbers)}"
        manifest = job_manifest(name, queue=queue)
        manifest["metadata"]["annotations"] = {RUNS: f"{seconds:.2f}"}
        manifest["metadata"]["labels"] |= labels
        while True:
            with contextlib.suppress(*UNAVAILABLE):
                await self.client.submit(manifest, message_id=f"submit-{name}")
                self.submitted += 1
                return name
            await asyncio.sleep(0.1)

    async def flow(self, pause_s: float) -> None:
        """Submit small jobs for ever."""
        while True:
            await self.submit(self.random.choice(QUEUES), self.random.uniform(0.1, 2.0))
            await asyncio.sleep(self.random.uniform(0, 2 * pause_s))

    def of(self, job: str) -> list[Run]:
        return [run for run in self.runs if run.job == job]

    async def begun(self, job: str, attempts: int = 1) -> Run:
        """Wait until so many attempts have begun; return the last."""
        await eventually(lambda: len(self.of(job)) >= attempts)
        return self.of(job)[attempts - 1]

    def overlapping(self) -> tuple[list[str], list[str]]:
        """Return runs of one job that were there at the same time, and attempts that were begun twice; apart
        from these, those of which one had begun before an older log was put back, which need not know it."""
        found: list[str] = []
        apart: list[str] = []
        runs = sorted(self.runs, key=lambda run: run.begin)
        for index, run in enumerate(runs):
            for other in runs[:index]:
                if (other.job, other.uid) != (run.job, run.uid):
                    continue
                put = apart if self._is_forgotten(other, run) else found
                if other.end is None or other.end > run.begin:
                    put.append(
                        f"{run.job}: {other.executor} {other.attempt} and {run.executor} {run.attempt}"
                    )
                elif other.attempt == run.attempt:
                    put.append(f"{run.job}: attempt {run.attempt} begun twice")
        return found, apart

    def _is_forgotten(self, before: Run, after: Run) -> bool:
        """Was an older log put back between the two, and was the former run ended soon after that?"""
        ended = time.monotonic() if before.end is None else before.end
        return any(before.begin < at <= after.begin and ended < at + FORGOTTEN_S for at in self.restored)
