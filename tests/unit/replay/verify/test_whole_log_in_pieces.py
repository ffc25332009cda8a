"""A long log with snapshots is checked in pieces, which comes to what one pass comes to."""

import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sluice.core.scheduler.decider import Scheduler
from sluice.core.slices.decider import SliceAggregator
from sluice.events.codec import decode_commit, encode_commit
from sluice.events.commit import Step
from sluice.events.scheduler import QuotaReserved
from sluice.log.contract import Entry
from sluice.replay.source.log_file import Header, write
from sluice.replay.source.source import FileSource
from sluice.replay.source.time_travel import index
from sluice.replay.verify.whole_log import Checked, check, check_all
from tests.bench.recorded import Recorder
from tests.bench.scenario import SMOKE

STARTS: list[Any] = [(SliceAggregator(), None), (Scheduler(), None)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> FileSource:
    """A log with snapshots all along."""
    entries: list[Entry] = []
    Recorder(entries.append, SMOKE).play(2000)
    source = written(tmp_path_factory.mktemp("log") / "whole.slog", entries)
    assert index(source, 150) > 6
    return source


@pytest.fixture
def log(whole, tmp_path, monkeypatch) -> FileSource:
    """A copy, which counts as long, for three processors."""
    monkeypatch.setattr("sluice.replay.source.time_travel.LONG", 10)
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    source = FileSource(shutil.copy(whole.path, tmp_path / "copy.slog"))
    shutil.copytree(whole.sidecar.directory, source.sidecar.directory)
    return source


def written(path: Path, entries: list[Entry]) -> FileSource:
    with path.open("wb") as file:
        write(file, Header(), [entries])
    return FileSource(path)


def told(found: list[Checked]) -> list[tuple[Any, ...]]:
    return [(c.writer, c.start, c.steps, c.events, c.divergence, c.inputs) for c in found]


def pieces_of(found: list[Checked]) -> list[bool]:
    return [bool(c.ended) for c in found]


def test_pieces_come_to_what_one_pass_does(log):
    found = check_all(log, STARTS)

    assert told(found) == told([check(log, decider) for decider, _ in STARTS])
    assert pieces_of(found) == [True, True]
    assert all(c.steps > 100 for c in found)


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_the_first_difference_is_found_in_any_piece(log, tmp_path, part):
    """Wherever a decision is another one, the same commit is named, and as many steps before it."""
    entries = [entry for batch in log.read() for entry in batch]
    place = next(
        n for n, e in enumerate(entries) if n > part * len(entries) and b"QuotaReserved" in e.payload
    )
    entry = entries[place]
    steps = [
        Step(upto=s.upto, at=s.at, events=tuple(e for e in s.events if not isinstance(e, QuotaReserved)))
        for s in decode_commit(entry.payload).steps
    ]
    entries[place] = entry._replace(payload=encode_commit("main", "scheduler", "x", steps))
    changed = written(tmp_path / "changed.slog", entries)
    shutil.copytree(log.sidecar.directory, changed.sidecar.directory)
    (found,) = check_all(changed, STARTS[1:])

    assert found.divergence is not None
    assert found.divergence.seq == entry.seq
    assert told([found]) == told([check(changed, Scheduler())])


def test_a_snapshot_of_another_state_proves_nothing(log):
    """A piece that would begin with it is not believed: the log is checked in one pass."""
    paths = sorted(log.sidecar.directory.glob("scheduler-*.state"))
    for path, other in pairwise(paths):
        info, state = other.with_suffix(".json"), other.read_bytes()
        path.write_bytes(state)
        size = info.read_text().partition('"size":')[2]
        head = path.with_suffix(".json").read_text().partition('"size":')[0]
        path.with_suffix(".json").write_text(f'{head}"size":{size}')
    (found,) = check_all(log, STARTS[1:])

    assert found.divergence is None
    assert pieces_of([found]) == [False]
    assert told([found]) == told([check(log, Scheduler())])


def test_snapshots_of_another_log_of_the_same_name_are_not_used(log, tmp_path):
    """An extract is often written where another one was; a log that went on keeps what it had."""
    entries = [entry for batch in log.read() for entry in batch]
    path = tmp_path / "x.slog"
    first = written(path, entries)
    shutil.copytree(log.sidecar.directory, first.sidecar.directory)
    assert FileSource(path).snapshot(Scheduler(), first.end) is not None

    other = [entry._replace(at=entry.at + 1) for entry in entries]
    assert written(path, other[: len(other) // 2]).snapshot(Scheduler(), first.end) is None
