"""Who is preempted, by which rule, and what the victim is told (SC5, SC6, AX)."""

import pytest
from msgspec import structs

from sluice.api.kueue import BorrowWithinCohort, FairSharingConfig, RequeuingStrategy, WaitForPodsReady
from sluice.core.preemption.targets import (
    Possibility,
    could_preempt,
    get_targets,
    possibility_of,
    possible_victims,
    preemption_message,
    refusals,
)
from sluice.core.quota.tree import WEIGHT_SCALE, Quota
from sluice.core.world.reservations import Trial, release, without
from sluice.events.base import PodSetAssignment, WorkloadKey
from sluice.events.slices import JobReference
from tests.support.preemption_worlds import CPU, GPU, names, pending, queue, running, world


def ask(w, workload, cpu: int):
    return get_targets(w, workload, {CPU: cpu}, (CPU,))


def test_lower_priority_goes_first_and_newest_before_oldest():
    """Of equal priority, the one that was given quota last goes; higher ones are spared."""
    w = world()
    queue(w, "a", "", cpu=4)
    running(w, "high", "a", 1, priority=2, at=9)
    running(w, "old", "a", 1, priority=1, at=1)
    running(w, "new", "a", 1, priority=1, at=2)
    running(w, "low", "a", 1, priority=0, at=1)

    targets = ask(w, pending("in", "a", priority=3), 2)

    assert sorted(names(targets)) == ["low", "new"]
    assert {t.reason for t in targets} == {"InClusterQueue"}


def test_what_is_not_needed_is_spared():
    """The small one was taken first, but the big one alone makes room enough."""
    w = world()
    queue(w, "a", "", cpu=4)
    running(w, "small", "a", 1, priority=0)
    running(w, "big", "a", 3, priority=1)

    assert names(ask(w, pending("in", "a", priority=2), 3)) == ["big"]


def test_who_is_leaving_anyway_is_taken_first():
    w = world()
    queue(w, "a", "", cpu=2)
    running(w, "low", "a", 1, priority=0)
    running(w, "leaving", "a", 1, priority=1, evicted=True)

    assert names(ask(w, pending("in", "a", priority=2), 1)) == ["leaving"]


@pytest.mark.parametrize(
    ("policy", "victims"),
    [("Never", []), ("LowerPriority", []), ("LowerOrNewerEqualPriority", ["newer"])],
)
def test_equal_priority_goes_only_if_newer_and_allowed(policy, victims):
    w = world()
    queue(w, "a", "", cpu=2, within=policy)
    running(w, "newer", "a", 1, created_at=9)
    running(w, "older", "a", 1, created_at=1)

    assert names(ask(w, pending("in", "a", created_at=5), 1)) == victims


@pytest.mark.parametrize(("timestamp", "victims"), [("Creation", ["x"]), ("Eviction", [])])
def test_who_is_newer_follows_the_time_by_which_it_queues(timestamp, victims):
    """A preemptor whose pods were not ready in time queues since then, if so configured."""
    w = world()
    strategy = RequeuingStrategy(timestamp=timestamp)
    w.config = structs.replace(w.config, wait_for_pods_ready=WaitForPodsReady(requeuing_strategy=strategy))
    queue(w, "a", "", cpu=1, within="LowerOrNewerEqualPriority")
    running(w, "x", "a", 1, created_at=5)
    workload = pending("in", "a", created_at=1)
    workload.last_evicted_at, workload.last_evicted_reason = 8, "PodsReadyTimeout"

    assert names(ask(w, workload, 1)) == victims


@pytest.mark.parametrize(("timestamp", "victims"), [("Creation", []), ("Eviction", ["x"])])
def test_whom_it_is_older_than_follows_the_same_time(timestamp, victims):
    """Who queues at the same time is not newer; who is leaving may queue since its eviction."""
    w = world()
    strategy = RequeuingStrategy(timestamp=timestamp)
    w.config = structs.replace(w.config, wait_for_pods_ready=WaitForPodsReady(requeuing_strategy=strategy))
    queue(w, "a", "", cpu=2, within="LowerOrNewerEqualPriority")
    running(w, "same", "a", 1, created_at=5)
    leaving = running(w, "x", "a", 1, created_at=1, at=7, evicted=True)
    leaving.last_evicted_at, leaving.last_evicted_reason = leaving.evicted_at, "PodsReadyTimeout"

    assert names(ask(w, pending("in", "a", created_at=5), 1)) == victims


