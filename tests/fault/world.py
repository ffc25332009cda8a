"""Upstream and executor that survive everything: what they say is said until the log has it."""

import asyncio
import random
import time
from dataclasses import dataclass, field
from pathlib import Path

from sluice.events.dispatch import DispatchEntry
from sluice.events.job import JobDeleted, JobEvent, JobFinished, JobPodsReady, JobStopped
from sluice.sdk import AsyncClient, NotPublishedError

from .configuration import CLASSES, REAL, SIMULATED, Manifest

SCRIPT = """\
cd "$0"
exec 9>>lock
flock -n 9 || echo "$SLUICE_ATTEMPT" >> double
echo "$SLUICE_ATTEMPT" >> started
sleep "$1"
echo "$SLUICE_ATTEMPT" >> ended
"""
"""What a real job does. The lock is held as long as any process of its pod lives."""


LONG, LONG_S = 0.05, 12.0
"""Share of real jobs that run for long: longer than it takes to notice that their agent has gone."""


@dataclass(slots=True)
class Job:
    """A job and how far its execution has come, as far as this client runs it."""

    name: str
    queue: str
    priority_class: str
    cpu: int
    runs_s: float
    real: bool = False
    submitted: int = 0
    """How many submissions the log has."""
    deleted: int = 0
    """How many deletions the log has."""
    uid: str = ""
    """Of the incarnation that was dispatched last."""
    attempt: int = 0
    """The newest attempt that was dispatched, or told to stop."""
    since: float = 0.0
    """When it began to run; 0 when it does not."""
    stopped: int = 0
    """The newest attempt that was told to stop."""

    def manifest(self, evidence: Path) -> Manifest:
        container: Manifest = {"name": "main", "resources": {"requests": {"cpu": str(self.cpu)}}}
        if self.real:
            container["command"] = ["sh", "-c", SCRIPT, str(evidence / self.name), f"{self.runs_s:.2f}"]
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": self.name,
                "namespace": "default",
                "labels": {
                    "kueue.x-k8s.io/queue-name": self.queue,
                    "kueue.x-k8s.io/priority-class": self.priority_class,
                },
            },
            "spec": {
                "parallelism": 1,
                "completions": 1,
                "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
            },
        }


@dataclass
class World:
    """All jobs of the run. Submits, deletes and executes them; real ones are executed by agents.

    *evidence*: directory where real jobs leave a trace of their runs.
    """

    client: AsyncClient
    random: random.Random
    evidence: Path
    real_jobs: bool = True
    jobs: dict[str, Job] = field(default_factory=dict)
    running: dict[str, Job] = field(default_factory=dict)
    """Jobs that this client executes now."""
    wrong: list[str] = field(default_factory=list)
    """What an executor must never be told."""
    _says: set[asyncio.Task[None]] = field(default_factory=set)

    # upstream

    async def submit_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self.random.uniform(0.02, 0.12))
            real = self.real_jobs and self.random.random() < 0.1
            job = Job(
                name=f"{'real' if real else 'job'}-{len(self.jobs)}",
                queue=REAL if real else self.random.choice(SIMULATED),
                priority_class=self.random.choice(sorted(CLASSES)),
                cpu=1 if real else self.random.choice([1, 1, 2, 4, 8]),
                runs_s=self.random.uniform(0.1, 1.5) if not real or self.random.random() > LONG else LONG_S,
                real=real,
            )
            self.jobs[job.name] = job
            self._in_background(self._career(job, self.random.random(), self.random.uniform(0.0, 3.0)))

    async def _career(self, job: Job, fate: float, after_s: float) -> None:
        """Submit a job; every tenth is deleted some time later, and half of those submitted again."""
        if job.real:
            (self.evidence / job.name).mkdir()
        await self._submit(job)
        if fate > 0.1:
            return
        await asyncio.sleep(after_s)
        await self._say(job, JobDeleted(), "delete")
        job.deleted += 1
        if fate < 0.05:
            await self._submit(job)

    async def _submit(self, job: Job) -> None:
        while True:
            try:
                await self.client.submit(
                    job.manifest(self.evidence), message_id=f"{job.name}-submit-{job.submitted}"
                )
                job.submitted += 1
                return
            except NotPublishedError:
                continue

    async def _say(self, job: Job, event: JobEvent, tag: str) -> None:
        while True:
            try:
                await self.client.publish(job.name, event, message_id=f"{job.name}-{tag}")
                return
            except NotPublishedError:
                continue

    def _in_background(self, work: object) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)  # type: ignore[arg-type]
        self._says.add(task)
        task.add_done_callback(self._says.discard)

    async def said(self) -> None:
        """Wait until the log has everything that was to be said."""
        while self._says:
            await asyncio.wait(set(self._says))

    # executor

    async def execute(self) -> None:
        """Do what dispatch says, for ever."""
        async for change in self.client.dispatch():
            job = self.jobs.get(change.job.partition("/")[2])
            if job is not None and not job.real:
                self._heed(job, change.entry)

    def _heed(self, job: Job, entry: DispatchEntry | None) -> None:
        if entry is None:
            if job.since:
                self.wrong.append(f"{job.name}: nothing to run any more while attempt {job.attempt} runs")
                self._end(job)
            return
        if entry.uid != job.uid:
            if job.since:
                self.wrong.append(f"{job.name}: {entry.uid} while attempt {job.attempt} of {job.uid} runs")
            job.uid, job.attempt, job.stopped, job.since = entry.uid, 0, 0, 0.0
        if entry.state == "Running":
            self._start(job, entry.attempt)
        elif entry.stop and entry.attempt > job.stopped:
            self._end(job)
            job.attempt = job.stopped = entry.attempt
            self._report(job, JobStopped(attempt=entry.attempt, uid=job.uid), "stopped")

    def _start(self, job: Job, attempt: int) -> None:
        if attempt <= job.attempt:
            return
        if job.since:
            self.wrong.append(f"{job.name}: attempt {attempt} while {job.attempt} still runs")
        job.attempt, job.since = attempt, time.monotonic()
        self.running[job.name] = job
        self._report(job, JobPodsReady(attempt=attempt, uid=job.uid), "ready")

    def _end(self, job: Job) -> None:
        job.since = 0.0
        self.running.pop(job.name, None)

    def _report(self, job: Job, event: JobEvent, what: str) -> None:
        self._in_background(self._say(job, event, f"{job.uid}-{job.attempt}-{what}"))

    async def finish_for_ever(self) -> None:
        """End jobs that have run their time."""
        while True:
            await asyncio.sleep(0.02)
            now = time.monotonic()
            for job in list(self.running.values()):
                if now - job.since >= job.runs_s:
                    self._end(job)
                    self._report(job, JobFinished(attempt=job.attempt, uid=job.uid), "finished")

    # what real jobs left behind

    def traces(self, finished: set[str]) -> list[str]:
        """Return what real jobs that *finished*, or others, should not have done."""
        wrong = []
        for job in self.jobs.values():
            if not job.real:
                continue
            found = {path.name for path in (self.evidence / job.name).iterdir()}
            if "double" in found:
                wrong.append(f"{job.name}: two attempts ran at once")
            if job.name in finished and "ended" not in found:
                wrong.append(f"{job.name}: finished without having run to its end")
        return wrong
