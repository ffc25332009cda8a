"""What became of a message: the log answers each one, by name of its sequence."""

import asyncio
import time
from collections.abc import Sequence

from nats.js.errors import APIError, NotFoundError

from sluice.events.checks import CheckInputRejected, VerdictIgnored
from sluice.events.codec import decode_commit
from sluice.events.slices import InputsIgnored, Rejected
from sluice.log.subjects import Cell

from .client import Api
from .errors import CliError

ANSWER_TIMEOUT_S = 5.0
POLL_S = 0.01


async def settle(api: Api, seq: int, what: str, *, writer: str = "slices") -> str:
    """Return a remark for people ('' when all is well) once *writer* has answered message *seq*.

    Raises:
        CliError: the message was rejected; says why. *what* names what was asked for: `job/x was not scaled`.
    """
    cell = Cell(api.target.cell)
    stream, subject = api.connection.jetstream(), cell.subject(writer)
    after, deadline = seq + 1, time.monotonic() + ANSWER_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            found = await stream.get_msg(cell.stream, seq=after, subject=subject, next=True, direct=True)
        except NotFoundError:
            await asyncio.sleep(POLL_S)
            continue
        except APIError as error:
            return f"what became of it could not be read: {error}"
        after = (found.seq or after) + 1
        for step in decode_commit(found.data or b"").steps:
            if (said := _said(step.events, seq, what)) is not None:
                return said
    return f"{writer} has not answered within {ANSWER_TIMEOUT_S:.0f} s, see `sluice status`"


def aside(remark: str) -> str:
    return f": {remark}" if remark else ""


def _said(events: Sequence[object], seq: int, what: str) -> str | None:
    """Return None while nothing is said of message *seq*."""
    said = None
    for event in events:
        match event:
            case Rejected(cause=cause, errors=errors) | CheckInputRejected(cause=cause, errors=errors) if (
                cause == seq
            ):
                raise CliError(f"{what}: {'; '.join(map(str, errors))}")
            case VerdictIgnored(cause=cause, reason="Duplicate") if cause == seq:
                return "it was said before"
            case VerdictIgnored(cause=cause, reason=reason, message=why) if cause == seq:
                raise CliError(f"{what}: {reason}{why and f', {why}'}")
            case InputsIgnored(seqs=seqs, reason=reason) if seq in seqs:
                return f"it changes nothing ({reason})"
        if getattr(event, "cause", 0) == seq:
            said = ""
    return said
