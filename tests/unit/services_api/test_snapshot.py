"""The api's world, saved and read again: folding on from it leads to what folding everything does."""

import pytest

from services.api import snapshot
from services.api.objects import keys, render
from services.api.world import World
from sluice.core.status import snapshot as views
from sluice.log.contract import Entry
from sluice.log.snapshot import MemoryStore, Snapshots
from tests.bench.recorded import Recorder
from tests.bench.scenario import BASELINE

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
    await snapshots.store(snapshot.WRITER, snapshot.VERSION + 1, b"", world.seq + 1, 0, 0)
    await snapshots.store(snapshot.WRITER, snapshot.VERSION, b"\x91\xc0", world.seq + 2, 0, 0)
    assert (await snapshot.newest(snapshots, world.seq + 9)).seq == world.seq


def test_every_field_of_the_view_is_saved():
    """A new attribute of the view must find its place in the snapshot, or this fails."""
    saved = set(views._Snapshot.__struct_fields__)
    plain = {name for name, value in vars(World().view).items() if not isinstance(value, int)}
    assert plain <= saved
