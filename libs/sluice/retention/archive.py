"""Archives: the log in segments, each a file of the export format, and what chains them.

    segment-<first>-<last>.slog     messages, compressed, with checksums
    segment-<first>-<last>.json     what is in it, and which segment came before
    part-<...>.state, base-<seq>-<...>.json    bases, as in the cell's bucket

A segment counts once its description is there, which is written last. Descriptions form a chain: each has
the digest of its file, and a digest over its own and all before it, so that none can be left out, changed
or put in from another log without being noticed.
"""

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from sluice import __version__
from sluice.api.errors import UNREADABLE
from sluice.events.base import Micros
from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.fold import Fold
from sluice.log.runtime.bases import Base, checked, decode, encode, fold_of
from sluice.log.runtime.snapshot_info import SnapshotInfo
from sluice.replay.source import log_file
from sluice.replay.source.source import FileSource, Source

from .errors import ArchiveError
from .stores import ArchiveStore

__all__ = ["Archive", "ArchiveSource", "Segment", "cell_of", "fingerprint"]

SEGMENT_BYTES = 64 << 20
"""Of messages in a segment, about, before they are compressed."""

Step = Callable[[str], None]
"""Told of each thing that has been done."""


class Segment(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What one file of an archive holds: every message of the log from `first` to `last`."""

    cell: str
    first: int
    last: int
    entries: int
    first_at: Micros
    last_at: Micros
    file: str
    size: int
    sha256: str
    """Of the file."""
    newest: str
    """Fingerprint of the last message: by it the log is known that goes on from here."""
    chain: str
    """SHA-256 over the previous segment's chain and what is said here."""
    release: str = __version__


def cell_of(store: ArchiveStore) -> str:
    """Return the cell whose archive is in a store.

    Raises:
        ArchiveError: there is none.
    """
    name = next(
        (name for name in store.names() if name.startswith("segment-") and name.endswith(".json")), None
    )
    if name is None:
        raise ArchiveError(f"{store.where}: there is no archive")
    try:
        return msgspec.json.decode(store.local(name).read_bytes(), type=Segment).cell
    except (OSError, *UNREADABLE) as error:
        raise ArchiveError(f"{store.where}/{name}: damaged: {error}") from error


def fingerprint(entry: Entry) -> str:
    """Return what tells a message from any other that may stand in its place."""
    head = f"{entry.seq} {entry.suffix} {entry.at} ".encode()
    return hashlib.sha256(head + entry.payload).hexdigest()


def chained(before: str, cell: str, first: int, last: int, sha256: str) -> str:
    return hashlib.sha256(f"{before} {cell} {first} {last} {sha256}".encode()).hexdigest()


class Archive:
    """An archive of one cell's log."""

    def __init__(self, store: ArchiveStore, cell: str) -> None:
        self.store, self.cell = store, cell
        self._segments: list[Segment] | None = None

    @property
    def segments(self) -> list[Segment]:
        """The segments, in order.

        Raises:
            ArchiveError: one is missing or damaged, or of another log.
        """
        if self._segments is None:
            self._segments = self._read()
        return self._segments

    @property
    def end(self) -> int:
        """Last sequence that is archived, 0 for an empty archive."""
        return self.segments[-1].last if self.segments else 0

    def _read(self) -> list[Segment]:
        found: list[Segment] = []
        names = self.store.names()
        for name in names:
            if not (name.startswith("segment-") and name.endswith(".json")):
                continue
            where = f"{self.store.where}/{name}"
            try:
                segment = msgspec.json.decode(self.store.local(name).read_bytes(), type=Segment)
            except (OSError, *UNREADABLE) as error:
                raise ArchiveError(f"{where}: damaged: {error}") from error
            if segment.cell != self.cell:
                raise ArchiveError(
                    f"{where}: of cell {segment.cell}, not {self.cell}: an archive for each cell"
                )
            before = found[-1] if found else None
            expected = before.last + 1 if before else segment.first
            if segment.first != expected:
                raise ArchiveError(
                    f"{where}: begins at {segment.first}; {expected} and what follows is missing"
                )
            # An archive may begin anywhere: old segments may be kept elsewhere.
            link = (
                chained(before.chain, self.cell, segment.first, segment.last, segment.sha256)
                if before
                else ""
            )
            if link and link != segment.chain:
                raise ArchiveError(f"{where}: does not follow on {before.file if before else 'nothing'}")
            if segment.file not in names:
                raise ArchiveError(f"{self.store.where}/{segment.file}: it is missing")
            found.append(segment)
        return found

    # Writing

    def follows(self, source: Source) -> None:
        """Check that *source* is the log that was archived, and goes on where the archive ends.

        Raises:
            ArchiveError: it is another one, or something between them is gone.
        """
        if not self.segments:
            if source.first > 1:
                raise ArchiveError(
                    f"{self.store.where}: is empty, and the log begins at {source.first}: "
                    "what was before is in another archive"
                )
            return
        newest = self.segments[-1]
        if source.end < newest.last:
            raise ArchiveError(
                f"{self.store.where}: has the log up to {newest.last}, which ends at {source.end}: it is "
                "another one, or an older one was put back. Archive it elsewhere"
            )
        if source.first > newest.last + 1:
            raise ArchiveError(
                f"{self.store.where}: ends at {newest.last}, and the log begins at {source.first}: "
                "what was between is in neither"
            )
        if source.first <= newest.last:
            found = [entry for entries in source.read(newest.last, newest.last) for entry in entries]
            if not found or fingerprint(found[0]) != newest.newest:
                raise ArchiveError(
                    f"{self.store.where}: has another message at {newest.last} than the log: "
                    "it is another one's"
                )

    def add(self, source: Source, until: int, done: Step = lambda _: None) -> list[Segment]:
        """Archive what is not yet, up to *until*, and read back what was written.

        Raises:
            ArchiveError: what was read back is not what was to be written, or `follows` fails.
        """
        self.follows(source)
        added = []
        while (first := max(self.end + 1, source.first)) <= until:
            added.append(self._segment(source, first, until, done))
        return added

    def _segment(self, source: Source, first: int, until: int, done: Step) -> Segment:
        """Write one segment from *first* on, to *until* at most."""
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "segment"
            writer, content = _written(path, self.cell, source, first, until)
            if not writer.entries:
                raise ArchiveError(f"{source.name}: has nothing from {first} to {until}")
            last = until if writer.end >= _last_of(source, until) else writer.end
            name = f"segment-{first:020d}-{last:020d}"
            self.store.put(f"{name}.slog", path)
            done("segment written")
            self.store.forget()
            sha256 = _digest_of(self.store.local(f"{name}.slog"))
            newest = self._read_back(f"{name}.slog", path, sha256, content)
            before = self.segments[-1].chain if self.segments else ""
            segment = Segment(
                cell=self.cell,
                first=first,
                last=last,
                entries=writer.entries,
                first_at=content.first_at,
                last_at=newest.at,
                file=f"{name}.slog",
                size=path.stat().st_size,
                sha256=sha256,
                newest=fingerprint(newest),
                chain=chained(before, self.cell, first, last, sha256),
            )
            description = Path(directory) / "description"
            description.write_bytes(msgspec.json.format(msgspec.json.encode(segment)))
            self.store.put(f"{name}.json", description)
        self.segments.append(segment)
        done("segment archived")
        return segment

    def _read_back(self, name: str, written: Path, sha256: str, content: "_Content") -> Entry:
        """Return the last message of what was stored, which must be what the log has, to the byte."""
        if sha256 != _digest_of(written):
            raise ArchiveError(f"{self.store.where}/{name}: read back, it is another file than was written")
        found = _Content()
        for entries in FileSource(self.store.local(name)).read():
            found.add(entries)
        if found.digest != content.digest or found.newest is None:
            raise ArchiveError(
                f"{self.store.where}/{name}: read back, its messages are others than the log's"
            )
        return found.newest

    # Reading

    def source(self) -> "ArchiveSource":
        """Return the archive as a log to look into.

        Raises:
            ArchiveError: it is empty.
        """
        if not self.segments:
            raise ArchiveError(f"{self.store.where}: has nothing of cell {self.cell}")
        return ArchiveSource(self)

    def open(self, segment: Segment) -> FileSource:
        """Return a segment, whose file was looked at whole.

        Raises:
            ArchiveError: it is damaged.
        """
        path = self.store.local(segment.file)
        if _digest_of(path) != segment.sha256:
            raise ArchiveError(f"{path}: its checksum differs: it is damaged")
        return FileSource(path)

    # Bases

    def bases(self) -> list[Base]:
        """Return the bases in the archive, newest first."""
        found = []
        for name in self.store.names():
            if name.startswith("base-") and name.endswith(".json"):
                try:
                    found.append(decode(self.store.local(name).read_bytes()))
                except ValueError as error:
                    raise ArchiveError(f"{self.store.where}/{name}: {error}") from error
        return sorted(found, key=lambda base: base.seq, reverse=True)

    def put_base(self, base: Base, parts: dict[str, bytes]) -> None:
        """Store a base; *parts* are compressed."""
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "part"
            for part in base.parts:
                path.write_bytes(parts[part.writer])
                self.store.put(_part(part), path)
            path.write_bytes(encode(base))
            versions = hashlib.sha256(repr(sorted(base.versions.items())).encode()).hexdigest()[:8]
            self.store.put(f"base-{base.seq:020d}-{versions}.json", path)

    def compressed(self, part: SnapshotInfo) -> bytes:
        """Return a part of a base as it is stored."""
        return self.store.local(_part(part)).read_bytes()


def _part(part: SnapshotInfo) -> str:
    return f"part-{part.upto:020d}-{part.digest[:16]}-{part.writer}.state"


class _Content:
    """A digest over messages, whatever files they stand in."""

    def __init__(self) -> None:
        self._sha = hashlib.sha256()
        self.newest: Entry | None = None
        self.first_at: Micros = 0

    def add(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if self.newest is None:
                self.first_at = entry.at
            self.newest = entry
            self._sha.update(fingerprint(entry).encode())

    @property
    def digest(self) -> str:
        return self._sha.hexdigest()


def _written(
    path: Path, cell: str, source: Source, first: int, until: int
) -> tuple[log_file.Writer, _Content]:
    content, size = _Content(), 0
    with path.open("wb") as file:
        header = log_file.Header(cell=cell, source=source.name, note="segment of an archive")
        writer = log_file.Writer(file, header)
        for entries in source.read(first, until):
            writer.add(entries)
            content.add(entries)
            size += sum(len(entry.payload) for entry in entries)
            if size >= SEGMENT_BYTES:
                break
        writer.finish()
    return writer, content


def _last_of(source: Source, until: int) -> int:
    """Return the last sequence up to *until* that is there: imported logs have gaps."""
    width = 256
    while True:
        start = max(source.first, until - width + 1)
        found = [entry.seq for entries in source.read(start, until) for entry in entries]
        if found or start == source.first:
            return found[-1] if found else 0
        width *= 16


def _digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class ArchiveSource:
    """An archive as a `Source`; *rest*: the log that goes on from it."""

    def __init__(self, archive: Archive, rest: Source | None = None) -> None:
        self.archive, self.rest = archive, rest
        self.name = archive.store.where if rest is None else f"{rest.name} with {archive.store.where}"
        self.header = log_file.Header(cell=archive.cell, source=self.name)
        self._open: dict[str, FileSource] = {}
        if rest is not None:
            archive.follows(rest)

    @property
    def first(self) -> int:
        """See `Source`."""
        return self.archive.segments[0].first

    @property
    def end(self) -> int:
        """See `Source`."""
        return self.archive.end if self.rest is None else self.rest.end

    @property
    def earlier(self) -> str:
        """See `Source`."""
        return "" if self.first == 1 else f"{self.archive.store.where} begins there"

    def read(
        self, start: int = 1, until: int | None = None, patterns: Iterable[str] = ()
    ) -> Iterator[list[Entry]]:
        """See `Source`."""
        last = self.end if until is None else min(until, self.end)
        for segment in self.archive.segments:
            if segment.last < start or segment.first > last:
                continue
            file = self._open.get(segment.file)
            # A copy of an object is there for as long as there is room for it.
            if file is None or not file.path.exists():
                file = self._open[segment.file] = self.archive.open(segment)
            yield from file.read(start, min(last, segment.last), patterns)
        if self.rest is not None and last > self.archive.end:
            yield from self.rest.read(max(start, self.archive.end + 1), last, patterns)

    def snapshot(self, decider: Decider[Any], upto: int) -> Fold[Any] | None:
        """See `Source`: of the running cell, or a base of the archive."""
        if self.rest is not None and (found := self.rest.snapshot(decider, upto)) is not None:
            return found
        return self._base(decider, upto)

    def base(self, decider: Decider[Any]) -> Fold[Any] | None:
        """See `Source`."""
        return None if self.first == 1 else self._base(decider, self.end, newest=False)

    def _base(self, decider: Decider[Any], upto: int, *, newest: bool = True) -> Fold[Any] | None:
        bases = self.archive.bases()
        for base in bases if newest else reversed(bases):
            part = base.part(decider.writer)
            if part is None or part.state_version != decider.state_version or base.begin < self.first:
                continue
            if max(part.upto, part.own) <= upto:
                return fold_of(decider, base, part, checked(part, self.archive.compressed(part)))
        return None