def test_quota_is_reclaimed_from_borrowers_whatever_their_priority():
    """Own quota is taken back; queues within theirs are left alone."""
    w = world()
    queue(w, "a", cpu=4)
    queue(w, "b", cpu=2)
    queue(w, "c", cpu=2)
    running(w, "b1", "b", 2, priority=9, at=1)
    running(w, "b2", "b", 3, priority=9, at=2)
    running(w, "c1", "c", 2, priority=0)

    targets = ask(w, pending("in", "a"), 4)

    assert [(t.workload.record.name, t.reason) for t in targets] == [("b2", "InCohortReclamation")]


def test_a_queue_gives_only_until_it_is_within_its_quota():
    """Its second workload is next by priority, and not lent to it: another borrower gives instead."""
    w = world()
    queue(w, "a", cpu=4)
    queue(w, "b", cpu=2)
    queue(w, "c", cpu=2)
    for name, priority in (("b1", 0), ("b2", 1), ("c1", 2), ("c2", 3)):
        running(w, name, name[0], 2, priority=priority)

    assert names(ask(w, pending("in", "a", priority=9), 4)) == ["b1", "c1"]


def test_a_cohort_gives_only_until_it_is_within_its_quota():
    """Its second queue borrows from the first, and not from outside."""
    w = world()
    w.tree.set_cohort("right", "team", {CPU: Quota(2)})
    queue(w, "a", cpu=4)
    queue(w, "b", "right", cpu=0)
    queue(w, "c", "right", cpu=0)
    queue(w, "d", cpu=0)
    for name, priority in (("b1", 0), ("c1", 1), ("d1", 2)):
        running(w, name, name[0], 2, priority=priority)

    assert names(ask(w, pending("in", "a", priority=9), 4)) == ["b1", "d1"]


def test_who_is_leaving_gives_back_what_was_lent_before_own_ones_go():
    """Whom it has an advantage over is waited for, so nobody is preempted to stay within the own quota."""
    w = world()
    w.tree.set_cohort("left", "root", {CPU: Quota(2)})
    queue(w, "a", "left", cpu=2)
    queue(w, "b", "left", cpu=0)
    queue(w, "c", "root", cpu=0)
    running(w, "own", "a", 1)
    running(w, "b1", "b", 1)
    running(w, "leaving", "c", 2, evicted=True)

    assert names(ask(w, pending("in", "a", priority=9), 2)) == ["leaving"]


def test_who_is_leaving_helps_where_nobody_else_could_go():
    w = world()
    queue(w, "a", cpu=2)
    queue(w, "b", cpu=0)
    running(w, "leaving", "b", 2, evicted=True)

    assert names(ask(w, pending("in", "a"), 2)) == ["leaving"]


@pytest.mark.parametrize("policy", [None, BorrowWithinCohort(policy="Never")], ids=["none", "never"])
def test_who_would_borrow_does_not_reclaim_without_a_policy(policy):
    w = world()
    queue(w, "a", cpu=1, borrow=policy)
    queue(w, "b", cpu=1)
    queue(w, "lender", cpu=2)
    running(w, "b1", "b", 3, priority=0)

    assert ask(w, pending("in", "a", priority=9), 2) == []


@pytest.mark.parametrize(
    ("threshold", "priority", "victims"),
    [(None, 9, ["b1"]), (3, 9, ["b1"]), (2, 9, []), (None, 4, ["b1"]), (None, 3, [])],
)
def test_borrowing_while_reclaiming_stops_at_the_threshold(threshold, priority, victims):
    """borrowWithinCohort reaches up to its threshold, and below the preemptor's priority in any case."""
    w = world()
    policy = BorrowWithinCohort(policy="LowerPriority", max_priority_threshold=threshold)
    queue(w, "a", cpu=1, borrow=policy)
    queue(w, "b", cpu=1)
    queue(w, "lender", cpu=2)
    running(w, "b1", "b", 3, priority=3)

    targets = ask(w, pending("in", "a", priority=priority), 2)

    assert names(targets) == victims
    assert all(t.reason == "InCohortReclaimWhileBorrowing" for t in targets)


