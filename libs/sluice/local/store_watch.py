"""Notices that a server can write no more, and when it is worth while to start it again.

A server that was refused a write, mostly by a full disk, refuses all later ones to that stream until it is
started again, also when there is room. It says so in its log, if that can still be written; so a disk that is
all but full counts, too.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["StoreWatch"]

FULL_BYTES = 1 << 20
"""With less than this the server cannot write a message of the largest size."""

ROOM_BYTES = 8 << 20
"""With this much it is started again."""

AGAIN_S = 10.0
"""Not more often than that."""

SIGNS = (b"ritical write error", b"no space left on device")


def free_bytes(directory: Path) -> int:
    """Return the room that is left to who is not root."""
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


class StoreWatch:
    """Watches the server with this *log* and its store in *directory*; asked now and then."""

    def __init__(
        self,
        directory: Path,
        log: Path,
        *,
        free: Callable[[Path], int] = free_bytes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.directory, self.log = directory, log
        self._free, self._clock = free, clock
        self._read = self._size()
        self._began = -AGAIN_S
        self.stuck = False
        """Whether it writes no more, as far as is known."""

    def begun(self) -> None:
        """The server was started just now: what its log said before is over."""
        self._read, self.stuck, self._began = self._size(), False, self._clock()

    def look(self) -> bool:
        """Look at log and disk; tell whether the server should be started again, which it may then write."""
        free = self._free(self.directory)
        self.stuck = self.stuck or free < FULL_BYTES or self._said()
        return self.stuck and free >= ROOM_BYTES and self._clock() - self._began >= AGAIN_S

    def _size(self) -> int:
        try:
            return self.log.stat().st_size
        except OSError:
            return 0

    def _said(self) -> bool:
        size = self._size()
        if size == self._read:
            return False
        begin = self._read if self._read < size else 0  # it was begun anew
        with self.log.open("rb") as file:
            file.seek(begin)
            found = file.read(size - begin)
        self._read = size
        return any(sign in found for sign in SIGNS)
