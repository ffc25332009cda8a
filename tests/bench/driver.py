"""Upstream and executor of a scenario in one client: submits on schedule, finishes after the run time.

It follows the dispatch projection like any executor and answers the way one would: JobFinished when an
attempt has run its time, JobStopped at once when it is told to stop. A stopped job starts from nothing.
"""

import asyncio
import heapq
import sys
import time
from dataclasses import dataclass, field

import msgspec

from sluice.log.nats.connection import Connection
from sluice.log.nats.jetstream import JetStreamLog, JetStreamTail

from .scenario import JobClass, PlannedJob, Scenario, job_manifest, plan

TICK_S = 0.001
STALL_S = 30.0


class Dispatch(msgspec.Struct, rename="camel"):
    """The part of a dispatch entry that this executor reads."""

    job: str
    state: str
    attempt: int
    stop: bool = False


@dataclass(slots=True)
class Run:
    """What happened to one job."""

    planned: PlannedJob
    submitted_at: float = 0.0
    admitted_at: float = 0.0
    """First admission, as the executor learnt of it."""
    attempt: int = 0
    running_since: float = 0.0
    finished_at: float = 0.0
    stops: int = 0
    lost_s: float = 0.0
    """Run time lost to preemption."""


@dataclass
class Driver:
    """Plays one scenario on the server at *url*. Messages go out unacknowledged: a lost one shows as a job
    that never finishes."""

    url: str
    scenario: Scenario
    cell: str = "main"
    runs: dict[str, Run] = field(default_factory=dict)
    submitted: int = 0
    finished: int = 0
    started_at: float = 0.0
    ended_at: float = 0.0
    lag_max_s: float = 0.0
    """How late this client was at worst with a submission or a finish: its own share of the makespan."""

    def __post_init__(self) -> None:
        self._decoder = msgspec.json.Decoder(Dispatch)
        self._due: list[tuple[float, str, int]] = []
        self._done = asyncio.Event()
        self._failure: Exception | None = None
        self._prefix = f"sluice.{self.cell}.job.default."

    async def run(self, timeout_s: float) -> None:
        """Play the whole scenario; returns when every job has finished.

        Raises:
            TimeoutError: not all jobs finished in time; `finished` says how many did.
        """
        planned = plan(self.scenario)
        messages = [self._submission(job) for job in planned]
        for job in planned:
            self.runs[job.name] = Run(job)
        log = await JetStreamLog(self.url, self.cell, name="bench").open()
        connection = await log.connection()
        bucket = f"sluice_{self.cell}_dispatch"
        arrived = asyncio.Event()
        tail = JetStreamTail(
            self.url, "bench", f"KV_{bucket}", f"$KV.{bucket}.", 1, [">"], arrived.set, whole=False
        )
        self.started_at = time.monotonic()
        async with asyncio.timeout(timeout_s):
            submitter = asyncio.create_task(self._submit(connection, planned, messages))
            follower = asyncio.create_task(self._follow(connection, tail, arrived))
            finisher = asyncio.create_task(self._finish(connection))
            progress = asyncio.create_task(self._progress())
            try:
                await self._done.wait()
                if self._failure is not None:
                    raise self._failure
            finally:
                for task in (submitter, follower, finisher, progress):
                    task.cancel()
                await tail.close()
                await log.close()

    async def _progress(self) -> None:
        """Print how far it is, every 5 s; raises when nothing has finished for a long time."""
        last, since = -1, time.monotonic()
        while True:
            await asyncio.sleep(5)
            if self.finished != last:
                last, since = self.finished, time.monotonic()
            elif time.monotonic() - since > STALL_S:
                self._failure = TimeoutError(f"nothing has finished for {STALL_S:.0f} s")
                self._done.set()
                return
            print(
                f"#   {time.monotonic() - self.started_at:4.0f} s: {self.submitted} submitted, "
                f"{len(self._due)} running, {self.finished} finished",
                file=sys.stderr,
                flush=True,
            )

    def _submission(self, job: PlannedJob) -> bytes:
        return msgspec.json.encode(
            {
                "specversion": "1.0",
                "id": f"submit-{job.name}",
                "source": "bench",
                "type": "JobSubmitted",
                "subject": f"default/{job.name}",
                "time": "2026-01-01T00:00:00Z",
                "data": job_manifest(job),
            }
        )

    def _report(self, kind: str, name: str, attempt: int) -> bytes:
        return (
            f'{{"specversion":"1.0","id":"{kind}-{name}-{attempt}","source":"bench","type":"{kind}",'
            f'"subject":"default/{name}","time":"2026-01-01T00:00:00Z","data":{{"attempt":{attempt}}}}}'
        ).encode()

    async def _submit(self, connection: Connection, planned: list[PlannedJob], messages: list[bytes]) -> None:
        publish, runs, prefix = connection.publish, self.runs, self._prefix
        index = 0
        while index < len(planned):
            now = time.monotonic() - self.started_at
            sent = 0
            while index < len(planned) and planned[index].at_s <= now and sent < 500:
                job = planned[index]
                runs[job.name].submitted_at = time.monotonic()
                self.lag_max_s = max(self.lag_max_s, now - job.at_s)
                publish(prefix + job.name, messages[index])
                index += 1
                sent += 1
            self.submitted = index
            await asyncio.sleep(0 if sent == 500 else TICK_S)

    async def _follow(self, connection: Connection, tail: JetStreamTail, arrived: asyncio.Event) -> None:
        while True:
            arrived.clear()
            for entry in tail.take():
                if entry.payload:
                    self._heed(connection, self._decoder.decode(entry.payload))
            await arrived.wait()

    def _heed(self, connection: Connection, entry: Dispatch) -> None:
        name = entry.job.partition("/")[2]
        run = self.runs.get(name)
        if run is None or run.finished_at:
            return
        now = time.monotonic()
        if entry.state == "Running":
            if entry.attempt > run.attempt:
                run.attempt = entry.attempt
                run.running_since = now
                run.admitted_at = run.admitted_at or now
                heapq.heappush(self._due, (now + run.planned.job_class.runs_ms / 1000, name, entry.attempt))
        elif entry.stop:
            if run.running_since:
                run.stops += 1
                run.lost_s += now - run.running_since
                run.running_since = 0.0
            run.attempt = max(run.attempt, entry.attempt)
            connection.publish(self._prefix + name, self._report("JobStopped", name, entry.attempt))

    async def _finish(self, connection: Connection) -> None:
        due, runs = self._due, self.runs
        while True:
            now = time.monotonic()
            while due and due[0][0] <= now:
                at, name, attempt = heapq.heappop(due)
                run = runs[name]
                if run.attempt != attempt or not run.running_since:
                    continue
                self.lag_max_s = max(self.lag_max_s, now - at)
                run.finished_at = now
                self.finished += 1
                connection.publish(self._prefix + name, self._report("JobFinished", name, attempt))
            if self.finished == len(runs):
                self.ended_at = time.monotonic()
                self._done.set()
                return
            await asyncio.sleep(TICK_S)

    def waits_s(self, job_class: JobClass) -> list[float]:
        """Return the times from submission to first admission of a class, sorted."""
        return sorted(
            run.admitted_at - run.submitted_at
            for run in self.runs.values()
            if run.planned.job_class is job_class and run.admitted_at
        )

    def quota_use(self) -> float:
        """Return cpu-seconds of useful work over what the nominal quota offered during the makespan."""
        work = sum(r.planned.job_class.cpu * r.planned.job_class.runs_ms / 1000 for r in self.runs.values())
        queues = self.scenario.cohorts * self.scenario.queues_per_cohort
        return work / (queues * self.scenario.nominal_cpu * (self.ended_at - self.started_at))
