"""The commit writer: one chain of commits on one subject.

Each commit names its predecessor, so that of two leaders one is refused (fencing), and a commit whose
answer got lost is settled by looking at the subject's last message, never by guessing.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import structlog

from sluice.events.codec import encode_step, envelope, message_id_of
from sluice.events.commit import Step

from .contract import Log
from .errors import LogUnavailableError, MessageTooLargeError, StaleSequenceError, UnansweredError

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


class CommitWriter:
    """Writes the commits of *writer*. Not for concurrent use: one commit is in flight at a time."""

    def __init__(self, target: Log, writer: str, *, instance: str = "") -> None:
        self.log, self.writer = target, writer
        self.instance = instance or secrets.token_hex(4)
        """In the ids of its messages, so that a leader knows its own from another's."""
        self.head = 0
        """Sequence of the chain's last commit, as far as this writer knows."""

    async def find_head(self) -> int:
        """Look up the chain's last commit, and continue from there; waits for the log for ever."""
        wait_s = RETRY_FIRST_S
        while True:
            try:
                last = await self.log.last(self.writer)
            except LogUnavailableError as error:
                log.info("log not available", writer=self.writer, error=str(error))
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 2, RETRY_MOST_S)
                continue
            self.head = last.seq if last else 0
            return self.head

    async def write(self, steps: Sequence[Step], written: Callable[[Written], None]) -> None:
        """Commit *steps*, in as many messages as their size needs; *written* is called after each.

        Returns when all are in the log, however long the server stays away.

        Raises:
            StaleSequenceError: another leader wrote; the steps not yet reported as written are void.
            MessageTooLargeError: a single step is larger than a message; neither it nor a later one is in.
        """
        encoded = [encode_step(step) for step in steps]
        limit = self.log.max_payload - ENVELOPE_ROOM
        begin = 0
        for end in split([len(step) for step in encoded], limit):
            part = encoded[begin:end]
            if len(part) == 1 and len(part[0]) > limit:
                raise MessageTooLargeError(self.writer, len(part[0]), limit)
            started = time.perf_counter()
            seq = await self._write_one(part, steps[end - 1].at)
            self.head = seq
            written(Written(seq, steps[begin:end], time.perf_counter() - started))
            begin = end

    async def _write_one(self, part: Sequence[bytes], at: int) -> int:
        message_id = f"{self.writer}-{self.head}-{self.instance}"
        payload = envelope(self.log.cell.name, self.writer, message_id, at, part)
        wait_s = RETRY_FIRST_S
        while True:
            try:
                ack = await self.log.append(self.writer, payload, expected_last=self.head, msg_id=message_id)
                return ack.seq
            except UnansweredError as error:
                log.info("commit unanswered", writer=self.writer, head=self.head, error=error.detail)
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 2, RETRY_MOST_S)
            except StaleSequenceError:
                # It may be our own first attempt that made it stale. A copy still under way changes
                # nothing: it carries the same expectation, which fails once any copy is in.
                if (seq := await self._own_last(message_id)) is None:
                    raise
                return seq

    async def _own_last(self, message_id: str) -> int | None:
        """Return where our message stands, None if the subject's last message is another's.

        Nobody can have written after it: they would have to know its sequence, as fenced leaders do
        not, and a leader that took over has made this one stale either way.
        """
        wait_s = RETRY_FIRST_S
        while True:
            try:
                last = await self.log.last(self.writer)
                break
            except LogUnavailableError as error:
                log.info("cannot settle yet", writer=self.writer, error=str(error))
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 2, RETRY_MOST_S)
        if last is not None and message_id_of(last.payload) == message_id:
            return last.seq
        return None
