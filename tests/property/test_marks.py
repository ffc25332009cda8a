"""What a step has changed is marked for projections, whether anybody reads the marks or not."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from sluice.core.checks.decider import AdmissionChecks
from sluice.core.slices.decider import SliceAggregator
from sluice.events.base import Event
from sluice.log.fold import Fold
from tests.simulation.log import steps_of
from tests.simulation.run import Run, quiet


def of_jobs(touched: dict[Any, Any], events: Sequence[Event]) -> bool:
    return len(touched) <= len(events)


def of_requests(touched: dict[Any, Any], events: Sequence[Event]) -> bool:
    named = {getattr(event, "workload", None) for event in events}
    return {workload for _, workload, _ in touched} <= named


@pytest.mark.parametrize(("decider", "are_of"), [(SliceAggregator, of_jobs), (AdmissionChecks, of_requests)])
def test_marks_do_not_pile_up(
    decider: Any, are_of: Callable[[dict[Any, Any], Sequence[Event]], bool]
) -> None:
    """A log that is only folded leaves no more of them behind than its last steps of one time have made."""
    quiet()
    run = Run(6, 600)
    run.play()
    fold, most, begun = Fold(decider(), decode=steps_of), 0, (0, 0)
    events: list[Event] = []
    for _, step in fold.take_in(run.cell.log.entries):
        if begun != (step.upto, step.at):
            begun, events = (step.upto, step.at), []
        events += step.events
        assert are_of(fold.state.touched, events)
        most = max(most, len(fold.state.touched))
    assert most > 0
