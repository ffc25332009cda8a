"""Jobs that have ended lie packed: what is remembered of them is what they say when they are opened."""

from collections import Counter

from sluice.console import pages
from sluice.core.views.present.phase import workload_phase
from sluice.readmodel.objects import keys, render
from tests.bench.long_run import LongRun


def test_packed_jobs_count_as_what_they_are() -> None:
    """Also when they are counted again, and have changed since, as one that is submitted again."""
    cell = LongRun(10**9)
    for go_on in (lambda: cell.play(600), lambda: cell.play(1_200), lambda: cell.tick([0])):
        go_on()
        world = cell.world
        assert any(world.view.workloads.is_packed(key) for key in world.view.workloads)
        shown = (render(world, "Job", key) or {} for key in keys(world, "Job"))
        rendered = Counter(str(job["status"]["phase"]) for job in shown)
        opened = Counter(str(workload_phase(workload)) for workload in world.view.workloads.values())
        for _ in range(2):
            found = pages.overview(world)
            assert found["jobs"] == dict(sorted(rendered.items()))
            assert found["workloads"] == dict(sorted(opened.items()))


def test_phases_are_counted_on() -> None:
    """With what has changed only, and the same as counted anew, whatever came, went and came again."""
    cell = LongRun(500)
    for number in range(12):
        cell.play(300 * (number + 1))
        found = pages.overview(cell.world)
        known = dict(cell.world.counted)
        cell.world.counted.clear()
        assert pages.overview(cell.world) == found
        cell.world.counted.update(known)
