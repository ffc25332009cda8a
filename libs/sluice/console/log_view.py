"""The log as the API shows it: events with a line of text each, causes, how dense it is."""

import threading
from collections.abc import Iterable, Iterator
from typing import Any

from sluice.events.codec import rfc3339
from sluice.log.contract import Entry
from sluice.protocol.subjects import COMMITS
from sluice.replay.history.causes import Happening, happenings
from sluice.replay.history.event_text import describe, subject_of
from sluice.replay.history.trace import trace
from sluice.replay.source.source import Source

from .answers import Bucket, Consequence, LogEvent
from .problems import NotFoundError

MOST_TEXT = 240
MOST_STRETCHES = 4_096
PAGE_MESSAGES = 2_000
"""Messages read at a time, backwards."""

_KINDS = {
    "Admitted": "admitted",
    "Preempted": "preempted",
    "Evicted": "evicted",
    "WorkloadFinished": "finished",
    "ObjectApplied": "config",
    "ObjectDeleted": "config",
    "JobSubmitted": "submitted",
}
"""What a picture of the log counts, by type of event."""


def event_of(happening: Happening, index: int) -> LogEvent:
    """Return one event as the API shows it."""
    fields = {"type": happening.type, "cause": happening.cause, **happening.data}
    if happening.writer in COMMITS:
        text = f"{subject_of(fields)}  {describe(fields)}".strip()
    else:
        words = [str(happening.data.get("job") or happening.data.get("subject", ""))]
        words += [str(happening.data[k]) for k in ("workload", "check", "state") if k in happening.data]
        text = " ".join(words)
    flat = " ".join(text.split())
    return LogEvent(
        seq=happening.seq,
        index=index,
        time=rfc3339(happening.at),
        writer=happening.writer,
        type=happening.type,
        text=flat if len(flat) <= MOST_TEXT else f"{flat[: MOST_TEXT - 1]}…",
        cause=happening.cause,
        about=sorted(happening.about()),
        data=happening.data,
    )


def events_of(entries: Iterable[Entry]) -> Iterator[LogEvent]:
    """Yield all events of entries, numbered within their message."""
    for entry in entries:
        for index, happening in enumerate(happenings([entry])):
            yield event_of(happening, index)


def page(
    source: Source,
    first: int,
    last: int,
    *,
    writers: frozenset[str] = frozenset(),
    types: frozenset[str] = frozenset(),
    about: str = "",
    newest_first: bool = True,
    limit: int = 100,
) -> tuple[list[LogEvent], int]:
    """Return events of messages from *first* to *last*, and where the next page begins (0: nowhere)."""
    found: list[LogEvent] = []
    patterns = tuple(writer if writer in COMMITS else f"{writer}.>" for writer in sorted(writers))
    mark = about.rpartition("/")[2].encode()

    def take(entry: Entry) -> None:
        if about and entry.suffix in COMMITS and mark not in entry.payload:
            return
        events = [
            event
            for event in events_of([entry])
            if (not types or event.type in types) and (not about or about in event.about)
        ]
        found.extend(reversed(events) if newest_first else events)

    step = PAGE_MESSAGES
    while first <= last and len(found) < limit:
        start = max(first, last - step + 1) if newest_first else first
        end = last if newest_first else min(last, first + step - 1)
        entries = [entry for batch in source.read(start, end, patterns) for entry in batch]
        for entry in reversed(entries) if newest_first else entries:
            take(entry)
            if len(found) >= limit:
                next_ = entry.seq - 1 if newest_first else entry.seq + 1
                return found, next_ if first <= next_ <= last else 0
        if newest_first:
            last = start - 1
        else:
            first = end + 1
    return found, 0


def commit(source: Source, seq: int, about: str = "", limit: int = 50) -> dict[str, Any]:
    """Return one message whole, with its causes and what came of it."""
    entry = next((e for batch in source.read(seq, seq) for e in batch), None)
    if entry is None:
        raise NotFoundError("message", str(seq))
    found = trace(source, seq, about=about, limit=limit, back=limit)
    return {
        "seq": seq,
        "subject": entry.suffix,
        "events": list(events_of([entry])),
        "causes": [event_of(h, 0) for h in found.causes if h.seq != seq],
        "consequences": [Consequence(depth=d, event=event_of(h, 0)) for d, h in found.consequences],
        "cut": found.cut,
    }


class Density:
    """How many messages and decisions of which kind there are, in equal stretches of the log.

    Stretches of *width* messages are counted once, as the log grows; an answer joins them.
    """

    def __init__(self, source: Source, width: int = 0) -> None:
        self._source = source
        self.width = width or max(1, (source.end - source.first + 1) // 2_000)
        self._counts: list[dict[str, int]] = []
        self._times: list[int] = []
        self._begin = self._next = 0
        """Known with the first message that is counted."""
        self._lock = threading.Lock()

    def update(self) -> None:
        """Count what came since."""
        with self._lock:
            end = self._source.end
            if not self._begin:
                self._begin = self._next = self._source.first
            if self._next > end:
                return
            for batch in self._source.read(self._next, end):
                for entry in batch:
                    self._count(entry)
            self._next = end + 1

    def _count(self, entry: Entry) -> None:
        place = (entry.seq - self._begin) // self.width
        if place >= MOST_STRETCHES:
            self._widen()
            place //= 2
        while len(self._counts) <= place:
            self._counts.append({})
            self._times.append(entry.at)
        counts = self._counts[place]
        counts["messages"] = counts.get("messages", 0) + 1
        payload = entry.payload
        for name, mark in _MARKS:
            if number := payload.count(mark):
                counts[name] = counts.get(name, 0) + number

    def _widen(self) -> None:
        """Join each two stretches, as the log has become long."""
        self.width *= 2
        joined: list[dict[str, int]] = []
        for place in range(0, len(self._counts), 2):
            total = dict(self._counts[place])
            for name, number in (self._counts[place + 1] if place + 1 < len(self._counts) else {}).items():
                total[name] = total.get(name, 0) + number
            joined.append(total)
        self._counts, self._times = joined, self._times[::2]

    def buckets(self, first: int, last: int, most: int) -> list[Bucket]:
        """Return at most *most* stretches that cover *first* to *last*."""
        begin = self._begin
        low, high = (first - begin) // self.width, (last - begin) // self.width
        known = min(high + 1, len(self._counts))
        join = max(1, -(-(high - low + 1) // most))
        found = []
        for place in range(low, known, join):
            total: dict[str, int] = {}
            for counts in self._counts[place : min(place + join, known)]:
                for name, number in counts.items():
                    total[name] = total.get(name, 0) + number
            start = begin + place * self.width
            end = min(start + join * self.width - 1, self._source.end)
            found.append(Bucket(from_=start, to=end, time=rfc3339(self._times[place]), counts=total))
        return found


_MARKS = [(name, f'"type":"{kind}"'.encode()) for kind, name in _KINDS.items()]
