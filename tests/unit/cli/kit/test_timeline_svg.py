"""Pictures: lanes in the order of preference, a bar per run, an arrow where a job moves."""

import re
from xml.etree import ElementTree

from sluice.cli.kit.timeline_svg import timeline
from sluice.replay.history.causes import Happening

WORKLOAD = {"namespace": "default", "name": "w", "job": {"key": "default/train"}}


def _reserved(seq, workload, flavor):
    pod_sets = [{"name": "main", "count": 1, "flavors": {"cpu": flavor}}]
    return Happening(
        seq, "scheduler", seq * 10_000_000, 0, "QuotaReserved", {"workload": workload, "podSets": pod_sets}
    )


def _told(seq, kind, workload="default/w", **data):
    return Happening(seq, "scheduler", seq * 10_000_000, 0, kind, {"workload": workload, **data})


STORY = [
    _told(1, "WorkloadCreated", WORKLOAD),
    _reserved(2, "default/w", "spot"),
    _told(3, "Evicted", reason="FlavorMigration"),
    _told(4, "QuotaReleased"),
    _reserved(4, "default/w", "reservation"),
    _told(6, "WorkloadFinished"),
]


def _lanes(svg):
    return [text for text in re.findall(r'font-weight="bold">([^<]*)<', svg) if text != "waits"]


def test_lanes_stand_in_the_order_of_preference():
    """Those that nobody ranks follow by name; who waits stands above."""
    assert _lanes(timeline(STORY, "q", ["reservation", "spot"])) == ["waiting", "reservation", "spot"]
    assert _lanes(timeline(STORY, "q", ["spot"])) == ["waiting", "spot", "reservation"]
    assert _lanes(timeline(STORY, "q")) == ["waiting", "reservation", "spot"]


def test_a_move_is_an_arrow_and_each_run_a_bar():
    svg = timeline(STORY, "<q>")
    ElementTree.fromstring(svg)

    titles = re.findall(r"<title>([^<]*)</title>", svg)
    assert [title.split(";")[0].split(":")[0] for title in titles] == [
        "default/train waits",
        "default/train (1 x main) on spot",
        "default/train (1 x main) on reservation",
    ]
    assert "FlavorMigration" in titles[1]
    assert svg.count("url(#tip)") == 2  # the move, and the legend
