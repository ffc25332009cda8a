"""What `sluice describe job` tells of growth that waits for its checks."""

from types import SimpleNamespace
from typing import Any

from sluice.api.labels import ELASTIC_JOB
from sluice.cli.commands.objects.describe import lines_of
from sluice.cli.kit.terminal import plain
from tests.simulation.queries import NAMED, LocalApi, Queries, now
from tests.support.checked_cell import CheckedCell, checked_cell
from tests.support.family_world import job


def described(cell: CheckedCell) -> list[str]:
    """Return what the command prints of the job."""
    queries = Queries(SimpleNamespace(log=SimpleNamespace(entries=cell.log)))  # type: ignore[arg-type]
    queries.follow()
    api: Any = LocalApi(queries.world)
    found = now(api.get("Job", "a", "default"))
    return now(lines_of(api, NAMED["Job"], found))


def growing() -> CheckedCell:
    """A job runs one pod, and is to have three; the check has yet to say so."""
    cell = checked_cell("gpu")
    manifest = job("a")
    manifest["metadata"].setdefault("annotations", {})[ELASTIC_JOB] = "true"
    cell.message("job.default.a", "JobSubmitted", manifest).settle()
    cell.say("a", "gpu", "Ready", message="fine").settle()
    cell.message("job.default.a", "JobScaled", {"podSets": {"main": 3}}).settle()
    return cell


def test_the_checks_of_a_growth_are_shown_beside_those_of_what_runs() -> None:
    cell = growing()
    lines = described(cell)
    begin = next(n for n, line in enumerate(lines) if line.startswith("Growth (job-a-"))
    before, after = "\n".join(lines[:begin]), lines[begin + 1 :]
    assert "gpu" in before
    assert "fine" in before
    assert after[0] == "  Assigned in main:"
    assert after[1].startswith("    main: 3 pods")
    assert after[2] == "  Admission checks:"
    assert plain(after[4]).split()[:3] == ["gpu", "Pending", "1"]


def test_a_job_without_growth_says_nothing_of_it() -> None:
    cell = growing()
    cell.message("job.default.a", "JobScaled", {"podSets": {"main": 1}}).settle()
    assert not any(line.startswith("Growth") for line in described(cell))
