"""admission-check's decider: which checks a workload must pass, and what their controllers say (AC1-AC8).

A workload that has quota reserved is admitted when every check that its queue names for its flavors is
Ready. The service asks the controllers (the projection in `requests`), takes their verdicts from the
log, and tells the scheduler what they come to together:

    QuotaReserved -> ChecksRequested;  CheckVerdict -> CheckStateChanged;  all Ready -> ChecksReady
    Retry -> ChecksRetry;  Rejected -> ChecksRejected;  Evicted, QuotaReleased -> ChecksWithdrawn

The state is in `state`, decoding in `intake`, the fold in `fold` and `fold_config`, the rules in `decide`,
time without an answer in `timeouts`, what checks may add to pods in `pod_set_updates`, snapshots in
`snapshot`.
"""

from collections.abc import Sequence
from typing import ClassVar

from sluice.core.step_size import Room
from sluice.events.base import Event, Micros

from . import snapshot
from .decide import check_events, grace_ends, presence_events, workload_events
from .fold import HANDLERS
from .state import State
from .timeouts import ends, overdue

MAX_EVENTS = 2000
MAX_INPUT_BYTES = 1024 * 1024
"""After so much, the next workload has its turn in another step."""


class AdmissionChecks:
    """Decides what the controllers of admission checks are asked, and what their answers mean."""

    writer: ClassVar[str] = "checks"
    reads: ClassVar[frozenset[str]] = frozenset(
        {"config", "slices", "variants", "scheduler", "verdict.>", "presence.controller.*"}
    )
    state_version: ClassVar[int] = 5

    initial = staticmethod(State)

    def apply(self, state: State, event: Event, seq: int, at: Micros) -> None:
        """Fold one event; those of no concern here are passed over."""
        if state.step != (seq, at):
            state.begin_step(seq, at)
        handler = HANDLERS.get(type(event))
        if handler is not None:
            handler(state, event, seq, at)

    def decide(self, state: State, at: Micros) -> Sequence[Event]:
        """Return what follows from what came in since the state was last settled.

        1. Controllers that came or went, and what their checks are then.
        2. Workloads, the oldest first; also those that have waited too long for an answer. Never in the
           order of the work list: it holds what is settled, too, until somebody has looked.
        """
        if state.presence:
            return presence_events(state.presence[0])
        events: list[Event] = []
        room = Room()
        late = {name: None for name, end in grace_ends(state).items() if end <= at}
        for name in sorted(late | state.watched):
            found = check_events(state, name, at)
            if found and not room.takes(found):
                break
            events += found
        if events:
            return events
        state.watched.clear()
        size = 0
        for key in sorted(state.todo | overdue(state, at), key=state.order):
            found = workload_events(state, key, at)
            if not found:
                # Settled: what is looked at again without a change says the same.
                state.todo.pop(key, None)
                continue
            taken = room.part(found)
            events += taken
            size += sum(len(verdict.payload) for verdict in state.verdicts.get(key, {}).values())
            if len(taken) < len(found) or len(events) >= MAX_EVENTS or size >= MAX_INPUT_BYTES:
                break
        return events

    def deadline(self, state: State) -> Micros | None:
        """Return when the next controller has been away, or silent, for too long."""
        return min([*grace_ends(state).values(), *ends(state)], default=None)

    dump = staticmethod(snapshot.dump)
    load = staticmethod(snapshot.load)


__all__ = ["AdmissionChecks"]
