"""A fault run of admission checks: controllers and the service are killed while jobs pass three checks each.

Every job must end once: finished, deleted, or deactivated because a check has rejected it. Nothing may be
admitted on what a check said of an earlier reservation, and in the end nobody waits for anything.
"""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from services.admission_check.requests import Requests
from sluice.api.labels import ANSWER_TIMEOUT_SECONDS
from sluice.core.checks import AdmissionChecks
from sluice.core.scheduler import Scheduler
from sluice.core.slices import SliceAggregator
from sluice.core.variants import VariantController
from sluice.events.base import WorkloadKey
from sluice.events.checks import ChecksReady, ChecksRequested, CheckStateChanged
from sluice.events.codec import decode_commit
from sluice.events.job import JobDeleted
from sluice.events.scheduler import Admitted, Evicted, QuotaReleased, QuotaReserved, WorkloadDeactivated
from sluice.events.slices import WorkloadCreated
from sluice.events.variants import ParentDeactivated, VariantCreated
from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.jetstream import JetStreamLog
from sluice.log.subjects import COMMITS
from sluice.replay.linting import lint
from sluice.replay.source import ListSource
from sluice.replay.verify import entries_for, verify
from sluice.sdk import AsyncClient
from tests.system import Service, System

from . import live
from .chaos import lose
from .check_controller import controller_name, doomed
from .configuration import VERSION, Editor, Manifest, objects
from .ledger import Ledger
from .run import Findings, connect
from .world import World

CHECKS = ("a", "b", "c")
SERVICES = ("api", "slice_aggregator", "variant_controller", "scheduler")
BUCKETS = ("checks", "dispatch", "heartbeats", "leases")
LOSSES = 0.3
"""After such a share of the kills a bucket is deleted, too."""
SETTLE_S = 120.0
ANSWER_S = 4
"""How long a check may go unanswered: now and then none is (`check_controller`)."""
SETTINGS: Manifest = {
    "apiVersion": "sluice.dev/v1alpha1",
    "kind": "Configuration",
    "metadata": {"name": "default"},
    "spec": {"admissionChecks": {"backoffBaseSeconds": 1}},
}


@dataclass(frozen=True)
class CheckPlan:
    kills: int = 40
    jobs: int = 300
    """At least so many."""
    most: int = 10**6
    """No more are submitted once there are so many."""
    seed: int = 0
    pause_s: float = 0.8
    """At most so long between a kill and the next."""


@dataclass
class CheckReport:
    findings: Findings
    kills: int
    jobs: int
    lines: list[str]

    def last_line(self) -> str:
        found = self.findings
        return (
            f"fault of checks: {self.kills} kills, {self.jobs} jobs, {len(found.lost)} lost, "
            f"{len(found.double)} double, {len(found.divergent)} divergent"
        )


def configuration() -> list[Manifest]:
    """Return the queues of the other fault run, each with three checks."""
    found = objects()
    for manifest in found:
        if manifest["kind"] == "ClusterQueue":
            rules = [{"name": check} for check in CHECKS]
            manifest["spec"]["admissionChecksStrategy"] = {"admissionChecks": rules}
    checks = [
        {
            "apiVersion": VERSION,
            "kind": "AdmissionCheck",
            "metadata": {"name": check, "annotations": {ANSWER_TIMEOUT_SECONDS: str(ANSWER_S)}},
            "spec": {"controllerName": controller_name(check)},
        }
        for check in CHECKS
    ]
    return [SETTINGS, *checks, *found]


@dataclass
class Audit:
    """What the log says of reservations and checks, in its own order."""

    attempts: dict[WorkloadKey, int] = field(default_factory=dict)
    ready: dict[WorkloadKey, int] = field(default_factory=dict)
    """Workload -> attempt that ChecksReady was said of."""
    holding: dict[WorkloadKey, None] = field(default_factory=dict)
    jobs: dict[WorkloadKey, str] = field(default_factory=dict)
    rejected: set[str] = field(default_factory=set)
    """Jobs that were deactivated."""
    counts: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def add(self, entries: list[Entry]) -> "Audit":
        for entry in entries:
            if entry.suffix in COMMITS:
                for step in decode_commit(entry.payload).steps:
                    for event in step.events:
                        self._event(event, entry.seq)
        return self

    def _event(self, event: Any, seq: int) -> None:
        name = getattr(event, "reason", "") if isinstance(event, CheckStateChanged) else ""
        name = name or type(event).__name__
        self.counts[name] = self.counts.get(name, 0) + 1
        match event:
            case WorkloadCreated() if event.workload.job is not None:
                self.jobs[event.workload.key] = event.workload.job.key.partition("/")[2]
            case VariantCreated() if event.workload.parent is not None:
                self.jobs[event.workload.key] = self.jobs[event.workload.parent]
            case QuotaReserved():
                self.attempts[event.workload] = self.attempts.get(event.workload, 0) + 1
                self.holding[event.workload] = None
            case Evicted() | QuotaReleased():
                self.holding.pop(event.workload, None)
            case ChecksReady():
                self.ready[event.workload] = event.attempt
            case Admitted():
                now = self.attempts.get(event.workload, 0)
                if event.workload not in self.holding or self.ready.get(event.workload) != now:
                    self.wrong.append(f"{event.workload}: admitted at {seq}, its checks passed for another")
            case WorkloadDeactivated() | ParentDeactivated():
                if event.workload in self.jobs:
                    self.rejected.add(self.jobs[event.workload])
            case CheckStateChanged() | ChecksRequested():
                if event.attempt > self.attempts.get(event.workload, 0):
                    self.wrong.append(f"{event.workload}: attempt {event.attempt} at {seq} has not begun")
            case _:
                pass


