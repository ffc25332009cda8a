"""A running cell's log as a source to look into."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.fold import Fold
from sluice.log.nats.blocking import BulkReader, extent
from sluice.log.runtime.bases import NoBaseError

from . import log_file
from .source import GAP, TIME_HEADER


class LiveSource:
    """A running cell's log, read only, up to where it ended when this was made, or to what *end* says."""

    def __init__(
        self,
        url: str,
        cell: str,
        snapshots: Callable[..., Fold[Any] | None] | None = None,
        bases: Callable[..., Fold[Any]] | None = None,
        *,
        end: Callable[[], int] | None = None,
    ) -> None:
        """*snapshots*: finds the newest of a decider up to a sequence; *bases*: the state with which a log
        that begins at a sequence, and ends at another, begins; *end*: how far it has come, where it
        goes on."""
        self.url, self.cell = url, cell
        self.name = f"cell {cell}"
        self.header = log_file.Header(cell=cell, source=self.name)
        self._snapshots, self._bases = snapshots, bases
        self._first, known = (1, 0) if end is not None else extent(url, cell)
        self._end = end or (lambda: known)

    @property
    def first(self) -> int:
        return self._first

    @property
    def earlier(self) -> str:
        return "" if self._first == 1 else "what was before is in the archive: --archive"

    @property
    def end(self) -> int:
        return self._end()

    def read(
        self, start: int = 1, until: int | None = None, patterns: Iterable[str] = ()
    ) -> Iterator[list[Entry]]:
        last = self.end if until is None else min(until, self.end)
        begin = max(start, self._first)
        for entries in BulkReader(self.url, self.cell, begin, tuple(patterns), last):
            if any(TIME_HEADER in entry.header or entry.suffix == GAP for entry in entries):
                yield [_imported(entry) for entry in entries if entry.suffix != GAP]
            else:
                yield entries

    def base(self, decider: Decider[Any]) -> Fold[Any] | None:
        if self._first == 1:
            return None
        if self._bases is None:
            raise NoBaseError(self.name, self._first)
        return self._bases(decider, self._first, self.end)

    def snapshot(self, decider: Decider[Any], upto: int) -> Fold[Any] | None:
        return None if self._snapshots is None else self._snapshots(decider, upto)


def _imported(entry: Entry) -> Entry:
    _, found, rest = entry.header.partition(TIME_HEADER + b":")
    return entry._replace(at=int(rest.split(b"\r\n", 1)[0])) if found else entry