def test_who_may_not_borrow_over_others_takes_its_own_quota_back_from_them():
    """Beyond the threshold nobody goes for a loan; with its own ones gone it needs none."""
    w = world()
    queue(w, "a", cpu=2, borrow=BorrowWithinCohort(policy="LowerPriority"))
    queue(w, "b", cpu=0)
    running(w, "own", "a", 1)
    running(w, "b1", "b", 1, priority=9)

    assert sorted(names(ask(w, pending("in", "a", priority=5), 2))) == ["b1", "own"]


def test_several_of_one_queue_go_up_to_the_last_that_may():
    """Three of the highest priority that is below the preemptor's."""
    w = world()
    queue(w, "a", cpu=3, reclaim="LowerPriority")
    queue(w, "b", cpu=0)
    for i in range(3):
        running(w, f"b{i}", "b", 1, priority=4)

    assert sorted(names(ask(w, pending("in", "a", priority=5), 3))) == ["b0", "b1", "b2"]


def test_what_its_queue_bears_alone_is_nothing_to_the_cohort():
    """Its cohort has quota for the rest of the request, and for no gpu: the queue has its own for ever."""
    w = world()
    w.tree.set_cohort("left", "root", {CPU: Quota(2)})
    queue(w, "a", "left", quotas={CPU: Quota(1), GPU: Quota(1, lending_limit=0)})
    queue(w, "b", "root", cpu=0)
    running(w, "b1", "b", 2, priority=9)

    assert names(get_targets(w, pending("in", "a"), {CPU: 2, GPU: 1}, (CPU,))) == ["b1"]


@pytest.mark.parametrize("order", [("own", "b1"), ("b1", "own")])
def test_who_borrows_too_finds_the_others_whoever_began(order):
    """Its own queue is passed over among the borrowers, and nobody behind it."""
    w = world()
    queue(w, "a", cpu=0, borrow=BorrowWithinCohort(policy="LowerPriority"))
    queue(w, "b", cpu=0)
    queue(w, "lender", cpu=2)
    for name in order:
        running(w, name, "a" if name == "own" else "b", 1, priority=9 if name == "own" else 0)

    assert names(ask(w, pending("in", "a", priority=5), 1)) == ["b1"]


def test_position_in_the_tree_beats_priority():
    """Quota of the left subtree comes back to it from the right, whose workloads have higher priority."""
    w = world()
    w.tree.set_cohort("left", "root", {CPU: Quota(4)})
    w.tree.set_cohort("right", "root", {})
    queue(w, "a", "left", cpu=0, reclaim="LowerPriority")
    queue(w, "any", "left", cpu=0)
    queue(w, "b", "right", cpu=0)
    running(w, "b1", "b", 4, priority=9)

    assert ask(w, pending("in", "a", priority=5), 4) == [], "LowerPriority still protects it"
    targets = ask(w, pending("in", "any", priority=5), 4)
    assert [(t.workload.record.name, t.reason) for t in targets] == [("b1", "InCohortReclamation")]


def test_what_is_never_lent_counts_for_the_position_in_the_tree():
    """Of 5, 3 are the queue's own for ever; its subtree has quota for the other 2, and takes them back."""
    w = world()
    w.tree.set_cohort("left", "root", {CPU: Quota(2)})
    queue(w, "a", "left", quotas={CPU: Quota(3, lending_limit=0)})
    queue(w, "b", "root", cpu=0)
    running(w, "b1", "b", 2, priority=9)

    targets = ask(w, pending("in", "a"), 5)

    assert [(t.workload.record.name, t.reason) for t in targets] == [("b1", "InCohortReclamation")]


def test_a_variant_takes_no_equal_place_of_its_sibling():
    """CA10: migration is for that. Whoever else is newer goes."""
    w = world()
    queue(w, "a", "", cpu=2, within="LowerOrNewerEqualPriority")
    family = WorkloadKey("ns/family")
    sibling = running(w, "sibling", "a", 1, created_at=9)
    sibling.record = structs.replace(sibling.record, parent=family)
    running(w, "stranger", "a", 1, created_at=8)
    variant = pending("in", "a", created_at=5)
    variant.record = structs.replace(variant.record, parent=family)

    assert names(ask(w, variant, 1)) == ["stranger"]


