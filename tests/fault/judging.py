"""At the end of a fault run everything is compared with the log."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import nats
from nats.aio.client import Client

from sluice.cli.kit.errors import CliError
from sluice.core.checks.decider import AdmissionChecks
from sluice.core.slices.decider import SliceAggregator
from sluice.core.variants.decider import VariantController
from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.fold import Fold, replay
from sluice.log.nats.jetstream import JetStreamLog
from sluice.replay.lint.lint import lint
from sluice.replay.source import json_lines
from sluice.replay.source.source import ListSource
from sluice.services.admission_check.requests import CheckRequestProjection
from sluice.services.slice_aggregator.dispatch import Dispatch
from tests.support.system import System
from tests.support.verify import entries_for, verify

from . import live
from .audit import AuditedScheduler
from .chaos import DECIDERS, Chaos
from .check_audit import CheckAudit
from .configuration import Editor
from .ledger import Ledger
from .observed import Run, compare, losses, without_lost
from .world import World

COME_LATE = ("JobPodsReady", "JobPodsReclaimable", "JobStopped", "JobFinished", "JobScaled")
"""Messages about jobs that may be gone by then."""


KINDS: tuple[type[Decider[Any]], ...] = (
    AuditedScheduler,
    SliceAggregator,
    VariantController,
    AdmissionChecks,
)


@dataclass
class Findings:
    """What is wrong, by kind; a run without any is good."""

    lost: list[str] = field(default_factory=list)
    double: list[str] = field(default_factory=list)
    divergent: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Everything else: invariants, edits, take-overs, what heals too late."""

    def any(self) -> bool:
        return bool(self.lost or self.double or self.divergent or self.wrong)


AGAIN = 3
"""So often a cell is compared with its log that goes on meanwhile."""


@dataclass
class Judge:
    """Compares what was done, and seen, with the log: *entries*. *runs*: as executors saw them."""

    system: System
    client: Client
    chaos: Chaos
    world: World
    editor: Editor
    entries: list[Entry]
    runs: list[Run]
    ledger: Ledger = field(default_factory=Ledger)
    found: Findings = field(default_factory=Findings)

    async def compare(self, *, whole: bool = True) -> None:
        """Compare ledger, invariants, decisions and what is live. *whole*: also replicas and answers.

        Once more if the log has moved meanwhile: agents run on, and one that a busy machine kept from its
        heartbeats can be away, and there again, while this is looked at.
        """
        # A third replica, started now, has nothing but snapshot and tail.
        for folder in DECIDERS if whole else ():
            self.system.start(folder)
        log = await JetStreamLog(self.system.url, name="fault-check").open()
        try:
            for _ in range(AGAIN):
                self.ledger, self.found = Ledger(), Findings()
                await self._compare(log, whole=whole)
                if not self.found.divergent or not await self._has_moved():
                    break
        finally:
            await log.close()
        with (self.system.directory / "log.jsonl").open("wb") as file:
            json_lines.write(self.entries, file)

    async def _has_moved(self) -> bool:
        since = await asyncio.to_thread(live.read_log, self.system.url, self.entries[-1].seq + 1)
        self.entries += since
        return bool(since)

    async def _compare(self, log: JetStreamLog, *, whole: bool) -> None:
        self._count()
        await self._states(log, whole=whole)
        wrong, _ = await asyncio.to_thread(lint, ListSource(self.entries))
        self.found.wrong += [f"{v.invariant} at {v.seq}: {v.text}" for v in wrong]
        self.found.wrong += CheckAudit(self.editor.checks).add(self.entries).wrong
        if whole:
            await self._answers()

    def _count(self) -> None:
        """Look at what was counted and noted on the way."""
        ledger, found, world = self.ledger.add(self.entries), self.found, self.world
        submissions = world.submissions()
        found.lost += ledger.lost(submissions) + ledger.failed
        found.double += ledger.excess(submissions) + world.wrong + world.traces()
        found.wrong += self.chaos.wrong + self.chaos.healing.wrong + self.editor.check(ledger.edits)
        found.wrong += [f"rejected: {text}" for text in ledger.rejected if not text.startswith(COME_LATE)]

    async def _states(self, log: JetStreamLog, *, whole: bool) -> None:
        """Decide everything again, and compare what is live with what comes of it."""
        found, states = self.found, {}
        scheduler = AuditedScheduler()
        for folder, kind in zip(DECIDERS, KINDS, strict=True):
            decider, fold = await asyncio.to_thread(self._redecide, kind)
            states[folder] = fold.state
            if isinstance(decider, AuditedScheduler):
                # Whoever folds parts of the log again books nothing twice.
                scheduler, decider.auditing = decider, False
            if whole:
                expected = live.digest_of(decider, fold)
                may_lack = "lose snapshots" in self.chaos.done
                found.divergent += await live.snapshot(
                    log, decider, self.entries, expected, may_lack=may_lack
                )
                found.divergent += await live.replicas(self.chaos.probe, self.system, folder, expected)
        found.wrong += scheduler.final(states["scheduler"])
        self._runs(scheduler)
        found.divergent += await live.projection(log, Dispatch(), states["slice_aggregator"])
        requests = CheckRequestProjection()
        found.divergent += await live.projection(log, requests, states["admission_check"])
        found.lost += [f"{key}: still asked" for key, _ in requests.everything(states["admission_check"])]

    def _redecide(self, kind: type[Decider[Any]]) -> tuple[Decider[Any], Fold[Any]]:
        """Return a decider, and the state that it folds the whole log to."""
        decider = kind()
        verdict = verify(decider, entries_for(decider, self.entries))
        if verdict.divergence is None:
            if verdict.unsettled:
                text = f"{decider.writer}: not settled at the end: {verdict.unsettled[:3]}"
                self.found.divergent.append(text)
            return decider, verdict.fold
        self.found.divergent.append(f"{decider.writer}: {verdict.divergence}")
        # That went as far as the difference: what has happened since is looked at all the same.
        decider = kind()
        return decider, replay(decider, entries_for(decider, self.entries))

    def _runs(self, scheduler: AuditedScheduler) -> None:
        """Compare what executors saw with what the scheduler held, and with what is Succeeded."""
        without, twice = compare(without_lost(self.runs, losses(self.entries)), scheduler.held)
        self.found.double += twice
        self.found.wrong += without + self.world.undone(scheduler.held, self.ledger, self.runs)

    async def _answers(self) -> None:
        try:
            self.found.divergent += await live.answers(self.client, self.entries)
        except (CliError, nats.errors.Error) as error:
            self.found.divergent.append(f"api: {error}")
