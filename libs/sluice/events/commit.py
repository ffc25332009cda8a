"""Commits: what a service writes to the log, one message per commit, never one per event."""

from typing import TYPE_CHECKING, Union

import msgspec

from .base import Event, Micros
from .catalogue import EVENTS

__all__ = ["AnyEvent", "Commit", "Step"]

if TYPE_CHECKING:
    AnyEvent = Event
else:
    # The decoder needs the closed union: it finds the struct by its tag.
    AnyEvent = Union[tuple(EVENTS.values())]  # noqa: UP007


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One decision: what one call of `decide` returned.

    `upto` is the last log sequence folded before it, `at` its time. A step without events only says how
    far its writer has come.
    """

    upto: int
    at: Micros
    events: tuple[AnyEvent, ...] = ()


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """Steps that land together or not at all. `version` is that of the writer's events.

    `since`: the oldest release that may go on from here, "" for every one.
    """

    writer: str
    version: int
    steps: tuple[Step, ...]
    since: str = ""
