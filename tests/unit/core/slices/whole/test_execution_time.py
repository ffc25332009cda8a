"""How long a job has run is the job's, to the microsecond, whatever slice it is in (SC7, WS4)."""

import pytest

from sluice.api.labels import MAX_EXEC_TIME_SECONDS
from sluice.core.timing import MICROS_PER_S
from sluice.core.views import to_manifest
from sluice.events.scheduler import WorkloadDeactivated, WorkloadSliceReplaced
from tests.support.elastic_cell import Cell

LIMIT_S = 6


def limited() -> Cell:
    world = Cell()
    world.queue("q", 100)
    world.submit("a", "q", 1, labels={MAX_EXEC_TIME_SECONDS: str(LIMIT_S)}).settle()
    return world


@pytest.mark.parametrize("every_s", [0.1, 0.5, 0.9, 1.0, 1.3])
def test_a_job_that_grows_again_and_again_comes_to_its_limit(every_s: float) -> None:
    """Whole seconds of each slice add up to nothing for one that grows more than once a second."""
    world = limited()
    began = world.now
    for size in range(2, 100):
        world.scale("a", size).settle(every_s)
        if over := world.events(WorkloadDeactivated):
            break
    assert [event.reason for event in over] == ["MaximumExecutionTimeExceeded"]
    assert LIMIT_S <= (world.now - began) / MICROS_PER_S <= LIMIT_S + every_s + 0.1
    assert len(world.events(WorkloadSliceReplaced)) >= size - 3  # it grew nearly each time


def test_the_time_of_all_slices_is_shown_in_whole_seconds_of_the_sum() -> None:
    world = limited()
    for size in (2, 3, 4):
        world.settle(0.9)
        world.scale("a", size).settle()
    world.check_settled()
    (shown,) = [each for each in world.view.workloads.values() if each.finished_at is None]
    assert to_manifest(world.view, shown).status.accumulated_past_execution_time_seconds == 2
