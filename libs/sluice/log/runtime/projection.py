"""Projections: what the log makes true now, as key-value buckets for readers in any language.

Written after the commit is acknowledged. Every write names the bucket's sequence that it expects, and its
entries are held together (`projection_entries`), so a leader that was replaced cannot overwrite its
successor's values; the entries say which commit they are
of (`seq`), so a successor knows from the bucket's last entry what may be missing, and writes it again.
A bucket that was deleted, emptied or written by others is noticed within a second or two, and written anew.

What to write when is decided in `projection_machine`; this is the shell around it.
"""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

import structlog

from sluice.events.commit import Step
from sluice.log.errors import EventLogError, LogUnavailableError, StaleSequenceError
from sluice.log.nats import jetstream_api as api
from sluice.log.nats.connection import Connection
from sluice.log.nats.jetstream import JetStreamLog, read_ack, read_stream
from sluice.log.nats.kv import is_deletion
from sluice.log.nats.protocol import headers_of, publish_frame
from sluice.log.nats.streams import WHOLE, Standing, ensure_bucket, look_at
from sluice.protocol.subjects import COMMITS

from .alarm import Alarm
from .hooks import Hooks
from .projection_entries import Tie, conditions, tie_of
from .projection_machine import (
    Answer,
    Ask,
    Confirm,
    Confirmed,
    Contents,
    Item,
    Look,
    Missing,
    Publishing,
    Question,
    Read,
    Refused,
    Stand,
    Stood,
    Unanswered,
    Write,
    Written,
)

__all__ = ["Projection"]

ACK_TIMEOUT_S, NEAR_ACK_TIMEOUT_S = 5.0, 2.0
"""The second where there are several servers: what one takes that dies then is never answered."""
READ_TIMEOUT_S = 10.0
"""Without anything to read for so long, a bucket is taken for gone."""
TOMBSTONE_TTL = "1h"
"""How long a deletion stays visible to readers that were away."""

SEQ_HEADER = "Sluice-Seq"
LONGEST_SEQ = 18
"""Digits of the largest sequence that is believed."""

Change = tuple[str, bytes | None]
"""Key (tokens encoded) and value, a JSON object; None deletes the key."""

log = structlog.get_logger("sluice.log.projection")


class Projection[S](Protocol):
    """What a service shows in one bucket. Pure."""

    bucket: str
    """After the cell: "dispatch" is the bucket `sluice_<cell>_dispatch`."""

    def changes(self, state: S, step: Step) -> Iterable[Change]:
        """Return what *step* has changed; *state* is exactly as of the step."""
        ...

    def everything(self, state: S) -> Iterable[tuple[str, bytes]]:
        """Return all keys and values that there should be."""
        ...


def with_seq(value: bytes, seq: int) -> bytes:
    """Return the JSON object *value* with `"seq": seq` in front."""
    rest = value[1:].lstrip()
    return b'{"seq":%d%s%s' % (seq, b"" if rest.startswith(b"}") else b",", rest)


