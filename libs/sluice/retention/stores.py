"""Where an archive is kept: a directory. Whoever has put a file there can rely on its being there."""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from .errors import ArchiveError

__all__ = ["ArchiveStore", "Directory", "store_at"]


class ArchiveStore(Protocol):
    """Files by name. No file is ever changed."""

    where: str

    def put(self, name: str, source: Path) -> None:
        """Store a file; when this returns, it survives a power cut. Never half of one is there."""
        ...

    def local(self, name: str) -> Path:
        """Return a file to read from; raises ArchiveError if there is none."""
        ...

    def names(self) -> list[str]:
        """Return the names there are, sorted."""
        ...

    def locked(self) -> AbstractContextManager[None]:
        """Keep everybody else from writing; raises ArchiveError if somebody does."""
        ...


class Directory:
    """An archive in a directory of this machine, or of a file system that it mounts."""

    def __init__(self, path: Path) -> None:
        self.path, self.where = path, str(path)

    def put(self, name: str, source: Path) -> None:
        """See `ArchiveStore`."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            partial = self.path / f".{name}.{os.getpid()}"
            try:
                with source.open("rb") as data, partial.open("wb") as file:
                    shutil.copyfileobj(data, file)
                    file.flush()
                    os.fsync(file.fileno())
                partial.replace(self.path / name)
            finally:
                partial.unlink(missing_ok=True)
            self._sync()
        except OSError as error:
            raise ArchiveError(f"{self.path / name}: {error.strerror}") from error

    def _sync(self) -> None:
        """Make names survive a power cut, too."""
        handle = os.open(self.path, os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):  # not every file system takes it
                os.fsync(handle)
        finally:
            os.close(handle)

    def local(self, name: str) -> Path:
        """See `ArchiveStore`."""
        path = self.path / name
        if not path.is_file():
            raise ArchiveError(f"{path}: it is missing")
        return path

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """See `ArchiveStore`. The lock ends with its process."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with (self.path / ".lock").open("ab") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise ArchiveError(f"{self.path}: somebody else is writing to this archive") from None
                yield
        except OSError as error:
            raise ArchiveError(f"{self.path}: {error.strerror}") from error

    def names(self) -> list[str]:
        """See `ArchiveStore`."""
        try:
            return sorted(path.name for path in self.path.iterdir() if not path.name.startswith("."))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ArchiveError(f"{self.path}: {error.strerror}") from error


def store_at(where: str) -> ArchiveStore:
    """Return the store that a setting or an argument names: a path.

    >>> store_at("/var/lib/sluice/archive").where
    '/var/lib/sluice/archive'

    Raises:
        ArchiveError: nobody can keep an archive there.
    """
    if "://" in where and not where.startswith("file://"):
        raise ArchiveError(f"{where}: an archive is kept in a directory")
    return Directory(Path(where.removeprefix("file://")))
