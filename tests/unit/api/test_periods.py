"""Budget periods follow the calendar and the clocks of their time zone."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.api.check_parameters import BudgetPeriod
from sluice.api.periods import period_at

HOUR = 3600 * 1_000_000
QUARTER = HOUR // 4


def us(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 1_000_000


def span(at: str, **period: object) -> tuple[int, int]:
    found = period_at(BudgetPeriod(**period), us(at))  # type: ignore[arg-type]
    return found.start, found.end


@pytest.mark.parametrize(
    ("at", "period", "start", "end"),
    [
        # Months of UTC.
        ("2026-11-21T09Z", {}, "2026-11-01T00Z", "2026-12-01T00Z"),
        ("2026-12-31T23:59:59Z", {}, "2026-12-01T00Z", "2027-01-01T00Z"),
        ("2028-02-29T12Z", {}, "2028-02-01T00Z", "2028-03-01T00Z"),
        # Months that begin on another day, before and after it.
        ("2026-03-14T12Z", {"start_day_of_month": 15}, "2026-02-15T00Z", "2026-03-15T00Z"),
        ("2026-01-15T00Z", {"start_day_of_month": 15}, "2026-01-15T00Z", "2026-02-15T00Z"),
        ("2026-01-02T00Z", {"start_day_of_month": 28}, "2025-12-28T00Z", "2026-01-28T00Z"),
        # Weeks: the first instant belongs to the new one.
        ("2026-11-21T09Z", {"unit": "Weekly"}, "2026-11-16T00Z", "2026-11-23T00Z"),
        ("2026-11-20T00Z", {"unit": "Weekly", "start_weekday": "Friday"}, "2026-11-20T00Z", "2026-11-27T00Z"),
        # The local day counts: it is Monday in Auckland already.
        (
            "2026-11-15T11:30Z",
            {"unit": "Weekly", "time_zone": "Pacific/Auckland"},
            "2026-11-16T00+13",
            "2026-11-23T00+13",
        ),
        # Clocks go forward in Berlin's March, and back in October.
        ("2026-03-30T12+02", {"time_zone": "Europe/Berlin"}, "2026-03-01T00+01", "2026-04-01T00+02"),
        (
            "2026-10-25T12+01",
            {"unit": "Weekly", "time_zone": "Europe/Berlin"},
            "2026-10-19T00+02",
            "2026-10-26T00+01",
        ),
        # Offsets of three quarters of an hour.
        ("2026-11-21T09Z", {"time_zone": "Asia/Kathmandu"}, "2026-11-01T00+05:45", "2026-12-01T00+05:45"),
        # In Beirut the clocks skip midnight: the day begins at one.
        (
            "2026-03-29T12+03",
            {"unit": "Weekly", "start_weekday": "Sunday", "time_zone": "Asia/Beirut"},
            "2026-03-29T01+03",
            "2026-04-05T00+03",
        ),
    ],
)
def test_boundaries(at: str, period: dict[str, object], start: str, end: str) -> None:
    assert span(at, **period) == (us(start), us(end))


def test_a_week_with_a_change_of_clocks_is_an_hour_longer_or_shorter() -> None:
    forward = span("2026-03-25T00:00+01:00", unit="Weekly", time_zone="Europe/Berlin")
    back = span("2026-10-20T00:00+02:00", unit="Weekly", time_zone="Europe/Berlin")

    assert (forward[1] - forward[0]) // HOUR == 7 * 24 - 1
    assert (back[1] - back[0]) // HOUR == 7 * 24 + 1


def test_the_end_is_shown_in_local_time() -> None:
    found = period_at(BudgetPeriod(time_zone="Europe/Berlin"), us("2026-11-21T09:00+00:00"))

    assert found.until == "2026-12-01T00:00+01:00"


PERIODS = st.builds(
    BudgetPeriod,
    unit=st.sampled_from(["Weekly", "Monthly"]),
    time_zone=st.sampled_from(
        ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "Asia/Beirut"]
    ),
)


@given(PERIODS, st.integers(us("2024-01-01T00:00+00:00"), us("2035-01-01T00:00+00:00")))
def test_periods_follow_one_another_without_gap(period: BudgetPeriod, at: int) -> None:
    """Each moment is in exactly one period; the next one begins where it ends, at a quarter of an hour."""
    found = period_at(period, at)

    assert found.start <= at < found.end
    assert period_at(period, found.end).start == found.end
    assert period_at(period, found.end - 1) == found
    assert found.start % QUARTER == 0
    assert datetime.fromtimestamp(found.end // 1_000_000, UTC).astimezone(ZoneInfo(period.time_zone)).day
