"""Snapshots beside an exported log (`<file>.snapshots/`): a state in it is found without folding all."""

import hashlib
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from sluice.api.errors import UNREADABLE
from sluice.log.decider import Decider
from sluice.log.fold import Fold
from sluice.log.inflating import inflated
from sluice.log.runtime.snapshot_info import SnapshotInfo


class StoredInfo(SnapshotInfo, frozen=True, kw_only=True):
    """As a service stores it, and of which log it is."""

    log: str = ""
    """Mark of the log up to there; older snapshots have none, and are taken on trust."""


class Sidecar:
    """A directory with two files per state: what it is (JSON), and the state itself.

    *mark*: what is the same for two logs only if they are the same up to a sequence. Another log may be
    written to the same name one day, and its states are others.
    """

    def __init__(self, directory: Path, mark: Callable[[int], str] = lambda _: "") -> None:
        self.directory, self._mark = directory, mark
        self._last: tuple[Path | None, bytes] = (None, b"")
        """What was read last: two places close to each other go on from the same one."""

    def put(self, fold: Fold[Any]) -> bytes:
        """Store a settled state; return it as it was dumped."""
        decider = fold.decider
        data = decider.dump(fold.state)
        info = StoredInfo(
            writer=decider.writer,
            state_version=decider.state_version,
            upto=fold.upto,
            at=fold.at,
            own=fold.own,
            digest=hashlib.sha256(data).hexdigest(),
            size=len(data),
            log=self._mark(max(fold.upto, fold.own)),
        )
        self.directory.mkdir(exist_ok=True)
        name = f"{decider.writer}-{max(fold.upto, fold.own):020d}"
        _write(self.directory / f"{name}.state", zlib.compress(data, 1))
        _write(self.directory / f"{name}.json", msgspec.json.encode(info))
        return data

    def infos(self, writer: str) -> Iterator[tuple[SnapshotInfo, Path]]:
        """Yield the snapshots of *writer*, newest first, but unreadable ones and those of other logs."""
        for path in sorted(self.directory.glob(f"{writer}-*.json"), reverse=True):
            try:
                info = msgspec.json.decode(path.read_bytes(), type=StoredInfo)
            except (OSError, *UNREADABLE):
                continue
            if info.log in ("", self._mark(max(info.upto, info.own))):
                yield info, path

    def newest(self, decider: Decider[Any], upto: int) -> Fold[Any] | None:
        """Return the newest usable state that is not after *upto*."""
        for info, path in self.infos(decider.writer):
            if max(info.upto, info.own) > upto or info.state_version != decider.state_version:
                continue
            try:
                # Its own checksum has held; a second look at so many bytes would cost more than it finds.
                data = self._data(path.with_suffix(".state"), info.size)
                fold = Fold(decider, decider.load(data), info.upto)
            except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
                continue
            fold.at, fold.own = info.at, info.own
            return fold
        return None

    def _data(self, path: Path, size: int) -> bytes:
        if self._last[0] != path:
            self._last = (path, inflated(path.read_bytes(), size))
        return self._last[1]


def _write(path: Path, data: bytes) -> None:
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_bytes(data)
    partial.replace(path)
