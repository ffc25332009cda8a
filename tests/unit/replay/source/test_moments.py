"""Times as people on call write them, of the whole log or from its end backwards."""

from datetime import UTC, datetime

import pytest

from sluice.replay.source.moments import MomentError, time_of

LATEST = datetime(2026, 3, 5, 14, 30, tzinfo=UTC)


def _micros(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000)


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("now", LATEST),
        ("10m", LATEST.replace(minute=20)),
        ("1h30m", LATEST.replace(hour=13, minute=0)),
        ("1d", LATEST.replace(day=4)),
        ("14:03Z", LATEST.replace(minute=3)),
        ("14:30:00Z", LATEST),
        ("14:31Z", LATEST.replace(day=4, minute=31)),
        ("15:03+01:00", LATEST.replace(minute=3)),
        ("2026-01-01T14:03Z", datetime(2026, 1, 1, 14, 3, tzinfo=UTC)),
    ],
)
def test_times_people_write(text, means):
    assert time_of(text, _micros(LATEST)) == _micros(means)


@pytest.mark.parametrize("text", ["10m", "now", "14:03"])
def test_short_times_need_something_to_count_from(text):
    with pytest.raises(MomentError, match="want a sequence"):
        time_of(text)


@pytest.mark.parametrize("text", ["yesterday", "25:00", "10 m", "-5m", ""])
def test_what_is_no_time_is_said(text):
    with pytest.raises(MomentError, match="or now"):
        time_of(text, _micros(LATEST))
