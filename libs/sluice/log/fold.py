"""Folding a log into a state, in the order in which the leader saw it. Pure: no clock, no network.

A decider's own events count at their step's `upto`, so inputs are held back until the next own step says
how many of them came before it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from sluice.core.decision_loop import step as decide_step
from sluice.events.base import Event, Micros
from sluice.events.codec import decode_commit
from sluice.events.commit import Step
from sluice.events.envelope import Message
from sluice.protocol.subjects import COMMITS

from .contract import Entry
from .decider import Decider
from .errors import EventLogError

__all__ = ["Fold", "FoldError", "steps_of"]


class FoldError(EventLogError):
    """An entry that cannot be folded; `seq` and `event` say which."""

    def __init__(self, decider: str, seq: int, suffix: str, event: str, detail: str) -> None:
        super().__init__(f"{decider}: {suffix} at seq {seq}{f', {event}' if event else ''}: {detail}")
        self.seq, self.suffix, self.event = seq, suffix, event


def steps_of(entry: Entry) -> Sequence[Step]:
    """Return the steps of a commit; raises ValueError."""
    return decode_commit(entry.payload, entry.suffix, entry.seq).steps


class Fold[S]:
    """A state and how far it has come. The leader folds at once, everybody else holds back.

    >>> from pathlib import Path
    >>> from sluice.core.scheduler.decider import Scheduler
    >>> from sluice.replay.source.source import FileSource
    >>> log = FileSource(Path("incident.jsonl"))
    >>> fold, held = Fold(Scheduler()), []
    >>> for entries in log.read(patterns=[Scheduler.writer, *Scheduler.reads]):
    ...     for seq, step in fold.take_in(entries):  # the state is as of this step
    ...         held.append(sum(w.assignment is not None for w in fold.state.world.workloads.values()))
    >>> max(held), sorted(fold.state.world.cluster_queues)
    (4, ['research', 'serving'])
    """

    def __init__(
        self,
        decider: Decider[S],
        state: S | None = None,
        upto: int = 0,
        *,
        decode: Callable[[Entry], Sequence[Step]] = steps_of,
    ) -> None:
        """*decode*: the steps of a commit; raises ValueError when it cannot be read."""
        self.decider = decider
        self._steps_of = decode
        self.state: S = decider.initial() if state is None else state
        self.upto = upto
        """Sequence of the last input folded."""
        self.after = 0
        """Everything up to here that is to be read is in the state, also where `upto` is far less: nothing
        else in between was for this decider."""
        self.at: Micros = 0
        """Latest time folded or decided at."""
        self.own = 0
        """Sequence of the last own commit folded."""
        self.folded = 0
        """Events folded, own ones included."""
        self.held: deque[Entry] = deque()
        self._commits = frozenset(COMMITS)

    @property
    def start(self) -> int:
        """The first sequence of the log that is still to be read."""
        place = min(self.upto, self.own or self.upto)
        return max(place, self.after) + 1

    def take_in(self, entries: Iterable[Entry]) -> Iterator[tuple[int, Step]]:
        """Fold as a stand-by: hold inputs back, fold own commits; yields own steps with their commit's seq.

        The state is exactly as of the step while it is yielded.
        """
        writer = self.decider.writer
        for entry in entries:
            if entry.suffix != writer:
                if entry.seq > self.upto:
                    self.held.append(entry)
                continue
            if entry.seq <= self.own:
                continue
            for step in self._decode(entry):
                self.release(step.upto)
                self.apply_own(step)
                yield entry.seq, step
            self.own = entry.seq

    def release(self, upto: int | None = None) -> None:
        """Fold the inputs held back, up to *upto*, or all."""
        held = self.held
        while held and (upto is None or held[0].seq <= upto):
            self.fold(held.popleft())
        if upto is not None and upto > self.upto:
            self.upto = upto

    def fold(self, entry: Entry) -> None:
        """Fold one input now."""
        seq, suffix, at, payload, _ = entry
        apply, state = self.decider.apply, self.state
        event: Event | None = None
        try:
            if suffix in self._commits:
                for step in self._steps_of(entry):
                    at = step.at
                    for event in step.events:
                        apply(state, event, seq, at)
                    self.folded += len(step.events)
                    if at > self.at:
                        self.at = at
            else:
                event = Message(subject=suffix, payload=payload)
                apply(state, event, seq, at)
                self.folded += 1
                if at > self.at:
                    self.at = at
        except FoldError:
            raise
        except Exception as error:
            if event is None:
                raise FoldError(self.decider.writer, seq, suffix, "", str(error)) from error
            name = type(event).__name__
            raise FoldError(self.decider.writer, seq, suffix, name, repr(error)) from error
        self.upto = seq

    def decide(self, at: Micros) -> Step | None:
        """Decide once, as of everything folded, and fold the step; None when there is nothing to decide."""
        events = decide_step(self.decider, self.state, self.upto, at)
        if not events:
            return None
        self.folded += len(events)
        self.at = max(self.at, at)
        return Step(upto=self.upto, at=at, events=events)

    def apply_own(self, step: Step) -> None:
        """Fold a step of our own, just decided or read back."""
        apply, state, upto, at = self.decider.apply, self.state, step.upto, step.at
        for event in step.events:
            apply(state, event, upto, at)
        self.folded += len(step.events)
        if at > self.at:
            self.at = at

    def _decode(self, entry: Entry) -> Sequence[Step]:
        try:
            return self._steps_of(entry)
        except ValueError as error:
            raise FoldError(self.decider.writer, entry.seq, entry.suffix, "", str(error)) from error


def replay[S](decider: Decider[S], entries: Iterable[Entry], fold: Fold[S] | None = None) -> Fold[S]:
    """Return what the log makes of a decider: its state after all of *entries*, settled or not.

    *fold*: where to go on from. Entries of subjects that the decider does not read must be left out.
    """
    fold = fold or Fold(decider)
    for _ in fold.take_in(entries):
        pass
    fold.release()
    return fold
