"""A job that is changed while it runs, and gets another workload: its events say why it was stopped."""

import pytest

from sluice.core.views import notices
from sluice.core.workload.reasons import NO_MATCHING_WORKLOAD
from sluice.events.slices import WorkloadDeleted
from tests.support.elastic_cell import Cell


@pytest.mark.parametrize("sizes", [(3,), (3, 1)])
def test_why_it_was_stopped_is_told_of_the_workload_that_it_gets(sizes: tuple[int, ...]) -> None:
    world = Cell()
    world.queue("q", 5)
    world.submit("a", "q", 2, elastic=False).settle()
    for size in sizes:
        world.scale("a", size).settle()
    world.check_settled()
    assert len(world.events(WorkloadDeleted)) == len(sizes)
    (workload,) = world.view.workloads.values()
    told = [notice for notice in notices(workload) if notice.reason == "Stopped"]
    assert [notice.message.split(":")[0] for notice in told] == [NO_MATCHING_WORKLOAD] * len(sizes)
    assert told[0].seq < workload.history[0].seq, "it was stopped before"


def test_a_job_that_is_submitted_again_begins_with_nothing() -> None:
    world = Cell()
    world.queue("q", 5)
    world.submit("a", "q", 2, elastic=False).settle()
    world.message("a", "JobDeleted", {})
    world.submit("a", "q", 3, elastic=False).settle()
    world.check_settled()
    (workload,) = world.view.workloads.values()
    assert "Stopped" not in [notice.reason for notice in notices(workload)]
