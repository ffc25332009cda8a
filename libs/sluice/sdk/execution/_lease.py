"""The lease: until when this executor can be sure that nobody else is given what it runs.

Nobody is said to be lost before its heartbeat has been missing for as long as it has asked for
(`OnLoss.after_s`). So a beat that was taken is a lease, which lasts so long from when it was sent. Whoever
cannot renew it ends what it runs by itself: in time, whether it was cut off or the server is away.
"""

from collections.abc import Callable

import structlog

from ._book import Book
from ._desk import Desk
from .actions import Leased

log = structlog.get_logger("sluice.sdk.executor")


class Lease:
    """*on_end*: what runs is to be ended within so many seconds. Never without `lease` in the settings."""

    def __init__(self, desk: Desk, book: Book, on_end: Callable[[float], None]) -> None:
        self._desk, self._book, self._on_end = desk, book, on_end
        self._until = 0.0
        self._armed = False

    def renew(self, sent: float) -> None:
        """A heartbeat that was sent at that time was taken."""
        settings = self._book.settings
        if not settings.lease or sent + settings.lasts_s <= self._until:
            return
        self._until = sent + settings.lasts_s
        self._desk.do(Leased(self._until))
        if not self.over:
            self._book.leased = True
        self._arm()

    @property
    def over(self) -> bool:
        """Whether it is time to end what runs. There is nothing before the first beat."""
        settings = self._book.settings
        return self._until > 0 and self._desk.now >= self._until - settings.stop_s

    def _arm(self) -> None:
        if not self._armed:
            self._armed = True
            self._desk.later(self._until - self._book.settings.stop_s - self._desk.now, self._due)

    def _due(self) -> None:
        self._armed = False
        if not self.over:
            self._arm()
        self.look()

    def look(self) -> None:
        """End what runs, if it is time; nothing is begun until the next beat."""
        if self.over and self._book.leased:
            self._book.leased = False
            log.warning("lease is over, ending what runs", jobs=len(self._book.attempts))
            self._on_end(max(0.0, self._until - self._desk.now))


__all__ = ["Lease"]
