"""The commit writer: one chain of commits on one subject.

`chain` says what to send and what an answer means; here it is sent, in messages that the server takes.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import msgspec
import structlog

from sluice.events.codec import encode_step, envelope, message_id_of
from sluice.events.commit import Step
from sluice.protocol.tracing import carried

from .commit_chain import Chain
from .contract import Entry, Log
from .errors import LogUnavailableError, StaleSequenceError, StepTooLargeError, UnansweredError

__all__ = ["CommitWriter", "Written"]

ENVELOPE_ROOM = 1024
"""Bytes of a message that are not steps: envelope and headers."""

RETRY_FIRST_S, RETRY_MOST_S = 0.02, 1.0

log = structlog.get_logger("sluice.log.writer")


class Written(NamedTuple):
    """What one commit brought to the log."""

    seq: int
    steps: Sequence[Step]
    seconds: float
    """From the first attempt to the acknowledgement."""


def split(sizes: Sequence[int], limit: int) -> list[int]:
    """Return where to cut, as ends of runs whose sizes and separators stay within *limit* each."""
    ends: list[int] = []
    used = 0
    for index, size in enumerate(sizes):
        if index and used + size + 1 > limit:
            ends.append(index)
            used = 0
        used += size + 1
    ends.append(len(sizes))
    return ends


def _largest(step: Step) -> str:
    """Name the largest event of a step, and what it is about."""
    size, event = max(
        ((len(encode_step(Step(upto=0, at=0, events=(event,)))), event) for event in step.events),
        key=lambda found: found[0],
    )
    plain = msgspec.json.decode(msgspec.json.encode(event))
    about = plain.get("workload") or plain.get("job") or plain.get("name") or ""
    if isinstance(about, dict):
        about = f"{about['namespace']}/{about['name']}"
    return f"{plain['type']} of {about or 'nobody'}, {size} bytes"


class CommitWriter:
    """Writes the commits of *writer*. Not for concurrent use: one commit is in flight at a time."""

    def __init__(self, target: Log, writer: str, *, instance: str = "") -> None:
        self.log, self.writer = target, writer
        self.chain = Chain(writer, instance or secrets.token_hex(4), lambda: secrets.token_hex(4))

    @property
    def instance(self) -> str:
        return self.chain.instance

    @property
    def head(self) -> int:
        """Sequence of the chain's last commit, as far as this writer knows."""
        return self.chain.head

    async def find_head(self) -> int:
        """Look up the chain's last commit, and continue from there; waits for the log for ever."""
        last = await self._last()
        self.chain.go_on(last.seq if last else 0)
        return self.chain.head

    def wrote(self, entry: Entry) -> bool:
        """Tell whether an entry behind `head` is the commit in flight, read before it is answered."""
        return self.chain.sent(message_id_of(entry.payload))

    async def write(
        self,
        steps: Sequence[Step],
        written: Callable[[Written], None],
        sure: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """Commit *steps*, in as many messages as their size needs; *written* is called after each.

        Returns when all are in the log, however long the server stays away. *sure*: waited for before each
        attempt; until it returns, the log may be another one than *steps* are of. Their predecessor may stand
        in both.

        Raises:
            StaleSequenceError: another leader wrote; the steps not yet reported as written are void.
            StepTooLargeError: a single step is larger than a message; neither it nor a later one is in.
        """
        encoded = [encode_step(step) for step in steps]
        limit = self.log.max_payload - ENVELOPE_ROOM
        begin = 0
        for end in split([len(step) for step in encoded], limit):
            part = encoded[begin:end]
            if len(part) == 1 and len(part[0]) > limit:
                raise StepTooLargeError(
                    self.writer, steps[begin].upto, len(part[0]), limit, _largest(steps[begin])
                )
            started = time.perf_counter()
            await self._write_one(part, steps[end - 1].at, sure)
            written(Written(self.head, steps[begin:end], time.perf_counter() - started))
            begin = end

    async def _write_one(
        self, part: Sequence[bytes], at: int, sure: Callable[[], Awaitable[object]] | None
    ) -> None:
        send = self.chain.begin()
        payload = envelope(self.log.cell.name, self.writer, send.message_id, at, part)
        wait_s = RETRY_FIRST_S
        while True:
            if sure is not None:
                await sure()
            try:
                ack = await self.log.append(
                    self.writer,
                    payload,
                    expected_last=send.expected_last,
                    msg_id=send.message_id,
                    headers=carried(recorded=True),
                )
                if self.chain.acknowledged(ack.seq, duplicate=ack.duplicate):
                    return
            except UnansweredError as error:
                log.info("commit unanswered", writer=self.writer, head=self.head, error=error.detail)
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 2, RETRY_MOST_S)
                continue
            except StaleSequenceError:
                pass
            last = await self._last()
            self.chain.found(send, last.seq if last else 0, message_id_of(last.payload) if last else "")
            return

    async def _last(self) -> Entry | None:
        """Return the subject's last message; waits for the log for ever."""
        wait_s = RETRY_FIRST_S
        while True:
            try:
                return await self.log.last(self.writer)
            except LogUnavailableError as error:
                log.info("log not available", writer=self.writer, error=str(error))
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 2, RETRY_MOST_S)
