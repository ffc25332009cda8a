"""Ages and durations as kubectl prints them, and durations as people type them."""

from datetime import UTC, datetime, tzinfo

from sluice.replay.source.durations import parse

__all__ = ["age", "clock", "epoch", "human", "moment", "parse", "precise", "seconds_between", "utc"]

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def moment(at: int, pattern: str, zone: tzinfo | None = None) -> str:
    """Return a time, in microseconds, as *pattern* has it; `%f` are milliseconds. No *zone*: local time.

    A time that no calendar has is returned as the number that it is: a log may hold any.
    """
    try:
        found = datetime.fromtimestamp(at / 1e6, zone)
    except (ValueError, OverflowError, OSError):
        return str(at)
    return found.strftime(pattern.replace("%f", f"{found.microsecond // 1000:03d}"))


def clock(at: int) -> str:
    """Return a time of the log as the local time of day, to the millisecond."""
    return moment(at, "%H:%M:%S.%f")


def utc(at: int) -> str:
    """Return a time as people read it, in UTC, to the millisecond."""
    return moment(at, "%Y-%m-%d %H:%M:%S.%f", UTC)


def human(seconds: float) -> str:
    """Return a duration in at most two units, as kubectl's AGE: `7s`, `3m12s`, `5h`, `2d3h`.

    The coarser the value, the fewer digits; a negative one (clocks apart) reads `0s`.
    """
    s = int(seconds)
    if s <= 0:
        return "0s"
    if s < 2 * _MINUTE:
        return f"{s}s"
    if s < 10 * _MINUTE:
        return _two(s, _MINUTE, "m", 1, "s")
    if s < 3 * _HOUR:
        return f"{s // _MINUTE}m"
    if s < 8 * _HOUR:
        return _two(s, _HOUR, "h", _MINUTE, "m")
    if s < 2 * _DAY:
        return f"{s // _HOUR}h"
    if s < 8 * _DAY:
        return _two(s, _DAY, "d", _HOUR, "h")
    if s < 2 * _YEAR:
        return f"{s // _DAY}d"
    if s < 8 * _YEAR:
        return _two(s, _YEAR, "y", _DAY, "d")
    return f"{s // _YEAR}y"


def _two(s: int, major: int, major_unit: str, minor: int, minor_unit: str) -> str:
    rest = s % major // minor
    return f"{s // major}{major_unit}" + (f"{rest}{minor_unit}" if rest else "")


def precise(seconds: float) -> str:
    """Return a duration with a tenth of a second where that says something: `0.4s`, `12.3s`, `3m12s`."""
    return f"{max(seconds, 0.0):.1f}s" if seconds < 2 * _MINUTE else human(seconds)


def seconds_between(earlier: str | None, later: str | None) -> float | None:
    """Return the seconds from one RFC 3339 time to another; None when either is absent."""
    start, end = epoch(earlier), epoch(later)
    return None if start is None or end is None else end - start


def epoch(timestamp: str | None) -> float | None:
    """Return the seconds since the epoch of an RFC 3339 time; None when absent or unreadable."""
    if not timestamp:
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def age(timestamp: str | None, now: float) -> str:
    """Return kubectl's AGE of an RFC 3339 time at *now*, seconds since the epoch; `<unknown>` without one."""
    moment = epoch(timestamp)
    return "<unknown>" if moment is None else human(now - moment)
