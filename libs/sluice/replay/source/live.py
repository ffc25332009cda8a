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
    """A running cell's log, read only, as far as it went when this was made, or as *first* and *end* say."""

    def __init__(
        self,
        url: str,
        cell: str,
        snapshots: Callable[..., Fold[Any] | None] | None = None,
        bases: Callable[..., Fold[Any]] | None = None,
        *,
        first: Callable[[], int] | None = None,
        end: Callable[[], int] | None = None,
    ) -> None:
        """*snapshots*: finds the newest of a decider up to a sequence; *bases*: the state with which a log
        that begins at a sequence, and ends at another, begins; *first*, *end*: where it begins, and how
        far it has come, of one that is cut and goes on."""
        self.url, self.cell = url, cell
        self.name = f"cell {cell}"
        self.header = log_file.Header(cell=cell, source=self.name)
        self._snapshots, self._bases = snapshots, bases
        begin, last = (1, 0) if end is not None else extent(url, cell)
        self._first, self._end = first or (lambda: begin), end or (lambda: last)

    @property
    def first(self) -> int:
        return self._first()

    @property
    def earlier(self) -> str:
        return "" if self.first == 1 else "what was before is in the archive: --archive"

    @property
    def end(self) -> int:
        return self._end()

    def read(
        self, start: int = 1, until: int | None = None, patterns: Iterable[str] = ()
    ) -> Iterator[list[Entry]]:
        last = self.end if until is None else min(until, self.end)
        begin = max(start, self.first)
        for entries in BulkReader(self.url, self.cell, begin, tuple(patterns), last):
            if any(TIME_HEADER in entry.header or entry.suffix == GAP for entry in entries):
                yield [_imported(entry) for entry in entries if entry.suffix != GAP]
            else:
                yield entries

    def base(self, decider: Decider[Any]) -> Fold[Any] | None:
        first = self.first
        if first == 1:
            return None
        if self._bases is None:
            raise NoBaseError(self.name, first)
        return self._bases(decider, first, self.end)

    def snapshot(self, decider: Decider[Any], upto: int) -> Fold[Any] | None:
        return None if self._snapshots is None else self._snapshots(decider, upto)


def _imported(entry: Entry) -> Entry:
    _, found, rest = entry.header.partition(TIME_HEADER + b":")
    return entry._replace(at=int(rest.split(b"\r\n", 1)[0])) if found else entry
