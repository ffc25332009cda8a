"""The log on JetStream."""

import asyncio
import itertools
import math
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
import structlog

from sluice.log.contract import Ack, Entry
from sluice.log.errors import (
    AppendRefusedError,
    EventLogError,
    LogUnavailableError,
    MessageTooLargeError,
    UnansweredError,
)
from sluice.protocol.query import LogStanding
from sluice.protocol.subjects import Cell

from . import consumer
from . import jetstream_api as api
from .acks import read_ack
from .connection import Connection, Link
from .protocol import Frame, shown
from .streams import ensure_log, log_standing

__all__ = ["HEADER_ROOM", "JetStreamLog", "JetStreamTail", "read_ack", "read_stream"]

APPEND_TIMEOUT_S = 5.0
NEAR_APPEND_TIMEOUT_S = 2.0
"""The same where there are several servers: what is sent while they elect a leader gets no answer."""
HEADER_ROOM = 512
"""Bytes of a message that are left to its headers."""
BEHIND_S = 5.0
"""So long a reader of a bucket waits for a message that may have been removed meanwhile."""

log = structlog.get_logger("sluice.log.jetstream")


class JetStreamLog:
    """A `Log` on the server at *url*. `open` it, and `close` it."""

    def __init__(self, url: str, cell: str = "main", *, name: str = "sluice", replicas: int = 1) -> None:
        self.url, self.name, self.replicas = url, name, replicas
        self.cell = Cell(cell)
        self.max_payload = 1 << 20
        self._link = Link(url, f"{name}-log", on_connect=self._connected)
        self._tails: list[JetStreamTail] = []

    async def open(self, timeout_s: float | None = 30.0) -> "JetStreamLog":
        """Connect, and create or check the stream; waits for a server that is not up yet.

        Raises:
            LogUnavailableError: no server, or no JetStream, within *timeout_s*.
            StreamMismatchError: the stream has settings that it must not be run on.
        """
        deadline = asyncio.get_running_loop().time() + (timeout_s or math.inf)
        while True:
            connection = await self._link.connection(timeout_s)
            try:
                await ensure_log(connection, self.cell, self.replicas)
                return self
            except (ConnectionError, LogUnavailableError, TimeoutError) as error:
                log.info("log not ready", error=str(error) or type(error).__name__)
                if asyncio.get_running_loop().time() > deadline:
                    raise LogUnavailableError(f"{shown(self.url)}: {error}") from error
                await asyncio.sleep(0.1)

    def _connected(self, connection: Connection) -> None:
        self.max_payload = connection.info.max_payload

    async def connection(self, timeout_s: float | None = None) -> Connection:
        """Return the connection, for requests beside the log.

        Raises:
            LogUnavailableError: there is none within *timeout_s*.
        """
        return await self._link.connection(timeout_s)

    async def append(
        self,
        suffix: str,
        payload: bytes,
        *,
        expected_last: int | None = None,
        msg_id: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Ack:
        subject = self.cell.subject(suffix)
        headers = dict(headers or ())
        if msg_id:
            headers["Nats-Msg-Id"] = msg_id
        if expected_last is not None:
            headers["Nats-Expected-Last-Subject-Sequence"] = str(expected_last)
        try:
            connection = await self._link.connection(APPEND_TIMEOUT_S)
            limit = connection.info.max_payload - HEADER_ROOM
            if len(payload) > limit:
                raise MessageTooLargeError(subject, len(payload), limit)
            answer_s = NEAR_APPEND_TIMEOUT_S if connection.replaceable else APPEND_TIMEOUT_S
            frame = await connection.request(subject, payload, headers, answer_s)
        except (ConnectionError, TimeoutError, LogUnavailableError) as error:
            raise UnansweredError(subject, str(error) or "timeout") from error
        return read_ack(subject, expected_last, frame.payload)

    async def last(self, suffix: str) -> Entry | None:
        found = await self._asked(
            lambda connection: api.message(connection, self.cell.stream, last_of=self.cell.subject(suffix))
        )
        if found is None:
            return None
        return Entry(found.seq, self.cell.suffix(found.subject), found.at, found.payload)

    async def end(self) -> int:
        found = await self._asked(lambda connection: api.info(connection, self.cell.stream))
        return int(found["state"]["last_seq"])

    async def first(self) -> int:
        found = await self._asked(lambda connection: api.info(connection, self.cell.stream))
        state = found["state"]
        # A stream that nothing was ever put into says 0.
        return int(state["first_seq"]) or int(state["last_seq"]) + 1

    async def standing(self) -> tuple[LogStanding, int]:
        """Return how the log is stored, and its end."""
        return await self._asked(lambda connection: log_standing(connection, self.cell))

    async def _asked[T](self, question: Callable[[Connection], Awaitable[T]]) -> T:
        try:
            return await question(await self._link.connection(APPEND_TIMEOUT_S))
        except (ConnectionError, TimeoutError) as error:
            raise LogUnavailableError(f"{self.cell.stream}: {error or 'no answer'}") from error

    async def read(self, start: int, filters: Sequence[str]) -> AsyncIterator[list[Entry]]:
        end = await self.end()
        if start <= 1:
            start = await self.first()
        arrived = asyncio.Event()
        tail = self.tail(start, filters, arrived.set)
        try:
            while True:
                arrived.clear()
                entries = tail.take()
                if entries and entries[-1].seq > end:
                    entries = [entry for entry in entries if entry.seq <= end]
                    if entries:
                        yield entries
                    return
                if entries:
                    yield entries
                if tail.reached(end):
                    return
                await arrived.wait()
        finally:
            await tail.close()

    def tail(self, start: int, filters: Sequence[str], wake: Callable[[], None]) -> "JetStreamTail":
        return JetStreamTail(self.url, self.name, self.cell.stream, self.cell.prefix, start, filters, wake)

    async def close(self) -> None:
        await self._link.close()


class JetStreamTail:
    """A `Tail` of any stream, on a connection of its own. *whole*: the stream never loses messages.

    One that may lose some (a bucket) may also be deleted and made again: then `take` raises
    `consumer.StreamReplacedError`, and who follows it begins anew.

    Every delivery is numbered by its consumer; one that does not follow its predecessor means that some
    were skipped, and reading begins anew behind the last good one. So does every reconnect.
    """

    def __init__(
        self,
        url: str,
        name: str,
        stream: str,
        prefix: str,
        start: int,
        filters: Sequence[str],
        wake: Callable[[], None],
        *,
        whole: bool = True,
    ) -> None:
        self.stream, self.prefix = stream, prefix
        self._whole = whole
        self._created = ""
        subjects, wanted = consumer.asked_for(filters)
        self._deliveries = consumer.Deliveries(prefix, max(start - 1, 0), wanted, whole=whole)
        self.gaps = 0
        """How often the server had skipped messages."""
        self._subjects = [prefix + pattern for pattern in subjects]
        self._wake = wake
        self._arrived: list[Entry] = []
        self._error: EventLogError | None = None
        self._sids = itertools.count(2)
        self._sid = b""
        self._outstanding = 0
        self._live = False
        self._sure = asyncio.Event()
        self._pull_subject = self._pull_reply = self._consumer = ""
        self._pulls = itertools.count(1)
        self._heard = 0.0
        self._heartbeat_s, self._missed = consumer.HEARTBEAT_S, 0
        self._loop = asyncio.get_running_loop()
        self._setup: asyncio.Task[None] | None = None
        self._closed = False
        self._link = Link(
            url, f"{name}-tail", sink=self._sink, on_connect=self._begin, on_lost=self._disconnected
        )
        self._opening = asyncio.create_task(self._open())
        self._watch = self._loop.call_later(self._heartbeat_s, self._watchdog)

    async def _open(self) -> None:
        await self._link.connection()

    # the Tail

    @property
    def position(self) -> int:
        return self._deliveries.position

    @property
    def lag(self) -> int:
        return self._deliveries.pending + len(self._arrived)

    def reached(self, end: int) -> bool:
        """Tell whether every matching entry up to *end* has been taken."""
        if self._arrived:
            return False
        return self.position >= end or (self._live and self._deliveries.reached(end))

    @property
    def sure(self) -> bool:
        return self._sure.is_set()

    async def until_sure(self) -> None:
        """Wait until the stream has been looked at since the connection was made."""
        await self._sure.wait()

    def take(self) -> list[Entry]:
        if self._error is not None:
            raise self._error
        arrived = self._arrived
        if arrived:
            self._arrived = []
            self._pull()
        return arrived

    async def close(self) -> None:
        self._closed = True
        self._watch.cancel()
        for task in (self._opening, self._setup):
            if task is not None:
                task.cancel()
        connection = self._link.current
        if connection is not None and self._consumer:
            connection.publish(api.end_subject(self.stream, self._consumer), b"")
        await self._link.close()

    # setting up

    def _begin(self, connection: Connection) -> None:
        """Make a new consumer behind the position."""
        self._live, self._sid = False, b""
        self._sure.clear()
        self._heard = self._loop.time()
        if self._setup is not None:
            self._setup.cancel()
        if not self._closed:
            self._setup = asyncio.create_task(self._subscribe(connection))

    def _disconnected(self) -> None:
        self._live, self._sid = False, b""
        self._sure.clear()

    async def _subscribe(self, connection: Connection) -> None:
        wait_s, answer_s = 0.05, consumer.SETUP_FIRST_S
        while not connection.lost:
            try:
                await self._create(connection, answer_s)
                return
            except (LogUnavailableError, TimeoutError, ConnectionError) as error:
                log.info("reader not ready", stream=self.stream, error=str(error) or "timeout")
            except EventLogError as error:
                self._error = error
                self._wake()
                return
            except Exception:
                # Whatever it is that cannot be understood, a reader must not be deaf for ever.
                log.exception("reader not ready", stream=self.stream)
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, 0.25)
            answer_s = min(answer_s * consumer.SETUP_GROWTH, consumer.SETUP_MOST_S)

    async def _create(self, connection: Connection, answer_s: float) -> None:
        info = await api.info(connection, self.stream, timeout_s=answer_s)
        if self._whole:
            self._deliveries.imported = consumer.imported_to(info)
            consumer.check_history(self.stream, info["state"], self.position)
            await self._check_position(connection, int(info["state"]["last_seq"]), answer_s)
        else:
            self._check_same(info)
            await self._check_place(connection, answer_s)
        self._sure.set()
        if self._consumer:
            connection.publish(api.end_subject(self.stream, self._consumer), b"")
        name = _new_name()
        body = consumer.create_request(self.stream, name, self.position + 1, self._subjects)
        answer = await connection.ask(api.consumer_subject(self.stream, name), body, answer_s)
        made = api.checked(answer, self.stream)
        if consumer.may_be_behind(info):
            await self._look_for_the_newest(connection, answer_s)
        self._listen_for(consumer.NEAR_HEARTBEAT_S if consumer.in_cluster(info) else consumer.HEARTBEAT_S)
        self._consumer = name
        self._pull_subject = api.pull_subject(self.stream, name)
        self._sid = b"%d" % next(self._sids)
        self._outstanding = 0
        self._deliveries.restart(int(made.get("num_pending", 0)))
        self._live = True
        connection.write(b"SUB _INBOX.%s.* %s\r\n" % (name.encode(), self._sid))
        self._pull()
        self._wake()

    async def _look_for_the_newest(self, connection: Connection, answer_s: float) -> None:
        """Find out what the stream's leader has: the consumer may be on a server that is behind."""
        found = [
            await api.message(connection, self.stream, last_of=subject, timeout_s=answer_s)
            for subject in self._subjects
        ]
        self._deliveries.newest = max((message.seq for message in found if message is not None), default=0)
        if not self._whole:
            # A bucket may lose that very message, before it was read, without another one in its place.
            self._loop.call_later(BEHIND_S, self._expect_nothing)

    def _expect_nothing(self) -> None:
        self._deliveries.newest = 0
        self._wake()

    async def _check_position(self, connection: Connection, last: int, answer_s: float) -> None:
        """Find out whether the log still has what was read last: an older one may have been put back, and
        grown again meanwhile."""
        stamp = self._deliveries.stamp
        if not stamp:
            return
        try:
            found = await api.message(connection, self.stream, seq=self.position, timeout_s=answer_s)
        except AppendRefusedError:
            return  # not everybody who reads may ask for that
        if found is None or found.at != stamp:
            raise consumer.LogReplacedError(self.stream, self.position, last)

    async def _check_place(self, connection: Connection, answer_s: float) -> None:
        """Find out whether an older bucket was put back, and has grown again meanwhile."""
        stamp = self._deliveries.stamp
        if not stamp:
            return
        name = _new_name()
        body = consumer.look_request(self.stream, name, stamp, self._subjects)
        answer = await connection.ask(api.consumer_subject(self.stream, name), body, answer_s)
        made = api.checked(answer, self.stream)
        connection.publish(api.end_subject(self.stream, name), b"")
        consumer.check_place(self.stream, made, self.position)

    def _check_same(self, info: dict[str, Any]) -> None:
        """Find out whether the stream is the one that was read so far; another one counts from 1 again."""
        created = info.get("created", "")
        lost = int(info["state"]["last_seq"]) < self.position
        if lost or (self._created and created != self._created):
            raise consumer.StreamReplacedError(self.stream)
        self._created = created

    def _pull(self) -> None:
        """Ask for more once all that was asked for has come, and been taken: that is the back-pressure."""
        connection = self._link.current
        if self._outstanding > 0 or not self._live or self._arrived or connection is None:
            return
        self._outstanding = consumer.PULL_MESSAGES
        self._pull_reply = f"_INBOX.{self._consumer}.{next(self._pulls)}"
        body = msgspec.json.encode(consumer.pull_request(self._heartbeat_s))
        connection.publish(self._pull_subject, body, self._pull_reply)

    # receiving

    def _sink(self, frames: list[Frame]) -> None:
        self._heard = self._loop.time()
        deliveries = self._deliveries
        entries = deliveries.take(frames, self._sid)
        self._outstanding -= deliveries.taken
        if deliveries.gap is not None:
            self._gap(*deliveries.gap)
            deliveries.gap = None
        if deliveries.statuses:
            for frame in deliveries.statuses:
                self._status(frame)
            deliveries.statuses.clear()
        if entries:
            if self._arrived:
                self._arrived += entries
            else:
                self._arrived = entries
            self._wake()
        elif deliveries.taken:
            # Nothing to take, which asks for more, but perhaps the end that somebody waits for.
            self._pull()
            self._wake()

    def _gap(self, expected: int, actual: int) -> None:
        self.gaps += 1
        log.warning(
            "gap in deliveries", stream=self.stream, expected=expected, actual=actual, after=self.position
        )
        connection = self._link.current
        if connection is not None:
            self._begin(connection)

    def _status(self, frame: Frame) -> None:
        meaning = consumer.pull_ended(frame.header)
        if meaning is None or (meaning and frame.subject != self._pull_reply.encode()):
            return  # a heartbeat, or the end of an earlier pull
        if meaning:
            self._outstanding = 0
            self._loop.call_soon(self._pull)
            return
        log.info("consumer gone", stream=self.stream, status=frame.header[:80].decode(errors="replace"))
        self._live, self._sid = False, b""
        connection = self._link.current
        if connection is not None:
            self._loop.call_later(0.1, self._begin_again, connection)

    def _begin_again(self, connection: Connection) -> None:
        if not connection.lost and not self._live and not self._closed:
            self._begin(connection)

    def _listen_for(self, heartbeat_s: float) -> None:
        """Expect a heartbeat so often from here on."""
        self._missed = 0
        if heartbeat_s != self._heartbeat_s:
            self._heartbeat_s = heartbeat_s
            self._watch.cancel()
            self._watch = self._loop.call_later(heartbeat_s, self._watchdog)

    def _watchdog(self) -> None:
        """A pull under way is heard of regularly; if not, the server has forgotten it, or is gone."""
        self._watch = self._loop.call_later(self._heartbeat_s, self._watchdog)
        connection = self._link.current
        silent = self._loop.time() - self._heard
        waiting = self._live and self._outstanding and connection is not None
        self._missed = self._missed + 1 if waiting and silent > 1.2 * self._heartbeat_s else 0
        if self._missed >= consumer.MISSED and connection is not None:
            log.warning("reader hears nothing", stream=self.stream, seconds=round(silent, 1))
            self._missed = 0
            self._begin(connection)


def _new_name() -> str:
    """Return a consumer's name: what it delivers is for who knows it."""
    return f"sluice-{secrets.token_hex(16)}"


async def read_stream(
    target: JetStreamLog,
    stream: str,
    prefix: str,
    end: int,
    filters: Sequence[str] = (">",),
    *,
    start: int = 1,
) -> AsyncIterator[list[Entry]]:
    """Yield batches of what a stream beside the log (a bucket) holds from *start* up to *end*."""
    arrived = asyncio.Event()
    tail = JetStreamTail(target.url, target.name, stream, prefix, start, filters, arrived.set, whole=False)
    try:
        while True:
            arrived.clear()
            if entries := tail.take():
                yield entries
            if tail.reached(end):
                return
            await arrived.wait()
    finally:
        await tail.close()
