"""Decoding of messages from outside: total, so that no payload can stop the cell.

What cannot be taken becomes an `Inbound` with errors; deciding then records it as Rejected.
"""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import msgspec

from sluice.api.errors import FieldError, invalid, not_supported, too_long
from sluice.events.base import JobKey, Micros
from sluice.events.codec import CloudEvent, decode_message, field_errors
from sluice.events.envelope import Message
from sluice.events.job import (
    JobDeleted,
    JobEvent,
    JobFinished,
    JobPodsReady,
    JobPodsReclaimable,
    JobScaled,
    JobStopped,
    Lost,
    Seen,
)

from .slices_state import Inbound, Presence
from .slices_submission import parse

MAX_BYTES = 1024 * 1024
"""Largest message taken, as the API server's: what is made of it must fit into one step."""

MAX_DEPTH = 64
MAX_ERRORS = 16
MAX_TEXT = 512

_JOB_EVENTS: tuple[type[JobEvent], ...] = (
    JobScaled,
    JobPodsReady,
    JobPodsReclaimable,
    JobStopped,
    JobFinished,
    JobDeleted,
)
_DECODE: dict[str, Callable[[Any], JobEvent]] = {
    kind.__name__: msgspec.json.Decoder(kind).decode for kind in _JOB_EVENTS
}
_PRESENCE: dict[str, Callable[[Any], JobEvent]] = {
    kind.__name__: msgspec.json.Decoder(kind).decode for kind in (Seen, Lost)
}
_TYPES = ("JobSubmitted", *_DECODE)

_STRING = re.compile(rb'"(?:[^"\\\\]|\\\\.)*"?', re.DOTALL)

Errors = tuple[FieldError, ...]


def job_of(subject: str) -> JobKey | None:
    """Return the job of `job.<namespace>.<name>`, None when the subject has another shape."""
    tokens = subject.split(".")
    if len(tokens) != 3:
        return None
    if "%" in subject:
        tokens = [unquote(token) for token in tokens]
    return JobKey(f"{tokens[1]}/{tokens[2]}")


def inbound(message: Message, seq: int, at: Micros) -> tuple[JobKey, Inbound]:
    """Decode a message on `job.>`; the key of one on a misshapen subject is the subject itself."""
    key = job_of(message.subject)
    found = Inbound(seq, at, message.subject, message.payload)
    if key is None:
        found.errors = (invalid("subject", message.subject, "want job.<namespace>.<name>"),)
        return JobKey(message.subject), found
    event = _cloud_event(message.payload)
    if isinstance(event, tuple):
        found.errors = event
        return key, found
    found.event_type = _short(event.type)
    found.message_id = f"{event.source} {event.id}"
    if event.type == "JobSubmitted":
        namespace, _, name = key.partition("/")
        result = guarded(lambda: parse(event.data, namespace, name))
    else:
        result = _data(event, _DECODE, _TYPES)
    if isinstance(result, tuple):
        found.errors = _bounded(result)
    else:
        found.data = result
    return key, found


def presence(message: Message, seq: int) -> Presence:
    """Decode a message on `presence.agent.>`."""
    found = Presence(seq, message.subject, message.payload)
    tokens = message.subject.split(".")
    if len(tokens) != 3 or not tokens[2]:
        found.errors = (invalid("subject", message.subject, "want presence.agent.<name>"),)
        return found
    event = _cloud_event(message.payload)
    if isinstance(event, tuple):
        found.errors = event
        return found
    found.event_type = _short(event.type)
    found.executor = unquote(tokens[2])
    result = _data(event, _PRESENCE, tuple(_PRESENCE))
    if isinstance(result, tuple):
        found.errors = _bounded(result)
    elif isinstance(result, Seen | Lost):
        found.data = result
    return found


def _cloud_event(payload: bytes) -> CloudEvent | Errors:
    if len(payload) > MAX_BYTES:
        return (too_long("", MAX_BYTES),)
    brackets = payload.count(b"[") + payload.count(b"{")
    if brackets > MAX_DEPTH and _depth(payload) > MAX_DEPTH:
        return (FieldError(field="", detail=f"nested deeper than {MAX_DEPTH} levels"),)
    event = guarded(lambda: decode_message(payload))
    return _bounded(event) if isinstance(event, tuple) else event


def _data(event: CloudEvent, decoders: dict[str, Callable[[Any], JobEvent]], types: tuple[str, ...]) -> Any:
    decode = decoders.get(event.type)
    if decode is None:
        return (not_supported("type", event.type, types),)
    return guarded(lambda: decode(event.data or b"{}"))


def guarded[T](read: Callable[[], T]) -> T | Errors:
    """Return what *read* returns, or its exception as field errors of bounded size.

    A fault of ours in reading a message must not keep the cell from going on after it, for ever: the
    message is in the log. So it becomes a refusal, like the message's own faults.
    """
    try:
        return read()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return _bounded(field_errors(error, "data"))
    except Exception as error:
        detail = _short(f"{type(error).__name__}: {error}")
        return (FieldError(field="data", detail=detail, type="InternalError"),)


def _depth(payload: bytes) -> int:
    """Return how deep brackets nest outside of strings."""
    depth = deepest = 0
    for byte in _STRING.sub(b"", payload):
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


def _bounded(errors: Errors) -> Errors:
    """Return at most MAX_ERRORS errors of bounded size, so that a Rejected event stays small."""
    kept = tuple(_cut(error) for error in errors[:MAX_ERRORS])
    if len(errors) > MAX_ERRORS:
        kept += (FieldError(field="", detail=f"and {len(errors) - MAX_ERRORS} more errors"),)
    return kept


def _cut(error: FieldError) -> FieldError:
    value = error.bad_value
    if isinstance(value, dict | list):
        value = msgspec.json.encode(value).decode(errors="replace")
    if isinstance(value, str):
        value = _short(value)
    return msgspec.structs.replace(
        error, field=_short(error.field), detail=_short(error.detail), bad_value=value
    )


def _short(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}..."