def test_only_users_of_what_is_short_are_candidates():
    w = world()
    queue(w, "a", "", quotas={CPU: Quota(2), GPU: Quota(1)})
    running(w, "cpu", "a", {CPU: 2}, priority=0)
    running(w, "gpu", "a", {GPU: 1}, priority=1)

    assert names(get_targets(w, pending("in", "a", priority=2), {CPU: 0, GPU: 1}, (GPU,))) == ["gpu"]
    short = GPU, ("default", "tpu")
    assert possible_victims(w, pending("in", "a", priority=2), {GPU: 1}, short) == {WorkloadKey("ns/gpu")}


@pytest.mark.parametrize("fair", [False, True])
def test_borrowers_of_anything_that_is_short_give(fair):
    w = world(fair=fair)
    queue(w, "a", quotas={CPU: Quota(1), GPU: Quota(1)})
    for fr, name in ((CPU, "b"), (GPU, "c")):
        queue(w, name, quotas={})
        running(w, f"{name}1", name, {fr: 1})

    found = get_targets(w, pending("in", "a"), {CPU: 1, GPU: 1}, (CPU, GPU))

    assert sorted(names(found)) == ["b1", "c1"]


def test_who_must_not_preempt_has_no_targets():
    """AX1; but it can be a victim itself (AX3)."""
    w = world()
    queue(w, "a", "", cpu=1)
    running(w, "low", "a", 1)

    assert ask(w, pending("in", "a", priority=1, cannot_preempt=True), 1) == []
    assert names(ask(w, pending("in", "a", priority=1), 1)) == ["low"]


def test_constraints_count_only_with_their_gate():
    w = world(WorkloadAdmissionConstraints=False)
    queue(w, "a", "", cpu=1)
    running(w, "low", "a", 1)

    assert names(ask(w, pending("in", "a", priority=1, cannot_preempt=True), 1)) == ["low"]


def test_who_must_not_borrow_makes_room_in_its_own_queue():
    """AX6: borrowing would fit after one victim, its own quota only after two."""
    w = world()
    queue(w, "a", cpu=2)
    queue(w, "lender", cpu=1)
    running(w, "a1", "a", 1)
    running(w, "a2", "a", 2)

    assert names(ask(w, pending("in", "a", priority=1), 2)) == ["a2"]
    assert names(ask(w, pending("in", "a", priority=1, cannot_borrow=True), 2)) == ["a1", "a2"]


@pytest.mark.parametrize("fair", [False, True])
def test_who_must_not_borrow_takes_back_its_own_quota(fair):
    """AX6: nobody in its own queue need go for that."""
    w = world(fair=fair)
    queue(w, "a", cpu=2)
    queue(w, "b", cpu=0)
    running(w, "b1", "b", 2)

    assert names(ask(w, pending("in", "a", cannot_borrow=True), 2)) == ["b1"]


@pytest.mark.parametrize("fair", [False, True])
def test_who_is_leaving_makes_room_for_who_must_not_borrow(fair):
    """AX6: nobody else is in its queue, and what others would lend is not for it."""
    w = world(fair=fair)
    queue(w, "a", cpu=2)
    queue(w, "lender", cpu=1)
    running(w, "leaving", "a", 2, evicted=True)

    assert names(ask(w, pending("in", "a", priority=1, cannot_borrow=True), 2)) == ["leaving"]


@pytest.mark.parametrize(
    ("within", "lower", "newer", "older"),
    [
        ("Never", False, False, False),
        ("LowerPriority", True, False, False),
        ("LowerOrNewerEqualPriority", True, True, False),
    ],
)
def test_who_waits_in_its_queue_may_be_preempted_later_as_the_policy_says(within, lower, newer, older):
    w = world()
    queue(w, "a", cpu=2, within=within)
    workload = pending("in", "a", priority=1, created_at=5)
    others = (
        pending("lower", "a", created_at=1),
        pending("newer", "a", priority=1, created_at=9),
        pending("older", "a", priority=1, created_at=1),
    )

    assert tuple(could_preempt(w, workload, other) for other in others) == (lower, newer, older)
    assert not could_preempt(w, workload, pending("higher", "a", priority=2, created_at=9))


