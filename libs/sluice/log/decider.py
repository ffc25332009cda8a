"""The shape of all services: fold events, decide, repeat."""

from collections.abc import Sequence
from typing import ClassVar, Protocol

from sluice.events.base import Event, Micros


class Decider[S](Protocol):
    """Pure: same events in, same decisions out, on any machine, for ever (law 2).

    Two deciders in one process share nothing; all that one remembers is in its state.
    """

    writer: ClassVar[str]
    """Its subject after the cell: "scheduler"."""
    reads: ClassVar[frozenset[str]]
    """Patterns of the subjects it folds beside its own: "config", "job.>"."""
    state_version: ClassVar[int]
    """Goes up whenever old snapshots cannot be loaded, or would decide otherwise."""

    def initial(self) -> S:
        """Return the state before the first event."""
        ...

    def apply(self, state: S, event: Event, seq: int, at: Micros) -> None:
        """Fold one event; own events too.

        *seq*: of the message that held the event; for own events, the `upto` of their step, since the
        leader applies them before they are in the log. *at*: the time of its step; for a message from
        outside (`sluice.events.envelope.Message`), when the stream took it.
        """
        ...

    def decide(self, state: S, at: Micros) -> Sequence[Event]:
        """Return the next events, () when settled. Called again after they were applied.

        Looks only at what changed since it last returned (). Nothing of it shows afterwards.
        """
        ...

    def deadline(self, state: S) -> Micros | None:
        """Return when to decide again although nothing happened; asked in settled states only."""
        ...

    def dump(self, state: S) -> bytes:
        """Return the whole of a settled state, canonically: equal states, equal bytes."""
        ...

    def load(self, data: bytes) -> S:
        """Return the state that `dump` wrote: it decides as the dumped one would."""
        ...
