"""Some messages of a log, ready to be decided again and again without some of its inputs.

lines = [commit_line(entry, steps), input_line(other, closure, cell), ...]
play(without(lines, units, cell), told, keys).same        # it stops at the first difference
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from sluice.events.base import Event, Micros
from sluice.events.codec import decode_commit, encode_commit, message_id_of
from sluice.events.commit import Step
from sluice.events.config import ObjectApplied, ObjectDeleted
from sluice.log.contract import Entry
from sluice.protocol.subjects import COMMITS, job_of
from sluice.replay.history.causes import of_message
from sluice.replay.simulate.decider_host import Said
from sluice.replay.source.partial_decode import Bare
from sluice.replay.source.time_travel import Progress

from .dependency_closure import Closure
from .redecide import Services, said_by

Unit = tuple[str, str]
"""What is left out as a whole: ("job", key), ("presence", subject), or ("config", kind/namespace/name)."""

Told = Mapping[int, bytes]
"""Sequence of a commit -> digest of what it says about somebody; a commit that says nothing is not in it."""

_Object = ObjectApplied | ObjectDeleted

STRIDE = 256
"""Lines between two reports of progress."""


class Line(NamedTuple):
    """A message: an input with what it says, or a commit with the moments of its steps."""

    seq: int
    suffix: str
    at: Micros
    payload: bytes
    """Of a service's commit only its id."""
    units: tuple[Unit, ...]
    """Of an input: what it belongs to; of configuration one for each of its objects."""
    said: Said
    turns: Sequence[Bare]


def commit_line(entry: Entry, steps: Sequence[Step]) -> Line:
    """Return a service's commit, of which only the moments are kept."""
    turns = [Bare(step.upto, step.at) for step in steps]
    return Line(entry.seq, entry.suffix, entry.at, message_id_of(entry.payload).encode(), (), (), turns)


def input_line(entry: Entry, closure: Closure, cell: str) -> Line | None:
    """Return an input; None if nothing in it can matter to the tree."""
    if entry.suffix in COMMITS:
        return _configuration(_plain(entry), closure.keeps_object, cell)
    unit = _unit(entry, closure)
    if unit[0] == "job" and not closure.holds(unit[1]):
        return None
    return Line(entry.seq, entry.suffix, entry.at, entry.payload, (unit,), said_by(entry), ())


def without(lines: Iterable[Line], units: Collection[Unit], cell: str) -> list[Line]:
    """Return the lines that are left without some units."""
    gone = frozenset(units)
    found = []
    for line in lines:
        if gone.isdisjoint(line.units):
            found.append(line)
        elif len(line.units) > 1 and (kept := _configuration(line, lambda e: _unit_of(e) not in gone, cell)):
            found.append(kept)
    return found


def _plain(entry: Entry) -> Line:
    return Line(entry.seq, entry.suffix, entry.at, entry.payload, (), (), ())


def _configuration(line: Line, keeps: Callable[[_Object], bool], cell: str) -> Line | None:
    """Return a commit of configuration with only the objects that are kept; None if none is."""
    steps = decode_commit(line.payload, line.suffix, line.seq).steps
    kept = [
        Step(upto=step.upto, at=step.at, events=events)
        for step in steps
        if (events := tuple(e for e in step.events if not isinstance(e, _Object) or keeps(e)))
    ]
    if not kept:
        return None
    payload = line.payload
    if [step.events for step in kept] != [step.events for step in steps]:
        payload = encode_commit(cell, line.suffix, message_id_of(payload), kept)
    units = tuple(_unit_of(e) for step in kept for e in step.events if isinstance(e, _Object))
    return line._replace(payload=payload, units=units, said=kept)


def _unit(entry: Entry, closure: Closure) -> Unit:
    job = job_of(entry.suffix)
    if job is not None:
        return ("job", job)
    if entry.suffix.startswith("verdict."):
        about = of_message(entry).data.get("workload", "")
        return ("job", closure.job_of.get(about, about))
    return ("presence", entry.suffix)


def _unit_of(event: _Object) -> Unit:
    return ("config", f"{event.kind}/{event.namespace}/{event.name}")


@dataclass
class Played:
    """What deciding some lines again came to."""

    same: bool = True
    """All that was said about somebody was said again, in its commit."""
    work: int = 0
    """Messages heard and events decided."""


def play(
    lines: Sequence[Line],
    told: Told,
    keys: frozenset[str],
    progress: Progress | None = None,
    *,
    write: Callable[[Line, Sequence[Step]], None] | None = None,
) -> Played:
    """Decide lines again; stops at the first commit that says something else about *keys* than *told*.

    *write* gets each input, and each commit with its new steps, if any are left; *progress* the work so far.
    """
    services = Services({line.suffix for line in lines if line.turns})
    found = Played()
    for number, line in enumerate(lines):
        if progress is not None and not number % STRIDE:
            progress(found.work)
        if not line.turns:
            found.work += 1
            services.hear(line.seq, line.suffix, line.at, line.said)
            if write is not None:
                write(line, ())
            continue
        steps = services.decide(line.suffix, line.turns)
        if digest(concerning(steps, keys), keys) != told.get(line.seq, b""):
            found.same = False
            return found
        if steps:
            found.work += sum(len(step.events) for step in steps)
            services.hear(line.seq, line.suffix, line.at, steps)
            if write is not None:
                write(line, steps)
    return found


def entry_of(line: Line, steps: Sequence[Step], cell: str) -> Entry:
    """Return a line as a message, with the steps of a commit."""
    payload = encode_commit(cell, line.suffix, line.payload.decode(), steps) if line.turns else line.payload
    return Entry(line.seq, line.suffix, line.at, payload)


def digest(events: Iterable[Event], keys: frozenset[str]) -> bytes:
    """Return what is the same for events that say the same about *keys*, but for causes; b"": no events."""
    found = None
    for event in events:
        found = found or hashlib.blake2b(digest_size=16)
        found.update(_ENCODER.encode(_bare(event, keys)))
    return b"" if found is None else found.digest()


def concerning(steps: Iterable[Step], keys: frozenset[str]) -> list[Event]:
    """Return the events about somebody in *keys*: jobs and workloads."""
    return [event for step in steps for event in step.events if speaks(event, keys)]


_ENCODER = msgspec.json.Encoder(order="deterministic")
_ONE = ("workload", "job", "preemptor", "parent", "by")
_SEVERAL = ("workloads", "victims")
_FIELDS: dict[type, tuple[tuple[str, ...], tuple[str, ...]]] = {}


def speaks(event: Any, keys: frozenset[str]) -> bool:
    """Tell whether an event is about somebody in *keys*."""
    kind = type(event)
    fields = _FIELDS.get(kind)
    if fields is None:
        known = kind.__struct_fields__
        fields = tuple(f for f in _ONE if f in known), tuple(f for f in _SEVERAL if f in known)
        _FIELDS[kind] = fields
    for name in fields[0]:
        about = getattr(event, name)
        if isinstance(about, str):
            if about in keys:
                return True
        elif about is not None:
            # The record of a workload that was made.
            job = about.job.key if about.job is not None else None
            if not keys.isdisjoint((about.key, about.parent, job)):
                return True
    return any(not keys.isdisjoint(getattr(event, name)) for name in fields[1])


def _bare(event: Any, keys: frozenset[str]) -> Event:
    """Return an event without its cause; of several workloads that it is about only *keys* count."""
    bare: Event = msgspec.structs.replace(event, cause=0)
    several = getattr(event, "workloads", None)
    if several is not None:
        bare = msgspec.structs.replace(bare, workloads=[key for key in several if key in keys])
    return bare
