"""Upstream and executor that survive everything: what they say is said until the log has it.

The executor is level-triggered: it reads the whole dispatch bucket again and again, so that no lost
notification matters.
"""

import asyncio
import time
from dataclasses import dataclass, field

import msgspec
import nats
from nats.aio.client import Client

from sluice.events.dispatch import DispatchEntry
from sluice.log.subjects import job_suffix


@dataclass(slots=True)
class Job:
    name: str
    queue: str
    priority_class: str
    cpu: int
    runs_s: float
    attempt: int = 0
    since: float = 0.0
    finished: bool = False
    stopped_attempt: int = 0
    starts: list[int] = field(default_factory=list)


def manifest(job: Job) -> dict[str, object]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job.name,
            "namespace": "default",
            "labels": {
                "kueue.x-k8s.io/queue-name": job.queue,
                "kueue.x-k8s.io/priority-class": job.priority_class,
            },
        },
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [
                        {"name": "main", "resources": {"requests": {"cpu": str(job.cpu)}}},
                    ],
                }
            },
        },
    }


class World:
    """All jobs of the run, and the client that submits and executes them."""

    def __init__(self, client: Client, cell: str = "main") -> None:
        self.client, self.cell = client, cell
        self.jobs: dict[str, Job] = {}
        self.wrong: list[str] = []
        """What an executor must never be told."""
        self._says: set[asyncio.Task[None]] = set()

    def submit(self, job: Job) -> None:
        self.jobs[job.name] = job
        self._say(job, "JobSubmitted", manifest(job), "submit")

    def _say(self, job: Job, kind: str, data: object, tag: str) -> None:
        task = asyncio.create_task(self._publish(job, kind, data, f"{job.name}-{tag}"))
        self._says.add(task)
        task.add_done_callback(self._says.discard)

    async def _publish(self, job: Job, kind: str, data: object, message_id: str) -> None:
        payload = msgspec.json.encode(
            {
                "specversion": "1.0",
                "id": message_id,
                "source": "fault-client",
                "type": kind,
                "subject": f"default/{job.name}",
                "time": "2026-01-01T00:00:00Z",
                "data": data,
            }
        )
        subject = f"sluice.{self.cell}.{job_suffix('default', job.name)}"
        while True:
            try:
                await self.client.jetstream().publish(
                    subject, payload, timeout=2, headers={"Nats-Msg-Id": message_id}
                )
                return
            except (nats.errors.Error, OSError, TimeoutError):
                await asyncio.sleep(0.2)

    async def execute(self) -> None:
        """Follow the dispatch bucket for ever."""
        while True:
            try:
                for entry in await self._dispatch():
                    self._heed(entry)
            except (nats.errors.Error, nats.js.errors.Error, OSError, TimeoutError):
                await asyncio.sleep(0.1)
            self._finish_due()
            await asyncio.sleep(0.05)

    async def _dispatch(self) -> list[DispatchEntry]:
        bucket = await self.client.jetstream().key_value(f"sluice_{self.cell}_dispatch")
        watcher = await bucket.watchall(ignore_deletes=True)
        entries = []
        try:
            async with asyncio.timeout(3):
                while True:
                    update = await watcher.updates(timeout=3)
                    if update is None:
                        return entries
                    if update.value:
                        entries.append(msgspec.json.decode(update.value, type=DispatchEntry))
        finally:
            await watcher.stop()

    def _heed(self, entry: DispatchEntry) -> None:
        job = self.jobs.get(entry.job.partition("/")[2])
        if job is None:
            return
        if entry.state == "Running":
            if job.finished or entry.attempt <= job.attempt:
                return
            if job.since:
                self.wrong.append(f"{job.name}: attempt {entry.attempt} while {job.attempt} still runs")
            job.attempt, job.since = entry.attempt, time.monotonic()
            job.starts.append(entry.attempt)
            self._say(job, "JobPodsReady", {"attempt": entry.attempt}, f"ready-{entry.attempt}")
        elif entry.stop and entry.attempt > job.stopped_attempt and not job.finished:
            job.stopped_attempt = entry.attempt
            job.attempt, job.since = max(job.attempt, entry.attempt), 0.0
            self._say(job, "JobStopped", {"attempt": entry.attempt}, f"stopped-{entry.attempt}")

    def _finish_due(self) -> None:
        now = time.monotonic()
        for job in self.jobs.values():
            if job.since and not job.finished and now - job.since >= job.runs_s:
                job.finished, job.since = True, 0.0
                self._say(job, "JobFinished", {"attempt": job.attempt}, f"finished-{job.attempt}")

    def open(self) -> list[str]:
        """Return the jobs that have not finished."""
        return [job.name for job in self.jobs.values() if not job.finished]

    async def said(self) -> None:
        """Wait until the log has everything that was said."""
        while self._says:
            await asyncio.wait(set(self._says))
