"""The shape of an invariant that is looked at event by event; `invariants` has those that there are."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from sluice.events.base import Event
from sluice.log.decider import Decider


class Observer:
    """One invariant. `hears`: what it wants to hear of, and who is told; texts say what is wrong."""

    name: ClassVar[str]
    decider: ClassVar[type[Decider[Any]]]

    def hears(self) -> Mapping[type[Event], Callable[[Any, Any], Iterable[str]]]:
        raise NotImplementedError

    def settled(self, state: Any) -> Iterable[str]:  # noqa: ARG002
        """Look at the state behind a whole step."""
        return ()

    def ended(self, state: Any) -> Iterable[str]:
        """Look at the state where the log ends."""
        return self.settled(state)


__all__ = ["Observer"]
