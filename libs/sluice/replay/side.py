"""One decider in a virtual cell: its state, what it has heard of, and when it is to decide."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sluice.events.base import Event, Micros
from sluice.log.decider import Decider

from .checking import Checked
from .source import Matcher
from .tempo import Position, Tempo

Call = tuple[Micros, Position, int, int]
"""When a service is to decide, what it has heard by then, its order, and the recorded step or -1."""

Said = tuple[int, Micros, Sequence[Event], Micros]
"""A message as a decider folds it: sequence, time, events; and when the log took it."""


@dataclass
class Side:
    """One decider and its state. `held`: what it has not folded yet, while a log is followed."""

    decider: Decider[Any]
    state: Any = field(init=False)
    order: int = 0
    held: deque[Said] = field(default_factory=deque)
    upto: int = 0
    inbox: deque[tuple[Position, int, Micros, Sequence[Event]]] = field(default_factory=deque)
    """What it has not folded yet in a free run."""
    called: set[Call] = field(default_factory=set)
    """When it is to decide; only asked for members."""
    latest: int = -1
    """The recorded step at which it was last called to decide."""
    tempo: Tempo = field(default_factory=Tempo)
    checked: Checked = field(init=False)
    """What deciding the followed steps again came to."""

    def __post_init__(self) -> None:
        self.state = self.decider.initial()
        self.checked = Checked(self.decider.writer)
        self.reads = Matcher(tuple(self.decider.reads))

    def fold(self, upto: int | None = None) -> None:
        """Fold what is held back, up to a sequence, or all."""
        apply, state, held = self.decider.apply, self.state, self.held
        while held and (upto is None or held[0][0] <= upto):
            seq, at, events, _ = held.popleft()
            for event in events:
                apply(state, event, seq, at)
        self.upto = max(self.upto, upto or 0)


__all__ = ["Call", "Said", "Side"]
