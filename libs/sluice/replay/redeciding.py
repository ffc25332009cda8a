"""A log decided anew from some of its inputs: the same sequences and moments, other events.

Every step of the log is decided again at its place and time, from what is left of the inputs. What comes out
is a log that decides itself again by the same code (`verify`), with gaps where nothing was left.
"""

from collections.abc import Callable, Iterable, Iterator

from sluice.events.base import Event, Micros
from sluice.events.codec import decode_commit, encode_commit, message_id_of
from sluice.events.commit import Step
from sluice.events.envelope import Message
from sluice.log.contract import Entry
from sluice.log.subjects import COMMITS

from .states import deciders
from .virtual import Side

Keep = Callable[[Entry], Entry | None]
"""Returns an input as it is to be, None to leave it out."""


def redecided(entries: Iterable[Entry], keep: Keep, cell: str = "main") -> Iterator[Entry]:
    """Yield the log that would have come of the inputs that *keep* leaves, in order."""
    sides = {decider.writer: Side(decider) for decider in deciders()}
    for entry in entries:
        side = sides.get(entry.suffix)
        if side is None:
            kept = keep(entry)
            if kept is None:
                continue
            said = _said(kept)
        else:
            steps = list(_again(side, entry))
            if not steps:
                continue
            payload = encode_commit(cell, entry.suffix, message_id_of(entry.payload), steps)
            kept = entry._replace(payload=payload)
            said = [(step.at, step.events) for step in steps]
        for other in sides.values():
            if other is not side and other.reads(entry.suffix):
                other.held += [(entry.seq, at, events, entry.at) for at, events in said]
        yield kept


def _again(side: Side, entry: Entry) -> Iterator[Step]:
    """Decide the steps of one commit, at their times, from what is known by then."""
    for step in decode_commit(entry.payload).steps:
        side.fold(step.upto)
        events = tuple(side.decider.decide(side.state, step.at))
        if events:
            for event in events:
                side.decider.apply(side.state, event, step.upto, step.at)
            yield Step(upto=step.upto, at=step.at, events=events)


def _said(entry: Entry) -> list[tuple[Micros, tuple[Event, ...]]]:
    if entry.suffix in COMMITS:
        return [(step.at, step.events) for step in decode_commit(entry.payload).steps]
    return [(entry.at, (Message(subject=entry.suffix, payload=entry.payload),))]


__all__ = ["Keep", "redecided"]