@pytest.mark.parametrize("fair", [False, True])
def test_victims_of_a_trial_are_not_chosen_again(fair):
    """Of two preemptors in one cycle, the second looks past what the first has taken, whoever else asks."""
    w = world(fair=fair)
    queue(w, "a", "", cpu=2)
    first = running(w, "first", "a", 1, priority=0)
    running(w, "second", "a", 1, priority=1)
    workload = pending("in", "a", priority=5)

    with Trial(w) as trial:
        trial.remove(first)
        node = w.cluster_queues["a"].node
        trial.charge(node, {CPU: 1, GPU: 1})
        assert names(ask(w, workload, 1)) == ["second"]
        assert refusals(w, workload, {CPU: 1}, (CPU,)) == {}
        assert (node.used(CPU), node.used(GPU)) == (2, 1)
    assert names(ask(w, workload, 1)) == ["first"]
    assert not w.absent


@pytest.mark.parametrize("fair", [False, True])
def test_nobody_preempts_whom_it_was_preempted_by(fair):
    """Neither in other queues nor in its own, whatever the rules say (decision 0018); others go instead."""
    w = world(fair=fair)
    queue(w, "a", cpu=2)
    queue(w, "b", cpu=0)
    running(w, "own", "a", 1, priority=-2)
    running(w, "b1", "b", 1, priority=-1)
    workload = pending("in", "a")
    assert names(ask(w, workload, 1)) == ["b1"]
    w.circles.note(w.workloads[WorkloadKey("ns/b1")], workload)
    assert names(ask(w, workload, 1)) == ["own"]
    w.circles.note(w.workloads[WorkloadKey("ns/own")], workload)
    assert ask(w, workload, 1) == []


@pytest.mark.parametrize("taker", ["lender", "b"])
def test_who_uses_less_than_its_quota_takes_no_more_than_a_loan_needs(taker):
    """Also where another queue borrows, of which nobody may go; to end within its quota two would have to."""
    w = world()
    queue(w, "a", cpu=3, reclaim="LowerPriority")
    queue(w, "lender", cpu=2)
    queue(w, "b", cpu=0)
    running(w, "other", taker, 1, priority=9)
    for name in ("a1", "a2"):
        running(w, name, "a", 1)

    assert names(ask(w, pending("in", "a", priority=5), 3)) == ["a1"]


def test_a_queue_with_the_name_of_a_cohort_that_borrows_need_not_give():
    w = world(fair=True)
    w.tree.set_cohort("x", "team", {})
    queue(w, "a", cpu=1)
    queue(w, "x", cpu=2)
    queue(w, "inner", "x", cpu=0)
    running(w, "x1", "x", 1)
    running(w, "i1", "inner", 1)

    assert possible_victims(w, pending("in", "a"), {CPU: 1}, (CPU,)) == {WorkloadKey("ns/i1")}


def test_who_may_not_borrow_more_takes_the_place_of_its_own_in_a_cohort_that_has_quota_left():
    w = world(fair=True)
    w.tree.set_cohort("left", "root", {CPU: Quota(4)})
    queue(w, "a", "left", quotas={CPU: Quota(1, borrowing_limit=0)})
    running(w, "low", "a", 1)

    assert names(ask(w, pending("in", "a", priority=5), 1)) == ["low"]


def test_siblings_that_hold_on_go_too_where_it_would_borrow_else():
    """CA10, AX6: what they share is free in the queue's own quota when the last of them has gone."""
    w = world()
    queue(w, "a", cpu=2)
    queue(w, "lender", cpu=2)
    family = WorkloadKey("ns/family")
    held = PodSetAssignment(name="main", flavors={"cpu": "default"}, usage={"cpu": 2}, count=1)
    for name, charged in (("best", 2), ("rest", 0)):
        variant = running(w, name, "a", charged)
        variant.record = structs.replace(variant.record, parent=family)
        variant.assignment = (held,)
        w.families.setdefault(family, {})[variant.key] = variant

    assert names(ask(w, pending("in", "a", priority=5, cannot_borrow=True), 2)) == ["best", "rest"]


