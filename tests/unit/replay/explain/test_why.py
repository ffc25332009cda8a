"""why: what it names does admit the workload, and less of it does not."""

import pytest

from sluice.events.scheduler import BlockedOnPreemptionGates
from sluice.replay.explain import sandbox
from sluice.replay.explain.candidates import NOT_ENOUGH
from sluice.replay.explain.report import Report
from sluice.replay.explain.why import Others, explain
from sluice.replay.explain.why_text import plain_words
from sluice.replay.source.errors import UnknownWorkloadError
from sluice.replay.source.source import FileSource, ListSource
from sluice.replay.source.time_travel import checks_at, scheduler_at, variants_at
from tests.bench.recorded import Recorder
from tests.bench.scenario import JobClass, Scenario
from tests.support.elastic_cell import Cell
from tests.support.explained import explained
from tests.support.family_world import FamilyWorld, cell, cluster_queue, configuration, local_queue
from tests.unit.replay.incident import EXAMPLE
from tests.unit.replay.lint.test_invariants import CLASSES, events_of
from tests.unit.replay.simulate.test_what_if import claiming

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


@pytest.fixture(scope="module")
def busy():
    entries = []
    Recorder(entries.append, BUSY).play(1200)
    return ListSource(entries)


def test_each_variant_says_why_it_waits():
    """A parent's explanation has one of each variant, with whose turn it is to preempt, and until when."""
    world = cell(
        cluster_queue({"res": 1, "od": 1}, preemption={"withinClusterQueue": "LowerPriority"}), *CLASSES
    )
    for name, level in (("a", "low"), ("b", "low"), ("c", "high")):
        world.submit(name, priority_class=level).settle()
    source = ListSource(world.log)
    fold, families = scheduler_at(source, source.end), variants_at(source, source.end)

    def told(name: str) -> tuple[Report, str]:
        report = explain(fold.state, name, source.end, fold.at, others=Others(families.state))
        return report, "\n".join(plain_words(report))

    report, text = told("c")
    assert report.phase == "Pending"
    assert [v.note.name for v in report.variants if v.note is not None] == ["res", "od"]
    assert "It may preempt since" in report.variants[0].note.gate
    assert "res may, and has until" in report.variants[1].note.gate
    assert "the policy lets it, but a more favorable variant may preempt first" in text
    assert report.remedies[0].kind == "stop"
    assert "must stop first (as variant res)" in text
    report, text = told("b")
    assert report.phase == "Admitted"
    assert [v.phase for v in report.variants] == ["Pending", "Admitted"]
    report, text = told("a")
    assert report.phase == "Evicted"
    assert "Preempted" in text


def test_a_barred_variant_says_what_bars_it():
    """The policy's word is told of a variant that is switched off."""
    world = cell(cluster_queue({"res": 1, "od": 1}), *CLASSES)
    world.submit("a").settle_all()
    report = explained(world, "a")

    assert report.phase == "Admitted"
    assert report.variants[1].phase == "Inactive"
    assert "being lower priority than admitted Variant" in report.variants[1].message
    assert not report.variants[1].remedies


def test_a_slice_is_told_what_it_lacks_beyond_its_old_one():
    """Eight pods wanted, five had, two free: one is short."""
    world = Cell()
    world.queue("left", 7)
    world.submit("a", "left", 5).settle()
    world.scale("a", 8).settle()
    report = explained(world, "a")

    assert report.replaces
    assert (report.numbers[0].requested, report.numbers[0].short) == ("3", "1")
    assert report.remedies[0].amounts == {"default/cpu": 1000}
    assert not report.candidates, "its own old slice is no candidate"
    assert "runs on meanwhile" in "\n".join(plain_words(report))


def test_who_must_not_borrow_has_not_enough_in_what_others_could_lend():
    """4 of its own queue's 2, and 2 to be borrowed: it is short of 2, and other jobs would not be."""
    world = Cell()
    for name, cpu in (("left", 2), ("right", 2), ("third", 2)):
        world.queue(name, cpu, "both")
    world.submit("c", "right", 2, elastic=False).settle()
    world.submit("a", "left", 4, elastic=False, admissionConstraints={"borrowing": "Never"})
    world.submit("b", "left", 5, elastic=False).settle()
    report = explained(world, "a")
    (numbers,) = report.numbers
    assert (numbers.nominal, numbers.borrowable, numbers.available, numbers.short) == ("2", "2", "2", "2")
    text = "\n".join(plain_words(report))
    assert "nominal 2, used 0, borrowable 2 (not by it), short of 2" in text
    assert "Who holds" not in text, "nobody else has what its queue lacks"
    other = "\n".join(plain_words(explained(world, "b")))
    assert "nominal 2, used 0, borrowable 2, short of 1" in other


