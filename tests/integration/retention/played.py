"""A played history in the log of a real server, and what must be true of it however it was cut."""

import asyncio
from pathlib import Path

from sluice.cli.commands.log.import_log import import_log
from sluice.log.cell import CellFold
from sluice.log.contract import Entry
from sluice.replay.lint.lint import lint
from sluice.replay.source import log_file
from sluice.replay.source.live import LiveSource
from sluice.replay.source.source import FileSource, ListSource, Source
from sluice.replay.source.time_travel import deciders, fold_at
from sluice.replay.verify.whole_log import check_all
from sluice.retention.archive import Archive, ArchiveSource
from sluice.retention.live import base_finder
from sluice.retention.stores import ArchiveStore, Directory
from tests.property.test_bases import checked_jobs


class Played:
    """The history of a seed, put into the log at *url*."""

    def __init__(self, url: str, directory: Path, seed: int = 1, store: ArchiveStore | None = None) -> None:
        self.url, self.archive = url, directory / "archive"
        self.store = store or Directory(self.archive)
        self.entries: list[Entry] = checked_jobs(seed)
        path = directory / "played.slog"
        with path.open("wb") as file:
            log_file.write(file, log_file.Header(), [self.entries])
        asyncio.run(import_log(FileSource(path), url, "main", lambda _: None))
        self.whole = ListSource(self.entries)
        self.end = self.whole.end

    def live(self) -> LiveSource:
        return LiveSource(self.url, "main", bases=base_finder(self.url, "main"))

    def with_archive(self) -> ArchiveSource:
        return ArchiveSource(Archive(self.store, "main"), self.live())

    def nothing_lost(self) -> None:
        """Archive and log have every message, as it was; what the log has is enough to begin from."""
        archived = Archive(self.store, "main")
        live = self.live()
        both: Source = ArchiveSource(archived, live) if archived.segments else live
        found = [entry._replace(header=b"") for batch in both.read(1, self.end) for entry in batch]
        assert found == self.entries
        self.same(live)

    def same(self, source: Source) -> None:
        """States, decisions and invariants are those of the whole log."""
        for decider in (*deciders(), CellFold()):
            expected, found = fold_at(self.whole, decider, self.end), fold_at(source, decider, source.end)
            assert decider.dump(found.state) == decider.dump(expected.state), decider.writer
        assert not [c.divergence for c in check_all(source, [(d, None) for d in deciders()]) if c.divergence]
        assert lint(source)[0] == []
