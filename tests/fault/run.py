"""One fault run: jobs, edits and damage at the same time; then everything is compared with the log."""

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client

from sluice.log.contract import Entry
from sluice.log.errors import EventLogError
from sluice.log.nats.jetstream import JetStreamLog
from sluice.sdk import AsyncClient
from tests.support.system import System

from . import live
from .chaos import APIS, DECIDERS, DECK, LEAST, TAKE_OVER_S, Chaos
from .check_audit import CheckAudit
from .check_controller import doomed
from .configuration import BRIDGE, REAL, SOME_CHECKS, Checks, Editor, names_of
from .healing import Healing
from .judging import Findings, Judge
from .ledger import Ledger
from .observed import ProcessWatch, read_diary
from .person import Person
from .probe import Probe, leader
from .staff import AGENTS, BRIDGES, Staff
from .world import World

PART = 200
"""Messages looked at in one go."""
SETTLE_S = 150.0
"""Once nothing is damaged any more, the jobs that are left end; after so long without one that does, they are
lost."""

ENV = {
    "SLUICE_LOG_LEVEL": "info",
    # Often, so that most starts are from a snapshot and its tail.
    "SLUICE_SNAPSHOT_EVENTS": "400",
    "API_SNAPSHOT_ENTRIES": "200",
}


@dataclass(frozen=True)
class Plan:
    """How much damage to do: *kills*, and each fault of the *deck* *least* times.

    *executors*: some jobs are run by agents and by executors made with the SDK, which are killed, too.
    """

    name: str = "fault"
    kills: int = 60
    seed: int = 0
    least: int = LEAST
    executors: bool = True
    checks: Checks = field(default_factory=lambda: SOME_CHECKS)
    damaged: tuple[str, ...] = DECIDERS
    jobs: int = 0
    """At least so many."""
    apis: int = APIS
    whole: bool = True
    """Whether also replicas, snapshots and answers are compared with the log."""
    most: int = 10**6
    """No more are submitted once there are so many."""
    deck: dict[str, int] = field(default_factory=lambda: dict(DECK))
    pause_s: float = 0.8
    """Most time between two faults."""
    take_over_s: float = TAKE_OVER_S
    """A longer take-over is wrong."""


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
            f"{self.plan.name}: {self.kills} kills, {self.jobs} jobs, {len(found.lost)} lost, "
            f"{len(found.double)} double, {len(found.divergent)} divergent, {len(found.wrong)} violations"
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
    log = JetStreamLog(system.url, name="fault-look")
    editor = Editor(client, random.Random(rng.random()), plan.checks)
    others = (REAL, BRIDGE) if plan.executors else ()
    world = World(sdk, random.Random(rng.random()), evidence, others)
    healing = Healing(system, log)
    agents, bridges = (AGENTS, BRIDGES) if plan.executors else ((), ())
    staff = Staff(system, healing, random.Random(rng.random()), agents, bridges, names_of(plan.checks))
    deck = {what: count for what, count in plan.deck.items() if staff.may(what)}
    dice, probe = random.Random(rng.random()), Probe(client)
    chaos = Chaos(
        system,
        probe,
        dice,
        staff,
        healing,
        deck,
        plan.damaged,
        plan.take_over_s,
        plan.apis,
        judging=plan.least > 0,
    )
    chaos.start()
    processes = ProcessWatch(system.directory)
    person = Person(log, staff.away_controllers)
    try:
        await editor.set_up()
        with _going_on(world.execute(), world.finish_for_ever()) as executing:
            works = (world.submit_for_ever(plan.most), editor.edit_for_ever(), person.answer_for_ever())
            with _going_on(*works) as going:
                await _damage(chaos, world, plan, [*executing, *going], tell)
                if plan.least:
                    # Snapshots are taken when something happens.
                    await healing.settled()
            await staff.back()
            await editor.restore()
            entries = await _settle(world, chaos, system, tell)
            await healing.settled(but=("lose snapshots",))
            await _read_on(system, entries)
        tell("comparing everything with the log")
        runs = [*world.runs, *processes.stop()]
        runs += [run for path in system.directory.glob("*.diary") for run in read_diary(path)]
        judge = Judge(system, client, chaos, world, editor, entries, runs)
        await judge.compare(whole=plan.whole)
    finally:
        healing.stop()
        processes.stop()
        for agent in system.live("agent"):
            agent.stop()
        await sdk.close()
        await log.close()
        await client.close()
    answered = f"people: {person.answered} approvals for controllers that were away"
    lines = [answered, *_lines(system.directory, chaos, editor, judge), *healing.table(chaos.done)]
    return Report(plan, judge.found, chaos.kills, len(world.jobs), lines)


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
    while chaos.kills < plan.kills or len(world.jobs) < plan.jobs or chaos.lacking(plan.least):
        await asyncio.sleep(chaos.random.uniform(0.1, plan.pause_s))
        what = await chaos.one(plan.least if chaos.kills >= plan.kills else 0)
        tell(f"{chaos.kills:4} kills {len(world.jobs):5} jobs {len(world.running):3} running  {what}")
        for task in tasks:
            if task.done():
                task.result()


