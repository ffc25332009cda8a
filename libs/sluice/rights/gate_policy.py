"""Policy of the gate for requests to JetStream. No input or output: a request in, what to do with it out."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from sluice.api.errors import UNREADABLE

from .names import API
from .parties import Party

__all__ = ["Forward", "Judgement", "Make", "Refusal", "covers", "judge"]

NAME_BYTES = 20
"""A consumer's name is the key to what it delivers: it must be too long to be guessed."""
FILTERS_MOST = 32
IDLE_MOST = 300_000_000_000
"""Nanoseconds after which a consumer that nobody pulls from is gone."""

_START = ("deliver_policy", "opt_start_seq", "opt_start_time")
_PLAIN = frozenset(("name", *_START, "filter_subject", "filter_subjects", "headers_only"))
"""Settings of a consumer that are taken as they are. None of them can name where to deliver to."""

_FIXED: dict[str, Any] = {
    "ack_policy": "none",
    "replay_policy": "instant",
    "max_deliver": -1,
    "num_replicas": 1,
    "mem_storage": True,
}
_IDLE: dict[str, tuple[Any, ...]] = {
    "ack_policy": ("none",),
    "replay_policy": ("instant",),
    "deliver_subject": ("",),
    "durable_name": ("",),
    "deliver_group": ("",),
    "num_replicas": (0, 1),
}
"""What other settings may say, as it changes nothing."""


class Forward(NamedTuple):
    """Ask JetStream this, and pass its answer on."""

    subject: str
    body: bytes


class Make(NamedTuple):
    """Make the bucket, as it must be."""

    bucket: str


class Refusal(NamedTuple):
    """Say why not."""

    why: str


Judgement = Forward | Make | Refusal


def judge(party: Party, request: str, body: bytes, fresh: str = "") -> Judgement:
    """Return what is to be done about a *request*, `STREAM.INFO.<stream>` and such, of *party*.

    *fresh*: a name that nobody guesses, for a consumer that comes without one.
    """
    try:
        asked = msgspec.json.decode(body, strict=True) if body else {}
    except UNREADABLE:
        return Refusal("not JSON")
    if not isinstance(asked, dict):
        return Refusal("not an object")
    kind, _, rest = request.partition(".")
    verb, _, what = rest.partition(".")
    match kind, verb:
        case "STREAM", "INFO" if what in party.reads:
            return _info(party, what, asked)
        case "STREAM", "INFO" if _bucket(what) in party.makes:
            return Forward(f"{API}STREAM.INFO.{what}", b"")
        case "STREAM", "MSG" if what.removeprefix("GET.") in party.reads:
            return _message(party, what.removeprefix("GET."), asked)
        case "STREAM", "CREATE" if _bucket(what) in party.makes:
            return Make(_bucket(what))
        case "STREAM", "PURGE":
            return _purge(party, what, asked)
        case "CONSUMER", "CREATE" | "INFO" | "DELETE":
            return _consumer(party, verb, what, asked, fresh)
        case _:
            return Refusal(f"{party.user} may not ask {kind}.{verb}.{what}")


def _bucket(stream: str) -> str:
    return stream.rpartition("_")[2] if stream.startswith("KV_") else ""


def _within(party: Party, stream: str, subjects: Iterable[object]) -> bool:
    """Tell whether all *subjects* lie in what the party may read of the stream."""
    allowed = party.reads[stream]
    return all(isinstance(subject, str) and any(covers(a, subject) for a in allowed) for subject in subjects)


def covers(wide: str, narrow: str) -> bool:
    """Tell whether every subject that *narrow* matches is one that *wide* matches.

    >>> covers("a.>", "a.*"), covers("a.*", "a.>"), covers("a.*.c", "a.b.c"), covers(">", "x")
    (True, False, True, True)
    """
    have, want = wide.split("."), narrow.split(".")
    for index, part in enumerate(have):
        if part == ">":
            return len(want) > index
        if index >= len(want) or want[index] == ">" or (part != "*" and part != want[index]):
            return False
    return len(have) == len(want)


