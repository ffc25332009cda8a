"""The bulk reader: a whole log, as fast as one core can take it, from a blocking socket.

For replays and tools. Pull batches without acknowledgements; every delivery number is checked; a lost
connection is resumed behind the last entry handed out.
"""

import secrets
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from sluice.log.contract import Entry
from sluice.log.errors import LogUnavailableError, SequenceGapError
from sluice.protocol.subjects import Cell

from . import consumer
from .connection import Address, addresses
from .protocol import Frame, Parser, ProtocolError, parse_info, publish_frame, status_of

__all__ = ["BulkReader"]

RECEIVE_BYTES = 1 << 20
TIMEOUT_S = 30.0
_SID = b"1"

ATTEMPTS = 20
"""Connections in a row that bring nothing before the reader gives up."""


class _Socket:
    """A blocking connection: frames of one subscription, and requests before it."""

    def __init__(self, server: Address, timeout_s: float) -> None:
        self._socket = socket.create_connection((server.host, server.port), timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._parser = Parser()
        self._frames: list[Frame] = []
        self.inbox = f"_INBOX.{secrets.token_hex(10)}"
        info = parse_info(self._line())
        if server.tls or info.tls_required:
            context = ssl.create_default_context()
            self._socket = context.wrap_socket(self._socket, server_hostname=server.host)
        self.send(server.connect_line("sluice-bulk") + b"SUB %s.* 1\r\nPING\r\n" % self.inbox.encode())
        while (line := self._line()) != b"PONG":
            if line.startswith(b"-ERR"):
                raise ConnectionRefusedError(line.decode(errors="replace"))

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def _line(self) -> bytes:
        while not self._parser.control:
            self._frames += self._parser.feed(self._received())
        return self._parser.control.pop(0)

    def _received(self) -> bytes:
        data = self._socket.recv(RECEIVE_BYTES)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        return data

    def frames(self) -> list[Frame]:
        """Return the next frames; answers the server's pings."""
        while not self._frames:
            self._frames = self._parser.feed(self._received())
            for line in self._parser.control:
                if line == b"PING":
                    self.send(b"PONG\r\n")
                elif line.startswith(b"-ERR"):
                    raise ConnectionResetError(line.decode(errors="replace"))
            self._parser.control.clear()
        frames, self._frames = self._frames, []
        return frames

    def ask(self, subject: str, body: object = None) -> dict[str, Any]:
        """Ask JetStream's API.

        Raises:
            LogUnavailableError: nobody answers there, or the answer is an error.
        """
        payload = b"" if body is None else msgspec.json.encode(body)
        self.send(publish_frame(subject, payload, f"{self.inbox}.ask", {}))
        (frame,) = self.frames()
        if frame.header and status_of(frame.header) == 503:
            raise LogUnavailableError(f"{subject}: nobody answers")
        return consumer.checked(msgspec.json.decode(frame.payload), subject)

    def close(self) -> None:
        self._socket.close()


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

    def __iter__(self) -> Iterator[list[Entry]]:
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
        link = _Socket(server, TIMEOUT_S)
        try:
            state = link.ask(f"$JS.API.STREAM.INFO.{self.stream}")["state"]
            if not self.end:
                last = int(state["last_seq"])
                self.end = last if self._until is None else min(last, self._until)
            if self.position >= self.end:
                self._done = True
                return
            consumer.check_history(self.stream, state, self.position)
            name = f"sluice-bulk-{secrets.token_hex(8)}"
            body = consumer.create_request(self.stream, name, self.position + 1, self._subjects)
            made = link.ask(f"$JS.API.CONSUMER.CREATE.{self.stream}.{name}", body)
            self._deliveries = consumer.Deliveries(self.prefix, self.position, self._wanted)
            self._deliveries.restart(int(made.get("num_pending", 0)))
            if not self._deliveries.pending:
                self._done = True
                return
            yield from self._pull(link, f"$JS.API.CONSUMER.MSG.NEXT.{self.stream}.{name}")
            link.send(publish_frame(f"$JS.API.CONSUMER.DELETE.{self.stream}.{name}", b"", "", {}))
        finally:
            link.close()

    def _pull(self, link: _Socket, subject: str) -> Iterator[list[Entry]]:
        body = msgspec.json.encode(consumer.pull_request())
        request = publish_frame(subject, body, f"{link.inbox}.next", {})
        deliveries, outstanding = self._deliveries, 0
        while not self._done:
            if outstanding <= 0:
                link.send(request)
                outstanding = consumer.PULL_MESSAGES
            entries = deliveries.take(link.frames(), _SID)
            outstanding -= deliveries.taken
            if deliveries.position >= self.end:
                self._done = True
                entries = [entry for entry in entries if entry.seq <= self.end]
            elif not deliveries.pending:
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


def read_all(
    urls: str, cell: str = "main", start: int = 1, filters: Sequence[str] = (), until: int | None = None
) -> Iterator[list[Entry]]:
    """Yield batches of the log's entries; see `BulkReader`."""
    return iter(BulkReader(urls, cell, start, filters, until))
