"""What services remember of jobs that are over is bounded by how many of them are kept."""

import pytest

from sluice.log import cell as cells
from sluice.readmodel import changes, jobs
from tests.bench import memory
from tests.bench.long_run import LongRun

RETAINED, JOBS = 100, 1_600


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> LongRun:
    """With its other bounds small enough to be reached."""
    monkeypatch.setattr(cells, "REFUSED", 10)
    monkeypatch.setattr(jobs, "REFUSED", 10)
    monkeypatch.setattr(changes, "TOMBSTONES", 100)
    return LongRun(RETAINED)


def test_sizes_do_not_grow_with_jobs_that_are_over(cell: LongRun) -> None:
    """After twice as many jobs of all kinds every service's state is as large as before."""
    sizes, snapshots = [], []
    for jobs_ in (JOBS, 2 * JOBS):
        cell.play(jobs_)
        cell.play_out()
        assert memory.finished_jobs(cell) == RETAINED
        sizes.append(memory.states(cell))
        snapshots.append({name: found["mb"] for name, found in memory.snapshots(cell).items()})
    for name, once in sizes[0].items():
        assert sizes[1][name] <= once * 1.05 + 2_000, name
        assert snapshots[1][name] <= snapshots[0][name] * 1.05 + 0.002, name


def test_a_finished_job_takes_less_than_a_kilobyte() -> None:
    """In the api service; the slice-aggregator, which tells a repeated submission by it, keeps half of that.

    Nobody else remembers jobs that are over.
    """
    each = memory.run(2_000)["bytes_per_finished_job"]
    assert each["api"] < 1_300, "a little more than with many: what is open weighs more"
    assert each["slice-aggregator"] < 700
    assert all(size < 50 for name, size in each.items() if name not in ("api", "slice-aggregator"))
