"""Jobs that are over lie packed: nobody who asks, folds on or restarts can tell."""

from collections.abc import Iterator

import pytest

from sluice.core.views import blocks
from sluice.core.views import snapshot as views
from sluice.log.contract import Entry
from sluice.protocol.query import HistoryRequest
from sluice.readmodel import snapshot
from sluice.readmodel.objects import keys, render
from sluice.readmodel.queries import history
from sluice.readmodel.world import World
from tests.bench.long_run import LongRun, key_of
from tests.support.view_invariants import violations

JOBS = 700
AGAIN = 560
"""A job that has ended, and is kept."""
NEVER = 1_000_000_000


Log = list[list[Entry]]


@pytest.fixture(scope="module")
def log() -> Log:
    """Of which most jobs are over, more of them than are kept; one name was used twice."""
    found: Log = []
    run = LongRun(250, found.append)
    run.play(JOBS)
    run.play_out()
    run.tick([AGAIN])
    return found


def folded(log: Log, monkeypatch: pytest.MonkeyPatch, *, leave_open: int) -> World:
    monkeypatch.setattr(blocks, "OPEN", leave_open)
    world = World()
    for entries in log:
        world.fold(entries)
    return world


def everything(world: World) -> Iterator[object]:
    for kind in ("Job", "Workload", "Slice", "Variant", "ClusterQueue", "LocalQueue"):
        for key in sorted(keys(world, kind)):
            yield kind, key, render(world, kind, key)
    for key in sorted(keys(world, "Job")):
        namespace, _, name = key.partition("/")
        yield key, history(world, HistoryRequest(kind="Job", namespace=namespace, name=name))


def test_nobody_can_tell_that_they_lie_packed(log, monkeypatch):
    """Objects, histories and rows are what they are where every job lies open."""
    packed, plain = (folded(log, monkeypatch, leave_open=n) for n in (0, NEVER))
    assert sum(packed.view.jobs.is_packed(key) for key in packed.view.jobs) > 200
    assert not any(plain.view.jobs.is_packed(key) for key in plain.view.jobs)
    assert list(everything(packed)) == list(everything(plain))
    assert views.workload_rows(packed.view) == views.workload_rows(plain.view)
    assert views.job_rows(packed.view) == views.job_rows(plain.view)
    assert not violations(packed.view)


def test_asking_changes_nothing(log, monkeypatch):
    """What lies packed follows from the events alone: bytes are equal, whoever asked for everything."""
    quiet = folded(log, monkeypatch, leave_open=8)
    asked = World()
    for number, entries in enumerate(log):
        asked.fold(entries)
        if number % 4 == 0:
            for _ in everything(asked):
                pass
    assert snapshot.dump(asked) == snapshot.dump(quiet)


@pytest.mark.parametrize("tenths", [3, 8])
def test_a_restart_goes_on_with_what_lies_packed(log, monkeypatch, tenths):
    """Wherever it was saved, folding on leads to the same bytes and the same answers."""
    monkeypatch.setattr(blocks, "OPEN", 8)
    whole, saved = World(), World()
    cut = len(log) * tenths // 10
    for entries in log[:cut]:
        saved.fold(entries)
    again = snapshot.load(snapshot.dump(saved), saved.seq, saved.at)
    for entries in log:
        whole.fold(entries)
    for entries in log[cut:]:
        again.fold(entries)
    assert snapshot.dump(again) == snapshot.dump(whole)
    assert list(everything(again)) == list(everything(whole))


def test_blocks_go_with_what_is_in_them(log, monkeypatch):
    """Of jobs that were deleted nothing stays behind: blocks hold little else than what is kept."""
    world = folded(log, monkeypatch, leave_open=0)
    for found in (world.view.finished.rows, world.jobs.packed):
        assert found.stored.keys() == found.left.keys()
        assert sum(found.left.values()) > blocks.SIZE * len(found.left) // 2
    lying = {key for key in world.view.jobs if world.view.jobs.is_packed(key)}
    assert sum(world.view.finished.rows.left.values()) == len(lying)
    assert world.view.finished.histories.stored.keys() == world.view.finished.rows.stored.keys()


def test_an_event_about_a_packed_job_finds_it(log, monkeypatch):
    """A name that is submitted again becomes a new job, whatever lay packed under it."""
    world, key = folded(log[:-1], monkeypatch, leave_open=0), key_of(AGAIN)
    assert world.view.jobs.is_packed(key)
    before = world.view.jobs[key].reference.uid
    world.fold(log[-1])
    assert world.view.jobs[key].reference.uid != before
    assert not world.view.jobs.is_packed(key)
    assert not violations(world.view)
