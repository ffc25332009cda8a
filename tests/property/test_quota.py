"""The quota tree against its definitions, over random histories of changes (SC3)."""

from dataclasses import dataclass, field
from fractions import Fraction
from math import floor

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.api.quantity import MAX
from sluice.core.quota.fair_share import dominant_resource_share
from sluice.core.quota.tree import (
    WEIGHT_SCALE,
    Node,
    Quota,
    Tree,
    find_height_of_lowest_subtree_that_fits,
)
from tests.support.examples import examples

FRS = (("on-demand", "cpu"), ("spot", "cpu"), ("spot", "memory"))
QUEUES = ("q0", "q1", "q2", "q3")
COHORTS = ("c0", "c1", "c2", "c3")

amounts = st.integers(0, 20)
limits = st.none() | st.integers(0, 10)
quotas = st.dictionaries(st.sampled_from(FRS), st.builds(Quota, amounts, limits, limits), max_size=3)
usages = st.dictionaries(st.sampled_from(FRS), amounts, min_size=1, max_size=3)


@dataclass
class Model:
    """The tree by definition: tables of parents, quotas and usage of queues; all else is worked out anew."""

    parents: dict[str, str] = field(default_factory=dict)
    quotas: dict[str, dict] = field(default_factory=dict)
    usage: dict[str, dict] = field(default_factory=dict)

    def children(self, name):
        return [child for child, parent in self.parents.items() if parent == name]

    def quota(self, name, fr):
        return self.quotas.get(name, {}).get(fr, Quota(0))

    def subtree(self, name, fr):
        stored = sum(self.subtree(c, fr) - self.local(c, fr) for c in self.children(name))
        return self.quota(name, fr).nominal + stored

    def local(self, name, fr):
        limit = self.quota(name, fr).lending_limit
        return 0 if limit is None else max(0, self.subtree(name, fr) - limit)

    def used(self, name, fr):
        if name in QUEUES:
            return self.usage.get(name, {}).get(fr, 0)
        return sum(max(0, self.used(c, fr) - self.local(c, fr)) for c in self.children(name))

    def available(self, name, fr):
        used, local = self.used(name, fr), self.local(name, fr)
        if not self.parents.get(name):
            return self.subtree(name, fr) - used
        from_parent = self.available(self.parents[name], fr)
        limit = self.quota(name, fr).borrowing_limit
        if limit is not None:
            from_parent = min(from_parent, self.subtree(name, fr) - local - max(0, used - local) + limit)
        return max(0, local - used) + from_parent

    def potential(self, name, fr):
        if not self.parents.get(name):
            return self.subtree(name, fr)
        most = self.local(name, fr) + self.potential(self.parents[name], fr)
        limit = self.quota(name, fr).borrowing_limit
        return most if limit is None else min(most, self.subtree(name, fr) + limit)

    def height(self, name):
        return max((self.height(c) + 1 for c in self.children(name)), default=0)


def check(tree: Tree, model: Model) -> None:
    """Every amount of the tree is what the definitions say."""
    nodes: list[Node] = [*tree.cluster_queues.values(), *tree.cohorts.values()]
    assert {n.name for n in nodes} == set(model.parents)
    for node in nodes:
        name = node.name
        assert (node.parent.name if node.parent else "") == model.parents[name]
        assert [c.name for c in node.children] == sorted(model.children(name), key=lambda c: (c in QUEUES, c))
        assert node.height == model.height(name)
        for fr in FRS:
            assert node.subtree_quota(fr) == model.subtree(name, fr)
            assert node.local_quota(fr) == model.local(name, fr)
            assert node.used(fr) == model.used(name, fr)
            assert node.available(fr) == model.available(name, fr)
            assert node.potential_available(fr) == model.potential(name, fr)
            assert node.borrowing(fr) == (model.used(name, fr) > model.subtree(name, fr))
            borrowers = {n.name for n in node.cells[fr].borrowers} if fr in node.cells else set()
            assert borrowers == {c for c in model.children(name) if tree_borrows(model, c, fr)}


