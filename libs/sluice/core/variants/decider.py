"""variant-controller's decider: races of variants, and what their parents make of them (CA1-CA15).

A workload of a queue with concurrent admission is a parent. It gets a variant for each flavor of the queue,
which the scheduler treats as an ordinary workload that may use that flavor only. This decider makes, switches
and deletes variants, opens their preemption gates one at a time, and says what the parent is: admitted when
a variant is, evicted when that one is. Jobs see the parent only.

The state is in `state`, the fold in `fold` and `fold_config`, the rules in `decide`, snapshots in `snapshot`.
"""

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from sluice.core.step_size import Room
from sluice.events.base import Event, Micros
from sluice.events.variants import VariantCreated

from . import snapshot
from .decide import family_deadline, family_events
from .fold import HANDLERS
from .state import Family, State

MAX_EVENTS = 2000
"""After so many, the next family has its turn in another step."""


class VariantController:
    """See `sluice.log.decider.Decider`."""

    writer: ClassVar[str] = "variants"
    reads: ClassVar[frozenset[str]] = frozenset({"config", "slices", "scheduler", "checks"})
    state_version: ClassVar[int] = 12

    initial = staticmethod(State)

    def apply(self, state: State, event: Event, seq: int, at: Micros) -> None:
        """Fold one event; those of no concern here are passed over."""
        handler = HANDLERS.get(type(event))
        if handler is not None:
            state.at = at
            handler(state, event, seq, at)

    def decide(self, state: State, at: Micros) -> Sequence[Event]:
        """Return the next events of every family that has changed, oldest parent first.

        What copies a parent to its variants, new ones or those that it has changed for, may be more than a
        step holds: then the others come next, before anything else of the family is judged.
        """
        for key in state.deadlines.due(at):
            state.deadlines.set(key, None)
            state.todo[key] = None
        if not state.todo:
            return ()
        families = [state.families[key] for key in state.todo]
        families.sort(key=lambda family: family.record.uid)
        events: list[Event] = []
        made, room = state.made, Room()
        for family in families:
            found = family_events(state, family, at)
            if not found:
                # Settled: what is looked at again without a change says the same.
                del state.todo[family.key]
                state.deadlines.set(family.key, family_deadline(state, family, at))
                continue
            taken = room.part(found)
            events += _caused(state, family, taken, at)
            state.made += sum(isinstance(event, VariantCreated) for event in taken)
            if len(taken) < len(found) or len(events) >= MAX_EVENTS:
                break
        state.made = made
        return events

    def deadline(self, state: State) -> Micros | None:
        """Return when the next delay is over, or a gate's time."""
        for key in state.todo:
            state.deadlines.set(key, family_deadline(state, state.families[key]))
        return state.deadlines.next

    dump = staticmethod(snapshot.dump)
    load = staticmethod(snapshot.load)


def _caused(state: State, family: Family, found: Sequence[Event], at: Micros) -> Sequence[Event]:
    """Return the events, without a cause if nothing has happened but that a time has come (DB1)."""
    moment = family_deadline(state, family)
    if moment is None or not family.changed_at < moment <= at:
        return found
    return [msgspec.structs.replace(event, cause=0) for event in found]


__all__ = ["VariantController"]
