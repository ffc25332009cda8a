"""Ages read as kubectl prints them; durations as people type them."""

import pytest

from sluice.cli.kit.durations import age, human, parse, precise, seconds_between


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (0, "0s"),
        (1.9, "1s"),
        (119, "119s"),
        (120, "2m"),
        (192, "3m12s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (5 * 3600 + 60, "5h1m"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (51 * 3600, "2d3h"),
        (8 * 86400, "8d"),
        (800 * 86400, "2y70d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_the_coarser_the_fewer_digits(seconds, text):
    """At most two units, and kubectl's borders between them."""
    assert human(seconds) == text


def test_short_times_keep_a_tenth():
    """Where seconds decide, a tenth says something; later it does not."""
    assert [precise(s) for s in (0, 0.44, 12.34, 200)] == ["0.0s", "0.4s", "12.3s", "3m20s"]


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1m30s", 90), ("1.5h", 5400), ("250ms", 0.25), ("2d", 172800)]
)
def test_reads_what_people_type(text, seconds):
    """Units may be combined; a bare number is seconds."""
    assert parse(text) == seconds


@pytest.mark.parametrize("text", ["", "x", "5 apples", "1m 30s", "-3s"])
def test_says_what_a_duration_looks_like(text):
    """Anything else is refused with an example."""
    with pytest.raises(ValueError, match="1m30s"):
        parse(text)


def test_age_needs_a_time():
    """An absent or broken time has no age, and says so."""
    assert age(None, 0) == age("yesterday", 0) == "<unknown>"
    assert age("1970-01-01T00:00:00Z", 61) == "61s"
    assert seconds_between("1970-01-01T00:00:01Z", "1970-01-01T00:00:03Z") == 2
    assert seconds_between(None, "1970-01-01T00:00:03Z") is None
