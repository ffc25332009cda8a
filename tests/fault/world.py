"""Upstream and executor that survive everything: what they say is said until the log has it."""

import asyncio
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sluice.events.base import WorkloadKey
from sluice.events.job import JobDeleted, JobEvent, JobFinished, JobPodsReady, JobScaled, JobStopped
from sluice.log.errors import StaleSequenceError
from sluice.protocol.dispatch import DispatchEntry
from sluice.sdk import AsyncClient, NotPublishedError
from sluice.sdk._questions import Questions
from sluice.sdk._work import Unavailable
from sluice.sdk.execution._ownership import born, owner_of
from sluice.sdk.execution.actions import JobRead, ReadJob

from .configuration import BRIDGE, CLASSES, ELASTIC, REAL, RUNS, SIMULATED, Manifest
from .ledger import Ledger
from .observed import Held, Life, Run, micros, pods_of

SCRIPT = """\
cd "$0"
exec 9>>lock-$SLUICE_POD_INDEX
flock -n 9 || echo "$SLUICE_ATTEMPT" >> double
trap 'exit 0' TERM
sleep "$1" &
wait $! || exit 0
echo "$SLUICE_WORKLOAD $SLUICE_ATTEMPT" >> ended
"""
"""What a pod of a real job does. The lock is held as long as any process of it lives. It succeeds on TERM
with its work undone, as many programs do."""


LONG, LONG_S = 0.05, 12.0
"""Share of real jobs that run for long: longer than it takes to notice that their executor has gone."""
SIZE = 4
"""Most pods of an elastic job."""
COMPLETIONS = 4
"""Pods of a real elastic job that must succeed."""
WAITING, FORGOTTEN_S = 150, 60.0
"""So many jobs may wait before no more are submitted. After so long a job is no longer counted."""
CLIENT = "client"
"""Name of the executor that is this client."""


@dataclass(slots=True)
class Job:
    """A job and how far its execution has come, as far as this client runs it."""

    name: str
    queue: str
    priority_class: str
    cpu: int
    runs_s: float
    size: int = 1
    """Pods at the beginning."""
    elastic: bool = False
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
    entry: DispatchEntry | None = None
    """What it should be doing, as was heard last."""
    run: Run | None = None
    """What runs of it here."""
    reports: int = 0

    @property
    def real(self) -> bool:
        """Run by agents, as processes."""
        return self.queue == REAL

    @property
    def here(self) -> bool:
        """Run by this client."""
        return self.queue in SIMULATED

    def wants(self, entry: DispatchEntry) -> bool:
        """Tell whether the attempt of an entry that was heard is still to run."""
        now = self.entry
        return now is not None and (now.uid, now.attempt, now.state) == (entry.uid, entry.attempt, "Running")

    @property
    def completions(self) -> int:
        return COMPLETIONS if self.elastic and self.real else self.size

    def manifest(self, evidence: Path) -> Manifest:
        container: Manifest = {"name": "main", "resources": {"requests": {"cpu": str(self.cpu)}}}
        if self.real:
            container["command"] = ["sh", "-c", SCRIPT, str(evidence / self.name), f"{self.runs_s:.2f}"]
        spec: Manifest = {"parallelism": self.size, "completions": self.completions}
        annotations = {RUNS: f"{self.runs_s:.2f}"}
        if self.elastic:
            annotations["kueue.x-k8s.io/elastic-job"] = "true"
            if not self.real:
                del spec["completions"]
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
                "annotations": annotations,
            },
            "spec": {
                **spec,
                "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
            },
        }


