"""The bulk reader: a whole log, as fast as one core can take it, from a blocking socket.

For replays and tools. Pull batches without acknowledgements; every delivery number is checked; a lost
connection is resumed behind the last entry handed out.
"""

import contextlib
import secrets
import time
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import msgspec

from sluice.log.contract import Entry
from sluice.log.errors import LogUnavailableError, SequenceGapError
from sluice.protocol.subjects import Cell

from . import consumer
from . import jetstream_api as api
from .blocking_connection import BlockingConnection
from .protocol import Address, ProtocolError, addresses

__all__ = ["BulkReader", "extent"]

TIMEOUT_S = 30.0
_SID = b"1"

ATTEMPTS = 20
"""Connections in a row that bring nothing before the reader gives up."""


class BulkReader:
    """Reads a cell's log from *start* to what is its end when reading begins, or to *until* if that is less.

    Iterate over it: batches of entries, in order. `position` is the last sequence handed out.

    Raises, while iterating:
        LogUnavailableError: the log cannot be reached, or does not exist.
        LogReplacedError, HistoryLostError: it does not hold what is to be read.
    """

    def __init__(
        self, urls: str, cell: str, start: int = 1, filters: Sequence[str] = (), until: int | None = None
    ) -> None:
        names = Cell(cell)
        self.stream, self.prefix = names.stream, names.prefix
        subjects, self._wanted = consumer.asked_for(filters)
        self._subjects = [names.prefix + pattern for pattern in subjects]
        self._servers = addresses(urls)
        self._until = until
        self._done = False
        self.position = max(start - 1, 0)
        self._deliveries = consumer.Deliveries(self.prefix, self.position, self._wanted)
        self.end = 0
        """Sequence that reading ends at; known once it has begun."""
        self.gaps = 0

    def __iter__(self) -> Generator[list[Entry]]:
        failures, wait_s = 0, 0.05
        while not self._done:
            before = self.position
            try:
                yield from self._connection(self._servers[failures % len(self._servers)])
            except SequenceGapError:
                self.gaps += 1
            except (OSError, LogUnavailableError, ProtocolError) as error:
                failures = 1 if self.position > before else failures + 1
                if failures >= ATTEMPTS:
                    raise LogUnavailableError(f"{self.stream}: {error}") from error
                time.sleep(wait_s)
                wait_s = min(wait_s * 1.5, 1.0)

    def _connection(self, server: Address) -> Iterator[list[Entry]]:
        link, name = BlockingConnection(server, "sluice-bulk", TIMEOUT_S), ""
        try:
            info = self._ask(link, api.info_subject(self.stream))
            state = info["state"]
            if not self.end:
                last = int(state["last_seq"])
                self.end = last if self._until is None else min(last, self._until)
            if self.position >= self.end:
                self._done = True
                return
            consumer.check_history(self.stream, state, self.position)
            name = f"sluice-bulk-{secrets.token_hex(16)}"
            body = consumer.create_request(self.stream, name, self.position + 1, self._subjects)
            made = self._ask(link, api.consumer_subject(self.stream, name), body)
            self._deliveries = consumer.Deliveries(self.prefix, self.position, self._wanted)
            self._deliveries.restart(int(made.get("num_pending", 0)))
            if consumer.may_be_behind(info):
                self._deliveries.newest = self._newest(link)
            if self._deliveries.reached(self.end):
                self._done = True
                return
            yield from self._pull(link, api.pull_subject(self.stream, name))
        finally:
            if name:  # the server would keep it for a minute, and it has room for so many only
                with contextlib.suppress(OSError):
                    link.publish(api.end_subject(self.stream, name), b"")
            link.close()

    def _newest(self, link: BlockingConnection) -> int:
        """Return what the stream's leader has: the consumer may be on a server that is behind."""
        requests = [api.message_request(self.stream, last_of=subject) for subject in self._subjects]
        found = [api.stored(link.ask(subject, body), self.stream) for subject, body in requests]
        return max((message.seq for message in found if message is not None), default=0)

    def _ask(self, link: BlockingConnection, subject: str, body: object = None) -> dict[str, Any]:
        return api.checked(link.ask(subject, body), self.stream)

    def _pull(self, link: BlockingConnection, subject: str) -> Iterator[list[Entry]]:
        body = msgspec.json.encode(consumer.pull_request())
        deliveries, outstanding = self._deliveries, 0
        while not self._done:
            if outstanding <= 0:
                link.publish(subject, body, f"{link.inbox}.next")
                outstanding = consumer.PULL_MESSAGES
            entries = deliveries.take(link.frames(), _SID)
            outstanding -= deliveries.taken
            if deliveries.position >= self.end:
                self._done = True
                entries = [entry for entry in entries if entry.seq <= self.end]
            elif deliveries.reached(self.end):
                self._done = True
            if entries:
                self.position = entries[-1].seq
                yield entries
            if deliveries.gap is not None:
                raise SequenceGapError(self.stream, *deliveries.gap, self.position)
            for frame in deliveries.statuses:
                ended = consumer.pull_ended(frame.header)
                if ended is False:
                    raise ConnectionResetError("the consumer is gone")
                if ended:
                    outstanding = 0
            deliveries.statuses.clear()


def extent(urls: str, cell: str) -> tuple[int, int]:
    """Return the first and the last sequence of a cell's log; 1 and 0 of an empty one.

    Raises:
        LogUnavailableError: the log cannot be reached, or does not exist.
    """
    stream = Cell(cell).stream
    failure: Exception | None = None
    for server in addresses(urls):
        try:
            link = BlockingConnection(server, "sluice-bulk", TIMEOUT_S)
            try:
                state = api.checked(link.ask(api.info_subject(stream), None), stream)["state"]
            finally:
                link.close()
        except (OSError, ProtocolError) as error:
            failure = error
            continue
        return int(state["first_seq"]) or int(state["last_seq"]) + 1, int(state["last_seq"])
    raise LogUnavailableError(f"{stream}: {failure}") from failure
