"""Reading messages from outside: total and bounded, so that no payload can stop the cell.

What cannot be taken becomes field errors of bounded size, which the decider that owns the subject records.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from sluice.api.decode import wrong_fields
from sluice.api.errors import UNREADABLE, FieldError, invalid, not_supported, too_long
from sluice.core.naming import is_name
from sluice.events.codec import CloudEvent, decode_message, field_errors
from sluice.events.envelope import Message
from sluice.events.job import Away, JobEvent, Lost, Seen
from sluice.protocol.subjects import token

MAX_BYTES = 1024 * 1024
"""Largest message taken, as the API server's: what is made of it must fit into one step."""

MAX_DEPTH = 64
MAX_ERRORS = 16
MAX_TEXT = 512

_PRESENCE: dict[str, dict[str, Callable[[Any], JobEvent]]] = {
    what: {kind.__name__: msgspec.json.Decoder(kind).decode for kind in kinds}
    for what, kinds in {"agent": (Seen, Lost, Away), "controller": (Seen, Lost)}.items()
}
"""Decoders of what comes on `presence.<what>.*`."""

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)

Errors = tuple[FieldError, ...]


def cloud_event(payload: bytes, most: int = MAX_BYTES) -> CloudEvent | Errors:
    """Return the CloudEvent in a message of at most *most* bytes, or what is wrong with it."""
    if len(payload) > most:
        return (too_long("", most),)
    brackets = payload.count(b"[") + payload.count(b"{")
    if brackets > MAX_DEPTH and _depth(payload) > MAX_DEPTH:
        return (FieldError(field="", detail=f"nested deeper than {MAX_DEPTH} levels"),)
    event = guarded(lambda: decode_message(payload))
    return bounded(event) if isinstance(event, tuple) else event


def decoded(
    event: CloudEvent, decoders: Mapping[str, Callable[[Any], JobEvent]], types: tuple[str, ...] = ()
) -> Any:
    """Return the event's data as its type has it, or what is wrong with it; *types* are those to name."""
    decode = decoders.get(event.type)
    if decode is None:
        return (not_supported("type", event.type, types or tuple(decoders)),)
    data = event.data or b"{}"

    def read() -> Any:
        try:
            return decode(data)
        except msgspec.ValidationError:
            # The decoder stops at the first; its author wants to hear of all.
            kind = getattr(getattr(decode, "__self__", None), "type", None)
            found = () if kind is None else wrong_fields(data, kind)
            if found:
                return bounded(found)
            raise

    return guarded(read)


class Heard(NamedTuple):
    """What a message on `presence.<what>.<name>` says, or what is wrong with it."""

    name: str = ""
    event_type: str = ""
    data: Seen | Lost | Away | None = None
    errors: Errors = ()


def heard(message: Message, what: str) -> Heard:
    """Decode a message about the presence of *what*: `agent` or `controller`."""
    tokens = message.subject.split(".")
    if len(tokens) != 3 or not tokens[2]:
        return Heard(errors=(invalid("subject", message.subject, f"want presence.{what}.<name>"),))
    name = unquote(tokens[2])
    if token(name) != tokens[2]:
        return Heard(errors=(invalid("subject", short(message.subject), "its last token is no name"),))
    event = cloud_event(message.payload)
    if isinstance(event, tuple):
        return Heard(errors=event)
    event_type = short(event.type)
    data = decoded(event, _PRESENCE[what])
    if isinstance(data, tuple):
        return Heard(name, event_type, errors=bounded(data))
    if isinstance(data, Seen) and not is_name(name):
        # Lost is whoever claims, under whatever name.
        return Heard(
            name, event_type, errors=(invalid("subject", short(message.subject), "nobody is called so"),)
        )
    return Heard(name, event_type, data)


def guarded[T](read: Callable[[], T]) -> T | Errors:
    """Return what *read* returns, or its exception as field errors of bounded size.

    A fault of ours in reading a message must not keep the cell from going on after it, for ever: the
    message is in the log. So it becomes a refusal, like the message's own faults.
    """
    try:
        return read()
    except UNREADABLE as error:
        return bounded(field_errors(error, "data"))
    except Exception as error:
        detail = short(f"{type(error).__name__}: {error}")
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


def bounded(errors: Errors) -> Errors:
    """Return at most MAX_ERRORS errors of bounded size, so that a Rejected event stays small."""
    kept = tuple(_cut(error) for error in errors[:MAX_ERRORS])
    if len(errors) > MAX_ERRORS:
        kept += (FieldError(field="", detail=f"and {len(errors) - MAX_ERRORS} more errors"),)
    return kept


def merged(errors: Errors, besides: Errors) -> Errors:
    """Return *errors*, and of *besides* what is about other fields; bounded."""
    named = {error.field for error in errors}
    return bounded((*errors, *(error for error in besides if error.field not in named)))


def _cut(error: FieldError) -> FieldError:
    value = error.bad_value
    if isinstance(value, dict | list):
        value = msgspec.json.encode(value).decode(errors="replace")
    if isinstance(value, str):
        value = short(value)
    return msgspec.structs.replace(
        error, field=short(error.field), detail=short(error.detail), bad_value=value
    )


def short(text: str) -> str:
    """Return the text, cut to what an event may repeat of it."""
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}..."


__all__ = ["Errors", "bounded", "cloud_event", "decoded", "guarded", "heard", "merged", "short"]
