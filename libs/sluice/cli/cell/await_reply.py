"""Outcome of a message: the log answers each one, by name of its sequence."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sluice.cli.kit.columns import dig
from sluice.cli.kit.edit_text import what_changed
from sluice.cli.kit.errors import CliError
from sluice.core.views.present.job import Phase
from sluice.events.checks import CheckInputRejected, VerdictIgnored
from sluice.events.codec import decode_commit
from sluice.events.slices import InputsIgnored, Rejected
from sluice.log.errors import EventLogError
from sluice.log.nats import jetstream_api
from sluice.protocol.subjects import Cell

from .client import Api

ANSWER_TIMEOUT_S = 5.0
POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a message. `remark`: for people, '' when all is well; `refused`: why it was, else ''.

    `changed`: what a manifest has changed of a job that is there. `late`: there is no answer yet.
    """

    remark: str = ""
    refused: str = ""
    changed: str = ""
    late: bool = False


async def settle(api: Api, seq: int, what: str, *, writer: str = "slices") -> str:
    """Return a remark for people ('' when all is well) once *writer* has answered message *seq*.

    Raises:
        CliError: the message was rejected; says why. *what* names what was asked for: `job/x was not scaled`.
    """
    answer = (await answers(api, [seq], writer=writer))[seq]
    if answer.refused:
        raise CliError(f"{what}: {answer.refused}")
    return answer.remark


async def answers(api: Api, seqs: Sequence[int], *, writer: str = "slices") -> dict[int, Answer]:
    """Return what *writer* has made of each of the messages; waits for all, as long as there is progress."""
    found: dict[int, Answer] = {}
    if not seqs:
        return found
    cell = Cell(api.target.cell)
    subject = cell.subject(writer)
    waiting = dict.fromkeys(seqs)
    after, deadline = min(seqs) + 1, time.monotonic() + ANSWER_TIMEOUT_S
    while waiting and time.monotonic() < deadline:
        try:
            message = await jetstream_api.message(api.connection, cell.stream, seq=after, next_of=subject)
        except (EventLogError, ConnectionError, TimeoutError) as error:
            unread = Answer(f"what became of it could not be read: {error or type(error).__name__}")
            return found | dict.fromkeys(waiting, unread)
        if message is None:
            await asyncio.sleep(POLL_S)
            continue
        after = message.seq + 1
        for step in decode_commit(message.payload, writer, message.seq).steps:
            for seq in _named(step.events, waiting):
                found[seq] = _said(step.events, seq)
                del waiting[seq]
                deadline = time.monotonic() + ANSWER_TIMEOUT_S
    late = f"{writer} has not answered within {ANSWER_TIMEOUT_S:.0f} s, see `sluice status`"
    return found | dict.fromkeys(waiting, Answer(late, late=True))


async def why_stopping(api: Api, name: str, namespace: str) -> str | None:
    """Return why a job is stopping, None if it is not: its size and manifest change when it has stopped.

    Till then nobody answers a change of these, for as long as its pods take.
    """
    job = await api.get("Job", name, namespace)
    if job is None or dig(job, "status", "phase", default="") != Phase.STOPPING:
        return None
    return str(dig(job, "status", "reason", default="")) or Phase.STOPPING


def aside(remark: str) -> str:
    return f": {remark}" if remark else ""


DUPLICATE = "Duplicate"
"""Why a message is passed over that asks for what is so already."""


def changes_nothing(reason: str) -> str:
    """Return the remark on a message that was passed over."""
    return f"it changes nothing ({reason})"


def _named(events: Sequence[object], waiting: Mapping[int, None]) -> list[int]:
    """Return which of the messages the events of a step answer, each once."""
    found: dict[int, None] = {}
    for event in events:
        seqs = event.seqs if isinstance(event, InputsIgnored) else (getattr(event, "cause", 0),)
        found.update(dict.fromkeys(seq for seq in seqs if seq in waiting))
    return list(found)


def _said(events: Sequence[object], seq: int) -> Answer:
    """Return what a step that names message *seq* says of it."""
    for event in events:
        match event:
            case Rejected(cause=cause, errors=errors) | CheckInputRejected(cause=cause, errors=errors) if (
                cause == seq
            ):
                return Answer(refused="; ".join(map(str, errors)))
            case VerdictIgnored(cause=cause, reason="Duplicate") if cause == seq:
                return Answer("it was said before")
            case VerdictIgnored(cause=cause, reason=reason, message=why) if cause == seq:
                return Answer(refused=f"{reason}{why and f', {why}'}")
            case InputsIgnored(seqs=seqs, reason=reason) if seq in seqs:
                return Answer(changes_nothing(reason))
    return Answer(changed=what_changed(events, seq))
