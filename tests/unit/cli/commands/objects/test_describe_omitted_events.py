"""Histories that are shown in part say so."""

import re
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.cli.commands.objects.describe import lines_of
from sluice.cli.kit.describe_format import omitted
from sluice.cli.kit.terminal import plain
from sluice.core.views.records import HISTORY_LIMIT
from sluice.events.base import JobKey
from sluice.protocol.query import HistoryRequest
from tests.simulation.queries import NAMED, LocalApi, Queries, now
from tests.support.checked_cell import CheckedCell, checked_cell
from tests.support.family_world import job

WHOLE = 100


def api_of(cell: CheckedCell) -> Any:
    queries = Queries(SimpleNamespace(log=SimpleNamespace(entries=cell.log)))  # type: ignore[arg-type]
    queries.follow()
    return LocalApi(queries.world)


def after(updates: int) -> CheckedCell:
    """A job whose workload has been told so many events after its creation."""
    cell = checked_cell("gpu")
    cell.message("job.default.a", "JobSubmitted", job("a")).settle()
    for number in range(updates):
        cell.say("a", "gpu", "Pending", message=f"in place {number}").settle()
    return cell


def asked(api: Any, limit: int = WHOLE) -> Any:
    return now(api.history(HistoryRequest(kind="Job", name="a", namespace="default", limit=limit)))


@pytest.mark.parametrize("limit", [1, 5, WHOLE])
@pytest.mark.parametrize("updates", [0, 3, 40])
def test_events_shown_and_left_out_are_all_there_were(updates: int, limit: int) -> None:
    """Whether the view has forgotten them, or the reader asked for fewer."""
    found = asked(api_of(after(updates)), limit)
    had = asked(api_of(after(0)))
    shown = [entry for entry in found.items if entry["event"]]
    assert len(shown) + found.omitted == len(had.items) + updates


def test_a_description_says_what_it_leaves_out() -> None:
    """And where that is: the view has no more than the latest, and the first, of each workload."""
    cell = after(40)
    api = api_of(cell)
    lines = [plain(line) for line in now(lines_of(api, NAMED["Job"], now(api.get("Job", "a", "default"))))]
    begin = lines.index("Events:")
    left_out = re.fullmatch(
        r"  \((\d+) earlier events left out; all are in `sluice replay timeline a`\)", lines[begin + 1]
    )
    assert left_out is not None
    (workload,) = api.world.view.jobs[JobKey("default/a")].workloads.values()
    assert int(left_out[1]) == workload.remembered - HISTORY_LIMIT > 0
    assert len(workload.history) == HISTORY_LIMIT


def test_a_whole_history_says_nothing_of_it() -> None:
    api = api_of(after(3))
    assert omitted(asked(api), {"namespace": "default", "name": "a"}) == []