@pytest.mark.parametrize(("kept", "victims"), [(1, ["best"]), (2, ["best", "rest"])])
def test_siblings_that_hold_on_are_spared_where_who_borrows_fits_beside_them(kept, victims):
    """CA10: who borrows anyway needs what it asks for, and not that its queue is within its own quota."""
    w = world()
    queue(w, "a", cpu=1)
    queue(w, "lender", cpu=3)
    running(w, "other", "lender", 1)
    family = WorkloadKey("ns/family")
    for name, charged, holds in (("best", 2, 2), ("rest", 0, kept)):
        variant = running(w, name, "a", charged)
        variant.record = structs.replace(variant.record, parent=family)
        held = PodSetAssignment(name="main", flavors={"cpu": "default"}, usage={"cpu": holds}, count=1)
        variant.assignment = (held,)
        w.families.setdefault(family, {})[variant.key] = variant

    assert names(ask(w, pending("in", "a", priority=5), 2)) == victims


@pytest.mark.parametrize("there", [True, False], ids=["there", "gone"])
@pytest.mark.parametrize("tried", [True, False], ids=["in a trial", "as it is"])
@pytest.mark.parametrize("fair", [False, True])
def test_a_slice_neither_preempts_its_old_one_nor_brings_it_back(there, tried, fair):
    """WS6; whoever a trial had taken out before the question is out behind it."""
    w = world(fair=fair)
    queue(w, "a", "", cpu=2)
    old = running(w, "old", "a", 1)
    running(w, "low", "a", 1, priority=1)
    new = pending("in", "a", priority=5)
    new.record = structs.replace(new.record, replaces=old.key)
    if not there:
        release(w, old)
        del w.workloads[old.key]
    with Trial(w) as trial:
        if tried and there:
            trial.remove(old)
        absent = set(w.absent)
        assert names(ask(w, new, 2 if tried or not there else 1)) == ["low"]
        assert refusals(w, new, {CPU: 1}, (CPU,)) == {}
        assert w.absent == absent


def test_possibility_and_height_after_preemption():
    """Reclaiming own quota leaves nothing borrowed; preempting in the own queue borrows as before."""
    w = world()
    a = queue(w, "a", cpu=2)
    queue(w, "b", cpu=0)
    running(w, "b1", "b", 2)
    workload = pending("in", "a", priority=1)
    assert possibility_of(w, a, CPU, 2, ask(w, workload, 2)) == (Possibility.RECLAIM, 0)
    assert possibility_of(w, a, CPU, 3, ask(w, workload, 3)) == (Possibility.NO_CANDIDATES, 1)
    assert possibility_of(w, a, CPU, 2, []) == (Possibility.NO_CANDIDATES, 0)

    running(w, "a1", "a", 2)
    with without(w, [w.workloads[WorkloadKey("ns/b1")]]):
        assert possibility_of(w, a, CPU, 2, ask(w, workload, 2)) == (Possibility.PREEMPT, 0)


# Fair sharing


def test_the_largest_share_gives_first():
    w = world(fair=True)
    queue(w, "a", cpu=3, weight=WEIGHT_SCALE)
    queue(w, "b", cpu=3)
    queue(w, "c", cpu=3)
    for i in range(4):
        running(w, f"b{i}", "b", 1)
    for i in range(5):
        running(w, f"c{i}", "c", 1)

    targets = ask(w, pending("in", "a"), 1)

    assert [(t.workload.record.name, t.reason) for t in targets] == [("c0", "InCohortReclamation")]


def test_shares_are_evened_out_and_no_further():
    """A borrower takes from one that borrows more, not from one that would end up with less than itself."""
    w = world(fair=True)
    queue(w, "lender", cpu=6)
    queue(w, "a", cpu=0)
    queue(w, "b", cpu=0)
    for i in range(2):
        running(w, f"a{i}", "a", 1)
    for i in range(4):
        running(w, f"b{i}", "b", 1)

    targets = ask(w, pending("in", "a"), 1)
    assert [(t.workload.record.name, t.reason) for t in targets] == [("b0", "InCohortFairSharing")]
    assert ask(w, pending("in", "a"), 2) == []


