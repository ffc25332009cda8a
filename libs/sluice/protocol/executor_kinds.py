"""Kinds of jobs that executors run, as their heartbeats say."""

from collections.abc import Mapping, Sequence

import msgspec

from sluice.api.errors import UNREADABLE
from sluice.events.base import Value

_NAMED = 3


def none_runs(kind: str, there: Mapping[str, Sequence[str]]) -> str:
    """Return that no executor of those that are *there* runs jobs of a kind; "" if one may, or none is there.

    *there*: by name, which kinds each runs, () for all.

    >>> none_runs("RayJob", {"a": ["Job"], "b": ["Job", "JobSet"]})
    'no executor that is there (a, b) runs a RayJob'
    >>> none_runs("RayJob", {"a": ["Job"], "b": []}), none_runs("RayJob", {})
    ('', '')
    """
    if not there or any(not kinds or kind in kinds for kinds in there.values()):
        return ""
    names = sorted(there)
    named = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    return f"no executor that is there ({named}) runs a {kind}"


class _Offer(Value, frozen=True, kw_only=True):
    kinds: list[str] = []


_OFFER = msgspec.json.Decoder(_Offer)
_MOST_KINDS = 64


def kinds_of(value: bytes | None) -> tuple[str, ...]:
    """Return the kinds of jobs that a heartbeat says its agent runs, () for all; of very many the first.

    >>> kinds_of(b'{"name":"a","instance":"1","kinds":["Job"]}'), kinds_of(b'{"name":"a","instance":"1"}')
    (('Job',), ())
    """
    try:
        found = [] if value is None else _OFFER.decode(value).kinds
    except UNREADABLE:
        return ()
    return tuple(kind[:63] for kind in found[:_MOST_KINDS])
