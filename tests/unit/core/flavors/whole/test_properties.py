"""What holds for every assignment, whatever the world looks like."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.api import kueue
from sluice.core.flavors.assigner import assign
from sluice.core.flavors.assignment import Mode, Possibility
from tests.support.attempts import attempts_text
from tests.support.examples import examples
from tests.support.flavor_builders import FixedOracle, pod_set, queue, use, workload, world

FLAVORS = ("a", "b", "c")
RESOURCES = ("cpu", "memory")
SMALL = st.integers(0, 6)
LIMITS = st.one_of(st.none(), SMALL)
AMOUNTS = st.fixed_dictionaries({res: st.tuples(SMALL, LIMITS) for res in RESOURCES})
GROUPS = st.dictionaries(st.sampled_from(FLAVORS), AMOUNTS, min_size=1)
USAGE = st.dictionaries(
    st.sampled_from(FLAVORS), st.dictionaries(st.sampled_from(RESOURCES), SMALL), max_size=3
)
FUNGIBILITY = st.sampled_from(["MayStopSearch", "TryNextFlavor"])
ANSWERS = st.tuples(st.sampled_from(Possibility), st.integers(0, 2))


@st.composite
def worlds(draw):
    """Return a world, its queue `q`, and an oracle."""
    w = world(*FLAVORS)
    w.tree.set_cohort("c", "root", {})
    cq = queue(
        w,
        "q",
        draw(GROUPS),
        cohort=draw(st.sampled_from(["", "c"])),
        borrow=draw(FUNGIBILITY),
        preempt=draw(FUNGIBILITY),
        preference=draw(st.sampled_from([None, "BorrowingOverPreemption", "PreemptionOverBorrowing"])),
        preemption=kueue.ClusterQueuePreemption(
            within_cluster_queue="LowerPriority", reclaim_within_cohort="Any"
        ),
    )
    queue(w, "near", draw(GROUPS), cohort="c")
    queue(w, "far", draw(GROUPS), cohort="root")
    for name in ("q", "near", "far"):
        use(w, name, **draw(USAGE))
    return w, cq, FixedOracle(draw(ANSWERS), **{flv: draw(ANSWERS) for flv in FLAVORS})


@st.composite
def workloads(draw):
    requests = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 4))
    sets = draw(st.lists(st.tuples(st.integers(0, 3), requests), min_size=1, max_size=3))
    return workload(
        *(pod_set(f"p{i}", count, requests=req) for i, (count, req) in enumerate(sets)),
        allowed_flavors=draw(st.sampled_from([(), ("a",), ("b", "c")])),
        cannot_borrow=draw(st.booleans()),
        cannot_preempt=draw(st.booleans()),
    )


@given(worlds(), workloads())
@settings(max_examples=examples(150), deadline=None)
def test_an_assignment_that_fits_can_be_charged(given_world, wl):
    """FIT means that all of its usage is available at once, not one resource at a time."""
    w, cq, oracle = given_world

    result = assign(w, wl, cq, oracle)

    if result.mode is Mode.FIT:
        assert all(used == 0 or used <= cq.node.available(fr) for fr, used in result.usage.items())


@given(worlds(), workloads())
@settings(max_examples=examples(150), deadline=None)
def test_constraints_hold(given_world, wl):
    """Never a disallowed flavor, never more than nominal quota or a preemption where that is forbidden."""
    w, cq, oracle = given_world

    result = assign(w, wl, cq, oracle)

    names = [choice.name for ps in result.pod_sets for choice in ps.flavors.values()]
    if wl.record.allowed_flavors:
        assert all(name in wl.record.allowed_flavors for name in names)
    if wl.record.cannot_preempt:
        assert result.mode is not Mode.PREEMPT
    if wl.record.cannot_borrow and result.mode is not Mode.NO_FIT:
        assert result.borrowing == 0
        if result.mode is Mode.FIT:
            assert all(
                used == 0 or cq.node.used(fr) + used <= cq.node.nominal(fr)
                for fr, used in result.usage.items()
            )


@given(worlds(), workloads(), st.integers())
@settings(max_examples=examples(100), deadline=None)
def test_the_answer_depends_on_the_question_only(given_world, wl, seed):
    """Asking again gives the same, in whatever order requests are written; and nothing is changed."""
    w, cq, oracle = given_world
    before = {name: known.node.usage for name, known in w.cluster_queues.items()}
    shuffled = []
    for ps in wl.record.pod_sets:
        items = list(ps.requests.items())
        random.Random(seed).shuffle(items)
        shuffled.append(pod_set(ps.name, ps.count, requests=dict(items)))
    same = workload(
        *shuffled,
        allowed_flavors=wl.record.allowed_flavors,
        cannot_borrow=wl.record.cannot_borrow,
        cannot_preempt=wl.record.cannot_preempt,
    )

    first, second = assign(w, wl, cq, oracle), assign(w, same, cq, oracle)

    assert summary(first) == summary(second)
    assert {name: known.node.usage for name, known in w.cluster_queues.items()} == before


@given(worlds(), workloads())
@settings(max_examples=examples(100), deadline=None)
def test_every_refusal_is_explained(given_world, wl):
    """No mode without its words: a message unless it fits, a reason where nothing fits."""
    w, cq, oracle = given_world

    result = assign(w, wl, cq, oracle)

    assert (result.mode is Mode.FIT) == (result.message == "")
    assert (result.mode is Mode.NO_FIT) == (result.no_fit_reason != "")


def summary(result):
    """Return all that can be seen of an assignment, in order."""
    return (
        result.mode,
        result.borrowing,
        list(result.usage.items()),
        [list(tried.items()) for tried in result.scan],
        result.message,
        result.no_fit_reason,
        attempts_text(result),
        result.pod_set_assignments(),
    )
