"""The whole cell at any point: as users saw it, from a snapshot or from the start, forward and back."""

import itertools
import sys
from collections.abc import Callable, Iterator
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sluice.api.kueue import ClusterQueue
from sluice.cli.main import main
from sluice.core.config.objects import Stored, manifest_of
from sluice.core.views import WorkloadView
from sluice.core.views.lazy_dict import as_stored
from sluice.events.base import Event, Micros
from sluice.log.cell import CellFold, CellState
from sluice.log.contract import Entry
from sluice.log.fold import Fold
from sluice.protocol.subjects import matches_any
from sluice.readmodel.objects import render
from sluice.readmodel.world import World
from sluice.replay.history.stepper import Film, Place, _of_entry
from sluice.replay.source.errors import UnknownNameError
from sluice.replay.source.source import FileSource, ListSource
from sluice.replay.source.time_travel import index
from sluice.replay.views.describe import SECTIONS, about, known_names, picture
from sluice.replay.views.diff import COMPARED, changes, differences
from sluice.replay.views.diff import whole as all_of
from sluice.replay.views.overview import both, look, look_at
from tests.support.family_world import cell, cluster_queue
from tests.support.runs import cell_at
from tests.unit.replay.extract.test_extract import incident
from tests.unit.replay.incident import EXAMPLE, ROOT
from tests.unit.replay.lint.test_invariants import elastic, families
from tests.unit.replay.simulate.test_what_if import checked


def migrating() -> list[Entry]:
    """A job runs on the lesser flavor, and moves when the better one is free."""
    world = cell(cluster_queue({"res": 1, "od": 1}))
    for name in ("a", "b"):
        world.submit(name).settle_all()
    world.report("a", "JobFinished", success=True).settle_all()
    return world.log


STORIES = [incident, families, migrating, elastic, checked]


@cache
def told(story: Callable[[], list[Entry]]) -> list[Entry]:
    """Return a story's log, played once for all tests: its entries do not change."""
    return story()


@pytest.fixture(params=STORIES, ids=lambda story: story.__name__)
def log(request: pytest.FixtureRequest) -> ListSource:
    return ListSource(told(request.param))


def status_of(world: World, kind: str, key: str) -> dict[str, Any]:
    shown = render(world, kind, key)
    assert shown is not None
    status: dict[str, Any] = shown["status"]
    return status


def commits(source: ListSource) -> list[Entry]:
    return [entry for entries in source.read() for entry in entries]


def states(source: ListSource) -> Iterator[tuple[Entry, CellState]]:
    """Each message and the state after it, which the next one changes; `cell_at` begins anew each time."""
    fold = Fold(CellFold())
    for entry in commits(source):
        if matches_any(fold.decider.reads, entry.suffix):
            fold.fold(entry)
        yield entry, fold.state


def test_it_is_what_the_api_service_answers_from(log: ListSource) -> None:
    """At every sequence jobs have the fields that `sluice get` showed, workloads their phase."""
    world = World()
    for entry, state in states(log):
        world.fold([entry])
        found = picture(state, ["jobs", "workloads"])
        assert found["workloads"].keys() == world.view.workloads.keys()
        for key, workload in found["workloads"].items():
            assert workload["phase"] == status_of(world, "Workload", key)["phase"]
        for key in world.view.jobs:
            job, shown = found["jobs"][key], status_of(world, "Job", key)
            # Only the api says of a job that runs why it has not grown yet.
            told = {"reason", "message"} if "wantedPods" in shown else set()
            assert all(shown[name] == value for name, value in job.items() if name not in {"kind", *told})


