"""Machinery of `invariants`: observers that look at a fold."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluice.events.base import Event, Micros
from sluice.events.catalogue import writer_of
from sluice.events.commit import Step
from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.fold import Fold
from sluice.replay.source.source import Source
from sluice.replay.source.time_travel import Progress, patterns_of, tracked

from .observer import STOOD, Look, Observer


@dataclass(frozen=True)
class Violation:
    """`seq`: of the message whose events broke it."""

    invariant: str
    seq: int
    at: Micros
    text: str


NEVER: Micros = 1 << 62


@dataclass
class Watched:
    """A decider whose fold observers look at. Whoever folds asks for `found` and empties it."""

    inner: Decider[Any]
    observers: list[Observer]
    found: list[tuple[str, int, Micros, str]] = field(default_factory=list)
    """(invariant, sequence or 0 for an own event, time, text)."""
    _hear: dict[type[Event], list[tuple[Observer, Look]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.writer, self.reads = self.inner.writer, self.inner.reads
        self.initial = self.inner.initial
        # Most deciders have nobody who wants to look at what stands still.
        self._patient = [o for o in self.observers if type(o).stood is not Observer.stood]
        # Nor at what a step leads to: most want to hear of single events.
        self._of_steps = [o for o in self.observers if type(o).settled is not Observer.settled]
        self._folded = self._seq = 0
        self._at = self._due = NEVER
        for observer in self.observers:
            for kind, look in observer.heard():
                self._hear.setdefault(kind, []).append((observer, look))

    def apply(self, state: Any, event: Event, seq: int, at: Micros) -> None:
        if at >= self._due:
            self._look_patiently(state)
        self.inner.apply(state, event, seq, at)
        if self._patient:
            self._folded += 1
            self._seq, self._at, self._due = seq, at, at + STOOD
        hear = self._hear.get(type(event))
        if hear is None:
            return
        for observer, look in hear:
            observer.at = at
            for text in look(state, event) or ():
                own = writer_of(type(event)) == self.writer
                self.found.append((observer.name, 0 if own else seq, at, text))

    def _look_patiently(self, state: Any) -> None:
        """Let them look at the state before the event that ends a long time without any."""
        for observer in self._patient:
            texts = observer.stood(state, self._folded)
            self.found += [(observer.name, self._seq, self._at, text) for text in texts]

    def settle(self, state: Any, seq: int, at: Micros) -> None:
        """Let the observers look at the state behind a step."""
        for observer in self._of_steps:
            self.found += [(observer.name, seq, at, text) for text in observer.settled(state)]

    def end(self, state: Any, seq: int, at: Micros) -> None:
        """Let the observers look at the last state."""
        for observer in self.observers:
            self.found += [(observer.name, seq, at, text) for text in observer.ended(state)]


class Listener:
    """Takes part in a pass over a log without looking at single events."""

    def came(self, entries: Sequence[Entry]) -> None:
        """Hear of what is about to be folded or held back."""

    def decided(self, seq: int, step: Step) -> None:
        """Hear of an own step, just folded."""

    def ended(self, fold: Fold[Any]) -> None:
        """Look at where the log ends, before what is held back there is folded."""


def _watched_from(source: Source, watched: Watched) -> Fold[Any]:
    """Return where to begin: with a base, if the log was cut, whose state the observers see first."""
    begun = source.base(watched.inner)
    if begun is None:
        return Fold(watched)  # type: ignore[arg-type]
    fold: Fold[Any] = Fold(watched, begun.state, begun.upto)  # type: ignore[arg-type]
    fold.at, fold.own, fold.after = begun.at, begun.own, begun.after
    for observer in watched.observers:
        observer.begun(fold.state)
    return fold


def violations_in(
    source: Source, watched: Watched, listener: Listener, progress: Progress | None
) -> Iterator[Violation]:
    fold: Fold[Any] = _watched_from(source, watched)
    for entries in tracked(source.read(fold.start, None, patterns_of(watched.inner)), progress):
        listener.came(entries)
        for seq, step in fold.take_in(entries):
            listener.decided(seq, step)
            watched.settle(fold.state, seq, step.at)
            if watched.found:
                yield from _taken(watched, seq)
    listener.ended(fold)
    fold.release()
    watched.end(fold.state, source.end, fold.at)
    yield from _taken(watched, source.end)


def _taken(watched: Watched, own: int) -> Iterator[Violation]:
    """Yield what was found since the last step; *own*: the sequence of that step's commit."""
    yield from (Violation(name, seq or own, at, text) for name, seq, at, text in watched.found)
    watched.found.clear()
