"""Decoding of verdicts and of controllers' presence: total, so that no payload can stop the cell."""

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import msgspec

from sluice.api.errors import FieldError, invalid
from sluice.core.workload.inputs import bounded, cloud_event, decoded, heard, short
from sluice.events.base import WorkloadKey
from sluice.events.envelope import Message
from sluice.events.job import JobEvent, Seen
from sluice.protocol.checks import CheckVerdict

from .state import Presence, Verdict

MAX_BYTES = 64 * 1024
"""Largest verdict taken: those of all 64 checks of a workload must fit into one step."""

MAX_MESSAGE = 1024
"""Characters kept of a verdict's message."""

MAX_DELAY_S = 10 * 366 * 86_400

_DECODE: dict[str, Callable[[Any], JobEvent]] = {
    CheckVerdict.__name__: msgspec.json.Decoder(CheckVerdict).decode
}


def verdict(message: Message, seq: int) -> tuple[WorkloadKey, Verdict]:
    """Decode a message on `verdict.<controller>`; the key of what cannot be read is the subject itself."""
    found = Verdict(seq, message.subject, message.payload)
    nobody = WorkloadKey(message.subject)
    tokens = message.subject.split(".")
    if len(tokens) != 2 or not tokens[1]:
        found.errors = (invalid("subject", message.subject, "want verdict.<controller>"),)
        return nobody, found
    found.controller = unquote(tokens[1])
    event = cloud_event(message.payload, MAX_BYTES)
    if isinstance(event, tuple):
        found.errors = event
        return nobody, found
    found.event_type = short(event.type)
    data = decoded(event, _DECODE)
    errors = data if isinstance(data, tuple) else _check(data)
    if errors:
        found.errors = bounded(errors)
        return nobody, found
    if len(data.message) > MAX_MESSAGE:
        data = msgspec.structs.replace(data, message=f"{data.message[:MAX_MESSAGE]}...")
    found.data = data
    return data.workload, found


def _check(data: CheckVerdict) -> tuple[FieldError, ...]:
    found = []
    if "/" not in data.workload:
        found.append(invalid("workload", short(data.workload), "want <namespace>/<name>"))
    delay = data.requeue_after_seconds
    if delay is not None and not 0 <= delay <= MAX_DELAY_S:
        found.append(invalid("requeueAfterSeconds", delay, f"must be between 0 and {MAX_DELAY_S}"))
    return tuple(found)


def presence(message: Message, seq: int) -> Presence:
    """Decode a message on `presence.controller.<name>`."""
    name, event_type, data, errors = heard(message, "controller")
    return Presence(seq, message.subject, message.payload, event_type, name, isinstance(data, Seen), errors)


__all__ = ["MAX_BYTES", "MAX_MESSAGE", "presence", "verdict"]
