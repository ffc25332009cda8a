"""Exchange with a webhook: the body that is sent, and the meaning of its answer. No input or output here."""

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Literal, NamedTuple
from urllib.parse import urljoin, urlsplit

import msgspec

from sluice.api.decode import wrong_fields
from sluice.api.errors import UNREADABLE
from sluice.api.kueue import PodSetUpdate
from sluice.protocol.checks import CheckRequest
from sluice.sdk.checks import Pending, Ready, Rejected, Retry, Verdict
from sluice.services.common.http import Answer

API_VERSION, KIND = "sluice.dev/v1alpha1", "CheckReview"
SIGNATURE = "Sluice-Signature"
IDEMPOTENCY_KEY = "Idempotency-Key"
RETRY_AFTER_MOST_S = 3600

Action = Literal["Check", "Recheck", "Cancel"]


class Review(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The body of a question. `Recheck`: does the approval still hold? `Cancel`: the workload has gone."""

    api_version: str = API_VERSION
    kind: str = KIND
    action: Action
    idempotency_key: str
    """The same for all messages about one operation; also a header."""
    request: CheckRequest


class Reply(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The body of an answer. Fields that are not known here are ignored."""

    state: Literal["Pending", "Ready", "Retry", "Rejected"]
    message: str = ""
    requeue_after_seconds: int | None = None
    pod_set_updates: list[PodSetUpdate] = []


class FailureError(Exception):
    """The webhook gave no usable answer. *after_s*: when it wants to be asked again, if it said so."""

    def __init__(self, text: str, after_s: float = 0.0) -> None:
        super().__init__(text)
        self.after_s = after_s


class Later(NamedTuple):
    """Accepted, to be answered later: ask there (the same place, if empty) after so many seconds."""

    url: str
    after_s: float | None
    message: str = ""


_encoder = msgspec.json.Encoder()
_replies = msgspec.json.Decoder(Reply)
_FIELDS = ("", *(field.encode_name for field in msgspec.structs.fields(Reply)))


def operation(request: CheckRequest, action: Action) -> str:
    """Return the idempotency key: one per workload, check, attempt and action."""
    return f"{request.workload.uid}/{request.check}/{request.attempt}/{action.lower()}"


def body(request: CheckRequest, action: Action) -> bytes:
    """Return the body of a question."""
    return _encoder.encode(Review(action=action, idempotency_key=operation(request, action), request=request))


def headers(
    own: Mapping[str, str], request: CheckRequest, action: Action, content: bytes, secret: bytes, now_s: int
) -> dict[str, str]:
    """Return the headers of a question; signed if there is a *secret*."""
    found = {**own, "Content-Type": "application/json", IDEMPOTENCY_KEY: operation(request, action)}
    if secret:
        found[SIGNATURE] = f"t={now_s},v1={signature(secret, now_s, content)}"
    return found


def signature(secret: bytes, now_s: int, content: bytes) -> str:
    """Return HMAC-SHA256 of `<seconds since the epoch>.<body>` in hexadecimal digits."""
    return hmac.new(secret, str(now_s).encode() + b"." + content, hashlib.sha256).hexdigest()


def verify(secret: bytes, header: str, content: bytes, now_s: int, tolerance_s: int = 300) -> bool:
    """Tell whether a signature is right and not older than *tolerance_s*: what a webhook should do."""
    parts = dict(part.partition("=")[::2] for part in header.split(","))
    when = parts.get("t", "")
    if not when.isdigit() or abs(now_s - int(when)) > tolerance_s:
        return False
    return hmac.compare_digest(signature(secret, int(when), content), parts.get("v1", ""))


def parse_answer(answer: Answer, url: str) -> Reply | Later:
    """Return what an answer to a question at *url* means.

    Raises:
        FailureError: it means nothing; says why.
    """
    if answer.status == 202:
        return Later(_location(answer, url), _retry_after(answer), _message(answer))
    if 300 <= answer.status < 400:
        raise FailureError(f"status {answer.status}: redirects are not followed")
    if answer.status != 200:
        said = f": {answer.excerpt}" if answer.excerpt else ""
        raise FailureError(f"status {answer.status}{said}", _retry_after(answer) or 0.0)
    try:
        reply = _replies.decode(answer.body)
    except UNREADABLE as error:
        raise FailureError(f"the answer cannot be read: {_wrong(answer.body) or error}") from None
    if reply.requeue_after_seconds is not None and reply.requeue_after_seconds < 0:
        raise FailureError("the answer cannot be read: requeueAfterSeconds is negative")
    return reply


def _wrong(content: bytes) -> str:
    """Return what is wrong with which fields of an answer, in words of JSON; "" if that cannot be told."""
    found = wrong_fields(content, Reply)
    # Others than these may stand in it.
    return "; ".join(str(each) for each in found if re.split(r"[.\[]", each.field)[0] in _FIELDS)


def _location(answer: Answer, url: str) -> str:
    location = answer.headers.get("location", "")
    if not location:
        return ""
    try:
        found = urljoin(url, location)
        here, there = urlsplit(url), urlsplit(found)
        same = (here.scheme, here.hostname, here.port) == (there.scheme, there.hostname, there.port)
    except ValueError:
        same = False
    if not same:
        # Requests hold what others need not know; they go where the administrator has said.
        raise FailureError("status 202: the Location is elsewhere")
    return found


def _retry_after(answer: Answer) -> float | None:
    text = answer.headers.get("retry-after", "")
    return float(min(int(text), RETRY_AFTER_MOST_S)) if text.isdigit() and len(text) < 10 else None


def _message(answer: Answer) -> str:
    try:
        found = msgspec.json.decode(answer.body)
    except UNREADABLE:
        return ""
    message = found.get("message", "") if isinstance(found, dict) else ""
    return message if isinstance(message, str) else ""


def to_verdict(reply: Reply, poll_s: float) -> Verdict:
    """Return a reply as a verdict; one that is Pending is asked again after *poll_s*, or when it says."""
    after = reply.requeue_after_seconds
    match reply.state:
        case "Ready":
            return Ready(tuple(reply.pod_set_updates), reply.message)
        case "Retry":
            return Retry(after, reply.message)
        case "Rejected":
            return Rejected(reply.message)
        case "Pending":
            return Pending(reply.message, poll_s if after is None else max(1, after))


def shown(url: str) -> str:
    """Return a URL for messages: its query may hold what is secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"
