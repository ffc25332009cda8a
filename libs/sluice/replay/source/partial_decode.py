"""Commits read for a few of their fields: events are most of a log, and most of them is not asked for.

Commits of older versions are read in full, since their events may be called otherwise today.
"""

from collections.abc import Sequence

import msgspec

from sluice.api.errors import UNREADABLE
from sluice.events.base import Micros
from sluice.events.catalogue import VERSIONS
from sluice.events.codec import Enveloped, decode_commit, fits


class Told(msgspec.Struct, frozen=True, gc=False):
    """An event of the slice-aggregator: JobResumed and JobSuspended have a job, others a workload."""

    type: str
    job: str = ""
    attempt: int = 0
    workload: msgspec.Raw = msgspec.Raw(b"")


class ToldStep(msgspec.Struct, frozen=True, gc=False):
    """A step of the slice-aggregator."""

    upto: int
    at: Micros
    events: Sequence[Told] = ()


class Bare(msgspec.Struct, frozen=True, gc=False):
    """A step without its events."""

    upto: int
    at: Micros


class _ToldSteps(msgspec.Struct, frozen=True):
    writer: str
    version: int
    steps: list[ToldStep]


class _Times(msgspec.Struct, frozen=True):
    writer: str
    version: int
    steps: list[Bare]


_TOLD_STEPS = msgspec.json.Decoder(Enveloped[_ToldSteps])
_TIMES = msgspec.json.Decoder(Enveloped[_Times])


def read_told_steps(payload: bytes, seq: int) -> Sequence[ToldStep]:
    """Return the steps in the commit of the slice-aggregator at *seq*; none if somebody else wrote it.

    Raises:
        CommitDecodeError: the bytes are broken, or of later code.
    """
    try:
        message = _TOLD_STEPS.decode(payload)
    except UNREADABLE:
        message = None
    if message is None or message.data.version != VERSIONS.get("slices", 1):
        whole = decode_commit(payload, "slices", seq).steps
        return msgspec.json.decode(msgspec.json.encode(whole), type=list[ToldStep])
    steps = message.data.steps
    return steps if fits(message, message.data.writer, "slices", seq, steps) else ()


def read_times(payload: bytes, owner: str, seq: int) -> Sequence[Bare]:
    """Return when the steps in the commit of *owner* at *seq* were decided; else as `read_told_steps`."""
    try:
        message = _TIMES.decode(payload)
    except UNREADABLE:
        return [Bare(step.upto, step.at) for step in decode_commit(payload, owner, seq).steps]
    steps = message.data.steps
    return steps if fits(message, message.data.writer, owner, seq, steps) else ()


def process_of(payload: bytes) -> bytes:
    """Return which process wrote a commit, as its message's id says: `<writer>-<head>-<process>`."""
    start = payload.find(b'"id":"') + 6
    return payload[start : payload.find(b'"', start)].split(b"-", 2)[-1]


__all__ = ["Bare", "Told", "process_of", "read_times", "read_told_steps"]
