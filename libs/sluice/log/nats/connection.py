"""Connections to the server, thin: frames in batches, requests with deadlines, reconnecting for ever.

The paths that carry every message (reading the log, commits, projections) go through here; the rest
(object store, services API) uses nats-py.
"""

import asyncio
import contextlib
import itertools
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec
import structlog

from sluice.log.errors import AppendRefusedError, LogUnavailableError

from .gate import is_gated, to_gate
from .protocol import (
    Address,
    Frame,
    Parser,
    ProtocolError,
    ServerInfo,
    addresses,
    description_of,
    parse_info,
    publish_frame,
    status_of,
)

__all__ = ["Connection", "Link"]

CONNECT_TIMEOUT_S = 5.0
NEXT_AFTER_S = 1.0
"""So long a server may take to log a client in, on the first round, before the next one is asked: one that is
stopped takes connections, and says nothing. Each round gives all of them twice the time."""
SHUT_S = 1.0
PING_INTERVAL_S = 20.0
DOUBT_S = 1.0
"""Once a request was not answered, a server has so long to say that it is there, if there are others."""
ASK_AGAIN_S = 0.5
"""What only asks is asked again so often where there are several servers: while a stream has no leader nobody
answers, and who has just been elected knows of no question."""
_ONLY_ASKS = ("$JS.API.STREAM.INFO.", "$JS.API.STREAM.MSG.GET.")
RECONNECT_FIRST_S, RECONNECT_MOST_S = 0.02, 1.0

_MUX = b"1"
_NONE: Mapping[str, str] = {}

log = structlog.get_logger("sluice.log.wire")


