"""How logs are damaged on purpose: events are left out, changed or added."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from sluice.events.base import Event
from sluice.events.codec import decode_commit, encode_commit
from sluice.events.commit import Step
from sluice.log.contract import Entry
from sluice.protocol.subjects import COMMITS

Damaged = tuple[list[Entry], int]
"""A log, and where it shows."""


def altered(entries: Sequence[Entry], change: Callable[[Event], Sequence[Event]]) -> list[Entry]:
    """Return the log with other events."""
    found = []
    for entry in entries:
        if entry.suffix in COMMITS:
            steps = [
                Step(upto=s.upto, at=s.at, events=tuple(new for event in s.events for new in change(event)))
                for s in decode_commit(entry.payload).steps
            ]
            entry = entry._replace(payload=encode_commit("main", entry.suffix, "x", steps))
        found.append(entry)
    return found


def events_of(entries: Sequence[Entry]) -> Iterator[tuple[int, Event]]:
    for entry in entries:
        if entry.suffix in COMMITS:
            for step in decode_commit(entry.payload).steps:
                yield from ((entry.seq, event) for event in step.events)


def first(entries: Sequence[Entry], kind: type[Event], number: int = 0) -> tuple[int, Any]:
    return [(seq, event) for seq, event in events_of(entries) if isinstance(event, kind)][number]


def replaced(entries: Sequence[Entry], old: Event, *new: Event) -> list[Entry]:
    """Return the log with other events in the place of one."""
    return altered(entries, lambda event: new if event == old else (event,))


def without(entries: Sequence[Entry], gone: Event) -> list[Entry]:
    return replaced(entries, gone)


def followed(entries: Sequence[Entry], after: Event, *more: Event) -> list[Entry]:
    return replaced(entries, after, after, *more)


def lacking(entries: Sequence[Entry], kind: type[Event], number: int = 0) -> Damaged:
    """Leave out the first event of a kind, or the one of that number."""
    seq, gone = first(entries, kind, number)
    return without(entries, gone), seq


def edited(entries: Sequence[Entry], kind: type[Event], number: int = 0, **fields: Any) -> Damaged:
    """Let the first event of a kind, or the one of that number, say something else."""
    seq, event = first(entries, kind, number)
    return replaced(entries, event, msgspec.structs.replace(event, **fields)), seq
