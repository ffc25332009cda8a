"""Verdicts as messages: how an answer becomes a CheckVerdict, its id, and how it is read back."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from sluice.api.errors import UNREADABLE
from sluice.api.kueue import PodSetUpdate
from sluice.core.checks.intake import verdict as read_verdict
from sluice.events.base import Micros, WorkloadKey
from sluice.events.codec import CloudEvent, rfc3339
from sluice.events.envelope import Message
from sluice.protocol.checks import CheckRequest, CheckVerdict
from sluice.protocol.subjects import token

from ._verdicts import Pending, PreemptionRequired, Ready, Rejected, Retry, Verdict, seconds

MESSAGE_MOST = 8192
"""Characters of a verdict's message; the rest is cut off."""

EVENT_TYPE = "CheckVerdict"
FINAL = frozenset({"Ready", "Retry", "Rejected"})

_ANYBODYS = "verdict.controller"
"""Whose a verdict is makes no difference to what may stand in it."""

_ENCODER = msgspec.json.Encoder()
_VERDICTS = msgspec.json.Decoder(CheckVerdict)


class VerdictEvent(CloudEvent, frozen=True, kw_only=True):
    """The message of a verdict. The extension says when the controller will look again, for its successor."""

    recheckafterms: int | msgspec.UnsetType = msgspec.UNSET


_EVENTS = msgspec.json.Decoder(VerdictEvent)


class Stored(NamedTuple):
    """What the log holds under a message's id."""

    seq: int
    verdict: CheckVerdict


class RefusedError(Exception):
    """A verdict that the log does not take: too large, or the controller may not publish it."""


@dataclass(frozen=True, slots=True)
class Said:
    """A verdict in the log, or on its way there (`seq` 0)."""

    verdict: CheckVerdict
    at: Micros
    seq: int = 0
    recheck_after_s: float | None = None

    @property
    def state(self) -> str:
        return self.verdict.state


def identity(request: CheckRequest) -> tuple[str, int]:
    """Return what a verdict must agree with to count."""
    return request.workload.uid, request.attempt


def cut(message: str) -> str:
    """Return *message*, not longer than a verdict's may be."""
    if len(message) <= MESSAGE_MOST:
        return message
    return f"{message[: MESSAGE_MOST - 30]}... ({len(message)} characters)"


def to_verdict(request: CheckRequest, answer: Verdict) -> CheckVerdict:
    """Return *answer* as it is published."""
    workload = request.workload

    def verdict(
        state: Any, after_s: float | None = None, updates: Sequence[PodSetUpdate] = (), reason: Any = ""
    ) -> CheckVerdict:
        return CheckVerdict(
            workload=WorkloadKey(f"{workload.namespace}/{workload.name}"),
            check=request.check,
            attempt=request.attempt,
            uid=workload.uid,
            state=state,
            reason=reason,
            message=cut(answer.message),
            requeue_after_seconds=None if after_s is None else math.ceil(after_s),
            pod_set_updates=tuple(updates),
        )

    match answer:
        case Ready(updates=updates):
            return verdict("Ready", updates=updates)
        case Retry(after=after):
            return verdict("Retry", seconds(after))
        case Rejected():
            return verdict("Rejected")
        case PreemptionRequired():
            return verdict("Pending", reason="PreemptionRequired")
        case Pending():
            return verdict("Pending")


def recheck_of(answer: Verdict) -> float | None:
    """Return when the author wants to look again, in seconds from now."""
    match answer:
        case Ready() | Pending() | PreemptionRequired():
            return seconds(answer.recheck_after)
        case _:
            return None


def message_id(request: CheckRequest, number: int) -> str:
    """Return the id of an attempt's verdict *number*: the same again is dropped by the log."""
    workload = request.workload
    who = workload.uid or f"{token(workload.namespace)}.{token(workload.name)}"
    return f"{who}.{token(request.check)}.{request.attempt}.{number}"


def number_of(message: str) -> int:
    """Return the number in an id that `message_id` made, 0 of others."""
    last = message.rpartition(".")[2]
    return int(last) if last.isdigit() else 0


def encode(
    source: str, ident: str, at: Micros, verdict: CheckVerdict, recheck_after_s: float | None
) -> bytes:
    """Return the message of a verdict.

    Raises:
        RefusedError: the check service would not take it: it is too large, or some field is wrong.
    """
    event = VerdictEvent(
        specversion="1.0",
        id=ident,
        source=source,
        type=EVENT_TYPE,
        subject=verdict.workload,
        time=rfc3339(at),
        data=msgspec.Raw(_ENCODER.encode(verdict)),
        recheckafterms=msgspec.UNSET if recheck_after_s is None else int(recheck_after_s * 1000),
    )
    payload = _ENCODER.encode(event)
    _, found = read_verdict(Message(subject=_ANYBODYS, payload=payload), 0)
    if found.errors:
        raise RefusedError("; ".join(map(str, found.errors)))
    return payload


def decode(payload: bytes) -> tuple[str, CheckVerdict, float | None] | None:
    """Return id, verdict and delay of a message; None if it is no verdict."""
    try:
        event = _EVENTS.decode(payload)
        if event.type != EVENT_TYPE:
            return None
        verdict = _VERDICTS.decode(event.data)
    except UNREADABLE:
        return None
    after = event.recheckafterms
    return event.id, verdict, None if isinstance(after, msgspec.UnsetType) else after / 1000
