"""A timeline as a page of its own: it needs nothing from outside, and says in a table what it draws."""

import re
from html.parser import HTMLParser

import pytest

from sluice.cli.kit.timeline_html import page
from sluice.core.views.present.job import Phase
from sluice.replay.history.causes import Happening
from sluice.replay.history.lanes import HOLDING

WORKLOAD = {"namespace": "default", "name": "w", "job": {"key": "default/<train>"}}


def _told(seq, kind, workload="default/w", **data):
    return Happening(seq, "scheduler", seq * 10_000_000, 0, kind, {"workload": workload, **data})


STORY = [
    _told(1, "WorkloadCreated", WORKLOAD),
    _told(2, "QuotaReserved", podSets=[{"name": "main", "count": 1, "flavors": {"cpu": "spot"}}]),
    _told(3, "Evicted", reason="Preempted", message='by "x" <b>'),
    _told(4, "QuotaReleased"),
]


class _Balanced(HTMLParser):
    """Fails on a tag that is closed and was not open."""

    def __init__(self):
        super().__init__()
        self.open, self.rows = [], 0

    def handle_starttag(self, tag, attrs):
        self.rows += tag == "tr"
        for name, value in attrs:
            assert name not in ("src", "href"), value
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_it_asks_for_nothing_and_is_well_formed():
    """No script, no address; what jobs are called is text, whatever they are called."""
    parser = _Balanced()
    parser.feed(page(STORY, "a & b"))
    assert parser.open == []
    assert "<script" not in page(STORY, "x")
    assert "<train>" not in page(STORY, "x")
    assert "<b>" not in page(STORY, "x")


def test_the_table_has_every_span_and_mark():
    """Queued, QuotaReserved, Stopping, the mark, Queued again; and the head."""
    parser = _Balanced()
    parser.feed(page(STORY, "x"))
    assert parser.rows == 1 + 5


def test_spans_lie_within_the_lane():
    for left, width in re.findall(r"left:([\d.]+)%;width:([\d.]+)%", page(STORY, "x")):
        assert 0 <= float(left) <= float(left) + float(width) <= 100.001


def test_nothing_found_is_a_page_too():
    assert "messages none" in page([], "x")


@pytest.mark.parametrize("phase", [Phase.QUEUED, Phase.SUSPENDED, *HOLDING])
def test_every_phase_of_a_lane_has_a_colour(phase):
    assert re.search(rf"\.{phase.lower()}\b", page(STORY, "x"))
