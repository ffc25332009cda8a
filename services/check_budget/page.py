"""How budgets stand, over HTTP: `/budgets` for people and programs, `/metrics` for Prometheus."""

from collections.abc import Awaitable, Callable, Iterator
from fractions import Fraction
from typing import Any

import msgspec

from sluice.core.budgets.budgets import Limit, Standing, rounded
from sluice.events.base import Micros
from sluice.telemetry.exposition import family
from sluice.telemetry.http import PROMETHEUS, Page

from .office import Office

DIGITS = 6

_METRICS = (
    ("limit", "What may be used in a period"),
    ("used", "What was used in the present period"),
    ("committed", "What running workloads may still use"),
)


def report(office: Office, now: Micros) -> list[dict[str, Any]]:
    """Return how every budget stands, amounts as exact as decimals of six digits are."""
    standings, problems = office.standings(now)
    waiting: dict[str, int] = {}
    for case in office.cases.values():
        if case.refusal is not None and case.refusal.budget:
            waiting[case.refusal.budget] = waiting.get(case.refusal.budget, 0) + 1
    found = []
    for name in sorted(office.accounts):
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


def metrics(office: Office, now: Micros) -> str:
    """Return the same as Prometheus reads it."""
    standings, problems = office.standings(now)
    parts = []
    for number, (word, text) in enumerate(_METRICS):
        values = [
            (
                {"budget": name, "unit": limit.unit, "resource": limit.resource, "flavor": limit.flavor},
                rounded((limit.amount, used, committed)[number], DIGITS),
            )
            for name in sorted(standings)
            for limit, used, committed in _rows(standings[name])
        ]
        parts.append(family(f"sluice_budget_{word}", "gauge", text, values))
    unreadable = [({"budget": name}, 1) for name in sorted(problems)]
    text = "1 for a budget that cannot be judged by"
    return "".join(parts) + family("sluice_budget_unreadable", "gauge", text, unreadable)


def pages(office: Office, now: Callable[[], Micros]) -> dict[str, Callable[[], Awaitable[Page]]]:
    """Return what is served, by path."""

    async def budgets() -> Page:
        return Page(msgspec.json.encode({"budgets": report(office, now())}))

    async def numbers() -> Page:
        return Page(metrics(office, now()).encode(), PROMETHEUS)

    return {"/budgets": budgets, "/metrics": numbers}