class Connection(asyncio.Protocol):
    """One connection, until it is lost. `sink` gets the frames of subscriptions, in batches, in order."""

    def __init__(self, sink: Callable[[list[Frame]], None], on_lost: Callable[[], None]) -> None:
        self.sink = sink
        self.info = ServerInfo()
        self.lost = False
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._parser = Parser()
        self._greeting: asyncio.Future[ServerInfo] = self._loop.create_future()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._requests: dict[bytes, tuple[asyncio.Future[Frame], str]] = {}
        self._tokens = itertools.count(1)
        self._inbox = ""
        self._gated = False
        """Whether requests to JetStream go to the gate; the first one's answer says so."""
        self._silent_pings = 0
        self._ping_timer: asyncio.TimerHandle | None = None
        self.replaceable = False
        """Whether there are other servers to go to, so that one that is silent is soon given up."""
        self._heard = self._doubted = False

    @classmethod
    async def open(
        cls,
        address: Address,
        name: str,
        inbox: str,
        sink: Callable[[list[Frame]], None],
        on_lost: Callable[[], None],
        timeout_s: float = CONNECT_TIMEOUT_S,
    ) -> "Connection":
        """Connect and log in.

        Raises:
            OSError, TimeoutError: the server cannot be reached or refuses.
        """
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(timeout_s):
            transport, connection = await loop.create_connection(
                lambda: cls(sink, on_lost), address.host, address.port
            )
            try:
                await connection._log_in(address, name, inbox)
            except BaseException:
                transport.abort()
                raise
        return connection

    async def _log_in(self, address: Address, name: str, inbox: str) -> None:
        self.info = await self._greeting
        if address.tls or self.info.tls_required:
            assert self._transport is not None
            secured = await self._loop.start_tls(
                self._transport, self, address.tls_context(), server_hostname=address.host
            )
            self._transport = cast(asyncio.Transport, secured)
        self._inbox = inbox
        # The PONG says that CONNECT was accepted; a refusal comes as -ERR before it.
        self.write(
            address.connect_line(name, self.info.nonce) + b"SUB %s.* %s\r\nPING\r\n" % (inbox.encode(), _MUX)
        )
        await self._ready
        self._ping_timer = self._loop.call_later(PING_INTERVAL_S, self._ping)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._heard = True
        parser = self._parser
        try:
            frames = parser.feed(data)
        except (ValueError, IndexError, ProtocolError) as error:
            log.error("protocol broken", error=str(error))
            self.abort()
            return
        if parser.control:
            lines, parser.control = parser.control, []
            for line in lines:
                self._control(line)
        if not frames:
            return
        if self._requests:
            others = [frame for frame in frames if frame.sid != _MUX]
            if len(others) != len(frames):
                for frame in frames:
                    if frame.sid == _MUX:
                        self._answer(frame)
            frames = others
        if frames:
            self.sink(frames)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        if not self._gone.done():
            self._gone.set_result(None)
        if self._ping_timer is not None:
            self._ping_timer.cancel()
        error = ConnectionResetError(str(exc) if exc else "the server closed the connection")
        requests = [future for future, _ in self._requests.values()]
        everybody: list[asyncio.Future[Any]] = [self._greeting, self._ready, *requests]
        for waiting in everybody:
            if not waiting.done():
                waiting.set_exception(error)
                # Not everybody waits for both; an exception that nobody fetches would be reported.
                waiting.exception()
        self._requests.clear()
        self._on_lost()

    # protocol

    def _control(self, line: bytes) -> None:
        if line == b"PING":
            self.write(b"PONG\r\n")
        elif line == b"PONG":
            self._silent_pings = 0
            if not self._ready.done():
                self._ready.set_result(None)
        elif line.startswith(b"INFO "):
            if not self._greeting.done():
                self._greeting.set_result(parse_info(line))
        elif line.startswith(b"-ERR"):
            self._refused(line[4:].decode(errors="replace").strip(" '"))

    def _refused(self, what: str) -> None:
        """Surface what the server refuses: a denied publish would look like a timeout otherwise."""
        if not self._ready.done():
            self._ready.set_exception(ConnectionRefusedError(what))
            return
        lowered, told = what.lower(), False
        if "permissions violation" in lowered:
            for key, (future, subject) in list(self._requests.items()):
                if f'"{subject.lower()}"' in lowered and not future.done():
                    future.set_exception(AppendRefusedError(subject, 403, what))
                    del self._requests[key]
                    told = True
        if not told:
            log.warning("server error", error=what)

    def _ping(self) -> None:
        self._silent_pings += 1
        if self._silent_pings > 2:
            log.warning("server is silent")
            self.abort()
            return
        self.write(b"PING\r\n")
        self._ping_timer = self._loop.call_later(PING_INTERVAL_S, self._ping)

    def _doubt(self) -> None:
        """Ask the server whether it is there: one that has lost its power closes no connection."""
        if self.replaceable and not self._doubted and not self.lost:
            self._doubted, self._heard = True, False
            self.write(b"PING\r\n")
            # Twice, as a timer may come before what has arrived during a long turn of the event loop.
            self._loop.call_later(DOUBT_S, self._loop.call_later, 0.05, self._resolve)

    def _resolve(self) -> None:
        self._doubted = False
        if not self._heard and not self.lost:
            log.warning("server is silent, trying others")
            self.abort()

    def _answer(self, frame: Frame) -> None:
        future, _ = self._requests.pop(frame.subject, (None, ""))
        if future is not None and not future.done():
            future.set_result(frame)

    # use

    def write(self, data: bytes) -> None:
        """Send raw protocol; silently nothing once the connection is lost."""
        if self._transport is not None and not self.lost:
            self._transport.write(data)

    def publish(
        self, subject: str, payload: bytes, reply: str = "", headers: Mapping[str, str] = _NONE
    ) -> None:
        self.write(publish_frame(to_gate(subject) if self._gated else subject, payload, reply, headers))

    def expect(self, subject: str) -> tuple[str, asyncio.Future[Frame]]:
        """Return a reply subject and the future of the first message to it; *subject* is what is asked."""
        reply = f"{self._inbox}.{next(self._tokens)}"
        future: asyncio.Future[Frame] = self._loop.create_future()
        if self.lost:
            future.set_exception(ConnectionResetError("connection lost"))
        else:
            self._requests[reply.encode()] = (future, subject)
        return reply, future

    async def request(
        self,
        subject: str,
        payload: bytes = b"",
        headers: Mapping[str, str] = _NONE,
        timeout_s: float = 5.0,
    ) -> Frame:
        """Send a request and return the answer.

        Raises:
            TimeoutError: no answer in *timeout_s*; it may still have been received.
            ConnectionError: the connection was lost; it may still have been received.
            LogUnavailableError: nobody listens there (JetStream is off, or the stream is missing).
        """
        reply, future = self.expect(subject)
        self.publish(subject, payload, reply, headers)
        if self.replaceable and subject.startswith(_ONLY_ASKS):
            self._loop.call_later(ASK_AGAIN_S, self._again, subject, payload, reply)
        return await self.answer(reply, future, timeout_s)

    def _again(self, subject: str, payload: bytes, reply: str) -> None:
        if reply.encode() in self._requests:
            self.publish(subject, payload, reply)
            self._loop.call_later(ASK_AGAIN_S, self._again, subject, payload, reply)

    async def gather(
        self, subject: str, heard: "asyncio.Queue[Frame]", first_s: float, silence_s: float
    ) -> list[bytes]:
        """Return what all say that answer on *subject*: until *silence_s* long nobody has.

        *heard*: where this connection's frames go.
        """
        inbox = f"_INBOX.{secrets.token_hex(8)}"
        self.write(b"SUB %s 2\r\n" % inbox.encode())
        self.publish(subject, b"", inbox)
        found: list[bytes] = []
        with contextlib.suppress(TimeoutError):
            while True:
                async with asyncio.timeout(silence_s if found else first_s):
                    frame = await heard.get()
                if frame.subject == inbox.encode():
                    found.append(frame.payload)
        self.write(b"UNSUB 2\r\n")
        return found

    async def answer(self, reply: str, future: asyncio.Future[Frame], timeout_s: float) -> Frame:
        """Wait for what `expect` promised; raises as `request`."""
        try:
            async with asyncio.timeout(timeout_s):
                frame = await future
        except (TimeoutError, asyncio.CancelledError):
            self._doubt()
            raise
        finally:
            self._requests.pop(reply.encode(), None)
        if frame.header and not frame.payload and status_of(frame.header) == 503:
            raise LogUnavailableError(f"nobody answers ({description_of(frame.header) or 'no responders'})")
        return frame

    async def ask(self, subject: str, body: object = None, timeout_s: float = 5.0) -> dict[str, Any]:
        """Ask JetStream's API and return its JSON answer, errors included."""
        payload = b"" if body is None else msgspec.json.encode(body)
        try:
            frame = await self.request(subject, payload, timeout_s=timeout_s)
        except LogUnavailableError:
            self._gated = False  # no gate, or never one: whoever asks again finds out
            raise
        answer: dict[str, Any] = msgspec.json.decode(frame.payload)
        if not self._gated and is_gated(answer):
            self._gated = True
            return await self.ask(subject, body, timeout_s)
        return answer

    def pause(self) -> None:
        if self._transport is not None and not self.lost and self._transport.is_reading():
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and not self.lost and not self._transport.is_reading():
            self._transport.resume_reading()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Send what is buffered and close."""
        if self._transport is not None:
            self._transport.close()

    async def shut(self) -> None:
        """Close, and wait until it is so: over TLS the other side has a word in it."""
        self.close()
        await asyncio.wait([self._gone], timeout=SHUT_S)
        self.abort()


class Link:
    """A connection that comes back: `await connection()` waits for it, for ever.

    `on_connect` is called with each new connection, before anybody gets it.
    """

    def __init__(
        self,
        urls: str,
        name: str,
        *,
        sink: Callable[[list[Frame]], None] = lambda _: None,
        on_connect: Callable[[Connection], None] = lambda _: None,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._servers: Sequence[Address] = addresses(urls)
        self._first = 0
        """Of `_servers`, which is asked first: not the one that was just lost."""
        self.name = name
        self._inbox = f"_INBOX.{secrets.token_hex(8)}"
        self._sink, self._on_connect, self._lost_hook = sink, on_connect, on_lost
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._closed = False

    @property
    def current(self) -> Connection | None:
        """The connection, None while there is none."""
        return self._connection

    async def connection(self, timeout_s: float | None = None) -> Connection:
        """Return the connection, waiting for it if need be.

        Raises:
            LogUnavailableError: not within *timeout_s*, or the link was closed.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while self._connection is None:
                    if self._closed:
                        raise LogUnavailableError(f"{self.name}: the link is closed")
                    self._reconnect()
                    self._changed.clear()
                    await self._changed.wait()
                return self._connection
        except TimeoutError:
            where = ", ".join(f"{server.host}:{server.port}" for server in self._servers)
            raise LogUnavailableError(f"{self.name}: no server at {where}") from None

    def _reconnect(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._connect(), name=f"{self.name}-connect")

    async def _connect(self) -> None:
        wait_s, failures, many = RECONNECT_FIRST_S, 0, len(self._servers)
        for place in itertools.count(self._first):
            if self._closed:
                return
            server = self._servers[place % many]
            patience_s = min(NEXT_AFTER_S * 2 ** min(failures // many, 8), CONNECT_TIMEOUT_S)
            try:
                opened = await Connection.open(
                    server,
                    self.name,
                    self._inbox,
                    self._sink,
                    self._on_lost,
                    patience_s if many > 1 else CONNECT_TIMEOUT_S,
                )
            except (OSError, TimeoutError, ValueError) as error:
                failures += 1
                if failures in (1, 10) or failures % 100 == 0:
                    log.warning(
                        "cannot connect",
                        link=self.name,
                        server=f"{server.host}:{server.port}",
                        error=str(error) or "timeout",
                    )
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 1.5, RECONNECT_MOST_S)
                continue
            if self._closed:
                opened.abort()
                return
            if opened.lost:
                continue
            opened.replaceable = many > 1
            self._first = (place + 1) % many
            self._connection = opened
            self._on_connect(opened)
            self._changed.set()
            return

    def _on_lost(self) -> None:
        if self._connection is None or not self._connection.lost:
            return
        self._connection = None
        if not self._closed:
            log.info("disconnected", link=self.name)
            self._lost_hook()
            self._reconnect()

    async def close(self) -> None:
        """Close for good; whoever waits for a connection gets an error."""
        self._closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.shut()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self._changed.set()
