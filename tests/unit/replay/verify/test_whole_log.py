"""verify, invariants and snapshots on golden logs, one of which must fail."""

from pathlib import Path

import pytest

from sluice.cli.kit.run_text import checked_lines
from sluice.core.scheduler.decider import Scheduler
from sluice.core.slices.decider import SliceAggregator
from sluice.events.base import Event
from sluice.events.codec import decode_commit, encode_commit
from sluice.events.commit import Step
from sluice.events.scheduler import QuotaReserved
from sluice.log.contract import Entry
from sluice.replay.lint.lint import INVARIANTS, first_violation, lint
from sluice.replay.source.source import FileSource, ListSource
from sluice.replay.source.time_travel import deciders, fold_at, index
from sluice.replay.verify.whole_log import check
from tests.unit.replay.incident import GOLDEN

LOGS = sorted(GOLDEN.glob("*.jsonl"))
GOOD = GOLDEN / "incident.jsonl"


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_golden_logs_decide_themselves_again(log: Path):
    """Every service's commits come out as they stand; those of logs named must-fail do not."""
    found = [check(FileSource(log), decider) for decider in deciders()]

    assert any(c.divergence for c in found) == log.stem.startswith("must-fail")


def test_a_changed_ordering_rule_is_caught_and_named():
    """The report names the decision, its inputs, what was expected, and what was found."""
    found = check(FileSource(GOLDEN / "must-fail-victim-order.jsonl"), Scheduler())

    assert found.divergence is not None
    assert found.divergence.seq == 27
    text = "\n".join(checked_lines(found))
    assert "commit 27" in text
    assert "26 slices" in text
    assert "expected" in text
    assert "train-3" in text
    assert "found" in text
    assert "train-4" in text


@pytest.mark.parametrize("decider", [Scheduler(), SliceAggregator()], ids=lambda d: d.writer)
def test_snapshots_do_not_change_states(decider, tmp_path):
    """At every sequence, the state folded from a snapshot is the one folded from the start."""
    path = tmp_path / "copy.jsonl"
    path.write_bytes(GOOD.read_bytes())
    source = FileSource(path)
    assert index(source, 5) > 3

    for seq in range(source.first, source.end + 1):
        whole = fold_at(source, decider, seq, snapshots=False)
        short = fold_at(source, decider, seq)
        assert decider.dump(short.state) == decider.dump(whole.state), seq


def test_verify_goes_on_from_a_snapshot(tmp_path):
    """From a snapshot on, the same difference is found."""
    path = tmp_path / "copy.jsonl"
    path.write_bytes((GOLDEN / "must-fail-victim-order.jsonl").read_bytes())
    source = FileSource(path)
    index(source, 5)

    found = check(source, Scheduler(), start=source.snapshot(Scheduler(), 22))

    assert found.start > 0
    assert found.divergence is not None
    assert found.divergence.seq == 27


def _overbooked() -> list[Entry]:
    """The incident, but its first reservation is four times as large as it may be."""
    entries = []
    done = False
    for entry in FileSource(GOOD).read().__next__():
        if entry.suffix == "scheduler" and not done:
            steps = []
            for step in decode_commit(entry.payload).steps:
                events: list[Event] = []
                for event in step.events:
                    if isinstance(event, QuotaReserved) and not done:
                        done = True
                        events.append(_larger(event))
                    else:
                        events.append(event)
                steps.append(Step(upto=step.upto, at=step.at, events=tuple(events)))
            entry = entry._replace(payload=encode_commit("main", "scheduler", "x", steps))
        entries.append(entry)
    return entries


def _larger(event: QuotaReserved) -> QuotaReserved:
    import msgspec

    pod_sets = [
        msgspec.structs.replace(ps, usage={k: v * 5 for k, v in ps.usage.items()}) for ps in event.pod_sets
    ]
    return msgspec.structs.replace(event, pod_sets=pod_sets)


def test_bisect_finds_the_first_event_that_broke_quota():
    """An overbooked queue is found at the very reservation; the good log breaks nothing."""
    found = first_violation(ListSource(_overbooked()), "quota")

    assert found is not None
    assert "train-1" in found.text
    assert all(first_violation(FileSource(GOOD), name) is None for name in INVARIANTS)
    assert lint(FileSource(GOOD)) == ([], [])
