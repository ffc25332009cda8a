"""The shape of an invariant that is looked at event by event; `invariants` has those that there are."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, get_args

from sluice.events.base import Event, Micros
from sluice.log.decider import Decider

STOOD: Micros = 5_000_000

Look = Callable[[Any, Any], Iterable[str] | None]


def hears[F: Callable[..., Iterable[str] | None]](look: F) -> F:
    """Let a method hear of each event that its last parameter may be, once that has been folded."""
    *_, kinds = (kind for name, kind in look.__annotations__.items() if name != "return")
    look.kinds = get_args(kinds) or (kinds,)  # type: ignore[attr-defined]
    return look


class Observer:
    """One invariant. Its methods that are marked as `hears` say in texts what is wrong, or only take note."""

    name: ClassVar[str]
    decider: ClassVar[type[Decider[Any]]]
    at: Micros = 0
    """The time of the event that it hears of."""

    def heard(self) -> Iterator[tuple[type[Event], Look]]:
        """Yield kinds of events, each with what is asked when one has been folded."""
        for name in dir(self):
            look = getattr(self, name)
            for kind in getattr(look, "kinds", ()):
                yield kind, look

    def begun(self, state: Any) -> None:
        """Look at the state with which a log begins that was cut: what was before is not heard of."""

    def settled(self, state: Any) -> Iterable[str]:  # noqa: ARG002
        """Look at the state behind a whole step."""
        return ()

    def stood(self, state: Any, folded: int) -> Iterable[str]:  # noqa: ARG002
        """Look at a state in which nothing happened for `STOOD`; *folded*: how many events led to it."""
        return ()

    def ended(self, state: Any) -> Iterable[str]:
        """Look at the state where the log ends."""
        return self.settled(state)
