"""Events and messages as bytes: CloudEvents 1.0, structured mode, JSON.

Commits are encoded step by step, so that a writer knows the exact size before it puts them together,
and decoded in one pass by a decoder that knows the whole catalogue.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, Protocol

import msgspec

from sluice import __version__
from sluice.api.errors import UNREADABLE, FieldError, required

from . import upcast
from .base import Micros
from .catalogue import EVENTS, SINCE, VERSIONS
from .commit import Commit, Step

COMMIT_TYPE = "sluice.commit"
CONTENT_TYPE = "application/json"

_ENCODER = msgspec.json.Encoder()


class CommitDecodeError(ValueError):
    """A commit of the log that cannot be read: broken, or written by newer code. `writer` "" if unknown."""

    def __init__(self, detail: str, writer: str = "", tag: str = "") -> None:
        super().__init__(detail)
        self.writer, self.tag = writer, tag


class CloudEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A message from outside. Extension attributes are tolerated and not kept."""

    specversion: Literal["1.0"]
    id: str
    source: str
    type: str
    subject: str = ""
    time: str = ""
    datacontenttype: str = CONTENT_TYPE
    data: msgspec.Raw = msgspec.Raw(b"")


class Enveloped[C](msgspec.Struct, frozen=True):
    """What a commit's message says of itself, and the commit: whole, or some of its fields."""

    data: C
    type: str = ""
    source: str = ""
    subject: str = ""


class _PlainStep(msgspec.Struct, frozen=True):
    upto: int
    at: Micros
    events: list[dict[str, Any]] = []


class _PlainCommit(msgspec.Struct, frozen=True):
    writer: str
    version: int
    steps: list[_PlainStep]


class _Claim(msgspec.Struct, frozen=True):
    writer: str
    version: int
    since: str = ""


_COMMITS = msgspec.json.Decoder(Enveloped[Commit])
_PLAIN_COMMITS = msgspec.json.Decoder(Enveloped[_PlainCommit])
_CLAIMS = msgspec.json.Decoder(Enveloped[_Claim])
_CLOUD_EVENTS = msgspec.json.Decoder(CloudEvent)


def rfc3339(at: Micros) -> str:
    """Return *at* as RFC 3339 in UTC, to the microsecond.

    >>> rfc3339(1_767_225_600_000_001)
    '2026-01-01T00:00:00.000001Z'
    """
    seconds, micros = divmod(at, 1_000_000)
    days, second = divmod(seconds, 86_400)
    hour, rest = divmod(second, 3600)
    return f"{_date(days)}T{hour:02d}:{rest // 60:02d}:{rest % 60:02d}.{micros:06d}Z"


