"""The log that benchmarks are measured on is one that a cell could have written."""

from dataclasses import replace

import pytest

from sluice.core.scheduler.decider import Scheduler
from sluice.core.slices.decider import SliceAggregator
from sluice.log.contract import Entry
from tests.support.verify import entries_for, verify

from .recorded import Recorder
from .scenario import LARGE_SCALE


@pytest.fixture(scope="module")
def log() -> tuple[Recorder, list[Entry]]:
    entries: list[Entry] = []
    recorder = Recorder(entries.append, replace(LARGE_SCALE, cohorts=2, queues_per_cohort=3))
    recorder.play(4_000)
    return recorder, entries


@pytest.mark.parametrize("decider", [Scheduler(), SliceAggregator()], ids=lambda each: each.writer)
def test_every_step_is_decided_again(log, decider):
    """What a decider says in the recorded log is what it decides from it."""
    recorder, entries = log
    verdict = verify(decider, entries_for(decider, entries))

    assert verdict.divergence is None
    assert verdict.unsettled == ()
    assert verdict.steps > 100
    side = recorder.scheduler if decider.writer == "scheduler" else recorder.slices
    assert decider.dump(verdict.fold.state) == side.snapshot().data


def test_it_holds_what_jobs_go_through(log):
    """Jobs wait, run, are preempted and finish; some of each are there at the end."""
    recorder, entries = log
    live = recorder.live()

    assert sum(recorder.events.values()) >= 4_000
    assert live["finished_jobs_kept"] > 100
    assert live["live_jobs"] > live["running_jobs"] > 0
    assert any(b'"Preempted"' in entry.payload for entry in entries if entry.suffix == "scheduler")
