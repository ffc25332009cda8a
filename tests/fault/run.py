"""One fault run: jobs, edits and damage at the same time; then everything is compared with the log."""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client

from services.admission_check.requests import Requests
from services.slice_aggregator.dispatch import Dispatch
from sluice.cli.errors import CliError
from sluice.core.checks import AdmissionChecks
from sluice.core.slices import SliceAggregator
from sluice.core.variants import VariantController
from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.errors import EventLogError
from sluice.log.jetstream import JetStreamLog
from sluice.replay import jsonl
from sluice.replay.linting import lint
from sluice.replay.source import ListSource
from sluice.replay.verify import Verdict, entries_for, verify
from sluice.sdk import AsyncClient
from tests.system import System

from . import live
from .audit import AuditedScheduler
from .chaos import DECIDERS, DECK, TAKE_OVER_S, Chaos
from .configuration import Editor
from .ledger import Ledger
from .probe import Probe, leader
from .world import World

SETTLE_S = 150.0
"""Time for the jobs that are left to end, once nothing is damaged any more."""

EXECUTOR_REPORTS = ("JobPodsReady", "JobStopped", "JobFinished")

ENV = {
    "SLUICE_LOG_LEVEL": "info",
    # Often, so that most starts are from a snapshot and its tail.
    "SLUICE_SNAPSHOT_EVENTS": "400",
    "API_SNAPSHOT_ENTRIES": "200",
}


@dataclass(frozen=True)
class Plan:
    """How much damage to do. *agents*: some jobs are real processes, run by agents that are killed too."""

    kills: int = 60
    seed: int = 0
    agents: bool = True
    deck: dict[str, int] = field(default_factory=lambda: dict(DECK))
    pause_s: float = 0.8
    """Most time between two faults."""
    take_over_s: float = TAKE_OVER_S
    """A longer take-over is wrong."""


@dataclass
class Findings:
    """What is wrong, by kind; a run without any is good."""

    lost: list[str] = field(default_factory=list)
    double: list[str] = field(default_factory=list)
    divergent: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Everything else: invariants, edits, take-overs."""

    def any(self) -> bool:
        return bool(self.lost or self.double or self.divergent or self.wrong)


@dataclass
class Report:
    plan: Plan
    findings: Findings
    kills: int
    jobs: int
    lines: list[str]
    """For people."""

    def last_line(self) -> str:
        found = self.findings
        return (
            f"fault: {self.kills} kills, {self.jobs} jobs, {len(found.lost)} lost, "
            f"{len(found.double)} double, {len(found.divergent)} divergent"
        )


async def connect(url: str) -> Client:
    async def quiet(_: Exception) -> None:
        """Lost connections are what this is about."""

    return await nats.connect(
        url,
        max_reconnect_attempts=-1,
        reconnect_time_wait=0.05,
        error_cb=quiet,
    )


async def run(system: System, plan: Plan, tell: Callable[[str], None]) -> Report:
    """Run *plan* in a started, empty system.

    1. Set up and let jobs flow.
    2. Damage, until there were enough kills.
    3. Let every job end.
    4. Compare everything with the log.
    """
    rng = random.Random(plan.seed)
    evidence = system.directory / "evidence"
    evidence.mkdir()
    client = await connect(system.url)
    sdk = AsyncClient(system.url, source="fault-client")
    editor = Editor(client, random.Random(rng.random()))
    world = World(sdk, random.Random(rng.random()), evidence, plan.agents)
    chaos = Chaos(
        system, Probe(client), random.Random(rng.random()), plan.deck, plan.agents, plan.take_over_s
    )
    chaos.start()
    try:
        await editor.set_up()
        with _going_on(world.execute(), world.finish_for_ever()) as executing:
            with _going_on(world.submit_for_ever(), editor.edit_for_ever()) as going:
                await _damage(chaos, world, plan, [*executing, *going], tell)
            await chaos.back()
            await editor.restore()
            entries = await _settle(world, chaos, system, tell)
        tell("comparing everything with the log")
        findings, ledger = await _compare(system, client, chaos, world, editor, entries)
    finally:
        for agent in system.live("agent"):
            agent.stop()
        await sdk.close()
        await client.close()
    return Report(
        plan, findings, chaos.kills, len(world.jobs), _lines(system.directory, chaos, editor, ledger)
    )


@contextlib.contextmanager
def _going_on(*works: Any) -> Iterator[list[asyncio.Task[None]]]:
    tasks: list[asyncio.Task[None]] = [asyncio.create_task(work) for work in works]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()


async def _damage(
    chaos: Chaos,
    world: World,
    plan: Plan,
    tasks: list[asyncio.Task[None]],
    tell: Callable[[str], None],
) -> None:
    while chaos.kills < plan.kills:
        await asyncio.sleep(chaos.random.uniform(0.1, plan.pause_s))
        what = await chaos.one()
        tell(f"{chaos.kills:4} kills {len(world.jobs):5} jobs {len(world.running):3} running  {what}")
        for task in tasks:
            if task.done():
                task.result()


async def _settle(world: World, chaos: Chaos, system: System, tell: Callable[[str], None]) -> list[Entry]:
    """Wait until every job has ended, and nothing is added to the log any more; returns the log."""
    await world.said()
    deadline = time.monotonic() + SETTLE_S
    log = await JetStreamLog(system.url, name="fault-settle").open()
    try:
        while True:
            end = await _still_end(log)
            entries = await asyncio.to_thread(live.read_log, system.url)
            left = Ledger().add(entries).lost(_submissions(world))
            tell(f"{len(entries)} messages in the log, {len(left)} jobs left")
            if (not left and entries[-1].seq == end) or time.monotonic() > deadline:
                break
    finally:
        await log.close()
    for folder in DECIDERS:
        pids = {service.pid for service in system.live(folder)}
        if await chaos.probe.until(folder, lambda a, pids=pids: leader(a, pids) is not None, 10) is None:  # type: ignore[misc]
            chaos.wrong.append(f"{folder}: no leader at the end")
    return entries


async def _still_end(log: JetStreamLog) -> int:
    """Return the log's end once it has not moved for a moment, or after a while."""
    end = 0
    for _ in range(10):
        before, end = end, await _end(log)
        if before == end:
            break
        await asyncio.sleep(0.7)
    return end