def test_what_keeps_it_out_is_lifted_in_a_trial():
    """A stopped local queue, a missing flavor, a closed gate: each is named as what would help."""
    world = cell(cluster_queue({"res": 2, "od": 0}, {}), *CLASSES)
    world.apply({**local_queue(), "spec": {"clusterQueue": "main", "stopPolicy": "Hold"}})
    world.submit("a").settle_all()
    report = explained(world, "a")

    assert report.rule == "Suspended"
    assert [(r.kind, r.smallest) for r in report.remedies][:1] == [("stopPolicy", True)]


def test_pending_preemptions_are_told_to_all_whom_they_concern():
    """Who has quota beside its victim, the victim, and who waits behind both: who, for which check (AC6)."""
    source = ListSource(claiming())
    at = next(seq for seq, event in events_of(source.entries) if getattr(event, "preemptions_pending", False))
    seq = next(s for s, e in events_of(source.entries) if s > at and type(e).__name__ == "PreemptionsAllowed")
    fold, checks = scheduler_at(source, seq - 1), checks_at(source, seq - 1)
    report = {
        name: explain(fold.state, name, seq - 1, fold.at, others=Others(checks=checks.state))
        for name in ("urgent", "runs", "behind")
    }

    assert "waits for its admission checks: slow (Pending)" in report["urgent"].message
    assert f"The preemption of {report['runs'].workload} is pending until slow" in report["urgent"].message
    remedy = "Ready from slow (example.com/slow)"
    assert report["urgent"].remedies[0].text == f"{remedy}; then {report['runs'].workload} must stop"
    assert f"to be preempted by {report['urgent'].workload} when slow allows it" in report["runs"].message
    behind = "\n".join(plain_words(report["behind"]))
    assert f"{report['urgent'].workload} (in main) has 2 res/cpu reserved" in behind
    assert "nominal 3, used 2, promised 2" in behind
    assert report["behind"].numbers[0].short == "1"


def test_numbers_and_obstacles_are_told():
    """The waiting job learns what is short, its place, and who may not be preempted and why."""
    source = FileSource(EXAMPLE)
    fold = scheduler_at(source, 34)
    report = explain(fold.state, "train-4", 34, fold.at)

    assert report.phase == "Pending"
    assert report.position == 2
    assert report.numbers[0].short == "8"
    assert {c.why for c in report.candidates} >= {"serving is within its nominal quota of what is short"}
    text = "\n".join(plain_words(report))
    assert "short of 8" in text
    assert "LowerPriority" in text


