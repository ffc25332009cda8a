"""Pages on the standing of budgets, over HTTP: `/budgets` for people and programs, `/metrics` to scrape."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec
from prometheus_client import Metric

from sluice.core.budgets.budgets import Limit, Standing, rounded
from sluice.events.base import Micros
from sluice.telemetry.http import Page, Pages, Scrape

from .ledger import Ledger

DIGITS = 6

_METRICS = (
    ("limit", "What may be used in a period"),
    ("used", "What was used in the present period"),
    ("committed", "What running workloads may still use"),
)


def report(ledger: Ledger, now: Micros) -> list[dict[str, Any]]:
    """Return how every budget stands, amounts as exact as decimals of six digits are."""
    standings, problems = ledger.standings(now)
    waiting: dict[str, int] = {}
    for case in ledger.cases.values():
        if case.refusal is not None and case.refusal.budget:
            waiting[case.refusal.budget] = waiting.get(case.refusal.budget, 0) + 1
    found = []
    for name in sorted(ledger.accounts):
        one: dict[str, Any] = {"name": name, "held": waiting.get(name, 0)}
        if name in standings:
            standing = standings[name]
            one |= {
                "periodEnds": standing.until,
                "usedUp": standing.exceeded,
                "limits": [_amounts(*each) for each in _rows(standing)],
            }
        else:
            one["problem"] = problems[name].text
        found.append(one)
    return found


def _rows(standing: Standing) -> Iterator[tuple[Limit, Fraction, Fraction]]:
    return zip(standing.limits, standing.used, standing.committed, strict=True)


def _amounts(limit: Limit, used: Fraction, committed: Fraction) -> dict[str, str]:
    left = max(Fraction(0), limit.amount - used - committed)
    amounts = {"limit": limit.amount, "used": used, "committed": committed, "left": left}
    what = {"unit": limit.unit, "resource": limit.resource, "flavor": limit.flavor}
    return {key: text for key, text in what.items() if text} | {
        key: rounded(amount, DIGITS) for key, amount in amounts.items()
    }


class Metrics(NamedTuple):
    """The same as Prometheus reads it."""

    ledger: Ledger
    now: Micros

    def collect(self) -> Iterator[Metric]:
        standings, problems = self.ledger.standings(self.now)
        for number, (word, text) in enumerate(_METRICS):
            metric = Metric(f"sluice_budget_{word}", text, "gauge")
            for name in sorted(standings):
                for limit, used, committed in _rows(standings[name]):
                    of = {
                        "budget": name,
                        "unit": limit.unit,
                        "resource": limit.resource,
                        "flavor": limit.flavor,
                    }
                    amount = (limit.amount, used, committed)[number]
                    metric.add_sample(metric.name, of, float(round(amount, DIGITS)))
            yield metric
        unreadable = Metric("sluice_budget_unreadable", "1 for a budget that cannot be judged by", "gauge")
        for name in sorted(problems):
            unreadable.add_sample(unreadable.name, {"budget": name}, 1)
        yield unreadable


def pages(ledger: Ledger, now: Callable[[], Micros]) -> Pages:
    """Return what is served, by path."""

    async def budgets() -> Page:
        return Page(msgspec.json.encode({"budgets": report(ledger, now())}))

    async def numbers() -> Scrape:
        return Scrape(Metrics(ledger, now()))

    return {"/budgets": budgets, "/metrics": numbers}