def tree_borrows(model: Model, name: str, fr) -> bool:
    return model.used(name, fr) > model.subtree(name, fr)


def prune(model: Model, explicit: set[str]) -> None:
    """Cohorts without a manifest that nobody names do not exist."""
    named = {p for p in model.parents.values() if p}
    for name in list(model.parents):
        if name in COHORTS and name not in explicit and name not in named:
            del model.parents[name]
    for name in named - set(model.parents):
        model.parents[name] = ""


operations = st.lists(
    st.one_of(
        st.tuples(st.just("queue"), st.sampled_from(QUEUES), st.sampled_from(("", *COHORTS)), quotas),
        st.tuples(st.just("cohort"), st.sampled_from(COHORTS), st.sampled_from(("", *COHORTS)), quotas),
        st.tuples(st.just("drop queue"), st.sampled_from(QUEUES)),
        st.tuples(st.just("drop cohort"), st.sampled_from(COHORTS)),
        st.tuples(st.just("add"), st.sampled_from(QUEUES), usages),
        st.tuples(st.just("remove"), st.sampled_from(QUEUES)),
    ),
    max_size=14,
)


def play(steps) -> tuple[Tree, Model]:
    tree, model, explicit = Tree(), Model(), set()
    for kind, name, *rest in steps:
        if kind == "queue":
            tree.set_cluster_queue(name, *rest)
            model.parents[name], model.quotas[name] = rest
        elif kind == "cohort":
            if tree.would_cycle(name, rest[0]):
                continue
            tree.set_cohort(name, *rest)
            model.parents[name], model.quotas[name] = rest
            explicit.add(name)
        elif kind == "drop queue":
            tree.remove_cluster_queue(name)
            model.parents.pop(name, None)
            model.usage.pop(name, None)
            model.quotas.pop(name, None)
        elif kind == "drop cohort":
            tree.remove_cohort(name)
            explicit.discard(name)
            model.quotas.pop(name, None)
            if name in model.parents:
                model.parents[name] = ""
        elif name in tree.cluster_queues:
            held = model.usage.setdefault(name, {})
            if kind == "add":
                tree.add(tree.cluster_queues[name], rest[0])
                for fr, amount in rest[0].items():
                    held[fr] = held.get(fr, 0) + amount
            else:
                tree.remove(tree.cluster_queues[name], held)
                held.clear()
        prune(model, explicit)
        prune(model, explicit)
    return tree, model


def amounts_of(tree: Tree) -> dict:
    return {repr(n): (n.usage, n.subtree) for n in [*tree.cluster_queues.values(), *tree.cohorts.values()]}


@settings(max_examples=examples(150), deadline=None)
@given(operations)
def test_every_amount_is_as_defined_after_any_history(steps):
    """Changes in place give what working everything out from the leaves gives."""
    tree, model = play(steps)
    check(tree, model)


@settings(max_examples=examples(100), deadline=None)
@given(operations, st.lists(st.tuples(st.sampled_from(QUEUES), usages), max_size=6))
def test_add_then_remove_restores(steps, changes):
    """Usage that is given back leaves no trace, in whatever order."""
    tree, model = play(steps)
    changes = [(name, usage) for name, usage in changes if name in tree.cluster_queues]
    before = amounts_of(tree)
    for name, usage in changes:
        tree.add(tree.cluster_queues[name], usage)
    for name, usage in changes:
        tree.remove(tree.cluster_queues[name], usage)
    assert amounts_of(tree) == before
    check(tree, model)


@settings(max_examples=examples(100), deadline=None)
@given(operations, st.lists(st.tuples(st.sampled_from(QUEUES), usages, st.booleans()), max_size=8))
def test_rollback_restores_exactly(steps, changes):
    """Nested trials leave the tree as it was, borrowers included."""
    tree, model = play(steps)
    marks = [tree.mark()]
    for name, usage, nest in changes:
        if name in tree.cluster_queues:
            tree.add(tree.cluster_queues[name], usage)
            if nest:
                marks.append(tree.mark())
    while marks:
        tree.rollback(marks.pop())
    check(tree, model)


