"""Decoding of messages about jobs and agents: total, so that no payload can stop the cell.

What cannot be taken becomes an `Inbound` with errors; deciding then records it as Rejected.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from sluice.api.errors import UNREADABLE, FieldError, invalid
from sluice.api.mapped import Mapping, OwnKinds
from sluice.core.workload.inputs import Errors, bounded, cloud_event, decoded, guarded, heard, short
from sluice.events import job
from sluice.events.base import JobKey, Micros
from sluice.events.codec import CloudEvent
from sluice.events.envelope import Message
from sluice.protocol.subjects import job_of

from .submission import Submission, parse

__all__ = ["Inbound"]

LifecycleInput = Submission | job.JobScaled | job.JobActivated | job.JobDeactivated | job.JobDeleted
ExecutorInput = job.JobPodsReady | job.JobPodsReclaimable | job.JobStopped | job.JobFinished


_JOB_EVENTS: tuple[type[job.JobEvent], ...] = (
    job.JobScaled,
    job.JobPodsReady,
    job.JobPodsReclaimable,
    job.JobStopped,
    job.JobFinished,
    job.JobActivated,
    job.JobDeactivated,
    job.JobDeleted,
)
_DECODE: dict[str, Callable[[Any], job.JobEvent]] = {
    kind.__name__: msgspec.json.Decoder(kind).decode for kind in _JOB_EVENTS
}
_TYPES = ("JobSubmitted", *_DECODE)


MappingOf = Callable[[JobKey, str, str], Mapping | None]


def _no_mapping(_key: JobKey, _api_version: str, _kind: str) -> Mapping | None:
    return None


class Inbound:
    """A message from outside about a job, decoded when somebody asks.

    Only who decides has to: folding what was decided already, most messages are answered unread.
    """

    __slots__ = ("_body", "_envelope", "_read_by", "at", "mapping_of", "payload", "seq", "subject")

    def __init__(self, seq: int, at: Micros, subject: str, payload: bytes) -> None:
        self.seq = seq
        self.at = at
        self.subject = subject
        self.payload = payload
        self._envelope: CloudEvent | Errors | None = None
        self._body: LifecycleInput | ExecutorInput | Errors | None = None
        self.mapping_of: MappingOf = _no_mapping
        """Says how a job of a team's kind is read now, by its key and its kind."""
        self._read_by: tuple[str, str, Mapping | None] | None = None
        """Of a kind that may be a team's: apiVersion, kind, and the mapping by which `_body` was read."""

    @property
    def event_type(self) -> str:
        """The type that its CloudEvent names; "" if it is none."""
        event = self._opened()
        return short(event.type) if isinstance(event, CloudEvent) else ""

    @property
    def message_id(self) -> str:
        """`source` and `id` of its CloudEvent, which name the message for ever; "" if it is none."""
        event = self._opened()
        return f"{event.source} {event.id}" if isinstance(event, CloudEvent) else ""

    @property
    def data(self) -> LifecycleInput | ExecutorInput | None:
        """What it says; None when it could not be decoded."""
        body = self._read()
        return None if isinstance(body, tuple) else body

    @property
    def errors(self) -> Errors:
        """Why it could not be decoded."""
        body = self._read()
        return body if isinstance(body, tuple) else ()

    @property
    def plain(self) -> dict[str, Any]:
        """What its data says, unread: fields that are fine, and those that are not; {} if it is no object."""
        event = self._opened()
        try:
            found = msgspec.json.decode(event.data) if isinstance(event, CloudEvent) else None
        except UNREADABLE:
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def is_read(self) -> bool:
        """Has anybody asked for `data` yet?"""
        return self._body is not None

    def _opened(self) -> CloudEvent | Errors:
        found = self._envelope
        if found is None:
            if job_of(self.subject) is None:
                found = (invalid("subject", self.subject, "want job.<namespace>.<name>"),)
            else:
                found = cloud_event(self.payload)
            self._envelope = found
        return found

    def _read(self) -> LifecycleInput | ExecutorInput | Errors:
        body, by = self._body, self._read_by
        if body is None or (by is not None and self._mapping(*by[:2]) is not by[2]):
            event = self._opened()
            decoding = _decoded(event, self.subject, self._own) if isinstance(event, CloudEvent) else event
            body = self._body = decoding
        return body

    def _own(self, api_version: str, kind: str) -> Mapping | None:
        """Note how the message is read: it is read again if that is otherwise when somebody asks again."""
        mapping = self._mapping(api_version, kind)
        self._read_by = (api_version, kind, mapping)
        return mapping

    def _mapping(self, api_version: str, kind: str) -> Mapping | None:
        return self.mapping_of(JobKey(job_of(self.subject) or ""), api_version, kind)


def _decoded(event: CloudEvent, subject: str, own: OwnKinds) -> LifecycleInput | ExecutorInput | Errors:
    result: Any
    if event.type == "JobSubmitted":
        namespace, _, name = (job_of(subject) or "").partition("/")
        result = guarded(lambda: parse(event.data, namespace, name, own))
    else:
        result = decoded(event, _DECODE, _TYPES)
    return bounded(result) if isinstance(result, tuple) else result


@dataclass(slots=True)
class Presence:
    """A Seen, Lost or Away message about an agent."""

    seq: int
    subject: str
    payload: bytes
    executor: str = ""
    event_type: str = ""
    data: job.Seen | job.Lost | job.Away | None = None
    errors: Sequence[FieldError] = ()


def inbound(message: Message, seq: int, at: Micros) -> tuple[JobKey, Inbound]:
    """Return a message on `job.>` and its job; that of one on a misshapen subject is the subject itself."""
    subject = message.subject
    return job_of(subject) or JobKey(subject), Inbound(seq, at, subject, message.payload)


def presence(message: Message, seq: int) -> Presence:
    """Decode a message on `presence.agent.>`."""
    name, event_type, data, errors = heard(message, "agent")
    return Presence(seq, message.subject, message.payload, name, event_type, data, errors)
