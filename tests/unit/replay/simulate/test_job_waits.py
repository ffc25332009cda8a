"""Waits per job: side by side by name, whatever slices and variants a job has gone through."""

from sluice.cli.kit.job_waits_text import lines
from sluice.events.base import WorkloadKey
from sluice.replay.simulate.changes import Changes, parse_setting
from sluice.replay.simulate.job_waits import JobWait, compared, plain, rows
from sluice.replay.simulate.lives import Life
from sluice.replay.simulate.what_if import what_if
from sluice.replay.source.source import FileSource, ListSource, Source
from tests.support.family_world import cell, cluster_queue
from tests.unit.replay.incident import EXAMPLE
from tests.unit.replay.lint.test_invariants import elastic, families

NO_RECLAIM = Changes([parse_setting("ClusterQueue/serving.spec.preemption.reclaimWithinCohort=Never")])
S = 1_000_000
A, GROWN = WorkloadKey("default/a"), WorkloadKey("default/a-2")


def test_who_was_preempted_would_not_have_waited() -> None:
    """The job that preempted two waits in their place, and nobody is preempted."""
    found = what_if(FileSource(EXAMPLE), NO_RECLAIM)
    told = {row.job: row.waits for row in rows(found)}
    assert compared(found) == ("replayed", "changed")
    before, after = told["default/train-4"]["replayed"], told["default/train-4"]["changed"]
    assert before is not None
    assert after is not None
    assert (before.first, before.preemptions, after.waited, after.preemptions) == (0, 1, 0, 0)
    assert before.waited == before.after_preemption > 500 * S
    rollout = told["default/api-rollout"]["changed"]
    assert rollout is not None
    assert rollout.first == rollout.waited > 500 * S
    assert rows(found)[0].job in ("default/api-rollout", "default/train-4"), "most different first"


def test_a_job_that_was_left_out_is_none() -> None:
    found = what_if(FileSource(EXAMPLE), Changes(drops=["job/api-rollout"]))
    (row,) = rows(found, "api-*")
    assert row.waits["changed"] is None
    assert row.waits["recorded"] is not None
    assert plain([row])[0]["runs"]["changed"] is None
    text = "\n".join(lines(found, "api-*"))
    assert "default/api-rollout" in text
    assert "left out" in text
    assert "No job 'nobody' was played" in "\n".join(lines(found, "nobody"))


def test_slices_and_variants_are_one_job() -> None:
    """What a job went through makes one row; it waits only while none of its workloads is admitted."""
    for log in (elastic(), families()):
        source: Source = log if isinstance(log, ListSource) else ListSource(log)
        told = rows(what_if(source, Changes()))
        assert told
        assert len({row.job for row in told}) == len(told)
        for row in told:
            assert "[" not in row.job, "a variant is no row of its own"
            for wait in row.waits.values():
                assert wait is not None
                assert wait.waited >= (wait.first or 0)
                assert wait.waited >= wait.after_preemption


def test_who_never_gets_in_waits_to_the_end() -> None:
    world = cell(cluster_queue({"res": 1}))
    world.submit("fits").settle_all()
    world.submit("large", 2).settle_all()
    found = what_if(ListSource(world.log), Changes())
    (row,) = rows(found, "large")
    wait = row.waits["replayed"]
    assert wait is not None
    assert (wait.first, wait.waits) == (None, True)
    assert "never" in "\n".join(lines(found, "large"))


def test_a_job_of_the_same_name_is_another_row() -> None:
    world = cell(cluster_queue({"res": 1}))
    for _ in range(2):
        world.submit("again").settle_all()
        world.message("again", "JobDeleted", {})
        world.settle_all()
    told = rows(what_if(ListSource(world.log), Changes()))
    assert [row.job for row in told] == ["default/again", "default/again#2"]


def test_a_life_counts_what_it_waits() -> None:
    """First wait 5 s; 10 s after a preemption; 20 s for another reason; a growth costs no wait."""
    life = Life("q", "0", 0, waits_since=0, there=1)
    life.admit(A, ["spot"], 5 * S)
    life.evict("Preempted")
    life.leave(A, 30 * S)
    assert life.waits_at(33 * S) == (8 * S, 3 * S)
    life.admit(A, ["on-demand"], 40 * S)
    life.evict("NodeFailure")
    life.leave(A, 50 * S)
    life.admit(A, ["spot"], 70 * S)
    life.there += 1
    life.end(A, 80 * S)
    life.admit(GROWN, [], 80 * S)
    life.end(GROWN, 90 * S)
    assert life.waits_at(1000 * S) == (35 * S, 10 * S)
    assert (life.admitted, life.flavors, life.waits_since) == (5 * S, ["spot", "on-demand"], None)


def test_plain_rows_are_in_seconds() -> None:
    wait = JobWait(1_500_000, 2_000_000, 0, ("spot",), 0, False, True)
    found = what_if(FileSource(EXAMPLE), NO_RECLAIM)
    row = rows(found)[0]._replace(waits={"changed": wait})
    assert plain([row])[0]["runs"]["changed"] == {
        "firstSeconds": 1.5,
        "waitedSeconds": 2.0,
        "afterPreemptionSeconds": 0.0,
        "flavors": ["spot"],
        "preemptions": 0,
        "ended": False,
        "waits": True,
    }
