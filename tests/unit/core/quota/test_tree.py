"""The quota tree: what is available where, and that changes can be taken back (SC3)."""

import pytest

from sluice.core.quota.tree import (
    CohortCycleError,
    Quota,
    Tree,
    TrialError,
    find_height_of_lowest_subtree_that_fits,
)

CPU = ("default", "cpu")


def cpu(nominal: int, borrow: int | None = None, lend: int | None = None) -> dict[tuple[str, str], Quota]:
    return {CPU: Quota(nominal, borrow, lend)}


def test_a_queue_without_a_cohort_has_its_own_quota_only():
    """A borrowing limit means nothing where nobody lends."""
    tree = Tree()
    node = tree.set_cluster_queue("a", "", cpu(8, borrow=5))

    tree.add(node, {CPU: 3})

    assert (node.available(CPU), node.potential_available(CPU)) == (5, 8)


def test_a_queue_borrows_what_its_neighbour_leaves():
    tree = Tree()
    a = tree.set_cluster_queue("a", "team", cpu(8))
    b = tree.set_cluster_queue("b", "team", cpu(4))

    tree.add(b, {CPU: 1})

    assert a.available(CPU) == 11
    assert a.potential_available(CPU) == 12


def test_a_lending_limit_is_never_lent():
    """A borrower cannot use more than its neighbour agreed to lend; the neighbour keeps the rest."""
    tree = Tree()
    a = tree.set_cluster_queue("a", "team", cpu(8, lend=3))
    b = tree.set_cluster_queue("b", "team", cpu(0))

    assert b.available(CPU) == 3
    tree.add(b, {CPU: 3})
    assert a.available(CPU) == 5
    tree.add(a, {CPU: 2})
    assert (a.nominal(CPU), a.subtree_quota(CPU), a.local_quota(CPU), a.local_available(CPU)) == (8, 8, 5, 3)


def test_what_is_never_lent_adds_up_on_the_way_to_the_root():
    """A queue has what it keeps, what its cohort keeps for those below it, and what is left above."""
    tree = Tree()
    tree.set_cohort("root", "", cpu(10))
    tree.set_cohort("left", "root", cpu(5, lend=2))
    a = tree.set_cluster_queue("a", "left", cpu(4, lend=1))
    b = tree.set_cluster_queue("b", "left", cpu(0))

    assert (a.available(CPU), b.available(CPU)) == (3 + 4 + 12, 4 + 12)
    tree.add(b, {CPU: 3})
    assert (a.available(CPU), b.available(CPU)) == (3 + 1 + 12, 1 + 12)


def test_a_borrowing_limit_counts_what_is_borrowed_already():
    tree = Tree()
    a = tree.set_cluster_queue("a", "team", cpu(4, borrow=2))
    tree.set_cluster_queue("b", "team", cpu(10))

    tree.add(a, {CPU: 5})

    assert a.available(CPU) == 1
    assert a.potential_available(CPU) == 6


def test_limits_of_cohorts_bind_their_whole_subtree():
    """A cohort's borrowing limit holds for all queues below it together."""
    tree = Tree()
    tree.set_cohort("root", "", cpu(10))
    tree.set_cohort("left", "root", cpu(0, borrow=4))
    a = tree.set_cluster_queue("a", "left", cpu(1))
    b = tree.set_cluster_queue("b", "left", cpu(1))

    tree.add(a, {CPU: 5})

    assert a.available(CPU) == b.available(CPU) == 1


def test_available_is_negative_after_a_quota_cut():
    """Over-use is visible, so that nothing is admitted before it is worked off."""
    tree = Tree()
    a = tree.set_cluster_queue("a", "team", cpu(8))
    tree.add(a, {CPU: 8})

    tree.set_cluster_queue("a", "team", cpu(5))

    assert a.available(CPU) == -3
    assert a.borrowing(CPU)


def test_a_flavor_without_quota_anywhere_is_not_available():
    tree = Tree()
    a = tree.set_cluster_queue("a", "team", cpu(8))

    assert a.available(("other", "cpu")) == 0
    assert not tree.fits(a, {("other", "cpu"): 1})
    assert a.borrowing_with(("other", "cpu"), 1)
    assert not a.borrowing_with(("other", "cpu"), 0)
    for amount in (
        a.used,
        a.nominal,
        a.subtree_quota,
        a.local_quota,
        a.local_available,
        a.potential_available,
    ):
        assert amount(("other", "cpu")) == 0


