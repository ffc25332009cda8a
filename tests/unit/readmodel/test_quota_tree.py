"""Cohorts are the same tree to the scheduler and to people, whatever was applied, circles included (SC3)."""

from hypothesis import given
from hypothesis import strategies as st

from sluice.core.views.quota_totals import cohort_totals, members
from sluice.readmodel.quota_tree import tree_of
from tests.support.family_world import FamilyWorld, cell, cluster_queue, flavor
from tests.support.objects import kueue_object

NAMES = ("a", "b", "c", "d")
APPLIED = st.tuples(st.sampled_from(NAMES), st.sampled_from(("", *NAMES)))
DELETED = st.tuples(st.sampled_from(NAMES), st.none())


@given(st.lists(APPLIED | DELETED, max_size=12))
def test_cohorts_are_one_tree(edits: list[tuple[str, str | None]]) -> None:
    world: FamilyWorld = cell(cluster_queue({"res": 1}, {}), flavor("res"))
    for name in NAMES:
        queue = cluster_queue({"res": 1}, {}, cohortName=name)
        queue["metadata"]["name"] = f"of-{name}"
        world.apply(queue)
    for name, parent in edits:
        if parent is None:
            world.delete("Cohort", name)
        else:
            world.apply(kueue_object("Cohort", name, {"parentName": parent} if parent else {}))
    world.settle()
    tree = world.services["scheduler"].state.world.tree
    view = world.view()
    shown = tree_of(view)
    for name in NAMES:
        node = tree.cohorts[name]
        assert [each.name for each in shown.cohorts[name].path_to_root()] == [
            each.name for each in node.path_to_root()
        ]
        below = sorted(each.name for each in node.subtree_nodes() if each.is_cluster_queue)
        assert [queue.name for queue in members(view, name)] == below
        assert cohort_totals(view, name).nominal["res", "cpu"] == len(below) * 1000
