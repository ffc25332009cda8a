"""Of many queues, those are shown whose waits the change is about."""

from sluice.cli.kit.run_text import MOST_NAMES, compared_lines
from sluice.replay.simulate.changes import Changes
from sluice.replay.simulate.what_if import what_if
from sluice.replay.source.source import ListSource
from tests.support.family_world import cell, cluster_queue


def test_the_queue_that_differs_is_shown_among_many() -> None:
    world = cell(cluster_queue({"res": 1}, {}))
    world.submit("a").settle_all()
    found = what_if(ListSource(world.log), Changes())
    base = found.runs[0].numbers
    alike = {f"default/q{number:03}": {"mean": 1.0} for number in range(100)}
    for run, mean in zip(found.runs, (7.0, 1.0), strict=False):
        run.numbers = {**base, "waitsByQueue": {**alike, "default/zz": {"mean": mean}}}
    text = "\n".join(compared_lines(found))
    assert "mean wait, queue default/zz, s" in text
    assert text.count("mean wait, queue ") == MOST_NAMES
    assert f"{101 - MOST_NAMES} queues whose waits differ least" in text
