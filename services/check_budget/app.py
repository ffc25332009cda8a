"""The budget check as a controller: requests go to the ledger, and are asked again when it says so."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import structlog

from sluice.core.budgets.budgets import Standing
from sluice.core.timing import MICROS_PER_S
from sluice.events.base import Micros
from sluice.sdk.checks import Controller, Request, Settings, Verdict
from sluice.services.common.http import Http
from sluice.telemetry.http import serving

from .answers import answering
from .config import Config
from .follower import LedgerFollower
from .ledger import HOUR_S, Ledger, case_key
from .page import pages
from .prometheus import Readers

GATHER_S = 0.02
"""Requests that come within this time are judged together."""
AT_LEAST_S = 0.2
"""Between judgements that nobody waits for."""
AGAIN_S = 0.5
AT_MOST_S = 60.0
"""Estimates end with the period, so what does not fit today may fit later without anything happening."""

log = structlog.get_logger("sluice.check.budget")


def wall() -> Micros:
    """Return the time, microseconds since the epoch."""
    return time.time_ns() // 1000


class Desk:
    """Between the controller and the ledger: gathers requests, and tells when to ask again."""

    def __init__(self, ledger: Ledger, recheck: Callable[[Any], int], clock: Callable[[], Micros]) -> None:
        self.ledger, self._recheck, self._clock = ledger, recheck, clock
        self.ready = asyncio.Event()
        """Set once the ledger knows what was consumed."""
        self.over: dict[str, Standing] = {}
        """Budgets that evict now."""
        self._editions: dict[str, int] = {}
        """Of each of these, the edition that was judged."""
        self._changed = asyncio.Event()
        self._judging: asyncio.Task[None] | None = None

    def changed(self) -> None:
        """Note that what was judged may be different now."""
        self._changed.set()

    def now(self) -> Micros:
        # The clock of a scheduler elsewhere may be a little ahead.
        return max(self._clock(), self.ledger.consumption.at)

    async def ask(self, request: Request[Any]) -> Verdict:
        """Return the verdict on a request."""
        await self.ready.wait()
        case = self.ledger.enter(request)
        if not case.approved:
            case.asking += 1
            try:
                await self._judged()
            finally:
                case.asking -= 1
        return self.ledger.answer(case, self.now())

    async def watch(self, request: Request[Any]) -> Verdict | None:
        """Return what takes an approval back, None if it stays."""
        await self.ready.wait()
        self.ledger.enter(request)
        # What was found of an earlier edition of a budget takes nothing back.
        accounts = self.ledger.accounts
        over = {
            name: standing
            for name, standing in self.over.items()
            if name in accounts and accounts[name].generation == self._editions.get(name)
        }
        return self.ledger.withdrawal(request, over, self.now())

    async def _judged(self) -> None:
        if self._judging is None or self._judging.done():
            self._judging = asyncio.create_task(self._gather())
        await asyncio.shield(self._judging)

    async def _gather(self) -> None:
        await asyncio.sleep(GATHER_S)
        # Whoever comes from here on is judged next time.
        self._judging = None
        self._judge()

    def _judge(self) -> bool:
        """Judge, and have asked again what has another answer; False if not all could be."""
        changed = {case.key for case in self.ledger.judge(self.now()) if not case.asking}
        return not changed or self._recheck(lambda request: case_key(request) in changed) >= len(changed)

    async def run(self) -> None:
        """Judge again whenever something has changed, or time has come to it, for ever."""
        await self.ready.wait()
        while True:
            self._changed.clear()
            now = self.now()
            reached = self._judge()
            self._evict(now)
            wakes = self.ledger.next_change(now)
            # Right after a start the requests are known before they can be asked about.
            wait_s = AT_MOST_S if reached else AGAIN_S
            if wakes is not None:
                wait_s = min(wait_s, max(0.0, (wakes - now) / MICROS_PER_S))
            started = time.monotonic()
            try:
                async with asyncio.timeout(wait_s + 0.001):
                    await self._changed.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(max(0.0, AT_LEAST_S - (time.monotonic() - started)))

    def _evict(self, now: Micros) -> None:
        before, self.over = self.over, self.ledger.exceeded(now)
        self._editions = {name: self.ledger.accounts[name].generation for name in self.over}
        if news := self.over.keys() - before.keys():
            log.info("budgets are used up", budgets=sorted(news))
            self._recheck(
                lambda request: (
                    request.state == "Ready"
                    and any(account.name in news for account in self.ledger.concerning(request))
                )
            )


def make(config: Config) -> Controller:
    """Return the controller, to be run."""
    app = Controller(config.controller, Settings(concurrency=10_000, timeout_s=None))
    ledger = Ledger(refresh_us=int(config.refresh_s * MICROS_PER_S))
    desk = Desk(ledger, app.recheck, wall)

    budget = app.check(desk.ask)
    budget.watch(every=HOUR_S)(desk.watch)

    @budget.on_stop
    async def stop(request: Request[Any]) -> None:
        ledger.leave(request)
        desk.changed()

    @app.on_active
    async def active(requests: Sequence[Request[Any]]) -> None:
        # What a predecessor has approved is promised, before anybody else is let in.
        ledger.cases.clear()
        for request in requests:
            ledger.enter(request)
        desk.changed()

    @app.lifespan
    @asynccontextmanager
    async def following(controller: Controller) -> AsyncIterator[None]:
        source = controller.running.client.log
        follower = LedgerFollower(source, ledger, desk.changed, config.snapshot_entries)
        follower.ready = desk.ready

        def active() -> bool:
            return desk.ready.is_set() and bool(controller.running and controller.running.numbers.active)

        async with (
            Http() as http,
            serving(config.http, "CHECK_BUDGET_HTTP", pages(ledger, desk.now)),
            answering(source, ledger, desk.now, active),
        ):
            readers = Readers(http, ledger, wall, desk.changed)
            tasks = [asyncio.create_task(each()) for each in (follower.run, readers.run, desk.run)]
            for task in tasks:
                task.add_done_callback(lambda done: _ended(controller, done))
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    return app


def _ended(controller: Controller, task: "asyncio.Task[None]") -> None:
    """A part that cannot go on takes the process with it: its successor begins anew."""
    if task.cancelled():
        return
    log.error("cannot go on", error=repr(task.exception()))
    if controller.running is not None:
        controller.running.stop()
