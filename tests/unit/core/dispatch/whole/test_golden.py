"""A manager's log from before sizes and edits were passed on: today's dispatcher decides it as it stands."""

from pathlib import Path

from sluice.core.dispatch.decider import Dispatcher
from sluice.replay.source.source import FileSource
from sluice.replay.verify.whole_log import check

MANAGER = Path(__file__).parents[1] / "golden/manager.jsonl"
"""Rounds, losses, evictions and orphans; no job grows or is edited while it is placed."""


def test_the_log_of_a_manager_decides_itself_again() -> None:
    """Each commit of the dispatcher's comes out as it was recorded."""
    found = check(FileSource(MANAGER), Dispatcher())
    assert found.divergence is None, str(found.divergence)
    assert found.steps > 50
