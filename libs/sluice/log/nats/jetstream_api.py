"""JetStream's API: what is asked of a stream, and what refusals mean.

Nothing outside this package writes the API's subjects or knows its codes. Whoever needs one message or the
state of a stream calls `message` or `info`; what carries every message is in `jetstream` and `blocking`.
"""

import base64
import datetime
from typing import Any, NamedTuple, Protocol

import msgspec

from sluice.events.base import Micros
from sluice.log.errors import AppendRefusedError, EventLogError, LogUnavailableError, NoStreamError

__all__ = [
    "Stored",
    "create",
    "info",
    "keep_from",
    "message",
    "message_request",
    "refusal",
    "stored",
    "update",
]

ANSWER_S = 5.0

CUT_S = 60.0
"""To cut a long log off takes a while."""

_NO_MESSAGE = 10037
_NO_STREAM = 10059
WRONG_LAST_SEQUENCE = (10070, 10071, 10164)
"""Codes of a message whose expectation does not hold."""

_DATETIME = datetime.datetime


class Asks(Protocol):
    """A connection that asks the API; `Connection` is one."""

    async def ask(self, subject: str, body: object = None, timeout_s: float = ANSWER_S) -> dict[str, Any]: ...


class Stored(NamedTuple):
    """One message of a stream."""

    seq: int
    subject: str
    at: Micros
    """When the stream took it."""
    payload: bytes
    header: bytes


def info_subject(stream: str) -> str:
    return f"$JS.API.STREAM.INFO.{stream}"


def consumer_subject(stream: str, name: str) -> str:
    return f"$JS.API.CONSUMER.CREATE.{stream}.{name}"


def pull_subject(stream: str, consumer: str) -> str:
    return f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"


def end_subject(stream: str, consumer: str) -> str:
    """Return where to say that a consumer is not needed any more."""
    return f"$JS.API.CONSUMER.DELETE.{stream}.{consumer}"


async def info(
    connection: Asks, stream: str, *, subjects: str = "", timeout_s: float = ANSWER_S
) -> dict[str, Any]:
    """Return a stream's settings and state; with the counts of the *subjects* that match a pattern.

    Raises:
        NoStreamError: there is none.
        LogUnavailableError, ConnectionError, TimeoutError: nobody says.
    """
    body = {"subjects_filter": subjects} if subjects else None
    return checked(await connection.ask(info_subject(stream), body, timeout_s), stream)


async def message(
    connection: Asks,
    stream: str,
    *,
    seq: int = 0,
    last_of: str = "",
    next_of: str = "",
    timeout_s: float = ANSWER_S,
) -> Stored | None:
    """Return the message at *seq*, the *last_of* a subject, or the *next_of* one from *seq* on; None if none.

    Not the direct get: any replica answers that, and this answer must be the newest there is. Raises as
    `info`.
    """
    subject, body = message_request(stream, seq=seq, last_of=last_of, next_of=next_of)
    return stored(await connection.ask(subject, body, timeout_s), stream)


def message_request(
    stream: str, *, seq: int = 0, last_of: str = "", next_of: str = ""
) -> tuple[str, dict[str, str | int]]:
    """Return the subject and the body of the question that `message` asks."""
    body: dict[str, str | int] = {"last_by_subj": last_of} if last_of else {"seq": seq}
    if next_of:
        body["next_by_subj"] = next_of
    return f"$JS.API.STREAM.MSG.GET.{stream}", body


def stored(answer: dict[str, Any], stream: str) -> Stored | None:
    """Return the message in an answer to `message_request`; raises as `checked`."""
    if (answer.get("error") or {}).get("err_code") == _NO_MESSAGE:
        return None
    found = checked(answer, stream)["message"]
    return Stored(
        int(found["seq"]),
        found["subject"],
        parse_time(found["time"]),
        base64.b64decode(found.get("data") or ""),
        base64.b64decode(found.get("hdrs") or ""),
    )


async def purge(connection: Asks, stream: str, subjects: str, *, upto: int | None = None) -> None:
    """Take messages on *subjects* away without a trace: all or those *upto* a sequence. Raises as `info`."""
    body = {"filter": subjects} if upto is None else {"filter": subjects, "seq": upto + 1}
    checked(await connection.ask(f"$JS.API.STREAM.PURGE.{stream}", body), stream)


async def keep_from(connection: Asks, stream: str, seq: int) -> None:
    """Take all messages before *seq* away; what is left keeps its sequences. Raises as `info`."""
    checked(await connection.ask(f"$JS.API.STREAM.PURGE.{stream}", {"seq": seq}, CUT_S), stream)


async def create(connection: Asks, config: dict[str, Any]) -> None:
    """Create a stream.

    Raises:
        AppendRefusedError: the server does not want to; also when somebody else was quicker.
        LogUnavailableError: JetStream is off or not ready.
    """
    name = config["name"]
    _taken(await connection.ask(f"$JS.API.STREAM.CREATE.{name}", config), name)


async def update(connection: Asks, config: dict[str, Any]) -> None:
    """Give a stream other settings; raises as `create`."""
    name = config["name"]
    _taken(await connection.ask(f"$JS.API.STREAM.UPDATE.{name}", config), name)


def _taken(answer: dict[str, Any], name: str) -> None:
    if error := answer.get("error"):
        if error.get("code") == 503:
            raise LogUnavailableError(f"stream {name}: {error.get('description')}")
        raise AppendRefusedError(name, error.get("err_code", 0), error.get("description", ""))


def refusal(code: int, why: str, retry_after_s: float = 0.0) -> bytes:
    """Return an answer in the API's form that says no; *code* is HTTP's, *retry_after_s* when to retry."""
    error: dict[str, Any] = {"code": code, "err_code": 10_000 + code, "description": why}
    if retry_after_s:
        error["retry_after_s"] = round(retry_after_s, 3)
    return msgspec.json.encode({"type": "io.nats.jetstream.api.v1.error", "error": error})


def checked(answer: dict[str, Any], what: str) -> dict[str, Any]:
    """Return an API answer that is no error.

    Raises:
        NoStreamError: the stream is not there.
        AppendRefusedError: this user may not ask that.
        LogUnavailableError: another error.
    """
    if error := answer.get("error"):
        code = error.get("err_code")
        if error.get("code") == 403:
            raise AppendRefusedError(what, 403, error.get("description", ""))
        kind: type[EventLogError] = NoStreamError if code == _NO_STREAM else LogUnavailableError
        raise kind(f"{what}: {error.get('description')} ({code})")
    return answer


def parse_time(text: str) -> Micros:
    """Return the server's RFC 3339 time as microseconds."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    seconds = msgspec.convert(f"{whole}Z", type=_DATETIME).timestamp()
    return int(seconds) * 1_000_000 + int((fraction + "000000")[:6])
