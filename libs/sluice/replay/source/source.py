"""Sources of logs: a running cell, read only, or an exported file. One interface for both.

source = FileSource(Path("incident.slog"))              # `live.LiveSource` is the same for a cell
for entries in source.read(start=100, until=200): ...
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

from sluice.events.base import Micros
from sluice.log.contract import IMPORTED_AT, Entry
from sluice.log.decider import Decider
from sluice.log.fold import Fold
from sluice.protocol.subjects import GAP

from . import json_lines, log_file
from .log_file import LogFileError
from .snapshot_dir import Sidecar

TIME_HEADER = IMPORTED_AT


class Source(Protocol):
    """A log to look into. Reading has no effect on it."""

    name: str
    header: log_file.Header

    @property
    def first(self) -> int:
        """Sequence of the first entry there is."""
        ...

    @property
    def end(self) -> int:
        """Sequence of the last entry there is, 0 if there is none."""
        ...

    def read(
        self, start: int = 1, until: int | None = None, patterns: Iterable[str] = ()
    ) -> Iterator[list[Entry]]:
        """Yield entries of *start* to *until*, both included, that match any of the patterns (none: all)."""
        ...

    @property
    def earlier(self) -> str:
        """What to do about a question of before `first`, in words; "" if there was nothing."""
        ...

    def base(self, decider: Decider[Any]) -> Fold[Any] | None:
        """Return the state with which a log begins that was cut; None: it was not, as far as is known.

        Raises:
            NoBaseError, BaseMismatchError: it was, and there is no such state for this code.
        """
        ...

    def snapshot(self, decider: Decider[Any], upto: int) -> Fold[Any] | None:
        """Return the newest stored state that is not after *upto*, None if there is none."""
        ...


class Matcher:
    """`subjects.matches_any` for long logs: it looks at the first token only, as all patterns allow."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._roots = frozenset(pattern.partition(".")[0] for pattern in patterns)
        self._exact = tuple(p.removesuffix("*").removesuffix(">") for p in patterns if "." in p)

    def __call__(self, suffix: str) -> bool:
        root, dot, _ = suffix.partition(".")
        if root not in self._roots:
            return False
        return not dot or any(suffix.startswith(prefix) for prefix in self._exact)


