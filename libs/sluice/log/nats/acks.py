"""The server's answer to a message that was to be stored."""

import msgspec

from sluice.api.errors import UNREADABLE
from sluice.log.contract import Ack
from sluice.log.errors import AppendRefusedError, StaleSequenceError, TooManyMessagesError, UnansweredError

from . import jetstream_api as api


class PubError(msgspec.Struct, frozen=True):
    code: int = 0
    err_code: int = 0
    description: str = ""
    retry_after_s: float = 0.0


class PubAck(msgspec.Struct, frozen=True):
    """The server's answer to a stored, or refused, message."""

    seq: int = 0
    duplicate: bool = False
    error: PubError | None = None


_ACKS = msgspec.json.Decoder(PubAck)


def read_ack(subject: str, expected: int | None, payload: bytes) -> Ack:
    """Return the acknowledgement in *payload*; raises as `Log.append`."""
    try:
        answer = _ACKS.decode(payload)
    except UNREADABLE as error:
        raise UnansweredError(subject, f"not an acknowledgement: {payload[:100]!r}") from error
    if answer.error is None:
        return Ack(answer.seq, answer.duplicate)
    failure = answer.error
    if failure.err_code in api.WRONG_LAST_SEQUENCE:
        actual = failure.description.rpartition(" ")[2]
        raise StaleSequenceError(subject, expected or 0, int(actual) if actual.isdigit() else None)
    if failure.code == 503:
        raise UnansweredError(subject, failure.description)
    if failure.code == 429:
        raise TooManyMessagesError(subject, failure.err_code, failure.description, failure.retry_after_s)
    raise AppendRefusedError(subject, failure.err_code, failure.description)