def test_a_snapshot_and_the_rest_are_the_whole(log: ListSource) -> None:
    """Wherever a state was stored, going on from it leads to the same picture."""
    fold = CellFold()
    entries = commits(log)
    whole = picture(cell_at(log, log.end).state)
    for cut in range(0, len(entries), 1 + len(entries) // 6):
        seq = entries[cut].seq
        state = cell_at(log, seq).state
        stored = fold.load(fold.dump(state))
        assert picture(stored) == picture(state)
        film = Film(log)
        film._cell, film._place = stored, Place(seq, 1 << 30)
        film._shots = (shot for shot in film._shots if shot.place.seq > seq)
        film.at(Place(log.end, 1 << 20))
        assert picture(film.cell(film.at(Place(log.end, 1 << 20)).place)) == whole


def events_of(source: ListSource) -> list[tuple[Event, int, Micros]]:
    """Return all that the cell's state is folded from, with where and when."""
    shots = (shot for entry in commits(source) for shot in _of_entry(entry, b""))
    return [(s.event, s.place.seq, s.at) for s in shots if s.event is not None]


def test_each_event_finds_all_that_it_needs_in_a_snapshot(log: ListSource) -> None:
    """One event folded on what nobody has looked at gives, byte for byte, what it gives in a running cell."""
    fold, whole = CellFold(), CellState()
    for event, seq, at in events_of(log):
        again = fold.load(fold.dump(whole))
        for state in (whole, again):
            fold.apply(state, event, seq, at)
        assert fold.dump(again) == fold.dump(whole), event
    assert picture(again) == picture(whole)


def test_many_events_find_what_they_need_in_a_snapshot(log: ListSource) -> None:
    """Wherever it was taken, and although nobody looked at it before the end."""
    fold, events = CellFold(), events_of(log)
    whole, stored = CellState(), []
    for number, (event, seq, at) in enumerate(events):
        fold.apply(whole, event, seq, at)
        if number % 11 == 0:
            stored.append((number, fold.dump(whole)))
    for number, data in stored:
        again = fold.load(data)
        for event, seq, at in events[number + 1 :]:
            fold.apply(again, event, seq, at)
        assert fold.dump(again) == fold.dump(whole)
        assert picture(again) == picture(whole)


def test_only_what_is_asked_for_is_read_from_a_snapshot() -> None:
    """A look at one job opens its workloads and their queue, and no other job's."""
    source = ListSource(told(incident))
    fold = CellFold()
    cell = fold.load(fold.dump(cell_at(source, source.end).state))
    assert about(cell, "train-4")
    opened = [key for key, found in as_stored(cell.view.workloads) if isinstance(found, WorkloadView)]
    assert opened == ["default/job-train-4-45d14"]


def test_the_film_shows_the_state_after_each_event_both_ways(log: ListSource) -> None:
    """Going back shows what going forward did; behind a message's last event stands its state."""
    film = Film(log)
    place, seen = film.at(Place(log.first, 0)).place, []
    after = ((entry.seq, picture(state)) for entry, state in states(log))
    while True:
        frame = film.at(place)
        seen.append(frame)
        if frame.place.number + 1 == frame.count:
            want = next(shown for seq, shown in after if seq == place.seq)
            assert picture(film.cell(place)) == want
        further = film.after(place)
        if further == place:
            break
        place = further
    assert sum(frame.count for frame in seen if not frame.place.number) == len(seen)

    again = Film(log)
    for frame in reversed(seen):
        assert again.at(frame.place) == frame
    assert [again.before(f.place) for f in seen[1:]] == [f.place for f in seen[:-1]]


def test_lines_say_what_the_event_changed(log: ListSource) -> None:
    """A changed line differs from the frame before; an unmarked one says what that one said."""
    film = Film(log)
    before: dict[str, str] = {}
    marks = set()
    place = film.at(Place(log.first, 0)).place
    while True:
        frame = film.at(place)
        for line in frame.lines:
            marks.add(line.mark)
            if line.name in before and line.mark in "~ ":
                assert (before[line.name] != line.text) == (line.mark == "~")
        before = {line.name: line.text for line in frame.lines if line.mark != "-"}
        further = film.after(place)
        if further == place:
            break
        place = further
    assert {"+", "~", " "} <= marks


def test_the_next_event_about_a_job_is_found() -> None:
    """Forward and back, over events that are not about it; None when there is no other."""
    film = Film(ListSource(told(incident)))
    place: Place | None = Place(1, 0)
    found = []
    while place is not None and (place := film.find(place, "train-4")) is not None:
        found.append((place, film.at(place).happening.type))
    assert [what for _, what in found][:3] == ["JobSubmitted", "WorkloadCreated", "QuotaReserved"]
    assert film.find(found[-1][0], "train-4", back=True) == found[-2][0]
    assert film.find(found[0][0], "train-4", back=True) is None


def whole(source: ListSource, seq: int) -> CellState:
    return cell_at(source, seq).state


def test_differences_of_a_preemption() -> None:
    """Who was evicted and why, who came, what it did to queues; nothing between equal states."""
    source = ListSource(told(incident))
    found = differences(*both(source, 20, 40))
    assert found["evicted"] == [
        {"workload": "default/job-train-3-bc5a4", "job": "default/train-3", "times": {"Preempted": 1}},
        {"workload": "default/job-train-4-45d14", "job": "default/train-4", "times": {"Preempted": 1}},
    ]
    assert found["admitted"] == ["default/job-api-rollout-fb9b3"]
    assert found["finished"] == ["default/job-train-1-9dc5f"]
    assert "default/api-rollout" in found["jobs"]["created"]
    assert found["jobs"]["changed"]["default/train-3"]["phase"] == {"before": "Admitted", "after": "Queued"}
    same = differences(whole(source, 20), whole(source, 20))
    assert not any(same[name] for name in ("admitted", "evicted", "migrated", "resized", "finished"))
    assert not any(any(same[name].values()) for name in SECTIONS if name in same)


@pytest.mark.parametrize(
    ("story", "what"), [(migrating, "migrated"), (elastic, "resized"), (checked, "checksChanged")]
)
def test_differences_of_other_services(story: Callable[[], list[Entry]], what: str) -> None:
    """Migrations, resizes and checks are found between some two points of a log that has them."""
    source = ListSource(told(story))
    fold = CellFold()
    stored = [fold.dump(state) for _, state in states(source)]
    pairs = ((fold.load(before), fold.load(after)) for before, after in itertools.pairwise(stored))
    found = [one for before, after in pairs for one in differences(before, after)[what]]
    assert found


def test_configuration_that_changed_is_told_by_its_path() -> None:
    """A quota goes by the names of its flavor and resource."""
    source = ListSource(told(incident))
    old, new = whole(source, 20), whole(source, 20)
    stored = new.objects.by_kind["ClusterQueue"]["research"]
    queue = manifest_of("ClusterQueue", stored.object)
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = 24
    new.objects.by_kind["ClusterQueue"]["research"] = Stored(msgspec.convert(queue, ClusterQueue), stored.seq)
    changed = differences(old, new)["configuration"]["changed"]["ClusterQueue/research"]
    path = "spec.resourceGroups.0.flavors.on-demand.resources.cpu.nominalQuota"
    assert changed == {path: {"before": 16, "after": 24}}


def compared(before: dict[str, dict], after: dict[str, dict]) -> dict[str, dict]:
    """Return what came, went and changed between two whole pictures, object by object."""
    return {
        name: {
            "created": {key: one for key, one in after[name].items() if key not in before[name]},
            "gone": {key: one for key, one in before[name].items() if key not in after[name]},
            "changed": {
                key: dict(changes("", before[name][key], one))
                for key, one in after[name].items()
                if key in before[name] and before[name][key] != one
            },
        }
        for name in COMPARED
    }


def test_differences_leave_nothing_out(log: ListSource) -> None:
    """Between any two states they are those of the whole pictures, folded on or read from snapshots."""
    fold, entries = CellFold(), commits(log)
    seqs = [entry.seq for entry in entries[:: max(1, len(entries) // 4)]] + [log.end]
    folded = {seq: whole(log, seq) for seq in seqs}
    stored = {seq: fold.dump(state) for seq, state in folded.items()}
    pictures = {seq: picture(state) for seq, state in folded.items()}
    for first, last in itertools.combinations(seqs, 2):
        want = compared(pictures[first], pictures[last])
        from_log = all_of(differences(*both(log, first, last)))
        for before, after in (
            (fold.load(stored[first]), fold.load(stored[last])),
            (folded[first], fold.load(stored[last])),
        ):
            found = all_of(differences(before, after))
            assert {name: found[name] for name in COMPARED} == want
            assert from_log == found
            assert found["admitted"] == [
                key
                for key, one in pictures[last]["workloads"].items()
                if "variant" not in one
                and "admittedAt" in one
                and one["admittedAt"] != pictures[first]["workloads"].get(key, {}).get("admittedAt")
            ]


def test_what_did_not_change_is_not_read() -> None:
    """Two states a message apart are compared without opening the jobs that it is not about."""
    source, fold = ListSource(told(incident)), CellFold()
    before, after = (fold.load(fold.dump(whole(source, seq))) for seq in (33, 34))
    all_of(differences(before, after))
    opened = [key for key, one in as_stored(before.view.workloads) if isinstance(one, WorkloadView)]
    assert len(opened) < len(before.view.workloads) / 2


def test_everything_is_found_by_its_name(log: ListSource) -> None:
    """Each name that is suggested for a misspelt one leads to something."""
    cell: CellState = cell_at(log, log.end // 2).state
    for name in known_names(cell):
        assert about(cell, name)
    with pytest.raises(UnknownNameError):
        look_at(log, log.end, "nobody")


def test_what_was_indexed_is_found_in_a_long_log(tmp_path: Path) -> None:
    """Snapshots beside a file are used, and change no answer."""
    file = tmp_path / "x.slog"
    file.write_bytes(EXAMPLE.read_bytes())
    source = FileSource(file)
    assert index(source, 10) > 0
    fold = source.snapshot(CellFold(), source.end)
    assert fold is not None
    for seq in (20, 40, source.end):
        assert look(source, seq) == look(source, seq, snapshots=False)


def shell(script: str, capsys, monkeypatch) -> str:
    monkeypatch.setattr(sys, "stdin", StringIO(script))
    main(["replay", "shell", "-l", str(EXAMPLE)])
    return capsys.readouterr().out


def test_the_shell_reads_a_script(capsys, monkeypatch) -> None:
    """Every command answers; mistakes are told and change nothing."""
    monkeypatch.chdir(ROOT)
    script = (
        "n\nn 3\nb 2\nm\nmb\n27\nf train-4\nfb\ns\ns train-4\nwatch train-1\nunwatch train-1\nw train-4\n?\n"
    )
    out = shell(script, capsys, monkeypatch)
    for said in (
        "27.1> f train-4",
        "Stopping on on-demand",
        "phase: Stopping",
        "is Evicted",
        "forward one event",
    ):
        assert said in out
    wrong = "g 4711\ng never\nxyz\nn x\nwatch nobody\nf\nb\n27\ns trian-4\nw trian-4\n"
    out = shell(wrong, capsys, monkeypatch)
    for said in (
        "no sequence 4711",
        "want a sequence",
        'Did you mean "train-4"',
        "no command",
        "nothing further",
    ):
        assert said in out
    assert "Traceback" not in out
    assert out.count("\n1.1> ") == 8
