"""Stores of archives: a directory, or a bucket. What was put there is there."""

import asyncio
import contextlib
import fcntl
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from .errors import ArchiveError


class ArchiveStore(Protocol):
    """Files by name. No file is ever changed."""

    where: str

    def put(self, name: str, source: Path) -> None:
        """Store a file; when this returns, it survives a power cut. Never half of one is there."""
        ...

    def local(self, name: str) -> Path:
        """Return a file to read from; raises ArchiveError if there is none."""
        ...

    def forget(self) -> None:
        """Forget what was fetched: what is read next comes from where it is kept."""
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

    def forget(self) -> None:
        """See `ArchiveStore`. Nothing is fetched."""

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


@contextlib.asynccontextmanager
async def held(store: ArchiveStore) -> AsyncIterator[None]:
    """Keep everybody else from writing, as `locked` does, with what asks a network in a thread."""
    lock = store.locked()
    await asyncio.to_thread(lock.__enter__)
    try:
        yield
    finally:
        await asyncio.to_thread(lock.__exit__, None, None, None)


def is_archive(where: str) -> bool:
    """Tell whether a name that may be of a log's file is of an archive."""
    return "://" in where or Path(where).is_dir()


def store_at(where: str) -> ArchiveStore:
    """Return the store that a setting or an argument names: a path, or `s3://BUCKET/PREFIX`.

    >>> store_at("/var/lib/sluice/archive").where
    '/var/lib/sluice/archive'

    Raises:
        ArchiveError: nobody can keep an archive there.
    """
    if where.startswith("s3://"):
        from .object_store import Bucket

        return Bucket(where)
    if "://" in where and not where.startswith("file://"):
        kind = where.partition("://")[0]
        raise ArchiveError(f"{kind}://: an archive is kept in a directory, or in s3://BUCKET/PREFIX")
    return Directory(Path(where.removeprefix("file://")))
