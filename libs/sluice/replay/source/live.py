"""A running cell's log as a source to look into."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.fold import Fold
from sluice.log.nats.blocking import BulkReader

from . import log_file
from .source import GAP, TIME_HEADER


class LiveSource:
    """A running cell's log, read only, up to where it ended when this was made."""

    def __init__(self, url: str, cell: str, snapshots: Callable[..., Fold[Any] | None] | None = None) -> None:
        self.url, self.cell = url, cell
        self.name = f"cell {cell}"
        self.header = log_file.Header(cell=cell, source=self.name)
        self._snapshots = snapshots
        probe = BulkReader(url, cell, start=1)
        for _ in probe:
            break
        self._end = probe.end

    @property
    def first(self) -> int:
        return 1

    @property
    def end(self) -> int:
        return self._end

    def read(
        self, start: int = 1, until: int | None = None, patterns: Iterable[str] = ()
    ) -> Iterator[list[Entry]]:
        last = self._end if until is None else min(until, self._end)
        for entries in BulkReader(self.url, self.cell, start, tuple(patterns), last):
            if any(TIME_HEADER in entry.header or entry.suffix == GAP for entry in entries):
                yield [_imported(entry) for entry in entries if entry.suffix != GAP]
            else:
                yield entries

    def snapshot(self, decider: Decider[Any], upto: int) -> Fold[Any] | None:
        return None if self._snapshots is None else self._snapshots(decider, upto)


def _imported(entry: Entry) -> Entry:
    _, found, rest = entry.header.partition(TIME_HEADER + b":")
    return entry._replace(at=int(rest.split(b"\r\n", 1)[0])) if found else entry