async def run(system: System, plan: CheckPlan, tell: Callable[[str], None]) -> CheckReport:
    """Run *plan* in a started, empty system; see the module."""
    rng = random.Random(plan.seed)
    for name in (*SERVICES, "admission_check", "admission_check"):
        system.start(name)
    for check in CHECKS:
        _controller(system, check)
    client = await connect(system.url)
    sdk = AsyncClient(system.url, source="fault-client")
    world = World(sdk, random.Random(rng.random()), system.directory, real_jobs=False)
    kills = 0
    lost: dict[str, int] = {}
    tasks: list[asyncio.Task[None]] = []
    try:
        await Editor(client, rng).apply(configuration())
        tasks = [asyncio.create_task(work) for work in (world.execute(), world.finish_for_ever())]
        submitting = asyncio.create_task(world.submit_for_ever())
        while kills < plan.kills or len(world.jobs) < plan.jobs:
            await asyncio.sleep(rng.uniform(0.1, plan.pause_s))
            kills += 1
            if len(world.jobs) >= plan.most:
                submitting.cancel()
            tell(f"{kills:4} kills {len(world.jobs):5} jobs  {await _damage(system, rng)}")
            if rng.random() < LOSSES:
                bucket = rng.choice(BUCKETS)
                await lose(client, bucket)
                lost[bucket] = lost.get(bucket, 0) + 1
        submitting.cancel()
        await world.said()
        entries = await _settle(system, world, tell)
        tell("comparing everything with the log")
        findings = await _compare(system, world, entries)
        audit = Audit().add(entries)
    finally:
        for task in tasks:
            task.cancel()
        await sdk.close()
        await client.close()
    findings.wrong += audit.wrong
    shown = ("ChecksRequested", "CheckStateChanged", "ChecksReady", "ChecksRetry", "ChecksRejected")
    more = ("AnswerTimeout", "VerdictIgnored", "Evicted", "Preempted", "Admitted")
    counts = ", ".join(f"{audit.counts.get(name, 0)} {name}" for name in (*shown, *more))
    deleted = ", ".join(f"{count} x {bucket}" for bucket, count in sorted(lost.items()))
    lines = [f"log: {len(entries)} messages; {counts}", f"buckets deleted: {deleted}"]
    return CheckReport(findings, kills, len(world.jobs), lines)


def _controller(system: System, check: str) -> Service:
    command = ("-m", "tests.fault.check_controller", check)
    return system.start(f"controller-{check}", label=f"controller-{check}", command=command)


async def _damage(system: System, rng: random.Random) -> str:
    """Kill a controller, a replica of the service or (less often) the scheduler; start it again soon."""
    check = rng.choice(CHECKS)
    what = rng.choice([f"controller-{check}", f"controller-{check}", "admission_check", "scheduler"])
    service = rng.choice(system.live(what))
    system.kill(service)
    await asyncio.sleep(rng.choice([0.0, 0.3, 1.5]))
    if what.startswith("controller"):
        _controller(system, check)
    else:
        system.start(what)
    return f"kill {what}"


async def _settle(system: System, world: World, tell: Callable[[str], None]) -> list[Entry]:
    """Wait until every job has ended; what was rejected is deleted once the log says so."""
    deadline = time.monotonic() + SETTLE_S
    before = -1
    while True:
        await asyncio.sleep(1.0)
        entries = await asyncio.to_thread(live.read_log, system.url)
        left = Ledger().add(entries).lost(_submissions(world))
        tell(f"{len(entries)} messages in the log, {len(left)} jobs left")
        if (not left and len(entries) == before) or time.monotonic() > deadline:
            return entries
        before = len(entries)
        rejected = Audit().add(entries).rejected
        for text in left:
            job = world.jobs[text.partition(":")[0]]
            if job.name in rejected and doomed(job.name):
                await world.client.publish(
                    job.name, JobDeleted(), message_id=f"{job.name}-rejected-{job.submitted}"
                )


def _submissions(world: World) -> dict[str, int]:
    return {job.name: job.submitted for job in world.jobs.values()}


async def _compare(system: System, world: World, entries: list[Entry]) -> Findings:
    ledger, submissions = Ledger().add(entries), _submissions(world)
    found = Findings(
        lost=ledger.lost(submissions) + ledger.failed,
        double=ledger.excess(submissions) + world.wrong,
    )
    found.wrong += [f"{v.invariant} at {v.seq}: {v.text}" for v in lint(ListSource(entries))[0]]
    log = await JetStreamLog(system.url, name="fault-check").open()
    deciders: list[Decider[Any]] = [Scheduler(), SliceAggregator(), VariantController(), AdmissionChecks()]
    for decider in deciders:
        verdict = await asyncio.to_thread(verify, decider, list(entries_for(decider, entries)))
        if verdict.divergence is not None:
            found.divergent.append(f"{decider.writer}: {verdict.divergence}")
        if decider.writer == "checks":
            found.divergent += await live.projection(log, Requests(), verdict.fold.state)
            left = [key for key, _ in Requests().everything(verdict.fold.state)]
            found.lost += [f"{key}: still asked" for key in left]
    await log.close()
    return found
