"""Decoding of messages about jobs and agents: total, so that no payload can stop the cell.

What cannot be taken becomes an `Inbound` with errors; deciding then records it as Rejected.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import msgspec

from sluice.api.errors import invalid
from sluice.events.base import JobKey, Micros
from sluice.events.envelope import Message
from sluice.events.job import (
    JobDeleted,
    JobEvent,
    JobFinished,
    JobPodsReady,
    JobPodsReclaimable,
    JobScaled,
    JobStopped,
)

from .intake import bounded, cloud_event, decoded, guarded, heard, short
from .slices_state import Inbound, Presence
from .slices_submission import parse

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
_TYPES = ("JobSubmitted", *_DECODE)


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
    event = cloud_event(message.payload)
    if isinstance(event, tuple):
        found.errors = event
        return key, found
    found.event_type = short(event.type)
    found.message_id = f"{event.source} {event.id}"
    if event.type == "JobSubmitted":
        namespace, _, name = key.partition("/")
        result = guarded(lambda: parse(event.data, namespace, name))
    else:
        result = decoded(event, _DECODE, _TYPES)
    if isinstance(result, tuple):
        found.errors = bounded(result)
    else:
        found.data = result
    return key, found


def presence(message: Message, seq: int) -> Presence:
    """Decode a message on `presence.agent.>`."""
    name, event_type, data, errors = heard(message, "agent")
    return Presence(seq, message.subject, message.payload, name, event_type, data, errors)
