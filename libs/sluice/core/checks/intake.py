"""Decoding of verdicts and of controllers' presence: total, so that no payload can stop the cell."""

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import msgspec

from sluice.api.errors import UNREADABLE, FieldError, invalid
from sluice.core.workload.admission_checks import READY
from sluice.core.workload.inputs import bounded, cloud_event, decoded, heard, merged, short
from sluice.events.base import WorkloadKey
from sluice.events.envelope import Message
from sluice.events.job import JobEvent, Seen
from sluice.protocol.checks import DELAY_MOST_S, VERDICT_MOST, CheckVerdict

from .pod_set_updates import malformed
from .state import Presence, Verdict

MAX_MESSAGE = 1024
"""Characters kept of a verdict's message."""

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
    event = cloud_event(message.payload, VERDICT_MOST)
    if isinstance(event, tuple):
        found.errors = event
        return nobody, found
    found.event_type = short(event.type)
    data = decoded(event, _DECODE)
    if isinstance(data, tuple):
        # Whoever wrote it wants to hear of all that is wrong at once.
        errors = merged(data, _check_plain(event.data))
    else:
        errors = _check(data.workload, data.requeue_after_seconds)
        if data.state == READY:
            errors += tuple(malformed(data.pod_set_updates))
    if errors:
        found.errors = bounded(errors)
        return nobody, found
    if len(data.message) > MAX_MESSAGE:
        data = msgspec.structs.replace(data, message=f"{data.message[:MAX_MESSAGE]}...")
    found.data = data
    return data.workload, found


def _check_plain(data: msgspec.Raw | bytes) -> tuple[FieldError, ...]:
    """Check what can be read of a verdict that cannot be read as one."""
    try:
        plain = msgspec.json.decode(data)
    except UNREADABLE:
        return ()
    if not isinstance(plain, dict):
        return ()
    return _check(plain.get("workload", "/"), plain.get("requeueAfterSeconds"))


def _check(workload: object, delay: object) -> tuple[FieldError, ...]:
    """Check the content of two fields, as far as they are of the right type."""
    found = []
    if isinstance(workload, str) and "/" not in workload:
        found.append(invalid("workload", short(workload), "want <namespace>/<name>"))
    if isinstance(delay, int) and not isinstance(delay, bool) and not 0 <= delay <= DELAY_MOST_S:
        found.append(invalid("requeueAfterSeconds", delay, f"must be between 0 and {DELAY_MOST_S}"))
    return tuple(found)


def presence(message: Message, seq: int) -> Presence:
    """Decode a message on `presence.controller.<name>`."""
    name, event_type, data, errors = heard(message, "controller")
    return Presence(seq, message.subject, message.payload, event_type, name, isinstance(data, Seen), errors)


__all__ = ["verdict"]
