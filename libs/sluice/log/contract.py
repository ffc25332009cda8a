"""Contract of a log, for the runner and for tests: kept by memory and by JetStream."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from sluice.events.base import Micros
from sluice.protocol.subjects import Cell

MAX_PAYLOAD: Final = 8 * 1024 * 1024
"""Bytes of one message, headers included."""


IMPORTED_AT: Final = b"Sluice-Imported-At"
"""Header of a message that was put into another log than its first: when that one had taken it, in
microseconds."""


class Entry(NamedTuple):
    """One message of the log."""

    seq: int
    suffix: str
    """Its subject after the cell: `scheduler`, `job.default.train`."""
    at: Micros
    """When the log took it."""
    payload: bytes
    header: bytes = b""


class Ack(NamedTuple):
    """`seq` is where the message stands; `duplicate` if it stood there already (same message id)."""

    seq: int
    duplicate: bool = False


class Tail(Protocol):
    """A live reader: entries in order, none left out, from a position on, for ever."""

    @property
    def position(self) -> int:
        """Sequence of the last entry taken in; entries up to here have been handed out or can be taken."""
        ...

    @property
    def lag(self) -> int:
        """Matching entries that the log has and that were not taken yet, as far as is known."""
        ...

    def reached(self, end: int) -> bool:
        """Tell whether every matching entry up to *end* has been taken."""
        ...

    @property
    def sure(self) -> bool:
        """Whether the log is known to be the one that is read: when the connection was lost, not before it
        was looked at again. Until then an older log may be there."""
        ...

    async def until_sure(self) -> None:
        """Wait until `sure`. It never comes where the log is another one, as `take` says."""
        ...

    def take(self) -> list[Entry]:
        """Return what has arrived since the last call, [] if nothing.

        Raises:
            EventLogError: the tail cannot go on (the log was replaced, or lost entries it had).
        """
        ...

    async def close(self) -> None:
        """Stop following; what waits for the next entry ends."""
        ...


class Log(Protocol):
    """An ordered log of messages on subjects, numbered from 1 without regard to subject."""

    cell: Cell
    max_payload: int
    """Most bytes of one message, headers included."""

    async def append(
        self,
        suffix: str,
        payload: bytes,
        *,
        expected_last: int | None = None,
        msg_id: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Ack:
        """Add a message. *expected_last*: sequence that the subject's last message must have, 0 for none.

        *headers*: what is said beside the message, to whom it may concern.

        Raises:
            StaleSequenceError: the subject's last message is another one; nothing was added.
            MessageTooLargeError: nothing was added.
            AppendRefusedError: nothing was added.
            UnansweredError: it may or may not have been added; `last` tells.
        """
        ...

    async def last(self, suffix: str) -> Entry | None:
        """Return the last message of a subject.

        Raises:
            LogUnavailableError: no answer.
        """
        ...

    async def end(self) -> int:
        """Return the sequence of the last message, 0 for an empty log; raises as `last`."""
        ...

    async def first(self) -> int:
        """Return the sequence of the first message there is, or will be; raises as `last`.

        1, unless the log was cut: then a base has what was before.
        """
        ...

    def read(self, start: int, filters: Sequence[str]) -> AsyncIterator[list[Entry]]:
        """Return the entries from *start* (1: the first there is) to what is the end now, in batches.

        *filters*: patterns of suffixes (`job.>`, `scheduler`), none of which overlap.
        """
        ...

    def tail(self, start: int, filters: Sequence[str], wake: Callable[[], None]) -> Tail:
        """Return a live reader from *start* on; *wake* is called when `take` has something to return."""
        ...

    async def close(self) -> None:
        """Give back what the log holds: connection, threads. It cannot be used any more."""
        ...
