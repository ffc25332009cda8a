"""Dominant resource shares (SC6)."""

import pytest

from sluice.api.kueue import FairSharing
from sluice.api.quantity import MAX
from sluice.core.quota.fair_share import ZERO, dominant_resource_share, weight
from sluice.core.quota.tree import WEIGHT_SCALE, Quota, Tree

CPU, MEMORY = ("default", "cpu"), ("default", "memory")


def team(weight_of_a: int = WEIGHT_SCALE):
    """Queues a (4 cpu, 10 memory) and b (6 cpu, 90 memory) lend to each other: 10 and 100 in all."""
    tree = Tree()
    a = tree.set_cluster_queue("a", "team", {CPU: Quota(4), MEMORY: Quota(10)}, weight_of_a)
    b = tree.set_cluster_queue("b", "team", {CPU: Quota(6), MEMORY: Quota(90)})
    return tree, a, b


def test_within_nominal_quota_the_share_is_zero():
    tree, a, _ = team()
    tree.add(a, {CPU: 4, MEMORY: 10})
    assert dominant_resource_share(tree, a) == ZERO


def test_the_largest_ratio_of_borrowed_to_lendable_counts():
    """3 of 10 cpu beats 20 of 100 memory."""
    tree, a, _ = team()
    tree.add(a, {CPU: 7, MEMORY: 30})
    share = dominant_resource_share(tree, a)
    assert (share.rounded, share.resource) == (300, "cpu")
    assert share.borrowed == (CPU, MEMORY)
    assert share.is_borrowing_on({CPU: 1})
    assert not share.is_borrowing_on({("spot", "cpu"): 1})


@pytest.mark.parametrize("order", [(CPU, MEMORY), (MEMORY, CPU)])
def test_of_equal_ratios_the_first_by_name_is_dominant(order):
    """3 of 10 cpu and 30 of 100 memory, whichever was charged first."""
    tree, a, _ = team()
    for fr in order:
        tree.add(a, {fr: {CPU: 7, MEMORY: 40}[fr]})
    share = dominant_resource_share(tree, a)
    assert (share.rounded, share.resource) == (300, "cpu")


def test_flavors_of_one_resource_are_summed():
    tree = Tree()
    spot = ("spot", "cpu")
    a = tree.set_cluster_queue("a", "team", {CPU: Quota(0), spot: Quota(0)})
    tree.set_cluster_queue("b", "team", {CPU: Quota(6), spot: Quota(4)})
    tree.add(a, {CPU: 1, spot: 2})
    assert dominant_resource_share(tree, a).rounded == 300


@pytest.mark.parametrize(("heavy", "infinite"), [(WEIGHT_SCALE, 0), (0, 1)])
def test_what_nobody_can_lend_is_no_share(heavy, infinite):
    """Whatever is borrowed of it; of the least that can be lent it is all."""
    gpu = ("default", "gpu")
    tree = Tree()
    a = tree.set_cluster_queue("a", "team", {}, heavy)
    tree.add(a, {gpu: 1})
    assert dominant_resource_share(tree, a) == ((infinite, 0), "", (gpu,))
    tree.set_cluster_queue("b", "team", {CPU: Quota(1)})
    tree.add(a, {CPU: 1})
    assert dominant_resource_share(tree, a) == ((infinite, 1000 << 64), "cpu", (CPU, gpu))


def test_weights_divide_the_share():
    """A queue of weight 2 may borrow twice as much for the same share, exactly."""
    tree, heavy, _ = team(2 * WEIGHT_SCALE)
    tree.add(heavy, {CPU: 6})
    other, light, _ = team()
    other.add(light, {CPU: 5})
    assert dominant_resource_share(tree, heavy).key == dominant_resource_share(other, light).key


@pytest.mark.parametrize(
    ("written", "billionths"),
    [(None, 10**9), ("2", 2 * 10**9), ("500m", 5 * 10**8), (0, 0), ("0.0000000001", 1)],
)
def test_weights_are_read_exactly(written, billionths):
    """Nothing becomes 0 but 0, which means something else."""
    assert weight(None) == 10**9
    assert weight(FairSharing(weight=written)) == billionths


def test_weight_zero_borrows_infinitely():
    """Above every other share; among themselves by how much they borrow. Zero while not borrowing."""
    tree, a, b = team(0)
    assert dominant_resource_share(tree, a) == ZERO
    tree.add(a, {CPU: 5})
    less = dominant_resource_share(tree, a)
    tree.add(a, {CPU: 1})
    more = dominant_resource_share(tree, a)
    tree.add(b, {CPU: 1000})
    finite = dominant_resource_share(tree, b)
    assert less.is_infinite
    assert less.resource == "cpu"
    assert less.rounded == MAX
    assert finite.key < less.key < more.key


def test_the_root_and_a_lone_queue_have_no_share():
    tree, a, _ = team()
    lone = tree.set_cluster_queue("lone", "", {CPU: Quota(1)})
    tree.add(lone, {CPU: 5})
    tree.add(a, {CPU: 50})
    assert dominant_resource_share(tree, lone) == ZERO
    assert dominant_resource_share(tree, a.root()) == ZERO


def test_what_can_be_lent_follows_quota_changes():
    """The kept sum is made anew when quota changes."""
    tree, a, _ = team()
    tree.add(a, {CPU: 5})
    assert dominant_resource_share(tree, a).rounded == 100
    tree.set_cluster_queue("b", "team", {CPU: Quota(16)})
    assert dominant_resource_share(tree, a).rounded == 50


def test_what_nobody_has_quota_for_has_no_ratio():
    """It is borrowed, though the kept sum does not know of it."""
    tree, a, _ = team()
    tree.add(a, {CPU: 7})
    before = dominant_resource_share(tree, a)
    gpu = ("default", "gpu")
    tree.add(a, {gpu: 1})
    assert dominant_resource_share(tree, a) == before._replace(borrowed=(CPU, gpu))


def test_limits_bound_what_the_parent_can_lend():
    """Lendable is what the parent could hold at most, within its own borrowing limit."""
    tree = Tree()
    tree.set_cohort("root", "", {CPU: Quota(100)})
    tree.set_cohort("team", "root", {CPU: Quota(0, borrowing_limit=5)})
    a = tree.set_cluster_queue("a", "team", {CPU: Quota(5)})
    tree.add(a, {CPU: 6})
    assert dominant_resource_share(tree, a).rounded == 100
    assert dominant_resource_share(tree, tree.cohorts["team"]).rounded == 10
