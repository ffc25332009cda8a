"""Decoding of what links say: total, so that no payload can stop the cell."""

from collections.abc import Callable
from typing import Any

import msgspec

from sluice.api.errors import FieldError, invalid, too_many
from sluice.core.naming import is_name
from sluice.core.workload.inputs import bounded, cloud_event, decoded, short
from sluice.events.envelope import Message
from sluice.events.job import JobEvent
from sluice.protocol.cells import REPORT_MOST, LinkDown, LinkUp, RemoteReport
from sluice.protocol.subjects import names, token

from .state import Report

MAX_MESSAGE = 512

_DECODE: dict[str, Callable[[Any], JobEvent]] = {
    kind.__name__: msgspec.json.Decoder(kind).decode for kind in (RemoteReport, LinkUp, LinkDown)
}


def report(message: Message, seq: int) -> Report:
    """Decode a message on `cell.<name>`."""
    found = Report(seq, message.subject)
    parts = names(message.subject)
    if len(parts) != 2 or not is_name(parts[1]) or message.subject != f"cell.{token(parts[1])}":
        found.errors = (invalid("subject", short(message.subject), "want cell.<name>"),)
        return found
    found.cell = parts[1]
    event = cloud_event(message.payload)
    if isinstance(event, tuple):
        found.errors = event
        return found
    found.event_type = short(event.type)
    data = decoded(event, _DECODE)
    errors = data if isinstance(data, tuple) else _check(data)
    if errors:
        found.errors = bounded(errors)
        return found
    found.data = _cut(data)
    return found


def _check(data: RemoteReport | LinkUp | LinkDown) -> tuple[FieldError, ...]:
    if not isinstance(data, RemoteReport):
        return ()
    found = []
    if not 0 <= data.after <= data.upto:
        found.append(invalid("after", data.after, "must be between 0 and upto"))
    if len(data.facts) > REPORT_MOST:
        found.append(too_many("facts", len(data.facts), REPORT_MOST))
    return tuple(found)


def _cut(data: RemoteReport | LinkUp | LinkDown) -> RemoteReport | LinkUp | LinkDown:
    """Return *data* with messages of bounded length, since events repeat them."""
    if isinstance(data, LinkDown):
        return LinkDown(message=data.message[:MAX_MESSAGE])
    if isinstance(data, RemoteReport) and any(len(fact.message) > MAX_MESSAGE for fact in data.facts):
        facts = [msgspec.structs.replace(fact, message=fact.message[:MAX_MESSAGE]) for fact in data.facts]
        return msgspec.structs.replace(data, facts=facts)
    return data
