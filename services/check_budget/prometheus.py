"""Reads consumption from a Prometheus server's HTTP API."""

import asyncio
import string
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any
from urllib.parse import urlencode

import msgspec

from sluice.api.check_parameters import PrometheusSource
from sluice.api.periods import Period, period_at
from sluice.events.base import Micros
from sluice.services.common.http import Http, HttpError

from .ledger import Account, Ledger, Reading

FAILURES = 3
"""So many times in a row reading may fail before the last value is not believed any more."""
LOOK_S = 1.0


class ReadingError(Exception):
    """The server answered, but not with one number."""


def filled_in(query: str, period: Period, now: Micros) -> str:
    """Return the query with `$period`, `$start` and `$end` replaced; other dollars are left."""
    values = {
        "period": f"{max(1, (now - period.start) // 1_000_000)}s",
        "start": str(period.start // 1_000_000),
        "end": str(period.end // 1_000_000),
    }
    return string.Template(query).safe_substitute(values)


def number_in(body: bytes) -> Fraction:
    """Return the one number of an answer, exactly as it is written there.

    Raises:
        ReadingError: the answer is an error, holds no sample or several, or no finite number.
    """
    try:
        answer: Any = msgspec.json.decode(body)
        if answer["status"] != "success":
            raise ReadingError(f"{answer.get('errorType', 'error')}: {answer.get('error', '')}")
        kind, result = answer["data"]["resultType"], answer["data"]["result"]
        if kind == "vector":
            if len(result) != 1:
                hint = "`or vector(0)` makes nothing 0" if not result else "sum() makes them one"
                raise ReadingError(f"the query has {len(result)} results; {hint}")
            text = result[0]["value"][1]
        elif kind == "scalar":
            text = result[1]
        else:
            raise ReadingError(f"the query's result is a {kind}; want one number")
        number = Decimal(str(text))
    except (msgspec.DecodeError, LookupError, TypeError, AttributeError) as error:
        raise ReadingError("the answer is not that of a Prometheus server") from error
    except InvalidOperation as error:
        raise ReadingError(f"{text!r} is no number") from error
    if not number.is_finite():
        raise ReadingError(f"the result is {text}")
    return Fraction(number)


async def read(http: Http, source: PrometheusSource, period: Period, now: Micros) -> Fraction:
    """Ask once.

    Raises:
        HttpError, ReadingError: no number came; says why.
    """
    url = f"{source.url.rstrip('/')}/api/v1/query"
    body = urlencode({"query": filled_in(source.query, period, now)}).encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = await http.ask("POST", url, timeout_s=source.timeout_seconds, body=body, headers=headers)
    if answer.status not in (200, 400, 422):
        said = f": {answer.excerpt}" if answer.excerpt else ""
        raise HttpError(f"status {answer.status}{said}")
    return number_in(answer.body)


class Readers:
    """One task per budget that is read from Prometheus."""

    def __init__(
        self, http: Http, ledger: Ledger, clock: Callable[[], Micros], changed: Callable[[], None]
    ) -> None:
        """*clock*: returns the time in microseconds. *changed*: called when a budget's reading is news."""
        self._http, self._office, self._clock, self._changed = http, ledger, clock, changed
        self._tasks: dict[tuple[str, int], asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Start and end readers as budgets come and go, for ever."""
        try:
            while True:
                wanted = {
                    (account.name, account.generation): account
                    for account in self._office.accounts.values()
                    if account.budget.spec.source.prometheus is not None
                }
                for key in [key for key in self._tasks if key not in wanted]:
                    self._tasks.pop(key).cancel()
                for key, account in wanted.items():
                    if key not in self._tasks:
                        self._tasks[key] = asyncio.create_task(self._follow(account), name=f"read-{key[0]}")
                await asyncio.sleep(LOOK_S)
        finally:
            for task in self._tasks.values():
                task.cancel()

    async def _follow(self, account: Account) -> None:
        source = account.budget.spec.source.prometheus
        assert source is not None
        failures = 0
        while True:
            now = self._clock()
            try:
                period = period_at(account.budget.spec.period, now)
                reading = Reading(await read(self._http, source, period, now))
                failures = 0
            except (HttpError, ReadingError, ValueError, OSError, LookupError) as error:
                failures += 1
                before = account.reading.value if failures < FAILURES else None
                reading = Reading(before, str(error))
            if reading != account.reading:
                account.reading = reading
                self._changed()
            await asyncio.sleep(source.interval_seconds)
