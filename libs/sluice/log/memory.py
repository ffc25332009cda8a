"""The log in memory, for tests: what JetStream does, without JetStream."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from sluice.events.base import Micros
from sluice.protocol.subjects import Cell, matches_any

from .contract import MAX_PAYLOAD, Ack, Entry
from .errors import MessageTooLargeError, StaleSequenceError
from .nats.consumer import HistoryLostError
from .nats.protocol import header_block

__all__ = []


class MemoryLog:
    """A `Log`. Its clock is a counter unless *now* says otherwise."""

    def __init__(
        self,
        cell: str = "main",
        *,
        max_payload: int = MAX_PAYLOAD,
        now: Callable[[], Micros] | None = None,
    ) -> None:
        self.cell = Cell(cell)
        self.max_payload = max_payload
        self.entries: list[Entry] = []
        self._now = now or (lambda: 1_767_225_600_000_000 + len(self.entries))
        self._first = 1
        self._last: dict[str, Entry] = {}
        self._ids: dict[str, int] = {}
        self._tails: list[MemoryTail] = []

    async def append(
        self,
        suffix: str,
        payload: bytes,
        *,
        expected_last: int | None = None,
        msg_id: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Ack:
        if len(payload) > self.max_payload:
            raise MessageTooLargeError(suffix, len(payload), self.max_payload)
        last = self._last.get(suffix)
        actual = last.seq if last else 0
        if expected_last is not None and expected_last != actual:
            raise StaleSequenceError(suffix, expected_last, actual)
        if msg_id and msg_id in self._ids:
            return Ack(self._ids[msg_id], duplicate=True)
        entry = Entry(
            len(self.entries) + 1, suffix, self._now(), payload, header_block(headers) if headers else b""
        )
        self.entries.append(entry)
        self._last[suffix] = entry
        if msg_id:
            self._ids[msg_id] = entry.seq
        for tail in self._tails:
            tail.add(entry)
        return Ack(entry.seq)

    async def last(self, suffix: str) -> Entry | None:
        return self._last.get(suffix)

    async def end(self) -> int:
        return len(self.entries)

    async def first(self) -> int:
        return self._first

    def keep_from(self, seq: int) -> None:
        """Take all messages before *seq* away, as the server does."""
        self._first = max(self._first, min(seq, len(self.entries) + 1))
        self._last = {suffix: entry for suffix, entry in self._last.items() if entry.seq >= self._first}

    def _check(self, start: int) -> None:
        if start < self._first:
            raise HistoryLostError("memory", start - 1, self._first)

    async def read(self, start: int, filters: Sequence[str]) -> AsyncIterator[list[Entry]]:
        start = max(start, self._first) if start <= 1 else start
        self._check(start)
        found = [e for e in self.entries[max(start - 1, 0) :] if matches_any(filters, e.suffix)]
        if found:
            yield found

    def tail(self, start: int, filters: Sequence[str], wake: Callable[[], None]) -> "MemoryTail":
        self._check(max(start, 1))
        tail = MemoryTail(self, start, tuple(filters), wake)
        self._tails.append(tail)
        for entry in self.entries[max(start - 1, 0) :]:
            tail.add(entry)
        return tail

    def forget(self, tail: "MemoryTail") -> None:
        if tail in self._tails:
            self._tails.remove(tail)

    async def close(self) -> None:
        self._tails.clear()


class MemoryTail:
    """A `Tail` of a `MemoryLog`."""

    def __init__(self, log: MemoryLog, start: int, filters: Sequence[str], wake: Callable[[], None]) -> None:
        self.position = max(start - 1, 0)
        self._log, self._filters, self._wake = log, filters, wake
        self._arrived: list[Entry] = []

    @property
    def lag(self) -> int:
        return len(self._arrived)

    @property
    def sure(self) -> bool:
        return True

    async def until_sure(self) -> None:
        """Return at once: nobody puts another log into its place."""

    def reached(self, end: int) -> bool:
        return not self._arrived and len(self._log.entries) >= end

    def add(self, entry: Entry) -> None:
        if matches_any(self._filters, entry.suffix):
            self.position = entry.seq
            self._arrived.append(entry)
            self._wake()

    def take(self) -> list[Entry]:
        arrived, self._arrived = self._arrived, []
        return arrived

    async def close(self) -> None:
        self._log.forget(self)
