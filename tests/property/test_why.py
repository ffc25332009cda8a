"""The smallest change that `why` names does admit, and a smaller one does not."""

import random

import pytest

from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.state import SchedulerState
from sluice.core.world.workload import Workload
from sluice.events.checks import ChecksReady
from sluice.events.slices import WorkloadStopped
from sluice.log.contract import Entry
from sluice.log.fold import Fold
from sluice.replay.explain.sandbox import Sandbox, with_quota
from sluice.replay.explain.stopping import Leavers
from sluice.replay.explain.why import explain
from sluice.replay.source.source import ListSource
from sluice.replay.source.time_travel import steps
from tests.bench.recorded import Recorder
from tests.bench.scenario import JobClass, Scenario
from tests.support.contended_history import Contended
from tests.support.elastic_cell import Cell
from tests.support.examples import FACTOR
from tests.support.family_world import FamilyWorld, cell, cluster_queue
from tests.support.log_check import wrong_with
from tests.unit.replay.lint.test_invariants import CLASSES

pytestmark = pytest.mark.long

STEP = 1 if FACTOR else 3

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


def busy() -> ListSource:
    entries: list[Entry] = []
    Recorder(entries.append, BUSY).play(1200)
    return ListSource(entries)


def races() -> ListSource:
    """Families that come, run, are preempted and migrate, on quota that is always short."""
    rng = random.Random(7)
    queue = {"res": 3, "od": 4}
    world = cell(cluster_queue(queue, preemption={"withinClusterQueue": "LowerPriority"}), *CLASSES)
    for number in range(28):
        world.submit(f"j{number}", rng.choice((1, 2, 3)), priority_class=rng.choice(("low", "low", "high")))
        world.settle_all(rng.choice((0, 1, 400)))
        running = [f"j{n}" for n in range(number) if _runs(world, f"j{n}")]
        if running and rng.random() < 0.4:
            world.report(rng.choice(running), "JobFinished", success=True).settle_all()
    return ListSource(world.log)


def _runs(world: FamilyWorld, name: str) -> bool:
    entry = world.dispatch(name)
    return entry is not None and entry.state == "Running"


def growth() -> ListSource:
    """Elastic jobs that want more than there is, and rigid ones beside them."""
    rng = random.Random(3)
    world = Cell()
    world.queue("left", 9, "all", preemption={"withinClusterQueue": "LowerPriority"})
    world.queue("right", 6, "all", preemption={"reclaimWithinCohort": "Any"})
    for number in range(6):
        world.submit(f"e{number}", rng.choice(("left", "right")), rng.randint(1, 3), priority=number % 2)
        world.submit(f"r{number}", "left", rng.randint(1, 3), elastic=False).settle()
    for _ in range(30):
        world.scale(f"e{rng.randrange(6)}", rng.randint(2, 9)).settle()
    return ListSource(world.log)


@pytest.mark.parametrize(("name", "least"), [("busy", 25), ("races", 40), ("growth", 40)])
def test_the_smallest_change_admits_and_a_smaller_one_does_not(name, least):
    """For a hundred states and workloads: decided on copies of the state, with one base unit less too.

    Every third state: neighbours differ little, and each question plays on. `make fuzz` asks of all.
    Variants are each asked for by themselves, slices for what they want beyond the ones that run.
    """
    source = {"busy": busy, "races": races, "growth": growth}[name]()
    assert not (wrong := wrong_with(source.entries)), wrong
    checked = 0
    fold = Fold(Scheduler())
    for number, (seq, _) in enumerate(steps(source, fold, source.end)):
        if number % STEP:
            continue
        pending = [w for w in fold.state.world.workloads.values() if w.peers is not None]
        for workload in pending[:: max(1, len(pending) // 2)]:
            checked += _smallest(fold, workload, seq)
    assert checked >= least


def test_what_pending_preemptions_take_and_hold_back():
    """Of a reservation with preemptions pending: Ready from its checks admits it, and nothing less does.

    Of those who wait for what is promised to it: the smallest change admits, and a smaller one does not.
    """
    passed, behind = 0, 0
    for seed in range(60):
        fold = Fold(Scheduler())
        source = ListSource(Contended(seed).play(30).log)
        for seq, _ in steps(source, fold, source.end):
            world = fold.state.world
            if not world.pending_preemptions or seq % 2:
                continue
            by_queue = world.pending_preemptions.by_queue.values()
            for preemptor in [workload for each in by_queue for workload in each.values()]:
                passed += _passes(fold, preemptor, seq)
            for workload in [w for w in world.workloads.values() if w.peers is not None][:2]:
                behind += bool(explain(fold.state, workload.key, seq, fold.at, help_=False).claims)
                _smallest(fold, workload, seq)
    assert min(passed, behind) >= 60, (passed, behind)


def _passes(fold: Fold[SchedulerState], preemptor: Workload, seq: int) -> bool:
    """Check what is said of a reservation; False if not even that would admit it."""
    report = explain(fold.state, preemptor.key, seq, fold.at)
    assert report.phase == "QuotaReserved"
    assert report.claims[0].victims == sorted(preemptor.victims)
    sandbox = Sandbox(fold.state, seq, fold.at)
    world = fold.state.world
    stops = [WorkloadStopped(cause=0, workload=key) for key in sorted(preemptor.victims)]
    stops = [stop for stop in stops if world.workloads[stop.workload].evicted_at is not None]
    ready = ChecksReady(cause=0, workload=preemptor.key, attempt=preemptor.reservations)
    admitted = sandbox.attempt((*stops, ready), preemptor.key).admitted
    assert admitted == bool(report.remedies), (seq, preemptor.key)
    if report.remedies and report.remedies[0].kind == "check":
        assert not sandbox.attempt(stops, preemptor.key).admitted
    for key in preemptor.victims:
        victim = explain(fold.state, key, seq, fold.at, help_=False)
        assert preemptor.key in victim.message or world.workloads[key].evicted_at is not None
    return admitted


def _smallest(fold: Fold[SchedulerState], workload: Workload, seq: int) -> bool:
    """Check what is said of one workload, when leavers have stopped; False if nothing need be changed."""
    report = explain(fold.state, workload.key, seq, fold.at)
    world = fold.state.world
    queue = world.cluster_queues[workload.cluster_queue]
    leaving = tuple(w for w in world.workloads.values() if w.evicted_at is not None and not w.stopped)
    sandbox = Sandbox(fold.state, seq, fold.at)
    if report.remedies and report.remedies[0].kind == "none":
        assert sandbox.attempt((), workload.key).reserved is not None
        return False
    sandbox = sandbox.patient(Leavers(fold.state, None, leaving, workload.record.replaces))
    if report.remedies and report.remedies[0].kind == "stop":
        # Of a variant that waits for one of them: with all of them gone, a sibling may come first.
        outcome = sandbox.attempt((), workload.key)
        assert outcome.reserved is not None or outcome.sibling
        return False
    remedy = next((r for r in report.remedies if r.kind == "quota"), None)
    if remedy is None:
        # No quota helps who may not take over from a sibling.
        assert workload.record.parent is not None, (seq, workload.key)
        return False
    assert remedy.amounts is not None
    ((name, amount),) = remedy.amounts.items()
    flavor, _, resource = name.partition("/")

    def admits(more: int) -> bool:
        event = with_quota(queue, {(flavor, resource): more})
        return sandbox.attempt((event,), workload.key).reserved is not None

    assert admits(amount), (seq, workload.key, amount)
    assert not admits(amount - 1), (seq, workload.key, amount)
    return True