async def _settle(world: World, chaos: Chaos, system: System, tell: Callable[[str], None]) -> list[Entry]:
    """Wait until every job has ended, and nothing is added to the log any more; returns the log."""
    deadline, least = time.monotonic() + SETTLE_S, len(world.jobs) + 1
    entries: list[Entry] = []
    ledger, audit = Ledger(), CheckAudit({})
    log = await JetStreamLog(system.url, name="fault-settle").open()
    try:
        while True:
            end = await _still_end(log)
            start = entries[-1].seq + 1 if entries else 1
            for new in _parts(await asyncio.to_thread(live.read_log, system.url, start)):
                entries += new
                audit.add(new)
                ledger.add(new)
                # Jobs are executed here, too.
                await asyncio.sleep(0)
            left = ledger.lost(world.submissions())
            if len(left) < least:
                tell(f"{len(entries)} messages in the log, {len(left)} jobs left")
                least, deadline = len(left), time.monotonic() + SETTLE_S
            if (not left and world.silent and entries[-1].seq == end) or time.monotonic() > deadline:
                break
            await _delete_rejected(world, audit.rejected, left)
    finally:
        await log.close()
    for folder in DECIDERS:
        pids = {service.pid for service in system.live(folder)}
        if await chaos.probe.until(folder, lambda a, pids=pids: leader(a, pids) is not None, 10) is None:
            chaos.wrong.append(f"{folder}: no leader at the end")
    return entries


async def _read_on(system: System, entries: list[Entry]) -> None:
    """Add what has come since, as from executors that were away for longer than any job took."""
    log = await JetStreamLog(system.url, name="fault-read-on").open()
    try:
        while entries[-1].seq < await _still_end(log):
            entries += await asyncio.to_thread(live.read_log, system.url, entries[-1].seq + 1)
    finally:
        await log.close()


def _parts(entries: list[Entry]) -> Iterator[list[Entry]]:
    for begin in range(0, len(entries), PART):
        yield entries[begin : begin + PART]


async def _delete_rejected(world: World, rejected: set[str], left: list[str]) -> None:
    """Delete, of the jobs that are left, those that a check has rejected: nobody else ends them."""
    for text in left:
        job = world.jobs[text.partition(":")[0]]
        if job.name in rejected and doomed(job.name):
            await world.client.delete(job.name, message_id=f"{job.name}-rejected-{job.submitted}")


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


def _lines(directory: Path, chaos: Chaos, editor: Editor, judge: Judge) -> list[str]:
    seen = Counter(run.executor for run in judge.runs)
    lines = [
        f"log: {judge.ledger.summary()}",
        "runs seen: " + ", ".join(f"{count} on {name}" for name, count in sorted(seen.items())),
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
