"""The shape of an invariant that is looked at event by event; `invariants` has those that there are."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from sluice.events.base import Event, Micros
from sluice.log.decider import Decider

STOOD: Micros = 5_000_000


class Observer(ABC):
    """One invariant. `hears`: what it wants to hear of, and who is told; texts say what is wrong."""

    name: ClassVar[str]
    decider: ClassVar[type[Decider[Any]]]

    @abstractmethod
    def hears(self) -> Mapping[type[Event], Callable[[Any, Any], Iterable[str]]]:
        """Return kinds of events, each with what is asked when one has been folded."""

    def settled(self, state: Any) -> Iterable[str]:  # noqa: ARG002
        """Look at the state behind a whole step."""
        return ()

    def stood(self, state: Any, folded: int) -> Iterable[str]:  # noqa: ARG002
        """Look at a state in which nothing happened for `STOOD`; *folded*: how many events led to it."""
        return ()

    def ended(self, state: Any) -> Iterable[str]:
        """Look at the state where the log ends."""
        return self.settled(state)


__all__ = ["STOOD", "Observer"]
