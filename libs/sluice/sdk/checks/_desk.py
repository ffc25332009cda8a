"""State that the parts of the check machine share: the time, alarms, counting, and what is to be done."""

from collections.abc import Callable
from typing import NamedTuple

from sluice.events.base import Micros

from ._actions import Action
from ._alarms import Alarm, Alarms


class Moment(NamedTuple):
    """When the machine is told something. `now`: seconds that only grow; `wall`: time of day."""

    now: float
    wall: Micros


class Desk:
    def __init__(self) -> None:
        self.now, self.wall = 0.0, 0
        self.alarms = Alarms()
        self._out: list[Action] = []
        self._numbers = 0
        self.closed = False
        """Nothing is done any more."""

    def at(self, moment: Moment) -> None:
        self.now, self.wall = max(self.now, moment.now), moment.wall

    def number(self) -> int:
        """Return a number that was not used before."""
        self._numbers += 1
        return self._numbers

    def do(self, action: Action) -> None:
        if not self.closed:
            self._out.append(action)

    def later(self, delay_s: float, what: Callable[[], None]) -> Alarm:
        return self.alarms.set(self.now + delay_s, what)

    def take(self) -> list[Action]:
        """Return what is to be done now."""
        out, self._out = self._out, []
        return out

    def close(self) -> None:
        self.closed = True
        self._out.clear()
        self.alarms.clear()