async def _end(log: JetStreamLog) -> int:
    try:
        return await log.end()
    except EventLogError:
        return -1


def _submissions(world: World) -> dict[str, int]:
    return {job.name: job.submitted for job in world.jobs.values()}


async def _compare(
    system: System, client: Client, chaos: Chaos, world: World, editor: Editor, entries: list[Entry]
) -> tuple[Findings, Ledger]:
    """Compare ledger, invariants, decisions and every live state with the log."""
    with (system.directory / "log.jsonl").open("wb") as file:
        jsonl.write(entries, file)
    ledger = Ledger().add(entries)
    submissions = _submissions(world)
    found = Findings(lost=ledger.lost(submissions) + ledger.failed, double=ledger.excess(submissions))
    found.double += world.wrong + world.traces(ledger.finished())
    found.wrong += chaos.wrong + editor.check(ledger.edits)
    found.wrong += [f"rejected: {text}" for text in ledger.rejected if not text.startswith(EXECUTOR_REPORTS)]
    scheduler, slices, variants, checks = (
        AuditedScheduler(),
        SliceAggregator(),
        VariantController(),
        AdmissionChecks(),
    )
    # A third replica, started now, has nothing but snapshot and tail.
    for folder in DECIDERS:
        system.start(folder)
    log = await JetStreamLog(system.url, name="fault-check").open()
    deciders: dict[str, Decider[Any]] = dict(
        zip(DECIDERS, (scheduler, slices, variants, checks), strict=True)
    )
    states = {}
    for folder, decider in deciders.items():
        verdict = await asyncio.to_thread(_redecide, decider, entries, found)
        states[folder] = verdict.fold.state
        scheduler.auditing = False
        expected = live.digest_of(decider, verdict.fold)
        may_lack = "lose snapshots" in chaos.done
        found.divergent += await live.snapshot(log, decider, entries, expected, may_lack=may_lack)
        found.divergent += await live.replicas(chaos.probe, system, folder, expected)
    found.wrong += scheduler.final(states["scheduler"])
    wrong, _ = await asyncio.to_thread(lint, ListSource(entries))
    found.wrong += [f"{v.invariant} at {v.seq}: {v.text}" for v in wrong]
    found.divergent += await live.projection(log, Dispatch(), states["slice_aggregator"])
    found.divergent += await live.projection(log, Requests(), states["admission_check"])
    await log.close()
    try:
        found.divergent += await live.answers(client, entries)
    except (CliError, nats.errors.Error) as error:
        found.divergent.append(f"api: {error}")
    return found, ledger


def _redecide(decider: Decider[Any], entries: list[Entry], found: Findings) -> Verdict[Any]:
    verdict = verify(decider, entries_for(decider, entries))
    if verdict.divergence is not None:
        found.divergent.append(f"{decider.writer}: {verdict.divergence}")
    elif verdict.unsettled:
        found.divergent.append(f"{decider.writer}: not settled at the end: {verdict.unsettled[:3]}")
    return verdict


def _lines(directory: Path, chaos: Chaos, editor: Editor, ledger: Ledger) -> list[str]:
    lines = [
        "faults: " + ", ".join(f"{count} x {what}" for what, count in sorted(chaos.done.items())),
        f"log: {ledger.summary()}",
        f"edits: {len(editor.acknowledged)} acknowledged, {editor.unanswered} times tried again",
        f"fenced: {chaos.fenced} leaders seen to give way",
        _starts(directory),
    ]
    took = sorted(chaos.takeovers_s)
    if took:
        lines.append(
            f"take-over: {len(took)} measured, median {took[len(took) // 2]:.2f} s, longest {took[-1]:.2f} s"
        )
    return lines


def _starts(directory: Path) -> str:
    """Count how states were rebuilt, from what the services said."""
    snapshot = whole = 0
    for path in directory.glob("*.log"):
        for line in path.read_text(errors="replace").splitlines():
            if "rebuilt" in line and "snapshot" in line:
                if '"snapshot":0' in line.replace(" ", "") or "snapshot=0 " in line:
                    whole += 1
                else:
                    snapshot += 1
    return f"rebuilt: {snapshot} times from a snapshot, {whole} times from the whole log"
