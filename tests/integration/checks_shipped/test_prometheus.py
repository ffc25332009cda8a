"""Consumption read from a real HTTP server that speaks, or does not speak, Prometheus' API."""

import asyncio
from fractions import Fraction
from typing import Any

import pytest
from aiohttp import web

from sluice.api.check_parameters import BudgetPeriod, PrometheusSource
from sluice.api.periods import period_at
from sluice.services.check_budget.prometheus import Readers, ReadingError, read
from sluice.services.common.http import Http, HttpError
from tests.support.waiting import PATIENCE_S
from tests.unit.services.check_budget.budget_ledger import HOUR, MONDAY, World

from .conftest import Serve


def scalar(value: str) -> web.Response:
    return web.json_response({"status": "success", "data": {"resultType": "scalar", "result": [1, value]}})


async def _hang(_: web.Request) -> web.Response:
    await asyncio.Event().wait()
    return web.Response()


def app(answer: Any, asked: list[str]) -> web.Application:
    async def handle(request: web.Request) -> web.Response:
        asked.append(str((await request.post())["query"]))
        found = answer(request)
        return await found if asyncio.iscoroutine(found) else found

    made = web.Application()
    made.router.add_post("/prom/api/v1/query", handle)
    return made


async def test_the_query_is_asked_for_the_present_period(serve: Serve) -> None:
    asked: list[str] = []
    url = await serve(app(lambda _: scalar("12.5"), asked))
    source = PrometheusSource(url=f"{url}/prom/", query="increase(cost[$period])")
    now = MONDAY + HOUR
    async with Http() as http:
        assert await read(http, source, period_at(BudgetPeriod(unit="Weekly"), now), now) == Fraction("12.5")

    assert asked == ["increase(cost[3600s])"]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda _: web.Response(status=500, text="on fire"), "status 500: on fire"),
        (lambda _: web.Response(status=302, headers={"Location": "/x"}), "status 302"),
        (_hang, "no answer within 1 s"),
        (lambda _: web.Response(text="<html>"), "the answer is not that of a Prometheus server"),
        (
            lambda _: web.json_response(
                {"status": "error", "errorType": "bad_data", "error": "parse error"}, status=400
            ),
            "bad_data: parse error",
        ),
    ],
)
async def test_what_went_wrong_is_said(serve: Serve, answer: Any, text: str) -> None:
    url = await serve(app(answer, []))
    source = PrometheusSource(url=f"{url}/prom", query="x", timeout_seconds=1)
    async with Http() as http:
        with pytest.raises((HttpError, ReadingError)) as caught:
            await read(http, source, period_at(BudgetPeriod(), MONDAY), MONDAY)
    assert str(caught.value) == text


async def test_the_last_value_counts_until_reading_has_failed_thrice(serve: Serve) -> None:
    values = iter(["7", "broken", "broken", "broken"])
    url = await serve(app(lambda _: scalar(next(values, "broken")), []))
    world = World()
    source = {"url": f"{url}/prom", "query": "x", "intervalSeconds": 1}
    world.budget(cost=10, source={"prometheus": source})
    readings = []
    async with Http() as http:
        news = asyncio.Event()
        running = asyncio.create_task(Readers(http, world.ledger, lambda: world.now, news.set).run())
        while len(readings) < 3:
            await asyncio.wait_for(news.wait(), PATIENCE_S)
            news.clear()
            readings.append(world.ledger.accounts["team-a"].reading)
        running.cancel()

    assert [reading.value for reading in readings] == [Fraction(7), Fraction(7), None]
    assert readings[1].error == readings[2].error == "'broken' is no number"
