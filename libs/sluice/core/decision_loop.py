"""The loop around a decider without input or output: decide, fold what was decided, until nothing follows.

for step in settle(decider, state, upto, at): ...       # each has been folded when it is yielded
"""

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Protocol

from sluice.events.base import Event, Micros
from sluice.events.commit import Step

__all__ = ["MOST_STEPS", "step"]

MOST_STEPS = 1000
"""Steps after which somebody goes round in circles; a settled state needs few."""


class Settling[S](Protocol):
    """What of a decider (`sluice.log.decider.Decider`) the loop needs."""

    writer: ClassVar[str]

    def apply(self, state: S, event: Event, seq: int, at: Micros) -> None:
        """Fold one event."""

    def decide(self, state: S, at: Micros) -> Sequence[Event]:
        """Return the next events, () when settled."""


class NotSettledError(Exception):
    """A decider that finds something to decide for ever; `events` are those of its last step."""

    def __init__(self, writer: str, events: Sequence[Event]) -> None:
        named = ", ".join(f"{type(e).__name__} {getattr(e, 'workload', '')}".rstrip() for e in events[:5])
        super().__init__(f"{writer} does not settle: {named}")
        self.writer, self.events = writer, events


def step[S](
    decider: Settling[S],
    state: S,
    upto: int,
    at: Micros,
    folded: Callable[[Event], None] | None = None,
) -> tuple[Event, ...]:
    """Decide once, fold what was decided, and return it; () when there is nothing to decide.

    *upto*: the last input that the state has seen. *folded*: told each event once it has been folded.
    """
    events = tuple(decider.decide(state, at))
    apply = decider.apply
    for event in events:
        apply(state, event, upto, at)
        if folded is not None:
            folded(event)
    return events


def settle[S](
    decider: Settling[S],
    state: S,
    upto: int,
    at: Micros,
    *,
    most: int = MOST_STEPS,
    folded: Callable[[Event], None] | None = None,
) -> Iterator[Step]:
    """Yield step by step what follows, each once it has been folded, until nothing more does.

    Raises:
        NotSettledError: after *most* steps.
    """
    events: tuple[Event, ...] = ()
    for _ in range(most):
        events = step(decider, state, upto, at, folded)
        if not events:
            return
        yield Step(upto=upto, at=at, events=events)
    raise NotSettledError(decider.writer, events)