class FileSource:
    """An exported log: our own format, or JSON lines (`*.jsonl`).

    >>> log = FileSource(Path("incident.jsonl"))
    >>> for entries in log.read(until=3):
    ...     print([(entry.seq, entry.suffix) for entry in entries])
    [(1, 'config'), (2, 'config'), (3, 'config')]

    Raises, here and while reading:
        LogFileError: it is none, or it is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)
        self._lines: json_lines.Lines | None = None
        self._blocks: list[tuple[log_file.Block, int]] = []
        """Blocks of entries, and where their bytes begin."""
        try:
            if path.suffix == ".jsonl":
                self._lines = json_lines.Lines(path)
                self.header = log_file.Header(source=self.name)
            else:
                self._index()
        except OSError as error:
            raise LogFileError(f"{path}: {error.strerror}") from error
        except (LogFileError, json_lines.LineError) as error:
            raise LogFileError(f"{path}: {error}") from error
        if not self.end:
            raise LogFileError(f"{path}: the log is empty")

    def _index(self) -> None:
        with self.path.open("rb") as file:
            self.header, head = log_file.read_header(file)

            def note(block: log_file.Block) -> bool:
                self._blocks.append((block, file.tell()))
                return False

            for _ in log_file.blocks(file, note, head):
                pass

    @property
    def first(self) -> int:
        """See `Source`."""
        return self._lines.first if self._lines is not None else self._blocks[0][0].first

    @property
    def end(self) -> int:
        """See `Source`."""
        if self._lines is not None:
            return self._lines.end
        return self._blocks[-1][0].last if self._blocks else 0

    def read(
        self, start: int = 1, until: int | None = None, patterns: Iterable[str] = ()
    ) -> Iterator[list[Entry]]:
        """See `Source`."""
        matches = Matcher(patterns) if patterns else None
        last = self.end if until is None else until
        if self._lines is not None:
            for entries in self._lines.read(start, last):
                yield entries if matches is None else [e for e in entries if matches(e.suffix)]
            return
        with self.path.open("rb") as file:
            for block, offset in self._blocks:
                if block.last < start or block.first > last:
                    continue
                file.seek(offset)
                try:
                    entries = list(log_file.entries_of(log_file.body(file, block), block, matches))
                except LogFileError as error:
                    raise LogFileError(f"{self.name}: {error}, in {block.first}-{block.last}") from error
                if block.first < start or block.last > last:
                    entries = [e for e in entries if start <= e.seq <= last]
                yield entries

    def weight(self, seq: int) -> int:
        """Return about how many bytes lie up to a sequence; of JSON lines the sequence itself.

        That is even where messages are of very different sizes, so it tells what is still to be read.
        """
        if self._lines is not None:
            return seq
        index = bisect_right(self._blocks, seq, key=lambda each: each[0].first) - 1
        if index < 0:
            return 0
        block = self._blocks[index][0]
        inside = min(1.0, (seq - block.first + 1) / (block.last - block.first + 1))
        return self._before[index] + int(block.raw_size * inside)

    @cached_property
    def _before(self) -> list[int]:
        """Bytes before each block."""
        return [0, *accumulate(block.raw_size for block, _ in self._blocks)]

    @cached_property
    def sidecar(self) -> Sidecar:
        """Snapshots beside the file."""
        return Sidecar(self.path.with_name(self.path.name + ".snapshots"), self._mark)

    def _mark(self, seq: int) -> str:
        """Return a digest of the first block and of all that end before a sequence; "" of JSON lines."""
        if self._lines is not None:
            return ""
        index = bisect_right(self._blocks, seq, key=lambda each: each[0].last)
        return self._marks[max(0, index - 1)]

    @cached_property
    def _marks(self) -> list[str]:
        """Behind each block."""
        digest, found = hashlib.sha256(), []
        for block, _ in self._blocks:
            digest.update(repr((block.crc, block.raw_size, block.first, block.last)).encode())
            found.append(digest.hexdigest()[:16])
        return found

    earlier = ""

    def base(self, decider: Decider[Any]) -> Fold[Any] | None:  # noqa: ARG002
        """See `Source`."""
        return None

    def snapshot(self, decider: Decider[Any], upto: int) -> Fold[Any] | None:
        """See `Source`: of those in the folder beside the file."""
        return self.sidecar.newest(decider, upto)


class ListSource:
    """Entries at hand, for tests and what was made up.

    >>> log = ListSource([Entry(1, "job.ml.train", 1_767_225_600_000_000, b"{}")])
    >>> log.first, log.end
    (1, 1)
    """

    def __init__(self, entries: Sequence[Entry], name: str = "log") -> None:
        self.entries, self.name = list(entries), name
        self.header = log_file.Header(source=name)

    @property
    def first(self) -> int:
        """See `Source`."""
        return self.entries[0].seq if self.entries else 1

    @property
    def end(self) -> int:
        """See `Source`."""
        return self.entries[-1].seq if self.entries else 0

    def read(
        self, start: int = 1, until: int | None = None, patterns: Iterable[str] = ()
    ) -> Iterator[list[Entry]]:
        """See `Source`."""
        matches = Matcher(patterns) if patterns else None
        last = self.end if until is None else until
        yield [e for e in self.entries if start <= e.seq <= last and (matches is None or matches(e.suffix))]

    earlier = ""

    def base(self, decider: Decider[Any]) -> Fold[Any] | None:  # noqa: ARG002
        """See `Source`."""
        return None

    def snapshot(self, decider: Decider[Any], upto: int) -> Fold[Any] | None:  # noqa: ARG002
        """See `Source`: there are none."""
        return None


def sequence_at(source: Source, at: Micros) -> int:
    """Return the last sequence that the log had taken at a time; 0 if it had begun later.

    Messages lie in the log in order of time, so some of them tell.

    >>> log = ListSource([Entry(seq, "job.ml.train", seq * 1_000_000, b"{}") for seq in (1, 2, 3)])
    >>> sequence_at(log, 2_500_000), sequence_at(log, 0)
    (2, 0)
    """
    low, high = source.first, source.end + 1
    while low < high:
        middle = (low + high) // 2
        entry = _first_entry(source, middle)
        if entry is None or entry.at > at:
            high = middle
        else:
            low = entry.seq + 1
    return low - 1 if low > source.first else 0


def _first_entry(source: Source, seq: int) -> Entry | None:
    """Return the entry at *seq*, or the next one there is."""
    for entries in source.read(seq):
        if entries:
            return entries[0]
    return None


__all__ = [
    "GAP", "TIME_HEADER", "FileSource", "ListSource", "LogFileError",
    "Matcher", "Source", "sequence_at",
]  # fmt: skip
