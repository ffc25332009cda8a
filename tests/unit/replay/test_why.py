"""why: what it names does admit the workload, and less of it does not."""

import pytest

from sluice.replay import trying
from sluice.replay.source import FileSource, ListSource
from sluice.replay.states import scheduler_at
from sluice.replay.trying import Laboratory, with_quota
from sluice.replay.why import UnknownWorkloadError, explain, plain_words
from tests.bench.recorded import Recorder
from tests.bench.scenario import JobClass, Scenario

from .incident import EXAMPLE

BUSY = Scenario(
    name="busy",
    cohorts=1,
    queues_per_cohort=2,
    classes=(
        JobClass("small", 40, 1, 50, 30, 400),
        JobClass("medium", 12, 5, 100, 110, 700),
        JobClass("large", 5, 20, 200, 300, 900),
    ),
    ideal_s=1.0,
)


@pytest.fixture(scope="module")
def busy():
    entries = []
    Recorder(entries.append, BUSY).play(1200)
    return ListSource(entries)


def test_the_smallest_change_admits_and_a_smaller_one_does_not(busy):
    """For hundreds of states and workloads: decided on copies of the state, with one base unit less too."""
    checked = 0
    for seq in range(busy.first + 20, busy.end, 4):
        fold = scheduler_at(busy, seq)
        pending = [w for w in fold.state.world.workloads.values() if w.peers is not None]
        for workload in pending[:: max(1, len(pending) // 2)]:
            report = explain(fold.state, workload.key, seq, fold.at)
            queue = fold.state.world.cluster_queues[workload.cluster_queue]
            laboratory = Laboratory(fold.state, seq, fold.at)
            if report.remedies and report.remedies[0].kind == "none":
                assert laboratory.attempt((), workload.key).reserved is not None
                continue
            remedy = next(r for r in report.remedies if r.kind == "quota")
            assert remedy.amounts is not None
            ((name, amount),) = remedy.amounts.items()
            flavor, _, resource = name.partition("/")

            def admits(more: int) -> bool:
                event = with_quota(queue.name, queue.spec, {(flavor, resource): more})  # noqa: B023
                return laboratory.attempt((event,), workload.key).reserved is not None  # noqa: B023

            assert admits(amount), (seq, workload.key, amount)
            assert not admits(amount - 1), (seq, workload.key, amount)
            checked += 1
    assert checked > 100


def test_numbers_and_obstacles_are_told():
    """The waiting job learns what is short, its place, and who may not be preempted and why."""
    source = FileSource(EXAMPLE)
    fold = scheduler_at(source, 34)
    report = explain(fold.state, "train-4", 34, fold.at)

    assert report.phase == "Pending"
    assert report.position == 2
    assert report.numbers[0].short == "8"
    assert {c.why for c in report.candidates} >= {"serving is within its nominal quota of what is short"}
    text = "\n".join(plain_words(report))
    assert "short of 8" in text
    assert "LowerPriority" in text


def test_child_processes_find_the_same(busy, monkeypatch):
    """Trials in children, as on large states, come to what trials on loaded copies come to."""
    fold = scheduler_at(busy, busy.end // 2)
    keys = [w.key for w in fold.state.world.workloads.values() if w.peers is not None][:4]
    copied = [explain(fold.state, key, fold.upto, fold.at) for key in keys]
    monkeypatch.setattr(trying, "FEW", 0)

    assert [explain(fold.state, key, fold.upto, fold.at) for key in keys] == copied
    assert any(report.trials > 3 for report in copied)


def test_looking_changes_nothing(busy):
    """The state is the same bytes before and after it was explained."""
    fold = scheduler_at(busy, busy.end // 2)
    before = fold.decider.dump(fold.state)
    for key in [w.key for w in fold.state.world.workloads.values() if w.peers is not None][:5]:
        explain(fold.state, key, fold.upto, fold.at)
    assert fold.decider.dump(fold.state) == before


def test_unknown_workloads_are_refused():
    """The error knows the names there are."""
    fold = scheduler_at(FileSource(EXAMPLE), 34)
    with pytest.raises(UnknownWorkloadError) as error:
        explain(fold.state, "trian-4", 34, fold.at)
    assert "default/train-4" in error.value.known