def test_a_queue_may_use_a_flavor_that_only_its_cohort_has():
    tree = Tree()
    a = tree.set_cluster_queue("a", "team", {})
    tree.set_cohort("team", "", cpu(6))

    assert a.available(CPU) == a.potential_available(CPU) == 6
    assert tree.fits(a, {CPU: 6})
    tree.add(a, {CPU: 2})
    assert a.available(CPU) == 4


def test_a_cohort_lives_as_long_as_somebody_names_it():
    tree = Tree()
    tree.set_cluster_queue("a", "team", cpu(1))
    assert set(tree.cohorts) == {"team"}

    tree.set_cluster_queue("a", "", cpu(1))
    assert not tree.cohorts

    tree.set_cohort("left", "root", cpu(1))
    tree.set_cluster_queue("a", "left", cpu(1))
    tree.remove_cohort("left")
    assert set(tree.cohorts) == {"left"}, "its queue still names it; its parent nobody does"
    assert tree.cohorts["left"].available(CPU) == 1


def test_a_queue_that_leaves_takes_its_usage_along():
    """And no more than that: what its neighbours use stays with the cohort."""
    tree = Tree()
    tree.set_cohort("team", "root", cpu(0))
    a = tree.set_cluster_queue("a", "team", cpu(8, lend=2))
    tree.set_cluster_queue("b", "team", cpu(4))
    tree.add(a, {CPU: 7})
    tree.add(tree.cluster_queues["b"], {CPU: 3})
    assert tree.cohorts["root"].used(CPU) == 1 + 3

    tree.set_cluster_queue("a", "", cpu(8, lend=2))

    assert (a.used(CPU), tree.cohorts["team"].used(CPU), tree.cohorts["root"].used(CPU)) == (7, 3, 3)


def test_a_queue_joins_and_leaves_a_cohort_that_keeps_quota_for_itself():
    """Usage of what it has no quota for comes along; above the cohort only what that lends counts."""
    tree = Tree()
    team = tree.set_cohort("team", "root", cpu(4, lend=2))
    root = tree.cohorts["root"]
    a = tree.set_cluster_queue("a", "", {})
    tree.add(a, {CPU: 6})
    for nominal, used in ((0, 4), (3, 1)):
        tree.set_cluster_queue("a", "team", cpu(nominal))
        assert (team.used(CPU), root.used(CPU), root.subtree_quota(CPU)) == (6, used, 2)

    tree.remove_cluster_queue("a")

    assert (team.used(CPU), root.used(CPU), root.subtree_quota(CPU)) == (0, 0, 2)


def test_who_goes_leaves_nothing_behind():
    """A cohort with a manifest stays without its queue; it ends with the manifest."""
    tree = Tree()
    team = tree.set_cohort("team", "root", cpu(1))
    root = tree.cohorts["root"]
    assert (team.height, root.height) == (0, 1)
    a = tree.set_cluster_queue("a", "team", cpu(2))
    assert (team.child_cluster_queues, team.child_cohorts, root.children) == ([a], [], [team])
    assert (team.height, root.height) == (1, 2)
    tree.add(a, {CPU: 3})

    for _ in range(2):
        tree.remove_cluster_queue("a")

    assert (team.children, team.height, root.height) == ([], 0, 1)
    assert (team.usage, team.subtree, root.usage, root.subtree) == ({}, {CPU: 1}, {}, {CPU: 1})
    assert not team.cells[CPU].borrowers
    assert set(tree.cohorts) == {"team", "root"}
    tree.remove_cohort("team")
    assert not tree.cohorts


def test_cycles_are_refused_and_change_nothing():
    tree = Tree()
    tree.set_cohort("a", "b", cpu(1))
    tree.set_cohort("b", "c", cpu(2))

    with pytest.raises(CohortCycleError, match=r"'c': parent 'a'"):
        tree.set_cohort("c", "a", cpu(3))
    with pytest.raises(CohortCycleError):
        tree.set_cohort("d", "d", cpu(3))

    assert set(tree.cohorts) == {"a", "b", "c"}
    assert tree.cohorts["c"].subtree == {CPU: 3}


