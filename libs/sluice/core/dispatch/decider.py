"""The dispatcher's decider: in which cell each job of a queue with its check runs (decision 0044).

A workload that has quota reserved, and a check of the dispatcher's, is offered to worker cells. An offer is a
job there that may reserve quota and is held before it starts. The first in the order of preference that has
quota wins; when all others are gone the check is Ready, and when the manager has admitted the job, the
winner's hold is lifted:

    ChecksRequested -> RoundStarted, Offered;  reports -> OfferAnswered;  -> Won, WithdrawalStarted, Withdrawn
    -> PlacementConcluded;  JobResumed -> HoldLifted;  reports -> RemoteStarted, RemoteFinished, RemoteEvicted

The state is in `state`, decoding in `intake`, the fold in `fold` and `fold_growth`, the rules in `decide`,
`ladder` and `growth` (sizes and edits of what is placed), answers
to links in `reports`, what follows outside in `orders`, snapshots in `snapshot`.
"""

from collections.abc import Sequence
from typing import ClassVar

from sluice.core.step_size import Room
from sluice.events.base import Event, Micros

from . import snapshot
from .decide import deadline, placement_events
from .fold import HANDLERS
from .reports import report_events
from .state import State

MAX_EVENTS = 2000
"""After so many, the next workload has its turn in another step."""


class Dispatcher:
    """See `sluice.log.decider.Decider`."""

    writer: ClassVar[str] = "dispatch"
    reads: ClassVar[frozenset[str]] = frozenset({"config", "slices", "checks", "cell.>"})
    state_version: ClassVar[int] = 2

    initial = staticmethod(State)

    def apply(self, state: State, event: Event, seq: int, at: Micros) -> None:
        """Fold one event; those of no concern here are passed over."""
        handler = HANDLERS.get(type(event))
        if handler is not None:
            handler(state, event, seq, at)

    def decide(self, state: State, at: Micros) -> Sequence[Event]:
        """Return what follows: first the answer to the oldest message of a link, then workloads by age."""
        if state.reports:
            return report_events(state, state.reports[0])
        for key in state.deadlines.due(at):
            state.deadlines.set(key, None)
            state.todo[key] = None
        events: list[Event] = []
        room = Room()
        for key in sorted(state.todo, key=lambda key: (state.placements[key].origin.source, key)):
            placement = state.placements[key]
            found = placement_events(state, placement, at)
            if not found:
                # Settled: what is looked at again without a change says the same.
                del state.todo[key]
                state.deadlines.set(key, deadline(state, placement))
                continue
            if len(events) >= MAX_EVENTS or not room.takes(found):
                break
            events += found
        return events

    def deadline(self, state: State) -> Micros | None:
        """Return when the next round is over, or the next lost cell is given up."""
        return state.deadlines.next

    dump = staticmethod(snapshot.dump)
    load = staticmethod(snapshot.load)


__all__ = ["Dispatcher"]
