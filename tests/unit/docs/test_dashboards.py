"""Dashboards for Grafana are what their table says, and ask for metrics that there are."""

import json
import re

import pytest

from sluice.core.views.totals import TOTALS, WAIT_BOUNDS_S
from sluice.readmodel.metrics import GAUGES, PREFIX, REJECTED

from . import dashboards
from .dashboards import BOARDS, FOLDER, panels

_LE = re.compile(r'le=~"([^"]*)"')
LABELS = {f"{PREFIX}{name}": set(gauge.labels) for name, gauge in GAUGES.items()}
LABELS |= {name: set(total.labels) for name, total in TOTALS.items()} | {REJECTED: set()}


def test_the_committed_dashboards_are_current() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(BOARDS)
    for name in BOARDS:
        assert (FOLDER / f"{name}.json").read_text() == dashboards.text(name), "run: make docs"


def test_every_panel_has_been_drawn() -> None:
    """What `make dashboards-pictures` has seen is of the panels that there are, and each showed something."""
    seen = json.loads(dashboards.SEEN.read_text())
    assert {(name, title) for name, found in seen.items() for title in found} == {
        (name, panel.title) for name, _, panel in panels()
    }
    assert all(count > 0 for found in seen.values() for count in found.values())


@pytest.mark.parametrize("name", BOARDS)
def test_a_dashboard_brings_no_data_source_and_places_its_panels(name: str) -> None:
    """It can be loaded anywhere, and no panel lies upon another one, nor shares its id."""
    found = json.loads((FOLDER / f"{name}.json").read_text())
    shown = found["panels"]
    assert len({panel["id"] for panel in shown}) == len(shown)
    boxes = [panel["gridPos"] for panel in shown]
    cells = [
        (x, y)
        for box in boxes
        for x in range(box["x"], box["x"] + box["w"])
        for y in range(box["y"], box["y"] + box["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    sources = {panel["datasource"]["uid"] for panel in shown if panel["type"] != "row"}
    assert sources == {"${datasource}"}
    variables = [each["name"] for each in found["templating"]["list"]]
    assert variables == ["datasource"] + ["queue"] * ("$queue" in json.dumps(shown))
    assert not any("null" in str(panel["options"]) for panel in shown if panel["type"] != "row")


def test_queries_ask_for_metrics_and_labels_that_there_are() -> None:
    for board, _, panel in panels():
        for query, legend in panel.queries.items():
            used = re.findall(rf"\b({PREFIX}\w+)(?:\{{([^}}]*)\}})?", query)
            assert used or 'job="sluice"' in query, (board, panel.title)
            for metric, matchers in used:
                assert metric in LABELS, (board, panel.title)
                assert set(re.findall(r"(\w+)=", matchers)) <= LABELS[metric] | {"job"}, (board, panel.title)
            by = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", query))))
            assert set(re.findall(r"{{(\w+)}}", legend)) <= by | {"instance"}, (board, panel.title)


def test_bounds_of_histograms_match_as_they_are_meant() -> None:
    """Prometheus writes 1 or 1.0; a dot that stands for any letter would match 160, too."""
    bounds = [f"{bound}{end}" for bound in WAIT_BOUNDS_S for end in ("", ".0")]
    asked = {le for _, _, panel in panels() for query in panel.queries for le in _LE.findall(query)}
    assert {le: [bound for bound in bounds if re.fullmatch(le, bound)] for le in asked} == {
        "1|1[.]0": ["1", "1.0"]
    }


def test_what_a_cell_says_is_shown() -> None:
    """Each metric has a panel, but for a few of which another one tells more."""
    shown = {
        name
        for _, _, panel in panels()
        for query in panel.queries
        for name in re.findall(r"sluice_\w+", query)
    }
    shown |= {re.sub("_(bucket|count|sum)$", "", name) for name in shown}
    left = {
        name for name in LABELS if name not in shown and re.sub("_(bucket|count|sum)$", "", name) not in shown
    }
    assert left == {
        "sluice_reserving_active_workloads",  # "Held" says what of
        "sluice_local_queue_reserving_active_workloads",
        "sluice_local_queue_status",  # follows that of its ClusterQueue
        "sluice_cluster_queue_info",  # of which the choice of queues is made
        "sluice_cohort_info",
        "sluice_quota_reserved_workloads_total",
    }