def test_shares_are_compared_below_the_lowest_common_cohort():
    """As among queues: the left one takes from the right one, which borrows more, until they are even.

    How much the queues borrow from their cohorts does not matter: the right one's weighs a thousandth.
    """
    w = world(fair=True)
    queue(w, "lender", "root", cpu=6)
    for cohort in ("left", "right", "deep"):
        w.tree.set_cohort(cohort, "right" if cohort == "deep" else "root", {})
    queue(w, "a", "left", cpu=0)
    queue(w, "b", "deep", cpu=0, weight=WEIGHT_SCALE // 1000)
    for i in range(2):
        running(w, f"a{i}", "a", 1)
    for i in range(4):
        running(w, f"b{i}", "b", 1)

    targets = ask(w, pending("in", "a"), 1)
    assert [(t.workload.record.name, t.reason) for t in targets] == [("b0", "InCohortFairSharing")]
    assert ask(w, pending("in", "a"), 2) == []


def test_of_equal_shares_who_is_leaving_gives_first():
    """Before those of lower priority."""
    w = world(fair=True)
    queue(w, "a", cpu=4)
    for name in ("b", "c"):
        queue(w, name, cpu=0)
    running(w, "b1", "b", 2, priority=0)
    running(w, "leaving", "c", 2, priority=5, evicted=True)

    assert names(ask(w, pending("in", "a"), 2)) == ["leaving"]


def test_weight_zero_always_gives():
    w = world(fair=True)
    queue(w, "lender", cpu=2)
    queue(w, "a", cpu=0)
    queue(w, "b", cpu=0, weight=0)
    running(w, "a1", "a", 1)
    running(w, "b1", "b", 1)

    assert names(ask(w, pending("in", "a"), 1)) == ["b1"]
    assert ask(w, pending("in", "b"), 1) == []


def test_weight_zero_gives_before_any_share():
    w = world(fair=True)
    queue(w, "lender", cpu=6)
    queue(w, "a", cpu=0)
    queue(w, "b", cpu=0, weight=0)
    queue(w, "c", cpu=0)
    running(w, "b1", "b", 1)
    running(w, "c1", "c", 5)

    assert names(ask(w, pending("in", "a"), 1)) == ["b1"]


def test_of_equal_shares_a_cohort_gives_before_a_queue():
    w = world(fair=True)
    w.tree.set_cohort("right", "team", {})
    queue(w, "a", cpu=4)
    queue(w, "b", cpu=0)
    queue(w, "c", "right", cpu=0)
    running(w, "b1", "b", 2)
    running(w, "c1", "c", 2)

    assert names(ask(w, pending("in", "a"), 2)) == ["c1"]


@pytest.mark.parametrize("strategies", [["LessThanOrEqualToFinalShare"], []], ids=["the first", "both"])
@pytest.mark.parametrize("anew", [False, True])
def test_own_victims_lower_the_share_for_those_who_are_looked_at_again(anew, strategies):
    """At equal shares others are considered before own candidates, and refused; with the gate once more."""
    w = world(fair=True)
    w.config = structs.replace(
        w.config,
        fair_sharing=FairSharingConfig(enable=True, preemption_strategies=strategies),
        feature_gates={"FairSharingReevaluatePreemptionCandidates": anew},
    )
    queue(w, "lender", cpu=6)
    queue(w, "a", cpu=0)
    queue(w, "b", cpu=0)
    running(w, "low", "a", 1, priority=-1)
    running(w, "high", "a", 1, priority=5)
    for i in range(4):
        running(w, f"b{i}", "b", 1)

    assert names(ask(w, pending("in", "a"), 2)) == (["low", "b0"] if anew or not strategies else [])
    assert ask(w, pending("in", "a"), 3) == [], "refused again, and nobody else is left"


def test_whom_shares_keep_is_told_with_what_was_compared():
    """As many as the preemptor would have are not fewer, and without one of them they would be less."""
    w = world(fair=True)
    queue(w, "lender", cpu=6)
    queue(w, "a", cpu=0)
    queue(w, "b", cpu=0, weight=2 * WEIGHT_SCALE)
    queue(w, "c", cpu=0)
    for i in range(3):
        running(w, f"a{i}", "a", 1)
    for i in range(2):
        running(w, f"b{i}", "b", 1)
    running(w, "c0", "c", 1)

    workload = pending("in", "a")
    kept = refusals(w, workload, {CPU: 1}, (CPU,))
    assert ask(w, workload, 1) == []
    assert sorted(kept) == ["ns/b0", "ns/b1", "ns/c0"]
    final, initial = kept[WorkloadKey("ns/b0")].values()
    assert (final.strategy, initial.strategy) == ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
    assert (final.preemptor.name, final.victim.name) == ("a", "b")
    assert [share.rounded for share in (final.share, final.before, final.after)] == [667, 167, 84]
    assert refusals(w, workload, {CPU: 9}, (CPU,)) == {}, "all of them together are not enough"

    assert names(ask(w, pending("in", "c"), 1)) == ["a0"]
    assert WorkloadKey("ns/a0") not in refusals(w, pending("in", "c"), {CPU: 1}, (CPU,))


@pytest.mark.parametrize(("own", "kept_by"), [(0, "right"), (2, "b")])
def test_who_has_no_share_is_kept_without_a_strategy(own, kept_by):
    """Borrowers give until they, or a cohort above them, borrow no more; what is theirs is not looked at."""
    w = world(fair=True)
    sharing = FairSharingConfig(enable=True, preemption_strategies=["LessThanInitialShare"])
    w.config = structs.replace(w.config, fair_sharing=sharing)
    w.tree.set_cohort("right", "team", {CPU: Quota(2 - own)})
    queue(w, "a", cpu=3, weight=1000 * WEIGHT_SCALE)
    queue(w, "b", "right", cpu=own)
    queue(w, "lender", cpu=1)
    for i in range(4):
        running(w, f"b{i}", "b", 1)
    workload = pending("in", "a")

    kept = refusals(w, workload, {CPU: 4}, (CPU,))

    assert names(ask(w, workload, 4)) == ["b0", "b1"]
    assert sorted(kept) == ["ns/b2", "ns/b3"]
    assert list(kept[WorkloadKey("ns/b2")]) == [""]
    compared = kept[WorkloadKey("ns/b2")][""]
    assert (compared.strategy, compared.instead) == ("", None)
    assert (compared.preemptor.name, compared.victim.name) == ("a", kept_by)
    assert [share.rounded for share in (compared.share, compared.before, compared.after)] == [1, 0, 0]


def test_the_second_strategy_takes_one_of_a_queue():
    w = world(fair=True)
    queue(w, "lender", cpu=6)
    queue(w, "a", cpu=0)
    queue(w, "b", cpu=0)
    running(w, "b0", "b", 4)
    running(w, "b1", "b", 2)

    kept = refusals(w, pending("in", "a"), {CPU: 5}, (CPU,))
    assert ask(w, pending("in", "a"), 5) == []
    assert {key: told["LessThanInitialShare"].instead for key, told in kept.items()} == {"ns/b1": "ns/b0"}


# Messages


def test_the_victim_is_told_who_why_and_where():
    w = world()
    w.tree.set_cohort("left", "root", {})
    a = queue(w, "a", "left", cpu=1)
    b = queue(w, "b", "root", cpu=0)
    workload = pending("in", "a")

    message = preemption_message(workload, "InCohortReclamation", a.node, b.node)

    assert message == (
        "Preempted to accommodate a workload (UID: in, JobUID: UNKNOWN) "
        "due to reclamation within the cohort; "
        "preemptor path: /root/left/a; preemptee path: /root/b"
    )


def test_the_job_uid_is_the_label_or_the_job():
    w = world()
    a = queue(w, "a", "", cpu=1)
    workload = pending("in", "a")
    job = JobReference(api_version="batch/v1", kind="Job", key="ns/job", uid="j-1")  # type: ignore[arg-type]
    workload.record, workload.uid = structs.replace(workload.record, job=job), ""

    message = preemption_message(workload, "InCohortFairSharing", a.node, a.node)

    assert message.startswith(
        "Preempted to accommodate a workload (UID: UNKNOWN, JobUID: j-1) due to Fair Sharing"
    )
