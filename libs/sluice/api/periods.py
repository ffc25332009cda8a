"""Weeks and months of a budget, as a calendar on the wall has them."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple, get_args
from zoneinfo import ZoneInfo

from .check_parameters import BudgetPeriod, Weekday

_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WEEKDAYS = get_args(Weekday)


class Period(NamedTuple):
    """From `start` to just before `end`, microseconds since the epoch; `until` is the end for people."""

    start: int
    end: int
    until: str


def period_at(period: BudgetPeriod, at: int) -> Period:
    """Return the week or month that *at* (microseconds since the epoch) is in.

    It begins at midnight, or when the day begins where the clocks skip midnight; with the clocks set back
    it begins at the first of two midnights. So weeks with a change of clocks have an hour more or less.

    >>> from sluice.api.check_parameters import BudgetPeriod
    >>> month = BudgetPeriod(unit="Monthly", time_zone="Europe/Berlin")
    >>> period_at(month, 1_767_225_600_000_000).until  # the first moment of 2026 in UTC
    '2026-02-01T00:00+01:00'

    Raises:
        ValueError, OSError, LookupError: the time zone is not known here.
    """
    zone = ZoneInfo(period.time_zone)
    today = (_EPOCH + at * _MICROSECOND).astimezone(zone).date()
    if period.unit == "Weekly":
        first = _WEEKDAYS.index(period.start_weekday or "Monday")
        begin = today - timedelta(days=(today.weekday() - first) % 7)
        end = begin + timedelta(days=7)
    else:
        day = period.start_day_of_month or 1
        begin = today.replace(day=day)
        if begin > today:
            begin = (begin.replace(day=1) - timedelta(days=1)).replace(day=day)
        end = (begin.replace(day=1) + timedelta(days=32)).replace(day=day)
    midnight = datetime(end.year, end.month, end.day, tzinfo=zone)
    start_us = _micros(datetime(begin.year, begin.month, begin.day, tzinfo=zone))
    return Period(start_us, _micros(midnight), midnight.isoformat(timespec="minutes"))


def _micros(moment: datetime) -> int:
    return (moment.astimezone(UTC) - _EPOCH) // _MICROSECOND
