"""Commits read for a few of their fields: events are most of a log, and most of them is not asked for.

Commits of older versions are read in full, since their events may be called otherwise today.
"""

from collections.abc import Sequence

import msgspec

from sluice.api.errors import UNREADABLE
from sluice.events.base import Micros
from sluice.events.catalogue import VERSIONS
from sluice.events.codec import decode_commit


class Told(msgspec.Struct, frozen=True, gc=False):
    """An event of the slice-aggregator: JobResumed and JobSuspended have a job, others a workload."""

    type: str
    job: str = ""
    attempt: int = 0
    workload: msgspec.Raw = msgspec.Raw(b"")


class Turn(msgspec.Struct, frozen=True, gc=False):
    """A step of the slice-aggregator."""

    upto: int
    at: Micros
    events: Sequence[Told] = ()


class Bare(msgspec.Struct, frozen=True, gc=False):
    """A step without its events."""

    upto: int
    at: Micros


class _Turns(msgspec.Struct, frozen=True):
    version: int
    steps: list[Turn]


class _Times(msgspec.Struct, frozen=True):
    version: int
    steps: list[Bare]


class _Message[T](msgspec.Struct, frozen=True):
    data: T


_TURNS = msgspec.json.Decoder(_Message[_Turns])
_TIMES = msgspec.json.Decoder(_Message[_Times])


def read_turns(payload: bytes) -> Sequence[Turn]:
    """Return the steps in a commit of the slice-aggregator.

    Raises:
        CommitDecodeError: the bytes are broken, or of later code.
    """
    try:
        found = _TURNS.decode(payload).data
    except UNREADABLE:
        found = None
    if found is None or found.version != VERSIONS.get("slices", 1):
        return msgspec.json.decode(msgspec.json.encode(decode_commit(payload).steps), type=list[Turn])
    return found.steps


def read_times(payload: bytes) -> Sequence[Bare]:
    """Return when the steps in a commit were decided; raises as `read_turns`."""
    try:
        return _TIMES.decode(payload).data.steps
    except UNREADABLE:
        return [Bare(step.upto, step.at) for step in decode_commit(payload).steps]


def process_of(payload: bytes) -> bytes:
    """Return which process wrote a commit, as its message's id says: `<writer>-<head>-<process>`."""
    start = payload.find(b'"id":"') + 6
    return payload[start : payload.find(b'"', start)].split(b"-", 2)[-1]


__all__ = ["Bare", "Told", "Turn", "process_of", "read_times", "read_turns"]
