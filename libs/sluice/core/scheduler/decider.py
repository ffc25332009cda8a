"""The scheduler's decider: the only writer of quota.

Each call of `decide` takes one step: what is due in the life of workloads that hold or held quota; else
the status of queues; else one cycle in every cohort tree with something to decide.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import ClassVar

from sluice.core.cycle.cycle import Cycle
from sluice.core.cycle.entry import Order
from sluice.core.cycle.events import decisions
from sluice.core.cycle.pending_preemptions import issue
from sluice.core.lifecycle import due as lifecycle
from sluice.core.queueing.pending_queue import CohortQueues
from sluice.core.step_size import Room
from sluice.core.world.activity import blocks_admission
from sluice.events.base import Event, Micros

from . import queue_status
from .fold import fold
from .snapshot import dump, load
from .state import SchedulerState, new_state


class Scheduler:
    """See `sluice.log.decider.Decider`."""

    writer: ClassVar[str] = "scheduler"
    reads: ClassVar[frozenset[str]] = frozenset({"config", "slices", "variants", "checks"})
    state_version: ClassVar[int] = 22

    initial = staticmethod(new_state)

    apply = staticmethod(fold)

    def decide(self, state: SchedulerState, at: Micros) -> Sequence[Event]:
        """Return the next events, () when settled."""
        due = lifecycle.decide(state.world, state.lifecycle, at)
        if due:
            return due
        if state.world.pending_preemptions.due and (issued := issue(state.world, state.pending)):
            return issued
        if state.statuses_due or state.local_statuses_due:
            return Room().part(tuple(queue_status.changes(state)))
        if not state.pending.busy:
            return ()
        return decisions(state.world, run_cycles(state))

    def deadline(self, state: SchedulerState) -> Micros | None:
        return lifecycle.deadline(state.lifecycle)

    dump = staticmethod(dump)
    load = staticmethod(load)


def run_cycles(state: SchedulerState) -> list[tuple[CohortQueues, Cycle]]:
    """Run a cycle in every tree with something to decide.

    Trees never interact (SC3), but that with waitForPodsReady one admission anywhere blocks the next. Then
    the tree that has the first one, in the order of entries, is looked at before the others.
    """
    one_at_a_time = blocks_admission(state.world.config)
    cycles = []
    first: tuple[Order, CohortQueues, Cycle] | None = None
    for tree in sorted(state.pending.busy.values(), key=attrgetter("sort_key")):
        cycle = Cycle(state.world, tree, blocked=one_at_a_time and bool(state.not_ready))
        cycle.run()
        cycles.append((tree, cycle))
        order = cycle.first_admitted() if one_at_a_time else None
        if order is not None and (first is None or order < first[0]):
            first = (order, tree, cycle)
    return cycles if first is None else [first[1:]]


__all__ = ["Scheduler"]