def test_child_processes_find_the_same(busy, monkeypatch):
    """Trials in children, as on large states, come to what trials on loaded copies come to."""
    fold = scheduler_at(busy, busy.end // 2)
    keys = [w.key for w in fold.state.world.workloads.values() if w.peers is not None][:4]
    copied = [explain(fold.state, key, fold.upto, fold.at) for key in keys]
    monkeypatch.setattr(sandbox, "FEW", 0)

    assert [explain(fold.state, key, fold.upto, fold.at) for key in keys] == copied
    assert any(report.trials > 3 for report in copied)


def test_looking_changes_nothing(busy):
    """The state is the same bytes before and after it was explained."""
    fold = scheduler_at(busy, busy.end // 2)
    before = fold.decider.dump(fold.state)
    for key in [w.key for w in fold.state.world.workloads.values() if w.peers is not None][:5]:
        explain(fold.state, key, fold.upto, fold.at)
    assert fold.decider.dump(fold.state) == before


def test_unknown_workloads_are_refused():
    """The error knows the names there are."""
    fold = scheduler_at(FileSource(EXAMPLE), 34)
    with pytest.raises(UnknownWorkloadError) as error:
        explain(fold.state, "trian-4", 34, fold.at)
    assert "default/train-4" in error.value.known


def test_constraints_mean_nothing_while_their_gate_is_off():
    """Nobody is told to remove them, nor that they spare anybody (AX1)."""
    world = Cell()
    gates = {"featureGates": {"WorkloadAdmissionConstraints": False}}
    world.configure("Configuration", "default", gates)
    world.queue("q", 2, preemption={"withinClusterQueue": "LowerPriority"})
    world.submit("runs", "q", 2, elastic=False).settle()
    constraints = {"borrowing": "Never", "preemption": "Never"}
    world.submit("waits", "q", 1, elastic=False, admissionConstraints=constraints).settle()
    report = explained(world, "waits")
    text = "\n".join(plain_words(report))
    assert report.constraints == []
    assert "cannot-" not in text
    assert "its priority 0 is not below 0" in text


def test_who_would_run_with_fewer_pods_is_told_what_is_of_which():
    """Message and numbers are of different sizes, and the text says so."""
    world = Cell()
    world.queue("q", 2)
    world.submit("runs", "q", 2, elastic=False).settle()
    world.submit("waits", "q", 4, elastic=False, minReplicas=1).settle()
    report = explained(world, "waits")
    assert report.least == {"main": 1}
    assert "fewer pods (main at least 1)" in "\n".join(plain_words(report))
    assert not explained(world, "runs").least


def test_what_others_lend_is_at_hand_while_the_gate_is_off():
    world = Cell()
    world.configure("Configuration", "default", {"featureGates": {"WorkloadAdmissionConstraints": False}})
    for name in ("left", "right"):
        world.queue(name, 2, "both")
    world.submit("a", "left", 5, elastic=False, admissionConstraints={"borrowing": "Never"}).settle()
    text = "\n".join(plain_words(explained(world, "a")))
    assert "nominal 2, used 0, borrowable 2, short of 1" in text


def test_what_forbids_the_preemption_is_named_and_not_the_gate():
    """A variant that would borrow preempts nobody, in its own queue neither: its gate changes nothing."""
    policy = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
    world = cell(
        cluster_queue({"res": 0, "od": 1}, cohortName="all", preemption=policy),
        cluster_queue({"res": 1, "od": 0}, policy={}, name="lender", cohortName="all"),
        *CLASSES,
    )
    for name, level in (("a", "low"), ("b", "low"), ("c", "high")):
        world.submit(name, priority_class=level).settle()
    seq = first_blocked(world)
    source = ListSource(world.log)
    fold = scheduler_at(source, seq)
    res, od = explain(fold.state, "c", seq, fold.at, help_=False).variants
    (held,) = res.candidates
    assert (
        held.why == "it would borrow, too (1 cpu asked for, 0 of main's own), and borrowWithinCohort is Never"
    )
    (held,) = od.candidates
    assert held.why.endswith("gate kueue.x-k8s.io/concurrent-admission is closed")


@pytest.mark.parametrize(
    ("strategies", "than"),
    [
        (
            [],
            "more than the 0 that ClusterQueue right (weight 2) would have without that one "
            "(LessThanOrEqualToFinalShare), and not less than the 250 that it has (LessThanInitialShare)",
        ),
        (
            ["LessThanInitialShare"],
            "not less than the 250 that ClusterQueue right (weight 2) has (LessThanInitialShare)",
        ),
    ],
)
def test_who_is_kept_by_its_share_is_told_so(strategies: list[str], than: str) -> None:
    """The numbers that were compared, and by which strategy; not that it would make no room."""
    fair = {"enable": True, **({"preemptionStrategies": strategies} if strategies else {})}
    world = Cell()
    world.apply(configuration(fairSharing=fair))
    policy = {"reclaimWithinCohort": "Any"}
    world.queue("lender", 4, "all")
    world.queue("left", 0, "all", preemption=policy)
    world.queue("right", 0, "all", preemption=policy, fairSharing={"weight": "2"})
    world.submit("a", "left", 2, elastic=False).submit("b", "right", 2, elastic=False)
    world.settle()
    world.submit("c", "left", 2, elastic=False).submit("d", "left", 5, elastic=False)
    world.settle()
    report = explained(world, "c", help_=False)
    (held,) = [c for c in report.candidates if c.cluster_queue == "right"]
    assert (held.allowed, held.why) == (
        False,
        "its share keeps it: with this workload ClusterQueue left (weight 1) would have a weighted share "
        f"(DominantResourceShare) of 1000, {than}",
    )
    report = explained(world, "d", help_=False)
    assert {c.why for c in report.candidates if c.cluster_queue == "right"} == {NOT_ENOUGH}


def first_blocked(world: FamilyWorld) -> int:
    return next(seq for seq, _, event in world.history if isinstance(event, BlockedOnPreemptionGates))


def test_who_was_admitted_and_not_taken_is_told_so():
    """Also of a family; once its pods are ready there is nothing to wait for."""
    for policy in ({}, None):
        world = cell(cluster_queue({"res": 1}, *([policy] if policy is not None else [])))
        world.submit("a").settle_all()
        state = world.services["scheduler"].state
        said = explain(state, "a", len(world.log), world.now, help_=False)
        assert "An executor has to take it" in said.message
        world.report("a", "JobPodsReady", executor="x").settle_all()
        said = explain(state, "a", len(world.log), world.now, help_=False)
        assert "executor" not in said.message
