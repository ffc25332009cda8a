"""Size of a step: it is written as one message, and the server takes none of more than 8 MiB.

A decider decides for one thing after the other (a job, a family, a workload, a queue). It takes as many of
them into a step as there is room for; those that are left it finds again when it is asked for the next one:

    room = Room()
    for found in ...:
        if not room.takes(found):
            break
        events += found

What must stand in one step never is too large for it. What can be, is taken in parts.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from sluice.events.base import Event

MOST = 6 * 1024 * 1024
"""Bytes of the events of a step, as they are written."""

_ENCODER: Final = msgspec.json.Encoder()


def fits(events: Sequence[Event]) -> bool:
    """Tell whether *events* are no more than a step may hold."""
    return _size(events) <= MOST


def _size(events: Sequence[Event]) -> int:
    """Return how many bytes of a message *events* take."""
    return len(_ENCODER.encode(events))


class Room:
    """The room that is left in a step."""

    __slots__ = ("_left", "_most")

    def __init__(self) -> None:
        self._left = self._most = MOST

    @property
    def is_empty(self) -> bool:
        """Is nothing in the step yet?"""
        return self._left == self._most

    def takes(self, events: Sequence[Event]) -> bool:
        """Take *events*, which belong together, into the step; False if they must go into another one.

        Whatever comes first is taken.
        """
        size = _size(events)
        if size > self._left and not self.is_empty:
            return False
        self._left -= size
        return True

    def part(self, events: Sequence[Event]) -> Sequence[Event]:
        """As `takes`, but of what comes first no more than fits, one at least. Returns what was taken.

        For events that may stand in several steps: those left are found again once these have been folded.
        """
        if not self.is_empty or _size(events) <= self._left:
            return events if self.takes(events) else ()
        for count, event in enumerate(events):
            if not self.takes((event,)):
                return events[:count]
        return events
