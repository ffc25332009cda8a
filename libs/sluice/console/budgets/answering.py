"""Answers of the HTTP API about budgets."""

import re
import time
from collections import defaultdict
from typing import NamedTuple

from msgspec.structs import replace

from sluice.api.check_parameters import Budget
from sluice.console.asked import Asked
from sluice.console.cell import Looked, sequence
from sluice.console.handlers import Handlers
from sluice.core.budgets.consumption import Consumption
from sluice.core.views.present.unadmitted import waiting_for
from sluice.events.base import Micros, WorkloadKey
from sluice.events.codec import rfc3339
from sluice.readmodel.world import World
from sluice.replay.source import moments

from .books import Note
from .shapes import BudgetRow, BudgetsAnswer, Held
from .standing import Moment, stands

_SAID_BY = re.compile(r"Budget '([^']+)'")
"""How messages of the check begin; it may say first that it gives the quota back."""


class _Told(NamedTuple):
    """What the world says."""

    seq: int
    at: Micros
    budgets: list[Budget]
    held: dict[str, list[Held]]


async def budgets(handlers: Handlers, asked: Asked) -> BudgetsAnswer:
    """Return how all budgets stand; those who ask first wait until the log was folded for it."""
    cell, books = handlers.cell, handlers.books
    seq = await sequence(cell, asked.text("at"))
    told = await cell.ask(seq, _told)
    live = cell.live and not seq
    now = max(told.at, time.time_ns() // 1_000) if live else told.at
    rows: list[BudgetRow] = []
    more: dict[str, int] = {}

    def found(state: Consumption, notes: list[Note]) -> None:
        cut = books.cut_at
        cut_at = moments.moment_of(cell.source, cut) if cut else 0
        moment = Moment(now, state, notes, cut_at)
        rows.clear()
        for budget in told.budgets:
            row, left_out = stands(budget, moment, told.held.get(budget.metadata.name, []))
            rows.append(row)
            if left_out:
                more[row.name] = left_out

    if told.budgets:
        await cell.read(lambda: books.ask(told.seq, found))
        rows = await _named(cell, seq, rows)
    return BudgetsAnswer(
        upto=told.seq,
        time=rfc3339(told.at) if told.at else "",
        live=live,
        lag=0 if seq else cell.lag,
        now=rfc3339(now) if now else "",
        budgets=rows,
        more=more,
    )


def _told(world: World) -> _Told:
    stored = world.objects.by_kind["Budget"]
    found = [one.object for _, one in sorted(stored.items()) if isinstance(one.object, Budget)]
    held: dict[str, list[Held]] = defaultdict(list)
    for check in world.objects.by_kind["AdmissionCheck"] if found else ():
        for workload, state in waiting_for(world.view, check):
            said = _SAID_BY.search(state.message)
            if said is not None:
                job = workload.record.job
                name = workload.key if job is None else job.key
                held[said[1]].append(Held(job=name, message=state.message))
    return _Told(world.seq, world.at, found, held)


async def _named(cell: Looked, seq: int, rows: list[BudgetRow]) -> list[BudgetRow]:
    """Return the rows with jobs in the place of their workloads."""

    def jobs(world: World) -> dict[str, str]:
        workloads = world.view.workloads
        keys = (WorkloadKey(part.job) for row in rows for part in row.running)
        found = ((key, workloads[key].record.job) for key in keys if key in workloads)
        return {key: job.key for key, job in found if job is not None}

    names = await cell.ask(seq, jobs)
    return [
        replace(row, running=[replace(part, job=names.get(part.job, part.job)) for part in row.running])
        for row in rows
    ]
