"""State that the parts of an executor share: the time, alarms, open questions, and what is to be done."""

import heapq
from collections.abc import Callable

from .actions import Action, Answer, Ask, Request

Then = Callable[[Answer], None]


class Desk:
    """Times are seconds of any clock that never goes back."""

    def __init__(self) -> None:
        self.now = 0.0
        self._out: list[Action] = []
        self._open: dict[int, Then] = {}
        self._numbers = 0
        self._alarms: list[tuple[float, int, Callable[[], None]]] = []
        self.closed = False
        """Nothing is asked or done any more."""

    def number(self) -> int:
        """Return a number that was not used before."""
        self._numbers += 1
        return self._numbers

    def ask(self, request: Request, then: Then) -> None:
        """Ask, and go on with *then* once there is an answer."""
        if not self.closed:
            number = self.number()
            self._open[number] = then
            self._out.append(Ask(number, request))

    def do(self, action: Action) -> None:
        if not self.closed:
            self._out.append(action)

    def later(self, delay_s: float, what: Callable[[], None]) -> None:
        """Do *what* after *delay_s* seconds."""
        heapq.heappush(self._alarms, (self.now + delay_s, self.number(), what))

    def close(self) -> None:
        self.closed = True
        self._open.clear()
        self._alarms.clear()

    # for the machine

    def at(self, now: float) -> None:
        self.now = max(self.now, now)

    def answered(self, number: int, answer: Answer) -> None:
        then = self._open.pop(number, None)
        if then is not None:
            then(answer)

    def ring(self) -> None:
        """Do what is due."""
        while self._alarms and self._alarms[0][0] <= self.now:
            heapq.heappop(self._alarms)[2]()

    @property
    def deadline(self) -> float | None:
        return self._alarms[0][0] if self._alarms else None

    def take(self) -> list[Action]:
        """Return what is to be done now."""
        out, self._out = self._out, []
        return out