@lru_cache(maxsize=64)
def _date(days: int) -> str:
    """Return the date *days* after the epoch; a log is of few of them."""
    # Civil date from days since the epoch, in eras of 400 years that begin on 1 March.
    days += 719_468
    era, day_of_era = divmod(days, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = year_of_era + era * 400 + (month <= 2)
    return f"{year:04d}-{month:02d}-{day:02d}"


def encode_step(step: Step) -> bytes:
    """Return one step as JSON, to be put into `envelope`."""
    return _ENCODER.encode(step)


def envelope(cell: str, writer: str, message_id: str, at: Micros, steps: Iterable[bytes]) -> bytes:
    """Return the message of a commit made of encoded *steps*; *at* is the time of its last one."""
    head = (
        f'{{"specversion":"1.0","id":"{message_id}","source":"sluice/{cell}/{writer}","type":"{COMMIT_TYPE}",'
        f'"subject":"{writer}","time":"{rfc3339(at)}","datacontenttype":"{CONTENT_TYPE}",'
        f'"data":{{"writer":"{writer}","version":{VERSIONS.get(writer, 1)},{_since(writer)}"steps":['
    )
    return b"".join((head.encode(), b",".join(steps), b"]}}"))


def _since(writer: str) -> str:
    since = SINCE.get(writer)
    return f'"since":"{since}",' if since else ""


def encode_commit(cell: str, writer: str, message_id: str, steps: Sequence[Step]) -> bytes:
    """Return the message of a commit. Ids and names are plain: letters, digits, `-`, `_`, `.`, `:`."""
    return envelope(cell, writer, message_id, steps[-1].at, [encode_step(step) for step in steps])


FOREIGN: Final = Commit(writer="", version=0, steps=())
"""What somebody else has put on a service's subject: nothing was decided by it.

All readers pass it over, or one message would stop them all, for ever; `sluice log rejected` names it.
"""

LATEST: Final[Micros] = 253_402_300_799_999_999
"""The last microsecond of the year 9999: no clock of a writer tells more."""


class _Dated(Protocol):
    @property
    def upto(self) -> int: ...
    @property
    def at(self) -> Micros: ...


def fits(message: Enveloped[Any], writer: str, owner: str, seq: int, steps: Iterable[_Dated] = ()) -> bool:
    """Tell whether the service *owner* may have written a message at *seq*: "" or 0 where that is not known.

    It says of itself in three places who wrote it, and no step can have seen what came after it.
    """
    if (
        message.type != COMMIT_TYPE
        or message.subject != writer
        or not message.source.startswith("sluice/")
        or not message.source.endswith("/" + writer)
        or (owner != writer and owner)
    ):
        return False
    for step in steps:
        if not (step.upto >= 0 and 0 <= step.at <= LATEST) or (seq and step.upto >= seq):
            return False
    return True


def decode_commit(payload: bytes, owner: str = "", seq: int = 0) -> Commit:
    """Return the commit in a message, its events as of today; FOREIGN if another than its owner wrote it.

    *owner*: the subject on which it stands, *seq*: where in the log; readers of a log give both. Foreign is
    what is no commit, what does not say that the owner wrote it, what no writer can say (`fits`), and what
    cannot be read although it claims to be of a version that this code knows.

    Raises:
        CommitDecodeError: the owner's, of a later version, with an event that this code does not know, or
            not for this release to go on from.
    """
    try:
        message = _COMMITS.decode(payload)
    except UNREADABLE as error:
        return _decode_otherwise(payload, owner, seq, error)
    commit = message.data
    if not fits(message, commit.writer, owner, seq, commit.steps) or commit.version < 0:
        return FOREIGN
    current = VERSIONS.get(commit.writer, 1)
    if (commit.since and not may_go_on(commit.since)) or (
        commit.version < current and upcast.needed(commit.version, current)
    ):
        return _decode_otherwise(payload, owner, seq, None)
    return commit


def _decode_otherwise(payload: bytes, owner: str, seq: int, cause: Exception | None) -> Commit:
    """Take the slow way: plain objects, upcast, then converted; also finds out what exactly is wrong."""
    try:
        claim = _CLAIMS.decode(payload)
    except UNREADABLE:
        return FOREIGN
    writer, version = claim.data.writer, claim.data.version
    if not fits(claim, writer, owner, seq) or version < 0:
        return FOREIGN
    since = claim.data.since
    if since and not may_go_on(since):
        if not _release(since):
            return FOREIGN
        what = f"commit of writer {writer!r} is for release {since} and newer, this is {__version__}"
        raise CommitDecodeError(f"{what}: upgrade first", writer)
    current = VERSIONS.get(writer, 1)
    try:
        plain = _PLAIN_COMMITS.decode(payload).data
    except UNREADABLE as error:
        if version <= current:
            return FOREIGN
        what = f"commit of writer {writer!r}: {error}{_newer(version, current)}"
        raise CommitDecodeError(what, writer) from error
    if not fits(claim, writer, owner, seq, plain.steps):
        return FOREIGN
    steps = []
    for step in plain.steps:
        try:
            events = [upcast.upcast(event, version, current) for event in step.events]
        except (LookupError, TypeError, AttributeError):
            return FOREIGN  # it lacks what its tag had in that version
        try:
            steps.append(msgspec.convert({"upto": step.upto, "at": step.at, "events": events}, Step))
        except msgspec.ValidationError as error:
            unreadable = _unreadable(plain, current, events, error)
            if unreadable is None:
                return FOREIGN
            raise unreadable from (cause or error)
    return Commit(writer=writer, version=current, steps=tuple(steps), since=since)


@lru_cache(maxsize=64)
def may_go_on(since: str, release: str = __version__) -> bool:
    """Tell whether *release* is *since* or newer; no release is older than "", or newer than what is none."""
    return not since or (bool(_release(since)) and _release(since) <= _release(release))


def _release(text: str) -> tuple[int, ...]:
    """Return the numbers by which releases are compared, () for what is none; what follows is left out."""
    found = re.match(r"\d{1,6}\.\d{1,6}\.\d{1,6}", text)
    return tuple(map(int, found[0].split("."))) if found else ()


def _newer(version: int, current: int) -> str:
    return (
        f"; it is of version {version}, this code knows {current}: upgrade first" if version > current else ""
    )


def _unreadable(
    commit: _PlainCommit, current: int, events: list[dict[str, Any]], error: Exception
) -> CommitDecodeError | None:
    """Return what cannot be read because this code is too old for it; None if no release has written it.

    A tag keeps its meaning, and new fields have defaults: an event with a tag and a version that are known
    here can be read. A tag alone may be new.
    """
    for event in events:
        try:
            msgspec.convert({"upto": 0, "at": 0, "events": [event]}, Step)
        except msgspec.ValidationError as found:
            tag = event.get("type")
            if not isinstance(tag, str) or (commit.version <= current and (not tag or tag in EVENTS)):
                return None
            what = f"event {tag!r} of writer {commit.writer!r}: {found}{_newer(commit.version, current)}"
            return CommitDecodeError(what, commit.writer, tag)
    if commit.version <= current:
        return None
    return CommitDecodeError(f"commit of writer {commit.writer!r}: {error}", commit.writer)


def message_id_of(payload: bytes) -> str:
    """Return the CloudEvents id of a message, "" if it has none."""
    try:
        return _CLOUD_EVENTS.decode(payload).id
    except UNREADABLE:
        return ""


def encode_message(
    *,
    message_id: str,
    source: str,
    event_type: str,
    subject: str,
    at: Micros,
    data: object,
    extensions: Mapping[str, str] | None = None,
) -> bytes:
    """Return a message from outside: one CloudEvent; *data* is a struct or anything JSON.

    *extensions*: attributes beside those of CloudEvents itself, which no decider reads.
    """
    payload = _ENCODER.encode(
        CloudEvent(
            specversion="1.0",
            id=message_id,
            source=source,
            type=event_type,
            subject=subject,
            time=rfc3339(at),
            data=msgspec.Raw(_ENCODER.encode(data)),
        )
    )
    return payload[:-1] + b"," + _ENCODER.encode(extensions)[1:] if extensions else payload


def decode_message(payload: bytes) -> CloudEvent | tuple[FieldError, ...]:
    """Return the CloudEvent in *payload*, or what is wrong with it. `data` stays undecoded."""
    try:
        event = _CLOUD_EVENTS.decode(payload)
    except UNREADABLE as error:
        return field_errors(error)
    if event.id and event.source and event.type:
        return event
    missing = [name for name in ("id", "source", "type") if not getattr(event, name)]
    return tuple(required(name, "must not be empty") for name in missing)


class _Typed(msgspec.Struct, frozen=True):
    type: str = ""


_TYPES = msgspec.json.Decoder(_Typed)


def type_of(payload: bytes) -> str:
    """Return the type of the event in *payload*, "" if it cannot be read. For passing over what is in it."""
    try:
        return _TYPES.decode(payload).type
    except UNREADABLE:
        return ""


_PATH = re.compile(r"^(?P<what>.*?)(?: - at `(?P<place>key in )?\$(?P<path>.*)`)?$", re.DOTALL)
_MISSING = re.compile(r"missing required field `([^`]*)`")
_UNKNOWN = re.compile(r"contains unknown field `([^`]*)`")


def field_errors(error: Exception, prefix: str = "") -> tuple[FieldError, ...]:
    """Return a decoding error of msgspec as field errors, their paths under *prefix*."""
    if not isinstance(error, msgspec.ValidationError):
        return (FieldError(field=prefix, detail=f"not valid JSON: {error}"),)
    match = _PATH.match(str(error))
    assert match is not None
    path = prefix + (match["path"] or "")
    what = match["what"]
    if found := _MISSING.search(what):
        return (required(f"{path}.{found[1]}".lstrip(".")),)
    if found := _UNKNOWN.search(what):
        return (FieldError(field=f"{path}.{found[1]}".lstrip("."), detail="", type="FieldUnknown"),)
    return (FieldError(field=path.lstrip("."), detail=what, type="FieldValueTypeInvalid"),)
