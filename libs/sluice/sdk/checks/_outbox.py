"""Verdicts on their way to the log: many at a time, none twice."""

import asyncio
from collections.abc import Callable

from sluice.log.contract import Ack
from sluice.log.errors import AppendRefusedError
from sluice.log.nats import jetstream_api as api
from sluice.log.nats.connection import Connection
from sluice.log.nats.jetstream import HEADER_ROOM, JetStreamLog, read_ack
from sluice.log.nats.protocol import publish_frame
from sluice.log.nats.streams import stream_config
from sluice.protocol.checks import CheckVerdict
from sluice.protocol.subjects import verdict_suffix

from ._clock import Clock
from ._verdict_messages import RefusedError, Stored, decode, encode

ANSWER_S = 5.0
AT_ONCE = 1000
"""Verdicts that may be without an acknowledgement."""


class Outbox:
    """Publishes the verdicts of one controller. *may*: tells whether this replica is still the active one."""

    def __init__(self, target: JetStreamLog, controller: str, clock: Clock, may: Callable[[], bool]) -> None:
        self.log, self.clock = target, clock
        self.subject = target.cell.subject(verdict_suffix(controller))
        self.source = f"controller/{controller}"
        self._may = may
        self._frames: list[bytes] = []
        self._places = asyncio.Semaphore(AT_ONCE)
        self._most = int(stream_config(target.cell)["max_msg_size"])

    async def send(self, ident: str, verdict: CheckVerdict, recheck_after_s: float | None) -> Stored:
        """Publish once; returns what the log has under this id, which may be a predecessor's.

        Raises:
            RefusedError: it does not take it.
            EventLogError, ConnectionError, TimeoutError: nobody answers; it may be in the log.
        """
        payload = encode(self.source, ident, self.clock.wall(), verdict, recheck_after_s)
        async with self._places:
            try:
                ack = await self._publish(ident, payload)
            except AppendRefusedError as error:
                raise RefusedError(str(error)) from error
            if ack.duplicate:
                # Also of one that was not answered before: then, too, it may be a predecessor's.
                return await self._stored(ack.seq, verdict)
            return Stored(ack.seq, verdict)

    async def _publish(self, ident: str, payload: bytes) -> Ack:
        connection = await self.log.connection()
        limit = min(connection.info.max_payload, self._most) - HEADER_ROOM
        if len(payload) > limit:
            raise RefusedError(f"the verdict has {len(payload)} bytes, the log takes at most {limit}")
        if not self._may():
            # Another replica answers from now on; this task is about to be cancelled.
            await asyncio.Event().wait()
        reply, future = connection.expect(self.subject)
        if not self._frames:
            asyncio.get_running_loop().call_soon(self._flush, connection)
        self._frames.append(publish_frame(self.subject, payload, reply, {"Nats-Msg-Id": ident}))
        frame = await connection.answer(reply, future, ANSWER_S)
        return read_ack(self.subject, None, frame.payload)

    def _flush(self, connection: Connection) -> None:
        """Write what has come together in one turn of the event loop."""
        frames, self._frames = self._frames, []
        if self._may():
            connection.write(b"".join(frames))

    async def _stored(self, seq: int, verdict: CheckVerdict) -> Stored:
        found = await api.message(await self.log.connection(), self.log.cell.stream, seq=seq)
        told = None if found is None else decode(found.payload)
        return Stored(seq, verdict if told is None else told[1])