def test_a_queue_and_a_cohort_may_share_a_name():
    tree = Tree()
    tree.set_cohort("x", "root", cpu(0))
    inner = tree.set_cluster_queue("inner", "x", cpu(0))
    outer = tree.set_cluster_queue("x", "root", cpu(4))

    tree.add(inner, {CPU: 1})

    assert list(tree.cohorts["root"].cells[CPU].borrowers) == [tree.cohorts["x"]]
    assert outer.path() == "/root/x"
    assert inner.path() == "/root/x/inner"


def test_trials_nest_and_restore_exactly():
    """An inner trial that ends does not end the outer one, even if nothing had happened before it."""
    tree = Tree()
    a = tree.set_cluster_queue("a", "team", cpu(8, lend=2))
    b = tree.set_cluster_queue("b", "team", cpu(0))

    outer = tree.mark()
    inner = tree.mark()
    tree.add(a, {CPU: 7})
    tree.rollback(inner)
    tree.add(b, {CPU: 2})
    tree.rollback(outer)

    assert (a.usage, b.usage, tree.cohorts["team"].usage) == ({}, {}, {})
    assert not tree.cohorts["team"].cells[CPU].borrowers


def test_the_shape_is_fixed_during_a_trial():
    tree = Tree()
    tree.set_cluster_queue("a", "team", cpu(8))
    mark = tree.mark()
    with pytest.raises(TrialError, match=r"^<queue /team/a> changed during a trial$"):
        tree.set_cluster_queue("a", "", cpu(9))
    with pytest.raises(TrialError, match=r"^<cohort /team> changed during a trial$"):
        tree.set_cohort("team", "", cpu(9))
    tree.rollback(mark)
    with pytest.raises(TrialError, match=r"^rollback without a mark$"):
        tree.rollback(mark)


def test_height_of_the_lowest_subtree_that_fits():
    """0 within own quota, then one level per cohort that has to be borrowed from."""
    tree = Tree()
    tree.set_cohort("root", "", cpu(100))
    tree.set_cohort("left", "root", cpu(10))
    tree.set_cohort("right", "root", cpu(0))
    tree.set_cohort("deep", "right", cpu(0))
    tree.set_cluster_queue("far", "deep", cpu(0))
    a = tree.set_cluster_queue("a", "left", cpu(5))
    alone = tree.set_cluster_queue("alone", "", cpu(5))

    assert find_height_of_lowest_subtree_that_fits(a, CPU, 5) == (0, True)
    assert find_height_of_lowest_subtree_that_fits(a, CPU, 6) == (1, True)
    assert find_height_of_lowest_subtree_that_fits(a, CPU, 16) == (3, False)
    assert find_height_of_lowest_subtree_that_fits(a, CPU, 1000) == (3, False)
    assert find_height_of_lowest_subtree_that_fits(alone, CPU, 1000) == (0, False)

    keeps = tree.set_cluster_queue("keeps", "left", cpu(5, lend=0))
    assert find_height_of_lowest_subtree_that_fits(keeps, CPU, 5 + 15) == (1, True), "5 are no loan"
    assert find_height_of_lowest_subtree_that_fits(keeps, CPU, 5 + 16) == (3, False)


def test_what_a_cohort_never_lends_is_no_loan_from_above():
    """The 4 that `left` keeps for those below it come off what `mid` has to give."""
    tree = Tree()
    tree.set_cohort("root", "", cpu(10))
    tree.set_cohort("mid", "root", cpu(3))
    tree.set_cohort("left", "mid", cpu(4, lend=1))
    a = tree.set_cluster_queue("a", "left", cpu(1))

    assert find_height_of_lowest_subtree_that_fits(a, CPU, 5) == (1, True)
    assert find_height_of_lowest_subtree_that_fits(a, CPU, 8) == (2, True)
    assert find_height_of_lowest_subtree_that_fits(a, CPU, 9) == (3, False)
