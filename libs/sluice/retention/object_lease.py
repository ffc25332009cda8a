"""Lease of the writer to an archive in an object store, since such a store has no locks.

It is an object that is made only where there is none, and renewed only by whoever has made it: both are
conditions that the store itself checks. What its age is goes by the store's clock alone. A writer that could
not renew it stops by itself, before anybody else may take it.

One that is frozen between its last look and its write can still come late. What it leaves is one more
segment, which does not fit the others: the archive says so, and nothing is cut.
"""

import contextlib
import os
import secrets
import socket
import threading
import time
from datetime import datetime
from typing import TYPE_CHECKING

from .errors import ArchiveError

if TYPE_CHECKING:
    from obstore.store import S3Store


LEASE_S = 60.0
"""After this long without a word from its holder a lease is free."""
RENEW_S = 15.0
STOP_S = 45.0
"""After this long without a renewal the holder writes no more."""


class Lease:
    """The right to write, for as long as it is renewed."""

    def __init__(self, store: "S3Store", name: str, where: str) -> None:
        self._store, self._name, self._where = store, name, where
        self._text = f"{socket.gethostname()} {os.getpid()} {secrets.token_hex(8)}".encode()
        self._tag: str | None = None
        self._renewed = 0.0
        self._over = threading.Event()
        self._lost = False
        self._renewer = threading.Thread(target=self._renew, name="archive-lease", daemon=True)

    def take(self) -> None:
        """Take it.

        Raises:
            ArchiveError: somebody else has it, or the store does not check conditions.
        """
        started = time.monotonic()
        self._tag = self._made() or self._taken_over()
        if self._made() is not None:
            raise ArchiveError(
                f"{self._where}: the store overwrites what is only to be made where there is nothing "
                "(If-None-Match): it keeps no two writers apart"
            )
        self._renewed = started
        self._renewer.start()

    def _made(self) -> str | None:
        """Make the lease; None: there is one."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            return obstore.put(self._store, self._name, self._text, mode="create")["e_tag"] or ""
        except (AlreadyExistsError, PreconditionError):
            return None

    def _taken_over(self) -> str:
        import obstore
        from obstore.exceptions import PreconditionError

        holder = ""
        with contextlib.suppress(FileNotFoundError, PreconditionError):
            result = obstore.get(self._store, self._name)
            found, text = result.meta, bytes(result.bytes())
            if text == self._text:
                # Made by a request whose answer was lost, and which was sent again.
                return found["e_tag"] or ""
            holder = " ".join(text.decode(errors="replace").split()[:2])[:100]
            age = (self._now() - found["last_modified"]).total_seconds()
            if age > LEASE_S:
                mine = {"e_tag": found["e_tag"]}
                return obstore.put(self._store, self._name, self._text, mode=mine)["e_tag"] or ""  # type: ignore[arg-type]
        raise ArchiveError(
            f"{self._where}: somebody else is writing to this archive ({holder}), or has ended without a "
            f"word less than {LEASE_S:.0f} s ago"
        )

    def _now(self) -> datetime:
        """Return the store's time."""
        import obstore

        name = f"{self._name}-{self._text.split()[-1].decode()}"
        obstore.put(self._store, name, b"")
        found = obstore.head(self._store, name)["last_modified"]
        obstore.delete(self._store, name)
        return found

    def _renew(self) -> None:
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        while not self._over.wait(RENEW_S):
            started = time.monotonic()
            try:
                mode = {"e_tag": self._tag}
                self._tag = obstore.put(self._store, self._name, self._text, mode=mode)["e_tag"]  # type: ignore[arg-type]
                self._renewed = started
            except (AlreadyExistsError, PreconditionError, FileNotFoundError):
                if not self._is_mine():
                    self._lost = True
                    return
            except Exception:  # the store is away: whether that lasts too long is for `check` to say
                continue

    def _is_mine(self) -> bool:
        """Tell whether a renewal was done whose answer was lost."""
        import obstore

        with contextlib.suppress(Exception):
            result = obstore.get(self._store, self._name)
            if bytes(result.bytes()) == self._text:
                self._tag = result.meta["e_tag"]
                return True
        return False

    def check(self) -> None:
        """Raise ArchiveError if it may be somebody else's by now."""
        if self._lost or time.monotonic() - self._renewed > STOP_S:
            raise ArchiveError(f"{self._where}: the right to write could not be renewed; nothing is written")

    def release(self) -> None:
        """Give it back; a store that is away keeps it for as long as it lasts."""
        import obstore

        self._over.set()
        self._renewer.join(RENEW_S)
        with contextlib.suppress(Exception):
            self.check()
            obstore.delete(self._store, self._name)