def _info(party: Party, stream: str, asked: dict[str, Any]) -> Judgement:
    wanted = asked.get("subjects_filter")
    if wanted is not None and not _within(party, stream, [wanted]):
        return Refusal(f"{party.user} may not list {wanted}")
    body = {key: asked[key] for key in ("subjects_filter", "offset") if key in asked}
    return Forward(f"{API}STREAM.INFO.{stream}", msgspec.json.encode(body) if body else b"")


def _message(party: Party, stream: str, asked: dict[str, Any]) -> Judgement:
    named = [asked[key] for key in ("last_by_subj", "next_by_subj") if key in asked]
    if not _within(party, stream, named or [">"]):
        return Refusal(
            f"{party.user} may not read {', '.join(map(str, named)) or 'any message by its number'}"
        )
    body = {key: asked[key] for key in ("seq", "last_by_subj", "next_by_subj") if key in asked}
    return Forward(f"{API}STREAM.MSG.GET.{stream}", msgspec.json.encode(body))


def _purge(party: Party, stream: str, asked: dict[str, Any]) -> Judgement:
    subject = asked.get("filter")
    if not isinstance(subject, str) or not any(covers(pattern, subject) for pattern in party.removes):
        return Refusal(f"{party.user} may not remove {subject}")
    if not subject.rpartition(".")[2].startswith(party.agents):
        return Refusal(f"{party.user} may remove heartbeats of its own agents only, {party.agents}...")
    if stream != f"KV_{subject.split('.')[1]}" or set(asked) - {"filter"}:
        return Refusal("only a key, and from its own bucket")
    return Forward(f"{API}STREAM.PURGE.{stream}", msgspec.json.encode({"filter": subject}))


def _consumer(party: Party, verb: str, what: str, asked: dict[str, Any], fresh: str) -> Judgement:
    stream, _, rest = what.partition(".")
    if stream not in party.reads:
        return Refusal(f"{party.user} may not read {stream}")
    config = asked.get("config")
    if verb == "CREATE" and not isinstance(config, dict):
        return Refusal("not a consumer's configuration")
    if not rest and isinstance(config, dict):
        rest = config["name"] = str(config.get("name") or fresh)
    name, _, _ = rest.partition(".")
    if len(name) < NAME_BYTES:
        return Refusal(
            f"a consumer's name must have {NAME_BYTES} characters at least, so that nobody guesses it"
        )
    if verb != "CREATE" or config is None:
        return Forward(f"{API}CONSUMER.{verb}.{stream}.{name}", b"")
    return _creation(party, stream, rest, asked, config)


def _creation(
    party: Party, stream: str, rest: str, asked: dict[str, Any], config: dict[str, Any]
) -> Judgement:
    if asked.get("stream_name") != stream or config.get("name") != rest.partition(".")[0]:
        return Refusal("the consumer's subject names another one than its configuration")
    for key, value in config.items():
        if key in _IDLE and value not in _IDLE[key]:
            return Refusal(f"consumers of {party.user} must not set {key} to {value!r}: they are pulled from")
    filters: Any = config.get("filter_subjects") or [config.get("filter_subject") or ">"]
    if not isinstance(filters, list) or len(filters) > FILTERS_MOST or not _within(party, stream, filters):
        return Refusal(f"{party.user} may not read {str(filters)[:200]} of {stream}")
    idle = config.get("inactive_threshold") or 0
    if not isinstance(idle, int) or not idle >= 0:
        return Refusal("inactive_threshold must be a whole number")
    made = {key: value for key, value in config.items() if key in _PLAIN}
    made |= _FIXED | {"inactive_threshold": min(idle, IDLE_MOST) or IDLE_MOST}
    body = {"stream_name": stream, "config": made, "action": "create"}
    return Forward(f"{API}CONSUMER.CREATE.{stream}.{rest}", msgspec.json.encode(body))