class Publisher[S](Hooks[S]):
    """Keeps one bucket as the projection says, while this replica leads.

    *confirm*: asks whether this replica still leads, after something unexpected was found.
    """

    def __init__(
        self,
        projection: Projection[S],
        target: JetStreamLog,
        confirm: Callable[[], Awaitable[bool]],
    ) -> None:
        self.projection, self.log, self._confirm = projection, target, confirm
        self.bucket = target.cell.bucket(projection.bucket)
        self.stream = f"KV_{self.bucket}"
        self.prefix = f"$KV.{self.bucket}."
        self.written = 0
        """Entries written since the process began."""
        self._tie = Tie.ANSWERS
        """As was seen when somebody last looked at the bucket."""
        self._machine: Publishing[S, bytes] = Publishing(projection, _same)
        self._instance, self._writes = secrets.token_hex(6), 0
        self._todo: deque[Ask] = deque()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._alarm = Alarm(lambda: self._tell(self._machine.tick))
        self._idle = asyncio.Event()

    # Hooks

    def rebuilding(self, upto: int, own: int) -> None:  # noqa: ARG002
        self._machine.rebuilding(own)

    def replayed(self, state: S, step: Step, seq: int) -> None:
        self._machine.replayed(state, step, seq)

    def decided(self, state: S, step: Step) -> object:
        return self._machine.decided(state, step)

    def committed(self, state: S, steps: Sequence[Step], seq: int, effects: Sequence[object]) -> None:  # noqa: ARG002
        asks = self._machine.committed(seq, effects, time.monotonic())  # type: ignore[arg-type]
        if asks:
            self._do(asks)

    def leading(self, state: S, own: int) -> None:
        self._task = asyncio.create_task(self._run(), name=f"{self.bucket}-projection")
        self._do(self._machine.leading(state, own, time.monotonic()))

    def following(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._todo.clear()
        self._machine.following()
        self._alarm.set(self._machine.deadline)

    async def drain(self) -> None:
        if self._task is not None:
            await self._idle.wait()

    # doing what the machine says

    def _do(self, asks: Iterable[Ask]) -> None:
        self._todo.extend(asks)
        if self._todo:
            self._wake.set()
        if not self._machine.idle:
            self._idle.clear()
        elif not self._idle.is_set():
            self._idle.set()
        self._alarm.set(self._machine.deadline)

    async def _run(self) -> None:
        todo, wake = self._todo, self._wake
        while True:
            if not todo:
                wake.clear()
                await wake.wait()
                continue
            ask = todo.popleft()
            answer: Answer
            try:
                answer = await self._asked(ask.question)
            except (EventLogError, ConnectionError, TimeoutError) as error:
                answer = Unanswered(str(error) or "timeout")
            except Exception as error:
                log.exception("bucket not asked", bucket=self.bucket)
                answer = Unanswered(type(error).__name__)
            self._tell(partial(self._machine.answer, ask.number, answer))

    def _tell(self, what: Callable[[float], Iterable[Ask]]) -> None:
        """Tell the machine, and do what it says."""
        now = time.monotonic()
        asks: Iterable[Ask] = ()
        try:
            asks = what(now)
        except Exception:
            # A fault of ours must not leave readers with what is no longer true.
            log.exception("projection failed, comparing everything", bucket=self.bucket)
            self._machine.failed(now)
        self._do(asks)

    async def _asked(self, question: Question) -> Answer:
        match question:
            case Write():
                return await self._write(await self.log.connection(), question)
            case Stand():
                return await self._stand()
            case Look():
                found = await self._look(await self.log.connection())
                return Missing() if found is None else Stood(found.created, found.last, found.whole)
            case Confirm():
                return Confirmed(await self._confirm())
            case Read():
                return Contents(await self._read(question.end))

    # the server

    async def _write(self, connection: Connection, question: Write[Any]) -> Written | Refused:
        """Write entries, as far as nobody else has written."""
        after, items = question.after, question.items
        if self._tie is not Tie.ANSWERS:
            return await self._send(connection, after, items)
        for index in range(len(items)):
            if await self._send(connection, after + index, items[index : index + 1]) == Refused():
                return Refused()
        return Written(after + len(items))

    async def _send(
        self, connection: Connection, after: int, items: Sequence[Item[bytes]]
    ) -> Written | Refused:
        """Write entries in one go; the acknowledgement of the last one is that of all."""
        self._writes += 1
        wanted = after + len(items)
        mark = f"{self._instance}-{self._writes}"
        reply, future = connection.expect(self.prefix)
        frames = []
        for item, headers in zip(items, conditions(self._tie, after, len(items), mark), strict=True):
            payload = _payload(item, headers)
            frames.append(
                publish_frame(self.prefix + item.key, payload, reply if item is items[-1] else "", headers)
            )
        connection.write(b"".join(frames))
        answer_s = NEAR_ACK_TIMEOUT_S if connection.replaceable else ACK_TIMEOUT_S
        frame = await connection.answer(reply, future, answer_s)
        try:
            if read_ack(self.prefix, wanted - 1, frame.payload).seq != wanted:
                return Refused()
        except StaleSequenceError:
            return Refused()
        self.written += len(items)
        return Written(wanted)

    async def _stand(self) -> Stood:
        """Return the bucket's last sequence, and the commit of its last entry; makes it if need be."""
        connection = await self.log.connection()
        await ensure_bucket(connection, self.bucket, self.log.replicas)
        found = await self._look(connection)
        if found is None:
            raise LogUnavailableError(f"{self.stream}: is gone again")
        stood = Stood(found.created, found.last, found.whole)
        if not found.last:
            return stood
        entry = await api.message(connection, self.stream, seq=found.last)
        return stood._replace(confirmed=await self._confirmed(connection, entry), end=await self.log.end())

    async def _confirmed(self, connection: Connection, entry: api.Stored | None) -> int:
        """Return the commit that an entry is of, 0 if there is no such commit in this log.

        The entry may be anybody's. Or it is of what the log once was, before an older one was put back: then
        what stands at that place in this log is younger than the entry.
        """
        seq = 0 if entry is None else _seq_of(entry)
        if entry is None or not seq:
            return 0
        commit = await api.message(connection, self.log.cell.stream, seq=seq)
        if commit is None or commit.at > entry.at or self.log.cell.suffix(commit.subject) not in COMMITS:
            return 0
        return seq

    async def _look(self, connection: Connection) -> Standing | None:
        found = await look_at(connection, self.bucket)
        if found is not None:
            self._tie = tie_of(found.replicas, atomic=found.atomic)
        return found

    async def _read(self, end: int) -> dict[str, bytes]:
        """Return what the bucket holds up to *end*."""
        found: dict[str, bytes] = {}
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(READ_TIMEOUT_S) as limit:
            async for entries in read_stream(self.log, self.stream, self.prefix, end):
                limit.reschedule(loop.time() + READ_TIMEOUT_S)
                for entry in entries:
                    if is_deletion(entry.header):
                        found.pop(entry.suffix, None)
                    else:
                        found[entry.suffix] = entry.payload
        return found


def _payload(item: Item[bytes], headers: dict[str, str]) -> bytes:
    """Return what is written of *item*; adds to its *headers* what readers must know."""
    if item.value is not None:
        if item.of != item.seq:
            headers[SEQ_HEADER] = str(item.of)
        return with_seq(item.value, item.seq)
    headers["KV-Operation"] = "DEL"
    headers[SEQ_HEADER] = str(item.of)
    if item.key != WHOLE:
        headers["Nats-TTL"] = TOMBSTONE_TTL
    return b""


def _same(found: bytes, value: bytes) -> bool:
    """Tell whether an entry holds *value*, of whichever commit."""
    if not found.startswith(b'{"seq":'):
        return False
    digits = found[7:]
    end = 0
    while end < len(digits) and digits[end] in b"0123456789":
        end += 1
    return with_seq(value, int(digits[:end] or b"0")) == found


def _seq_of(message: api.Stored) -> int:
    """Return which commit an entry is of, 0 if it does not say."""
    if message.header:
        fields = headers_of(message.header)
        if SEQ_HEADER in fields:
            return _whole_number(fields[SEQ_HEADER])
    if message.payload.startswith(b'{"seq":'):
        return _whole_number(message.payload[7:27].decode("latin-1").split(",")[0].split("}")[0])
    return 0


def _whole_number(digits: str) -> int:
    """Return a sequence, 0 for what is none."""
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= LONGEST_SEQ else 0
