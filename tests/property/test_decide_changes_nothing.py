"""`decide` says what follows and changes nothing; what it may leave behind is listed here, with the reason.

Whole histories of the simulated cell are played while every call of the deciders is watched: the state
is the same after it as before, and whoever asks again hears the same.
"""

from collections.abc import Callable
from typing import Any

import pytest

from sluice.core.checks.decider import AdmissionChecks
from sluice.core.checks.state import State as ChecksState
from sluice.core.deadlines import Deadlines
from sluice.core.deciders import DECIDERS, OF_MANAGERS
from sluice.core.dispatch.decider import Dispatcher
from sluice.core.dispatch.state import State as DispatchState
from sluice.core.queueing.pending_queue import CohortQueues
from sluice.core.quota.node import Node
from sluice.core.slices.intake import Inbound
from sluice.core.slices.state import State as SlicesState
from sluice.core.variants.state import State as VariantsState
from sluice.core.workload.limit_ranges import Rules
from sluice.core.world.model import ClusterQueue
from sluice.core.world.workload import Workload
from sluice.events.base import Event, Micros
from tests.simulation.run import Run, quiet
from tests.support.cells_world import CellsWorld
from tests.support.frozen import Field, difference, picture

LOOKED_AT: set[Field] = {
    # Work lists: who turns out to have nothing to say leaves them, and has its next deadline noted.
    (ChecksState, "todo"),
    (DispatchState, "todo"),
    (DispatchState, "deadlines"),
    (ChecksState, "watched"),
    (VariantsState, "todo"),
    (VariantsState, "deadlines"),
    (VariantsState, "whole"),
    (VariantsState, "spread"),
    (CohortQueues, "touched"),
    (CohortQueues, "hopeful"),
    (Deadlines, "_heap"),
}
REMEMBERED: set[Field] = {
    # Worked out from the rest of the state, which says the same without them.
    (ClusterQueue, "flavor_plan"),
    (ClusterQueue, "remembered"),
    (Inbound, "_body"),
    (Inbound, "_envelope"),
    (Node, "lendable"),
    (Rules, "_known"),
    (SlicesState, "rules"),
    (Workload, "identity"),
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """Watch all deciders; by writer the number of events of each call."""
    calls: dict[str, list[int]] = {}
    for decider in (*DECIDERS, *OF_MANAGERS):
        monkeypatch.setattr(decider, "decide", watched(decider, calls.setdefault(decider.writer, [])))
    return calls


def watched(decider: type[Any], calls: list[int]) -> Callable[[object, object, Micros], tuple[Event, ...]]:
    decide, left_out = decider.decide, LOOKED_AT | REMEMBERED

    def watching(self: object, state: object, at: Micros) -> tuple[Event, ...]:
        before = picture(state, left_out)
        events = tuple(decide(self, state, at))
        again = tuple(decide(self, state, at))
        changed = difference(before, picture(state, left_out))
        assert not changed, f"{decider.writer} changes its state as it decides: {changed}"
        assert again == events, f"{decider.writer} says something else when it is asked again"
        calls.append(len(events))
        return events

    return watching


@pytest.mark.parametrize("seed", [3, 4, 7, 8, 10, 11])
def test_deciders_leave_their_state_as_it_is(asked: dict[str, list[int]], seed: int) -> None:
    quiet()
    outcome = Run(seed, 200).play()
    assert not outcome.invariant, str(outcome)
    assert all(asked[decider.writer] for decider in DECIDERS)
    assert any(asked["scheduler"])


def test_the_dispatcher_leaves_its_state_as_it_is(asked: dict[str, list[int]]) -> None:
    """Through offers, a start, an eviction, a cell that is cut off and comes back, and deletion."""
    world = CellsWorld()
    world.ladder("near", "far", lostAfterSeconds=60, retryAfterSeconds=5)
    world.turn()
    first, second = world.create(), world.create()
    for key in (first, second):
        world.reserve(key).exchange()
    assert len(world.running()) == 2
    near = world.workers["near"]
    world.cut(near)
    world.turn(61)
    world.mend(near)
    world.exchange()
    world.evict(first).exchange()
    world.forget(second).exchange()
    assert len(asked[Dispatcher.writer]) > 20
    assert any(asked[Dispatcher.writer])


def test_who_counts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def counting(self: AdmissionChecks, state: ChecksState, at: Micros) -> tuple[Event, ...]:
        del self, at
        state.by_queue["one"] = {}
        return ()

    monkeypatch.setattr(AdmissionChecks, "decide", counting)
    with pytest.raises(AssertionError, match=r"checks changes its state as it decides: \.by_queue"):
        watched(AdmissionChecks, [])(AdmissionChecks(), ChecksState(), 0)
