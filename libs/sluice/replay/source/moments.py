"""Moments of a log as people name them: by sequence, a time, or how long ago."""

from contextlib import suppress
from datetime import UTC, datetime, time, timedelta

from sluice.events.base import Micros
from sluice.events.codec import rfc3339

from . import durations
from .source import FileSource, Source, sequence_at
from .time_travel import RangeError, check_range

__all__ = ["MomentError", "moment_of", "sequence_of", "time_of"]


class MomentError(ValueError):
    """A text that is neither a sequence nor a time."""


def sequence_of(source: Source, at: str | None) -> int:
    """Return the sequence that *at* means; without it, the last one.

    Raises:
        RangeError, MomentError: it means none.
    """
    if not at:
        return source.end
    if at.isdigit():
        seq = int(at)
        check_range(source, seq)
        return seq
    seq = sequence_at(source, time_of(at, latest(source)))
    if not seq:
        begin = rfc3339(moment_of(source, source.first))
        where = f"; {source.earlier}" if source.earlier else ""
        raise RangeError(f"{source.name} begins at {begin}, after {at}{where}")
    return seq


def moment_of(source: Source, seq: int) -> Micros:
    """Return when the log took the message at *seq*, or the last one before it."""
    for start in (seq, max(source.first, seq - 100), source.first):
        found = [entry.at for entries in source.read(start, seq) for entry in entries]
        if found:
            return found[-1]
    return 0


def time_of(text: str, latest: Micros | None = None) -> Micros:
    """Return a time as microseconds: ISO 8601, without an offset it is local, with Z it is UTC.

    *latest*: what `now` is, `10m` goes back from, and `14:03` is the last one before.

    Raises:
        MomentError: it is no time.
    """
    if latest is not None:
        if text == "now":
            return latest
        with suppress(ValueError):
            return latest - int(durations.parse(text) * 1_000_000)
        with suppress(ValueError):
            return _last_time_of_day(time.fromisoformat(text), latest)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        short = ", 14:03 (the last one), 10m (ago) or now" if latest is not None else ""
        raise MomentError(
            f"{text!r}: want a sequence like 4711, or a time like 2026-01-01T14:03:00Z{short}"
        ) from None
    return int(moment.timestamp() * 1_000_000)


def _last_time_of_day(clock_time: time, latest: Micros) -> Micros:
    day = datetime.fromtimestamp(latest / 1_000_000, clock_time.tzinfo)
    found = datetime.combine(day.date(), clock_time)
    if found.timestamp() * 1_000_000 > latest:
        found -= timedelta(days=1)
    return int(found.timestamp() * 1_000_000)


def latest(source: Source) -> Micros:
    """Return what `now` means: of a file its end, as it may be of last year."""
    if isinstance(source, FileSource):
        return moment_of(source, source.end)
    return int(datetime.now(UTC).timestamp() * 1_000_000)