@settings(max_examples=examples(100), deadline=None)
@given(operations, st.sampled_from(QUEUES), st.sampled_from(FRS), amounts)
def test_charging_lowers_what_is_available_by_the_amount(steps, name, fr, amount):
    """What a queue uses is exactly what it cannot use any more, and nobody can use more than possible."""
    tree, _ = play(steps)
    node = tree.cluster_queues.get(name)
    if node is None:
        return
    assert node.available(fr) <= node.potential_available(fr)
    before = {n: n.available(fr) for n in tree.cluster_queues.values()}
    tree.add(node, {fr: amount})
    assert node.available(fr) == before[node] - amount
    assert all(before[n] - amount <= n.available(fr) <= before[n] for n in before)


@settings(max_examples=examples(100), deadline=None)
@given(operations, st.lists(st.tuples(st.sampled_from(QUEUES), st.sampled_from(FRS), amounts), max_size=10))
def test_what_fits_never_overdraws(steps, requests):
    """Admitting only what fits uses no more than the root has, nor what somebody does not lend."""
    tree, _ = play([step for step in steps if step[0] != "add"])
    for name, fr, amount in requests:
        node = tree.cluster_queues.get(name)
        if node is None or not tree.fits(node, {fr: amount}):
            continue
        tree.add(node, {fr: amount})
    for node in [*tree.cluster_queues.values(), *tree.cohorts.values()]:
        for fr in FRS:
            quota = node.quotas.get(fr, Quota(0))
            if node.parent is None:
                assert node.used(fr) <= node.subtree_quota(fr)
            elif quota.borrowing_limit is not None:
                assert node.used(fr) <= node.subtree_quota(fr) + quota.borrowing_limit
            assert node.available(fr) >= node.local_available(fr) >= 0, "what is not lent stays its own"


@settings(max_examples=examples(150), deadline=None)
@given(operations, st.sampled_from(QUEUES), st.sampled_from(FRS), amounts)
def test_the_lowest_subtree_that_fits_is_the_first_that_a_charge_leaves_within_quota(steps, name, fr, amount):
    """Of the node and those above it; the root, if none."""
    tree, _ = play(steps)
    if name not in tree.cluster_queues:
        return
    node = tree.cluster_queues[name]
    found = find_height_of_lowest_subtree_that_fits(node, fr, amount)
    mark = tree.mark()
    tree.add(node, {fr: amount})
    path = [node, *node.path_to_root()]
    lowest = next((each for each in path if each.used(fr) <= each.subtree_quota(fr)), path[-1])
    tree.rollback(mark)
    assert found == (lowest.height, lowest.parent is not None)


@settings(max_examples=examples(150), deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(("cpu", "gpu", "memory")),
        st.tuples(st.integers(1, MAX), st.integers(0, MAX)),
        min_size=1,
    ),
    st.just(0) | st.integers(1, 10 * WEIGHT_SCALE),
)
def test_a_share_is_the_largest_ratio_to_the_last_binary_place(resources, weight):
    """Of what is borrowed to what can be lent, with no rounding but down to 2^-64 thousandths (SC6)."""
    tree = Tree()
    frs = {("default", resource): both for resource, both in resources.items()}
    tree.set_cluster_queue("lender", "team", {fr: Quota(lent) for fr, (_, lent) in frs.items()})
    node = tree.set_cluster_queue("a", "team", {}, weight)
    tree.add(node, {fr: borrowed for fr, (borrowed, _) in frs.items()})
    ratios = {
        resource: Fraction(borrowed * 1000 << 64, lent)
        for resource, (borrowed, lent) in resources.items()
        if lent
    }
    dominant = min(ratios, key=lambda resource: (-floor(ratios[resource]), resource), default="")
    ratio = ratios.get(dominant, Fraction(0))

    share = dominant_resource_share(tree, node)

    assert share.resource == dominant
    assert share.borrowed == tuple(sorted(frs))
    assert share.key == ((0, floor(ratio * WEIGHT_SCALE / weight)) if weight else (1, floor(ratio)))
