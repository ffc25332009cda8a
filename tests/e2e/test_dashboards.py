"""Every panel of every dashboard shows something of a cell under load, in a real Prometheus."""

import math
from collections.abc import Callable, Iterator

import pytest

from tests.support.otlp import collector
from tests.support.waiting import wait_until
from tests.unit.docs.dashboards import panels

from .dashboard_load import borrow, ends, grow, prepare, race, refuse
from .watched_cell import Cell, needs_prometheus, queue, submit, watched

pytestmark = [pytest.mark.nats, pytest.mark.long, needs_prometheus]


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    with watched(tmp_path_factory.mktemp("dashboards")) as found:
        prepare(found)
        yield found


def shows(cell: Cell, query: str) -> bool:
    """Tell whether the query has a series with a number."""
    for name, value in {"$queue": ".*", "$__rate_interval": "2m"}.items():
        query = query.replace(name, value)
    return any(math.isfinite(float(series["value"][1])) for series in cell.value(query))


def test_every_panel_shows_something_of_a_cell_under_load(cell: Cell) -> None:
    lacking = {(board, panel.title, query) for board, _, panel in panels() for query in panel.queries}
    assert len(lacking) > 50
    load: list[Callable[[Cell], None]] = [borrow, grow, refuse]
    for make in load:
        make(cell)
    if not cell.value("sluice_migrations_total > 0"):
        race(cell)
    count = 0

    def all_show() -> bool:
        nonlocal count
        count += 1
        ends(cell, count)
        lacking.difference_update([each for each in lacking if shows(cell, each[2])])
        return not lacking

    try:
        wait_until(all_show)
    except AssertionError as error:
        raise AssertionError(f"{error}; nothing is shown by {sorted(lacking)}") from error


def test_an_exemplar_leads_from_a_bucket_to_the_log(cell: Cell) -> None:
    """Prometheus asks for OpenMetrics by itself; `sluice log show` has the event at the sequence."""
    metric = "sluice_quota_reserved_wait_time_seconds_bucket"
    queue(cell, "example")
    submit(cell, "example", "example")
    wait_until(lambda: bool(cell.exemplars(metric)))
    for series in cell.exemplars(metric):
        assert series["seriesLabels"]["cluster_queue"]
        for each in series["exemplars"]:
            shown = cell.run("log", "show", each["labels"]["sequence"])
            assert "QuotaReserved" in shown


def test_a_job_of_real_services_is_a_trace(cell: Cell) -> None:
    """Through variants, a check, a migration and a preemption, sent to a collector while the cell runs."""
    if not cell.value("sluice_migrations_total > 0"):
        race(cell)
    with collector() as found:
        cell.run("replay", "traces", "train", "--otlp", found.url)
    spans = sorted(found.spans(), key=lambda span: span.start_time_unix_nano)
    said = [
        {a.key: a.value.string_value for a in span.attributes} for span in spans if span.name == "attempt"
    ]
    assert [(each["sluice.flavors"], each.get("sluice.attempt.stopped")) for each in said] == [
        ("od", "migrated"),
        ("res", "preempted"),
        ("od", None),
    ]
    names = [span.name for span in spans]
    assert names.count("check") == 3
    assert names.count("migration") == 1
    assert names.count("workload") == 2
    [preempted] = [span for span in spans if span.name == "attempt" and span.links]
    assert {a.value.string_value for a in preempted.links[0].attributes} >= {"default/urgent"}
    assert len({span.trace_id for span in spans}) == 1
