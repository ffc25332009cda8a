"""Messages of parties about their jobs that the gate lets pass. No input or output: a message in, what to do
out."""

from typing import NamedTuple

from sluice.api.errors import FieldError, InvalidError, aggregate, forbidden, required
from sluice.core.slices.submission import queue_named_in
from sluice.core.workload.inputs import bounded, cloud_event
from sluice.events.codec import CloudEvent
from sluice.log.nats.protocol import headers_of
from sluice.protocol.subjects import job_of
from sluice.rights.gate_policy import covers
from sluice.rights.parties import Bounds, Party

MAY_NOT, MALFORMED, TOO_LARGE = 403, 400, 413
HEARTBEATS = "$KV."
TTL = "Nats-TTL"
ID, EXPECTED = "Nats-Msg-Id", "Nats-Expected-Last-Subject-Sequence"
OF_THE_SERVER = "Nats-Request-Info"
"""Says which account a message was imported from."""
ID_CHARACTERS = 200
"""More of an id is not taken: the server remembers each for two minutes."""
_NONE: dict[str, str] = {}


class Taken(NamedTuple):
    """It may be said, on its own subject and with these headers."""

    headers: dict[str, str]


class Refused(NamedTuple):
    """Why not; *code* is HTTP's."""

    code: int
    why: str


def owned_id(user: str, message_id: str) -> str:
    """Return the id under which the log has a message of a party: nobody else's begins so."""
    return f"{user}/{message_id}"


def subject_of(prefix: str, suffix: str) -> str:
    """Return the subject that is meant: the cell's, or a key of a bucket."""
    return suffix if suffix.startswith(HEARTBEATS) else prefix + suffix


def judge_offer(party: Party, prefix: str, suffix: str, header: bytes, payload: bytes) -> Taken | Refused:
    """Return what is to be done with what a party says on *suffix*; *prefix*: the cell's."""
    subject = subject_of(prefix, suffix)
    if not any(covers(pattern, subject) for pattern in party.offers):
        return Refused(MAY_NOT, f"{party.user} may not publish {suffix[:200]}")
    if party.agents and suffix.startswith(HEARTBEATS):
        return _heartbeat(party, suffix.rpartition(".")[2], header)
    job = job_of(suffix)
    if job is None:
        return Refused(MALFORMED, f"{suffix[:200]}: want job.<namespace>.<name>")
    bounds = party.bounds
    if bounds.ends and not job.endswith(bounds.ends):
        return Refused(
            MAY_NOT, f"names of {party.user}'s jobs end with {bounds.ends!r}: {job[:200]!r} does not"
        )
    if bounds.max_bytes and len(payload) > bounds.max_bytes:
        why = f"the message has {len(payload)} bytes, {party.user} may send {bounds.max_bytes} at most"
        return Refused(TOO_LARGE, why)
    if (bounds.kinds or bounds.queues) and (wrong := _wrong(party.user, bounds, job, payload)):
        return wrong
    return _headers(party.user, header) if header else Taken(_NONE)


def _heartbeat(party: Party, name: str, header: bytes) -> Taken | Refused:
    """A heartbeat keeps its time to live, which says when its agent is lost."""
    if not name.startswith(party.agents) or name == party.agents:
        why = f"names of {party.user}'s agents begin with {party.agents!r}: {name[:100]!r} does not"
        return Refused(MAY_NOT, why)
    kept = {name: value for name, value in headers_of(header).items() if name in (TTL, EXPECTED)}
    return Taken(kept)


def _headers(user: str, header: bytes) -> Taken | Refused:
    """Keep what has a meaning for the message alone; with others a message can remove, delay or copy some."""
    kept = {}
    for name, value in headers_of(header).items():
        if name == ID:
            if len(value) > ID_CHARACTERS:
                return Refused(MALFORMED, f"{ID}: at most {ID_CHARACTERS} characters")
            kept[ID] = owned_id(user, value)
        elif name == EXPECTED:
            kept[EXPECTED] = value
        elif name.lower().startswith("nats-") and name != OF_THE_SERVER:
            return Refused(MAY_NOT, f"{user} may not use the header {name[:100]}")
    return Taken(kept)


def _wrong(user: str, bounds: Bounds, job: str, payload: bytes) -> Refused | None:
    """Return what is wrong with the content, None if nothing is.

    It is read as the slice-aggregator does, by the same code: what that would read otherwise could name
    another queue. What cannot be read is refused here, for the same reason.
    """
    event = cloud_event(payload)
    if not isinstance(event, CloudEvent):
        return Refused(MALFORMED, aggregate(event))
    if bounds.kinds and event.type not in bounds.kinds:
        why = f"{user} may not say {event.type[:100]} of a job, only {', '.join(bounds.kinds)}"
        return Refused(MAY_NOT, why)
    if bounds.queues and event.type == "JobSubmitted":
        try:
            name, field = queue_named_in(event.data or b"null")
        except InvalidError as error:
            return Refused(MALFORMED, aggregate(bounded(error.errors)))
        if wrong := _wrong_queue(user, bounds, job.partition("/")[0], name, field):
            return Refused(MAY_NOT, str(wrong))
    return None


def _wrong_queue(user: str, bounds: Bounds, namespace: str, name: str, field: str) -> FieldError | None:
    if not name:
        return required(field)
    if name in bounds.queues or f"{namespace}/{name}" in bounds.queues:
        return None
    own = ", ".join(bounds.queues)
    return forbidden(
        field, f"the queue {name[:100]!r} of namespace {namespace!r} is not one of {user}'s: {own}"
    )
