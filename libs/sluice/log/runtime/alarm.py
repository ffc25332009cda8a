"""The timer of a shell round a machine: it rings when the machine's deadline has come."""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

__all__ = ["Alarm", "Handle"]


class Handle(Protocol):
    def cancel(self) -> None: ...


CallAt = Callable[[float, Callable[[], None]], Handle]
"""Call a function once the time is there, in seconds of a clock that only grows."""


def _call_at(when: float, function: Callable[[], None]) -> Handle:
    return asyncio.get_running_loop().call_later(max(0.0, when - time.monotonic()), function)


class Alarm:
    """Calls *ring* at the deadline, wherever it moves. *call_at*: of another clock than `time.monotonic`."""

    def __init__(self, ring: Callable[[], None], call_at: CallAt = _call_at) -> None:
        self._ring, self._call_at = ring, call_at
        self._due: float | None = None
        self._timer: Handle | None = None

    def set(self, due: float | None) -> None:
        """Ring at *due*, and no more at what was set before; None: not at all."""
        if due == self._due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        self._timer = None if due is None else self._call_at(due, self._rung)

    def _rung(self) -> None:
        self._due = self._timer = None
        self._ring()