@dataclass
class World:
    """All jobs of the run. Submits, resizes, deletes and executes them, but for those of other executors.

    *evidence*: directory where real jobs leave a trace of their runs. *others*: queues of other executors.
    """

    client: AsyncClient
    random: random.Random
    evidence: Path
    others: tuple[str, ...] = (REAL, BRIDGE)
    jobs: dict[str, Job] = field(default_factory=dict)
    running: dict[str, Job] = field(default_factory=dict)
    """Jobs that this client executes now."""
    wrong: list[str] = field(default_factory=list)
    """What an executor must never be told."""
    runs: list[Run] = field(default_factory=list)
    """What ran here."""
    _questions: Questions = field(init=False)
    _waiting: dict[str, float] = field(default_factory=dict)
    """Jobs that have not begun, as far as was heard, and when they were submitted."""
    _says: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._questions = Questions(self.client, CLIENT)

    # upstream

    async def submit_for_ever(self, most: int) -> None:
        """Submit jobs until there are so many."""
        while True:
            if len(self.jobs) >= most:
                await asyncio.Event().wait()
            await asyncio.sleep(self.random.uniform(0.02, 0.12))
            if self._too_many_wait():
                continue
            job = self._draw()
            self.jobs[job.name] = job
            self._waiting[job.name] = time.monotonic()
            self._in_background(self._career(job, self.random.random(), self.random.uniform(0.0, 3.0)))
            if job.elastic:
                self._in_background(self._resize(job, self.random.randint(1, 3)))

    def _too_many_wait(self) -> bool:
        """Tell whether a cell that is slow, as on a busy machine, has enough to do."""
        if len(self._waiting) >= WAITING:
            # Of those that began and ended while nobody could follow nothing is heard.
            since = time.monotonic() - FORGOTTEN_S
            self._waiting = {name: at for name, at in self._waiting.items() if at > since}
        return len(self._waiting) >= WAITING

    def _draw(self) -> Job:
        other = self.others and self.random.random() < 0.16
        queue = self.random.choice(self.others if other else SIMULATED)
        elastic = queue in ELASTIC and self.random.random() < 0.3
        plain = 1 if other else self.random.choice([1, 1, 2, 4, 8])
        return Job(
            name=f"{queue if other else 'job'}-{len(self.jobs)}",
            queue=queue,
            priority_class=self.random.choice(sorted(CLASSES)),
            cpu=1 if elastic else plain,
            runs_s=self.random.uniform(0.1, 1.5) if not other or self.random.random() > LONG else LONG_S,
            size=self.random.randint(1, SIZE - 1) if elastic else 1,
            elastic=elastic,
        )

    async def _resize(self, job: Job, times: int) -> None:
        """Change the size of a job some times; it may be over by then."""
        for number in range(times):
            await asyncio.sleep(self.random.uniform(0.2, 1.5))
            size = self.random.randint(1, SIZE)
            await self._say(job, JobScaled(pod_sets={"main": size}), f"scale-{number}")

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
        self._waiting.pop(job.name, None)
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

    @property
    def silent(self) -> bool:
        """Whether the log has everything that was to be said."""
        return not self._says

    # executor

    async def execute(self) -> None:
        """Do what dispatch says, for ever."""
        async for change in self.client.dispatch():
            job = self.jobs.get(change.job.partition("/")[2])
            self._waiting.pop(change.job.partition("/")[2], None)
            if job is not None and job.here:
                self._heed(job, change.entry)

    def _heed(self, job: Job, entry: DispatchEntry | None) -> None:
        job.entry = entry
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
            self._start(job, entry)
        elif entry.stop and entry.attempt > job.stopped:
            self._end(job)
            job.attempt = job.stopped = entry.attempt
            self._report(job, JobStopped(attempt=entry.attempt, uid=job.uid), "stopped")

    def _start(self, job: Job, entry: DispatchEntry) -> None:
        attempt = entry.attempt
        if attempt == job.attempt and job.run is not None:
            self._resized(job, job.run, entry)
        if attempt <= job.attempt:
            return
        if job.since:
            self.wrong.append(f"{job.name}: attempt {attempt} while {job.attempt} still runs")
        job.attempt = attempt
        self._in_background(self._announce(job, entry))

    async def _announce(self, job: Job, entry: DispatchEntry) -> None:
        """Say that this client has the attempt, and begin; unless another executor has answered for it."""
        claim = JobPodsReady(attempt=entry.attempt, uid=entry.uid, ready=False)
        while job.wants(entry):
            try:
                read = await self._questions.ask(ReadJob(entry.job, born(entry.uid)))
                assert isinstance(read, JobRead)
                owner = owner_of(read.told, entry.uid, entry.attempt)
                if owner is None:
                    message_id = f"{entry.uid}-{entry.attempt}-claim-{CLIENT}"
                    await self.client.publish(job.name, claim, message_id=message_id, after=read.last)
                elif owner.over:
                    return
            except (StaleSequenceError, NotPublishedError, *Unavailable):
                await asyncio.sleep(0.05)
            else:
                break
        if job.wants(entry) and job.entry is not None:
            job.since = time.monotonic()
            self.running[job.name] = job
            self._begin(job, job.entry)

    def _begin(self, job: Job, entry: DispatchEntry) -> None:
        job.run = Run(entry.workload, entry.attempt, CLIENT, pods_of(entry), micros())
        job.reports += 1
        self._report(job, JobPodsReady(attempt=entry.attempt, uid=job.uid), f"ready{job.reports}")

    def _resized(self, job: Job, run: Run, entry: DispatchEntry) -> None:
        if run.pods != pods_of(entry) or run.workload != entry.workload:
            self._close(run)
            self._begin(job, entry)

    def _close(self, run: Run, *, done: bool = False) -> None:
        run.end, run.done = micros(), done
        self.runs.append(run)

    def _end(self, job: Job, *, done: bool = False) -> None:
        job.since = 0.0
        self.running.pop(job.name, None)
        if job.run is not None:
            self._close(job.run, done=done)
            job.run = None

    def _report(self, job: Job, event: JobEvent, what: str) -> None:
        self._in_background(self._say(job, event, f"{job.uid}-{job.attempt}-{what}"))

    async def finish_for_ever(self) -> None:
        """End jobs that have run their time."""
        while True:
            await asyncio.sleep(0.02)
            now = time.monotonic()
            for job in list(self.running.values()):
                if now - job.since >= job.runs_s:
                    self._end(job, done=True)
                    self._report(job, JobFinished(attempt=job.attempt, uid=job.uid), "finished")

    # what was seen of it

    def submissions(self) -> dict[str, int]:
        """Return how often each job was submitted."""
        return {job.name: job.submitted for job in self.jobs.values()}

    def traces(self) -> list[str]:
        """Return the real jobs of which two processes ran at once."""
        return [
            f"{job.name}: two attempts ran at once"
            for job in self.jobs.values()
            if job.real and (self.evidence / job.name / "double").exists()
        ]

    def undone(self, held: Held, ledger: Ledger, runs: list[Run]) -> list[str]:
        """Return the jobs that are Succeeded though their last attempt's work was not done."""
        done: dict[tuple[Life, int], int] = {}
        for run in runs:
            if run.done and run.workload in held.lives:
                done[held.lives[run.workload], run.attempt] = 1
        for job in self.jobs.values():
            for life, attempt in self._ended(job, held):
                done[life, attempt] = done.get((life, attempt), 0) + 1
        wrong = []
        for life in held.succeeded:
            job = self.jobs[life[0].partition("/")[2]]
            wanted = job.completions if job.real else 1
            attempt = ledger.lives[life[1]].attempts[-1]
            if (count := done.get((life, attempt), 0)) < wanted:
                text = (
                    f"{job.name}: Succeeded in attempt {attempt}, of whose work {count} of {wanted} were done"
                )
                wrong.append(text)
        return wrong

    def _ended(self, job: Job, held: Held) -> Iterator[tuple[Life, int]]:
        """Yield life and attempt of each pod that has done its work."""
        path = self.evidence / job.name / "ended"
        if job.real and path.exists():
            for line in path.read_text().splitlines():
                workload, attempt = line.split()
                yield held.lives[WorkloadKey(workload)], int(attempt)
