"""Whatever a test has played: its log must decide itself again, and hold every invariant (DB4, DB6)."""

from collections.abc import Sequence

from sluice.log.contract import Entry
from sluice.replay.lint.lint import lint
from sluice.replay.source.source import ListSource
from sluice.replay.source.time_travel import deciders
from sluice.replay.verify.whole_log import check


def wrong_with(entries: Sequence[Entry], *, writers: Sequence[str] = ()) -> list[str]:
    """Return what is wrong with a log, [] when all is well. *writers*: decide only theirs again."""
    source = ListSource(entries)
    found = [
        f"{decider.writer}: {checked.divergence}"
        for decider in deciders()
        if not writers or decider.writer in writers
        if (checked := check(source, decider)).divergence is not None
    ]
    return [*found, *(f"{v.invariant} at {v.seq}: {v.text}" for v in lint(source)[0])]
