"""How budgets stand, over HTTP: `/budgets` for people and programs, `/metrics` for Prometheus."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from fractions import Fraction
from typing import Any

from aiohttp import web

from sluice.core.budgets.budgets import Limit, Standing, rounded
from sluice.events.base import Micros

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
    lines = []
    for number, (word, text) in enumerate(_METRICS):
        lines += [f"# HELP sluice_budget_{word} {text}", f"# TYPE sluice_budget_{word} gauge"]
        for name in sorted(standings):
            for limit, used, committed in _rows(standings[name]):
                labels = {
                    "budget": name,
                    "unit": limit.unit,
                    "resource": limit.resource,
                    "flavor": limit.flavor,
                }
                told = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())
                value = rounded((limit.amount, used, committed)[number], DIGITS)
                lines.append(f"sluice_budget_{word}{{{told}}} {value}")
    lines += [
        "# HELP sluice_budget_unreadable 1 for a budget that cannot be judged by",
        "# TYPE sluice_budget_unreadable gauge",
    ]
    lines += [f'sluice_budget_unreadable{{budget="{_escaped(name)}"}} 1' for name in sorted(problems)]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@asynccontextmanager
async def serving(address: str, office: Office, now: Callable[[], Micros]) -> AsyncIterator[int]:
    """Serve at *address*, `host:port` or `:port` (all hosts), "" for not at all; yields the port.

    Raises:
        OSError: the address cannot be had.
    """
    if not address:
        yield 0
        return

    async def budgets(_: web.Request) -> web.Response:
        return web.json_response({"budgets": report(office, now())})

    async def numbers(_: web.Request) -> web.Response:
        return web.Response(text=metrics(office, now()), content_type="text/plain")

    app = web.Application()
    app.add_routes([web.get("/budgets", budgets), web.get("/metrics", numbers)])
    host, _, port = address.rpartition(":")
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host or None, int(port)).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
