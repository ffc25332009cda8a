"""What moves, or waits for victims, keeps what it waits for, and holds nobody up beside (CA6, CA10)."""

from sluice.events.scheduler import Admitted, Evicted, QuotaReserved
from tests.support.family_world import FamilyWorld, cell, cluster_queue, flavor
from tests.support.objects import priority_class

HIGH = priority_class("high", 100)


def moving(flavors: dict[str, int], *jobs: str) -> FamilyWorld:
    """Return a cell in which the first of *jobs* has ended, and the next move up; nobody obeys."""
    world = cell(cluster_queue(flavors), HIGH)
    for name in jobs:
        world.submit(name)
        world.settle_all()
    world.report(jobs[0], "JobFinished", success=True)
    world.settle()
    return world


def test_a_job_that_does_not_stop_holds_nobody_up() -> None:
    """CA6: while a job moves, and for as long as it takes to stop, others get what is free."""
    world = moving({"res": 1, "od": 1, "spot": 1}, "done", "mover")
    entry = world.dispatch("mover")
    assert entry is not None
    assert entry.stop
    world.submit("urgent", priority_class="high")
    world.settle()
    assert world.flavor_of("urgent") == "spot"
    world.settle_all()
    assert world.flavor_of("mover") == "res"
    world.verify()


def test_jobs_of_one_queue_move_side_by_side() -> None:
    """One that never stops keeps no other from moving."""
    world = cell(cluster_queue({"res": 2, "od": 2}))
    for name in ("one", "two", "stuck", "mover"):
        world.submit(name)
        world.settle_all()
    for name in ("one", "two"):
        world.report(name, "JobFinished", success=True)
    world.settle()
    assert [e.reason for e in world.events(Evicted) if isinstance(e, Evicted)] == ["FlavorMigration"] * 2
    world.report("mover", "JobStopped")
    world.settle()
    assert world.flavor_of("mover") == "res"
    assert world.flavor_of("stuck") == ""
    world.verify()


def test_what_a_job_moves_to_is_its_own() -> None:
    """Nobody takes it while the job stops, not even one that comes first in every other way."""
    world = moving({"res": 1, "od": 1}, "done", "mover")
    world.submit("urgent", priority_class="high")
    world.settle()
    assert world.flavor_of("urgent") == ""
    world.settle_all()
    assert (world.flavor_of("mover"), world.flavor_of("urgent")) == ("res", "od")
    assert sum(isinstance(e, Evicted) for e in world.events(Evicted)) == 1
    world.verify()


def test_a_variant_that_is_lost_before_it_took_over_gives_its_quota_back() -> None:
    """The job ends while it is being stopped: nothing is left behind."""
    world = moving({"res": 1, "od": 1}, "done", "mover")
    world.report("mover", "JobFinished", success=True)
    world.submit("next")
    world.settle_all()
    assert world.flavor_of("next") == "res"
    world.verify()


def test_a_sibling_beside_is_admitted_after_the_stop_only() -> None:
    """CA10: quota is reserved at once, and admitted when the job has stopped."""
    world = moving({"res": 1, "od": 1}, "done", "mover")
    res = world.variants("mover")["res"].key
    reserved = [e.workload for e in world.events(QuotaReserved) if isinstance(e, QuotaReserved)]
    admitted = [e.workload for e in world.events(Admitted) if isinstance(e, Admitted)]
    assert res in reserved
    assert res not in admitted
    world.settle_all()
    admitted = [e.workload for e in world.events(Admitted) if isinstance(e, Admitted)]
    assert res in admitted


def test_a_flavor_that_is_added_while_a_job_moves_is_left_to_others() -> None:
    """It is worse than the one that the job leaves, so its new variant would keep it for nothing (CA10)."""
    world = moving({"res": 1, "od": 1}, "done", "mover")
    world.apply(flavor("spot"), cluster_queue({"res": 1, "od": 1, "spot": 1}))
    world.settle()
    world.submit("next")
    world.settle()
    assert world.flavor_of("next") == "spot"
    world.settle_all()
    assert world.flavor_of("mover") == "res"
    world.verify()
