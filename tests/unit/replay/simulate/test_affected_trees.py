"""What a change cannot reach is not played again, and nothing that is reported shows it."""

from dataclasses import replace
from typing import Any

import pytest

from sluice.cli.kit.run_text import compared_lines
from sluice.events.base import JobKey
from sluice.log.contract import Entry
from sluice.replay.simulate.affected_trees import reach_of
from sluice.replay.simulate.changes import Changes, apply_changes, parse_setting
from sluice.replay.simulate.inputs import Inputs, Kept, inputs_of
from sluice.replay.simulate.what_if import Cut, what_if
from sluice.replay.source.source import ListSource
from tests.bench.recorded import Recorder
from tests.bench.scenario import BASELINE
from tests.support.objects import kueue_object
from tests.support.runs import play

LESS = "ClusterQueue/cq-0-0.spec.resourceGroups.0.flavors.default.resources.cpu.borrowingLimit=0"
CROWDED = replace(
    BASELINE,
    cohorts=3,
    queues_per_cohort=3,
    classes=tuple(replace(c, count=c.count // 15) for c in BASELINE.classes),
)


@pytest.fixture(scope="module")
def crowded() -> ListSource:
    """Three trees of three queues, to the end of all jobs, with preemptions everywhere."""
    entries: list[Entry] = []
    Recorder(entries.append, CROWDED, rounds=1).play_out()
    return ListSource(entries)


def changed(source: ListSource, *settings: str, **more: Any) -> tuple[Inputs, Inputs]:
    given = inputs_of(source)
    return given, apply_changes(given, Changes([parse_setting(text) for text in settings], **more))


@pytest.mark.parametrize("later", [False, True])
def test_a_part_decides_as_the_whole(crowded, later):
    """The reached tree played alone comes to the numbers of all trees played together, from any time on."""
    since = crowded.entries[len(crowded.entries) // 3].at if later else 0
    found = what_if(crowded, Changes([parse_setting(LESS)], since=since))
    given, after = changed(crowded, LESS, since=since)
    cut = Cut(None, since) if later else None
    whole = [play(inputs, source=crowded, cut=cut)[0] for inputs in (given, after)]

    assert found.reach is not None
    assert (len(found.reach), found.reach.of) == (CROWDED.jobs // 3, CROWDED.jobs)
    assert [run.numbers for run in found.runs[1:]] == [run.numbers for run in whole]
    assert found.runs[1].numbers == found.runs[0].numbers
    assert found.runs[1].numbers != found.runs[2].numbers
    assert sum(found.runs[0].numbers["preemptions"].values()) > 10
    assert found.same_decisions


@pytest.mark.parametrize("later", [False, True])
def test_what_changed_is_the_same_without_a_control(crowded, later):
    """A change can be compared with the record alone; the report says that this is what was done."""
    since = crowded.entries[len(crowded.entries) // 3].at if later else 0
    changes = Changes([parse_setting(LESS)], since=since)
    found, alone = what_if(crowded, changes), what_if(crowded, changes, control=False)

    assert [run.name for run in alone.runs] == ["recorded", "changed"]
    assert [run.numbers for run in alone.runs] == [found.runs[0].numbers, found.runs[2].numbers]
    assert alone.followed == found.followed
    assert (found.same_decisions, alone.same_decisions) == (True, None)
    said = [any(line.startswith("Not replayed") for line in compared_lines(each)) for each in (found, alone)]
    assert said == [False, True]


def test_a_dropped_job_reaches_its_tree(crowded):
    given, after = changed(crowded, drops=["job/cq-1-0-large-0-0"])
    reach = reach_of(given, after)

    assert reach is not None
    assert reach.queue("default/cq-1-1")
    assert not reach.queue("default/cq-0-0")


def test_what_a_change_joins_is_played_together(crowded):
    """A queue that moves reaches the tree that it leaves and the one that it comes to."""
    reach = reach_of(*changed(crowded, "ClusterQueue/cq-0-0.spec.cohortName=cohort-2"))

    assert reach is not None
    assert [reach.queue(f"default/cq-{n}-0") for n in range(3)] == [True, False, True]


@pytest.mark.parametrize(
    "manifest",
    [
        {"kind": "Cohort", "metadata": {"name": "cohort-0"}, "spec": {"parentName": "root"}},
        {
            "kind": "Configuration",
            "metadata": {"name": "default"},
            "spec": {"waitForPodsReady": {"enable": True, "blockAdmission": True}},
        },
    ],
)
def test_what_joins_all_trees_is_played_in_one(crowded, manifest):
    """A cohort above all others joins them, and so does one admission that holds up all others."""
    given = inputs_of(crowded)
    version = "sluice.dev/v1alpha1" if manifest["kind"] == "Configuration" else "kueue.x-k8s.io/v1beta2"
    manifests = [{"apiVersion": version, **manifest}]
    if manifest["kind"] == "Cohort":
        manifests += [{**manifests[0], "metadata": {"name": f"cohort-{n}"}} for n in (1, 2)]
    assert reach_of(given, apply_changes(given, Changes([], manifests, []))) is None


TAINT = {"key": "gone", "value": "yes", "effect": "NoSchedule"}
FEWER = kueue_object("ResourceFlavor", "default", {"nodeTaints": [TAINT]})


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("apart", [False, True])
def test_trees_that_are_played_apart_decide_as_the_whole(crowded, later, apart, monkeypatch):
    """A flavor is everybody's: each tree plays by itself, and together they come to what one cell does."""
    monkeypatch.setattr("sluice.replay.simulate.what_if.MANY", 0 if apart else 10**9)
    since = crowded.entries[len(crowded.entries) // 3].at if later else 0
    changes = Changes([], [FEWER], [], since)
    found = what_if(crowded, changes)
    given = inputs_of(crowded)
    cut = Cut(None, since) if later else None
    inputs = (given, apply_changes(given, changes))
    whole = [play(each, source=crowded, cut=cut)[0] for each in inputs]

    assert found.reach is not None
    assert [len(part) for part in found.reach.parts] == [CROWDED.jobs // 3] * 3
    assert [run.numbers for run in found.runs[1:]] == [run.numbers for run in whole]
    assert found.same_decisions
    assert found.reproduced
    if later:
        assert found.runs[2].numbers["admitted"] < found.runs[1].numbers["admitted"]
    for part in range(3):
        alone = [d for d in whole[0].decisions if found.reach.parts[part].job(JobKey(d[1]))]
        assert alone == found.runs[1].parts[part]


def test_decisions_of_trees_have_one_order(crowded):
    """By time, then by tree: whoever puts the same parts together again gets the same list."""
    runs = [what_if(crowded, Changes([], [FEWER], [])).runs[1] for _ in range(2)]
    assert runs[0].decisions == runs[1].decisions
    assert sorted(runs[0].decisions) == sorted(d for part in runs[0].parts for d in part)


def test_a_job_of_two_queues_joins_their_trees(crowded):
    """Wherever it may go in another run, it stays within what is played."""
    given, after = changed(crowded, LESS)
    job = next(job for job, queues in given.queues.items() if "default/cq-2-0" in queues)
    given.queues[job] = {"default/cq-2-0": None, "default/cq-0-1": None}
    reach = reach_of(given, after)

    assert reach is not None
    assert reach.queue("default/cq-2-1")
    given.queues[job] = {"default/": None}
    assert reach_of(given, after) is None


@pytest.mark.parametrize("room", [0, 20_000, 1 << 30])
def test_commits_that_are_not_kept_are_read_again(crowded, room):
    """What services wrote can be read a second time, whether it was small enough to be kept or not."""
    writers = ("slices", "scheduler")
    kept = Kept(room=room)
    inputs_of(crowded, kept=kept)

    again = [entry for entries in kept.read(crowded, writers) for entry in entries]
    assert again == [entry for entry in crowded.entries if entry.suffix in writers]
    assert kept.complete == bool(kept.entries) == (room == 1 << 30)
