"""A log decided anew from some of its inputs: the same sequences and moments, other events.

Every step of the log is decided again at its place and time, from what is left of the inputs. What comes out
is a log that decides itself again by the same code (`verify`), with gaps where nothing was left.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from sluice.events.base import Micros
from sluice.events.codec import encode_commit, message_id_of
from sluice.events.commit import Step
from sluice.log.contract import Entry
from sluice.log.fold import steps_of
from sluice.protocol.subjects import COMMITS
from sluice.replay.simulate.decider_host import Said, Side, entry_of
from sluice.replay.source.partial_decode import Bare, read_times
from sluice.replay.source.time_travel import deciders

Keep = Callable[[Entry], Entry | None]
"""Returns an input as it is to be, None to leave it out."""

_ALWAYS: Micros = 1 << 62


class Services:
    """The deciders of a log, each of which hears what the others say when the log tells that it had."""

    def __init__(self, writers: Iterable[str] = COMMITS) -> None:
        self._sides = {decider.writer: Side(decider) for decider in deciders() if decider.writer in writers}
        self._readers: dict[str, list[Side]] = {}
        self._rests: dict[str, Micros] = {}
        """Who has nothing to decide before a time, unless it hears of something."""

    def hear(self, seq: int, suffix: str, taken: Micros, said: Said) -> None:
        """Keep a message for all who read it. *taken*: when the log took it."""
        entry = entry_of(seq, suffix, taken, said)
        root = "job." if suffix.startswith("job.") else suffix
        readers = self._readers.get(root)
        if readers is None:
            sides = self._sides.items()
            readers = [side for writer, side in sides if writer != suffix and side.reads(suffix)]
            self._readers[root] = readers
        for side in readers:
            side.fold.held.append(entry)

    def decide(self, writer: str, turns: Iterable[Bare]) -> list[Step]:
        """Return what one of them decides at some moments, from what it had heard of by then."""
        side = self._sides[writer]
        fold, found = side.fold, []
        held = fold.held
        for turn in turns:
            upto, at = turn.upto, turn.at
            if held and held[0][0] <= upto:
                fold.release(upto)
            elif at < self._rests.get(writer, 0):
                continue
            self._rests.pop(writer, None)
            events = tuple(side.decider.decide(fold.state, at))
            if not events:
                deadline = side.decider.deadline(fold.state)
                self._rests[writer] = _ALWAYS if deadline is None else deadline
                continue
            step = Step(upto=upto, at=at, events=events)
            fold.apply_own(step)
            found.append(step)
        return found


def redecided(entries: Iterable[Entry], keep: Keep, cell: str = "main") -> Iterator[Entry]:
    """Yield the log that would have come of the inputs that *keep* leaves, in order."""
    services = Services()
    for entry in entries:
        if entry.suffix in COMMITS and entry.suffix != "config":
            steps = services.decide(entry.suffix, read_times(entry.payload, entry.suffix, entry.seq))
            if steps:
                services.hear(entry.seq, entry.suffix, entry.at, steps)
                yield rewritten(entry, steps, cell)
            continue
        kept = keep(entry)
        if kept is not None:
            services.hear(kept.seq, kept.suffix, kept.at, said_by(kept))
            yield kept


def rewritten(entry: Entry, steps: Sequence[Step], cell: str) -> Entry:
    """Return a commit with other steps."""
    return entry._replace(payload=encode_commit(cell, entry.suffix, message_id_of(entry.payload), steps))


def said_by(entry: Entry) -> Said:
    """Return what an input says: a commit of configuration, or a message from outside."""
    return steps_of(entry) if entry.suffix in COMMITS else entry.payload
