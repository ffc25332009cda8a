"""All deciders on one log in memory, folding and deciding as their runners let them, given one more message.

The cell has a job that runs, and one whose check has not been answered, so that reports and verdicts are of
something.
"""

from functools import cache
from typing import Any

from sluice.core.deciders import DECIDERS
from sluice.events.base import Event
from sluice.events.codec import encode_commit
from sluice.log.contract import Entry
from sluice.log.fold import Fold, replay
from sluice.protocol.subjects import matches_any

from .checked_cell import checked_cell
from .verify import entries_for

ROUNDS = 50
"""In which services hear of each other; more would be a circle."""


class NotSettledError(Exception):
    """The services go round in circles."""


@cache
def _beginning() -> tuple[tuple[Entry, ...], tuple[tuple[Any, bytes], ...]]:
    """Return a log, and of each decider its state there, packed."""
    cell = checked_cell("c", quota=2)
    cell.submit("a").submit("b").settle()
    cell.say("a", "c", "Ready").settle()
    deciders = [kind() for kind in DECIDERS]
    states = [decider.dump(replay(decider, entries_for(decider, cell.log)).state) for decider in deciders]
    return tuple(cell.log), tuple(zip(deciders, states, strict=True))


def heard(suffix: str, payload: bytes) -> list[Event]:
    """Return what the services decide when the message comes, until nobody has anything to say.

    Raises:
        EventLogError: one of them cannot fold it, which is said of forged commits only.
    """
    before, states = _beginning()
    at = before[-1].at + 1
    log = [Entry(len(before) + 1, suffix, at, payload)]
    folds = [Fold(decider, decider.load(state), len(before)) for decider, state in states]
    said: list[Event] = []
    for _ in range(ROUNDS):
        quiet = True
        for fold in folds:
            for entry in log:
                if entry.seq > fold.upto and matches_any(fold.decider.reads, entry.suffix):
                    fold.fold(entry)
            while (step := fold.decide(at)) is not None:
                writer, seq = fold.decider.writer, log[-1].seq + 1
                log.append(Entry(seq, writer, at, encode_commit("main", writer, f"{writer}-{seq}", [step])))
                said += step.events
                quiet = False
        if quiet:
            return said
    raise NotSettledError(suffix)
