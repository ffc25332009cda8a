"""The api's world, saved and read again: folding on from it leads to what folding everything does."""

import asyncio
import itertools

import pytest

from sluice.core.views import snapshot as views
from sluice.log.cell import CellFold
from sluice.log.contract import Entry
from sluice.log.fold import Fold
from sluice.log.memory import MemoryLog
from sluice.log.runtime.snapshot import Snapshots, spread
from sluice.readmodel import snapshot
from sluice.readmodel.follower import Follower
from sluice.readmodel.objects import keys, render
from sluice.readmodel.world import World
from sluice.replay.source.source import Matcher
from sluice.replay.source.time_travel import patterns_of
from tests.bench.recorded import Recorder
from tests.bench.scenario import BASELINE
from tests.support.memory_store import MemoryStore

KINDS = ("ClusterQueue", "LocalQueue", "Cohort", "ResourceFlavor", "Job", "Workload", "Agent")


@pytest.fixture(scope="module")
def entries() -> list[Entry]:
    found: list[Entry] = []
    Recorder(found.append, BASELINE).play(4000)
    return found


def everything(world: World) -> list[object]:
    return [(kind, key, render(world, kind, key)) for kind in KINDS for key in keys(world, kind)]


@pytest.mark.parametrize("tenths", [1, 3, 5, 8, 10])
def test_a_snapshot_and_the_tail_are_the_whole(entries, tenths):
    """Byte for byte, and in everything that people see, wherever it was taken."""
    cut = len(entries) * tenths // 10
    whole, saved = World(), World()
    whole.fold(entries)
    saved.fold(entries[:cut])
    again = snapshot.load(snapshot.dump(saved), saved.seq, saved.at)
    assert snapshot.dump(again) == snapshot.dump(saved)
    again.fold(entries[cut:])
    assert snapshot.dump(again) == snapshot.dump(whole)
    assert (again.seq, again.at, again.heads) == (whole.seq, whole.at, whole.heads)
    assert everything(again) == everything(whole)
    assert [again.changes.since(kind, 0) for kind in KINDS] == [
        whole.changes.since(kind, 0) for kind in KINDS
    ]


def test_empty_dictionaries_stay_one(entries):
    """What thousands of workloads do not have takes no room, also after a snapshot."""
    world = World()
    world.fold(entries)
    view = views.load(views.dump(world.view))
    bare = [w for w in view.workloads.values() if not w.checks]
    assert len(bare) > 100
    assert len({id(workload.checks) for workload in bare}) == 1


async def test_what_cannot_be_read_is_left_alone(entries):
    """Of another version, of a log that is shorter, or damaged: then the next older one, or none."""
    world = World()
    world.fold(entries)
    kept = MemoryStore()
    snapshots = Snapshots(kept)
    await snapshot.store(snapshots, world)
    assert (await snapshot.newest(snapshots, world.seq)).seq == world.seq
    assert (await snapshot.newest(snapshots, world.seq - 1)).seq == 0
    # One part is of no use without the other.
    fold = CellFold()
    await snapshots.store(fold.writer, fold.state_version, fold.dump(world.cell), world.seq + 3, 0, 0)
    await snapshots.store(snapshot.WRITER, snapshot.VERSION + 1, b"", world.seq + 1, 0, 0)
    await snapshots.store(snapshot.WRITER, snapshot.VERSION, b"\x91\xc0", world.seq + 2, 0, 0)
    assert (await snapshot.newest(snapshots, world.seq + 9)).seq == world.seq


def test_every_field_of_the_view_is_saved():
    """A new attribute of the view must find its place in the snapshot, or this fails; memos need none."""
    saved = set(views._Snapshot.__struct_fields__)
    fields = vars(World().view).items()
    plain = {name for name, value in fields if not isinstance(value, int) and not name.startswith("_")}
    assert plain <= saved


async def test_replay_goes_on_from_it(entries):
    """What the service keeps of the cell is the snapshot that `sluice replay` starts from."""
    world, whole, snapshots = World(), Fold(CellFold()), Snapshots(MemoryStore())
    cut = len(entries) // 2
    world.fold(entries[:cut])
    await snapshot.store(snapshots, world)
    found = await snapshots.newest(CellFold(), entries[-1].seq)
    assert found is not None
    assert found.upto == entries[cut - 1].seq
    matches = Matcher(patterns_of(CellFold()))
    for fold, rest in ((found, entries[cut:]), (whole, entries)):
        for entry in rest:
            if matches(entry.suffix):
                fold.fold(entry)
    assert CellFold().dump(found.state) == CellFold().dump(whole.state)


async def test_people_are_answered_while_it_is_saved(entries):
    """The bytes are made elsewhere: the loop turns, and what comes meanwhile is no part of them."""
    world, kept = World(), MemoryStore()
    world.fold(entries[:-1])
    before = snapshot.dump(world)
    saving = asyncio.create_task(snapshot.store(Snapshots(kept), world))
    turns = 0
    while not saving.done():
        await asyncio.sleep(0)
        turns += 1
        if turns == 1:
            world.fold(entries[-1:])
    assert turns > 3
    found = await snapshot.newest(Snapshots(kept), world.seq)
    assert found.seq == entries[-2].seq
    assert snapshot.dump(found) == before


async def test_what_comes_while_it_saves_is_saved_next(entries):
    """Much may come in the meantime, and then nothing for long: the last is not far behind either way."""
    kept = Snapshots(MemoryStore())
    follower = Follower(MemoryLog(), kept, every=50)
    follower.world.fold(entries[:60])
    follower._save()
    await asyncio.sleep(0)
    follower.world.fold(entries[60:])
    follower._save()
    assert follower._saving is not None
    await follower._saving
    assert (await snapshot.newest(kept, entries[-1].seq)).seq == entries[-1].seq


def test_older_snapshots_lie_further_apart():
    """The newest are kept, the first one, and of the others the fewer the older they are."""
    known: list[int] = []
    for seq in range(100, 50_001, 100):
        known.insert(0, seq)
        known = [known[number] for number in spread(known, 3)]
        assert known[:3] == sorted(range(seq, max(seq - 300, 0), -100), reverse=True)
        for newer, older in itertools.pairwise(known):
            assert newer - older <= max(100, (seq - older) / 3)
    assert known[-1] == 100
    assert len(known) < 30
