"""One service in a virtual cell: the machine that decides, what it has heard of, and when it is to decide."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from sluice.events.base import Micros
from sluice.events.commit import Step
from sluice.log.contract import Entry
from sluice.log.decider import Decider
from sluice.log.fold import Fold
from sluice.log.runtime.replica import Replica
from sluice.replay.source.source import Matcher
from sluice.replay.verify.whole_log import Checked

from .recorded_timing import Position, Tempo

Call = tuple[Micros, Position, int, int]
"""When a service is to decide, what it has heard by then, its order, and the recorded step or -1."""

Said = Sequence[Step] | bytes
"""What a message says: the steps of a commit, as nothing is encoded here; or what came from outside."""

_NEVER = 1 << 62


def entry_of(seq: int, suffix: str, at: Micros, said: Said) -> Entry:
    """Return a message as a service here folds it. *at*: when the log took it."""
    return Entry(seq, suffix, at, said)  # type: ignore[arg-type]


_steps_of: Callable[[Entry], Sequence[Step]] = attrgetter("payload")


@dataclass
class Side:
    """One service: production's own machine (`sluice.log.runtime.replica`), which hears of things when it is
    told."""

    decider: Decider[Any]
    replica: Replica[Any] = field(init=False)
    order: int = 0
    inbox: deque[tuple[Position, Entry]] = field(default_factory=deque)
    """What it has not folded yet in a free run; while a log is followed, its fold holds that back."""
    called: set[Call] = field(default_factory=set)
    """When it is to decide; only asked for members."""
    latest: int = -1
    """The recorded step at which it was last called to decide."""
    tempo: Tempo = field(default_factory=Tempo)
    checked: Checked = field(init=False)
    """What deciding the followed steps again came to."""

    def __post_init__(self) -> None:
        self.replica = Replica(self.decider, lambda _: False, mark_inputs=_NEVER)
        self.replica.begin(Fold(self.decider, decode=_steps_of))
        self.checked = Checked(self.decider.writer)
        self.reads = Matcher(tuple(self.decider.reads))

    @property
    def fold(self) -> Fold[Any]:
        return self.replica.fold

    @property
    def state(self) -> Any:
        return self.replica.fold.state


__all__ = ["Said", "Side", "entry_of"]
