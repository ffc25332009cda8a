"""Which flavor is chosen: order, fungibility, several pod sets and groups, resumed scans (SC4)."""

import pytest

from sluice.api import kueue
from sluice.core.flavors.assigner import assign
from sluice.core.flavors.assignment import Mode, Possibility, pending_flavors
from sluice.events.base import PodSetAssignment
from tests.support.attempts import attempts_text
from tests.support.flavor_builders import FixedOracle, asks, pod_set, queue, use, workload, world

NONE = (Possibility.NO_CANDIDATES, 0)


def chosen(assignment):
    """Return resource -> flavor of the first pod set."""
    return {res: choice.name for res, choice in assignment.pod_sets[0].flavors.items()}


def test_first_flavor_that_fits_is_taken():
    """The order of the manifest is the order of preference."""
    w = world("a", "b")
    cq = queue(w, "q", {"a": {"cpu": 4}, "b": {"cpu": 4}})

    result = assign(w, asks(3), cq, FixedOracle())

    assert result.mode is Mode.FIT
    assert chosen(result) == {"cpu": "a"}
    assert result.usage == {("a", "cpu"): 3}
    assert result.borrowing == 0
    assert (result.message, result.no_fit_reason, attempts_text(result)) == ("", "", "")


# a is short: by how much decides whether it would borrow or preempt; b is free or not.
FUNGIBILITY = [
    # whenCanBorrow, whenCanPreempt, preference, a needs, b needs -> flavor, mode
    ("MayStopSearch", "TryNextFlavor", None, "borrow", "nothing", "a", Mode.FIT),
    ("TryNextFlavor", "TryNextFlavor", None, "borrow", "nothing", "b", Mode.FIT),
    ("TryNextFlavor", "TryNextFlavor", None, "borrow", "borrow", "a", Mode.FIT),
    ("TryNextFlavor", "TryNextFlavor", None, "preempt", "nothing", "b", Mode.FIT),
    ("TryNextFlavor", "TryNextFlavor", None, "preempt", "borrow", "b", Mode.FIT),
    ("TryNextFlavor", "TryNextFlavor", None, "borrow", "preempt", "a", Mode.FIT),
    ("MayStopSearch", "MayStopSearch", None, "preempt", "nothing", "a", Mode.PREEMPT),
    ("MayStopSearch", "TryNextFlavor", None, "preempt", "preempt", "a", Mode.PREEMPT),
    ("TryNextFlavor", "TryNextFlavor", "PreemptionOverBorrowing", "preempt", "borrow", "a", Mode.PREEMPT),
    ("TryNextFlavor", "TryNextFlavor", "PreemptionOverBorrowing", "borrow", "preempt", "b", Mode.PREEMPT),
    ("TryNextFlavor", "TryNextFlavor", "BorrowingOverPreemption", "preempt", "borrow", "b", Mode.FIT),
    ("MayStopSearch", "TryNextFlavor", None, "all", "nothing", "b", Mode.FIT),
    ("MayStopSearch", "TryNextFlavor", None, "all", "all", None, Mode.NO_FIT),
]


@pytest.mark.parametrize(("borrow", "preempt", "preference", "a", "b", "flavor", "mode"), FUNGIBILITY)
def test_fungibility(borrow, preempt, preference, a, b, flavor, mode):
    """Whether flavors after a good one are looked at, and which of two shortcomings is worse."""
    w = world("a", "b")
    nominal = {"nothing": 10, "borrow": 0, "preempt": 10, "all": 0}
    cq = queue(
        w,
        "q",
        {"a": {"cpu": nominal[a]}, "b": {"cpu": nominal[b]}},
        cohort="c",
        borrow=borrow,
        preempt=preempt,
        preference=preference,
    )
    lent = {need: 0 if need == "all" else 10 for need in nominal}
    queue(w, "lender", {"a": {"cpu": lent[a]}, "b": {"cpu": lent[b]}}, cohort="c")
    for name, need in (("a", a), ("b", b)):
        if need == "preempt":
            use(w, "q", **{name: {"cpu": 10}})
            use(w, "lender", **{name: {"cpu": 10}})

    result = assign(w, asks(5), cq, FixedOracle())

    assert result.mode is mode
    assert chosen(result) == ({"cpu": flavor} if flavor else {})


def test_without_fungibility_the_first_that_fits_is_taken():
    """Borrowing or not; and no scan is resumed."""
    w = world("a", "b", "c", FlavorFungibility=False)
    cq = queue(
        w, "q", {"a": {"cpu": 4}, "b": {"cpu": 0}, "c": {"cpu": 9}}, cohort="c", borrow="TryNextFlavor"
    )
    queue(w, "lender", {"b": {"cpu": 4}}, cohort="c")
    use(w, "q", a={"cpu": 4})

    result = assign(w, asks(1), cq, FixedOracle(), scan=[{"cpu": 1}])

    assert chosen(result) == {"cpu": "b"}
    assert not pending_flavors(result.scan)


def test_flavor_without_candidates_is_worse_than_one_that_must_reach_further():
    """What no preemption can free comes last, whatever the preference."""
    w = world("a", "b")
    cq = queue(
        w,
        "q",
        {"a": {"cpu": 4}, "b": {"cpu": 4}},
        preempt="MayStopSearch",
        preference="PreemptionOverBorrowing",
    )
    use(w, "q", a={"cpu": 4}, b={"cpu": 4})

    result = assign(w, asks(1), cq, FixedOracle(a=NONE, b=(Possibility.RECLAIM, 2)))

    assert chosen(result) == {"cpu": "b"}
    assert result.borrowing == 2


def test_a_flavor_is_as_good_as_its_worst_resource():
    """All resources of a group get one flavor."""
    w = world("a", "b")
    cq = queue(w, "q", {"a": {"cpu": 4, "memory": 1}, "b": {"cpu": 4, "memory": 9}})

    result = assign(w, workload(pod_set(requests={"cpu": 1, "memory": 5})), cq, FixedOracle())

    assert chosen(result) == {"cpu": "b", "memory": "b"}


def test_a_flavor_does_not_fit_while_one_resource_must_preempt():
    """Where preemption is preferred to borrowing, the other resource's borrowing is the worse of the two."""
    w = world("a")
    cq = queue(
        w,
        "q",
        {"a": {"cpu": 1, "memory": 4}},
        cohort="c",
        preempt="MayStopSearch",
        preference="PreemptionOverBorrowing",
    )
    queue(w, "lender", {"a": {"cpu": 4, "memory": 0}}, cohort="c")
    use(w, "q", a={"memory": 4})

    result = assign(w, workload(pod_set(requests={"cpu": 2, "memory": 1})), cq, FixedOracle())

    assert result.mode is Mode.PREEMPT


def test_groups_are_independent():
    w = world("a", "g")
    cq = queue(w, "q", {"a": {"cpu": 4}}, {"g": {"gpu": 2}})

    result = assign(w, workload(pod_set(requests={"cpu": 1, "gpu": 1})), cq, FixedOracle())

    assert chosen(result) == {"cpu": "a", "gpu": "g"}


def test_pod_sets_accumulate():
    """A later pod set sees what the earlier ones of the same workload take."""
    w = world("a", "b")
    cq = queue(w, "q", {"a": {"cpu": 4}, "b": {"cpu": 4}})
    wl = workload(pod_set("x", requests={"cpu": 3}), pod_set("y", 2, requests={"cpu": 2}))

    result = assign(w, wl, cq, FixedOracle())

    assert [chosen_of(ps) for ps in result.pod_sets] == [{"cpu": "a"}, {"cpu": "b"}]
    assert result.usage == {("a", "cpu"): 3, ("b", "cpu"): 4}


def chosen_of(result):
    return {res: choice.name for res, choice in result.flavors.items()}


def test_pod_sets_of_one_group_share_flavors():
    """Leader and workers are placed together, even where the leader alone would fit elsewhere."""
    w = world("a", "b")
    cq = queue(w, "q", {"a": {"cpu": 4}, "b": {"cpu": 9}})
    wl = workload(
        pod_set("workers", 4, requests={"cpu": 2}, group="g"),
        pod_set("leader", requests={"cpu": 1}, group="g"),
    )

    result = assign(w, wl, cq, FixedOracle())

    assert [chosen_of(ps) for ps in result.pod_sets] == [{"cpu": "b"}, {"cpu": "b"}]


def test_pods_are_counted_where_the_queue_covers_them():
    w = world("a")
    cq = queue(w, "q", {"a": {"cpu": 10, "pods": 3}})

    assert assign(w, workload(pod_set(count=3, requests={"cpu": 1})), cq, FixedOracle()).usage == {
        ("a", "cpu"): 3,
        ("a", "pods"): 3,
    }
    assert assign(w, workload(pod_set(count=4, requests={"cpu": 1})), cq, FixedOracle()).mode is Mode.NO_FIT


def test_reclaimable_pods_need_no_quota():
    """Pods that have ended are not asked for again (SC7)."""
    w = world("a")
    cq = queue(w, "q", {"a": {"cpu": 3}})
    wl = workload(pod_set(count=5, requests={"cpu": 1}))
    wl.reclaimable["main"] = 2

    result = assign(w, wl, cq, FixedOracle())

    assert result.mode is Mode.FIT
    assert result.pod_set_assignments() == (
        PodSetAssignment(name="main", count=3, flavors={"cpu": "a"}, usage={"cpu": 3}),
    )
    w.config = world(ReclaimablePods=False).config
    assert assign(w, wl, cq, FixedOracle()).mode is Mode.NO_FIT


def test_counts_replace_those_of_the_record():
    """Partial admission asks for fewer pods (SC7)."""
    w = world("a")
    cq = queue(w, "q", {"a": {"cpu": 3}})

    result = assign(w, workload(pod_set(count=5, requests={"cpu": 1})), cq, FixedOracle(), counts=[2])

    assert result.usage == {("a", "cpu"): 2}
    assert result.pod_sets[0].count == 2


def test_resource_that_no_group_covers():
    w = world("a")
    cq = queue(w, "q", {"a": {"cpu": 3}})

    result = assign(w, workload(pod_set(requests={"cpu": 1, "gpu": 1})), cq, FixedOracle())

    assert result.mode is Mode.NO_FIT
    assert result.message == (
        "couldn't assign flavors to pod set main: resource gpu unavailable in ClusterQueue"
    )
    assert result.no_fit_reason == "NoMatchingFlavor"


def test_nothing_of_a_resource_that_no_group_covers_is_no_obstacle():
    w = world("a")
    cq = queue(w, "q", {"a": {"cpu": 3}})

    result = assign(w, workload(pod_set(requests={"cpu": 1, "gpu": 0})), cq, FixedOracle())

    assert result.mode is Mode.FIT
    assert chosen(result) == {"cpu": "a"}


def test_resource_that_no_group_covers_may_be_ignored():
    w = world("a")
    w.config = kueue.ConfigurationSpec(quota_check_strategy="IgnoreUndeclared")
    cq = queue(w, "q", {"a": {"cpu": 3}})

    result = assign(w, workload(pod_set(requests={"cpu": 1, "gpu": 1})), cq, FixedOracle())

    assert result.mode is Mode.FIT
    assert result.usage == {("a", "cpu"): 1}
    pods = result.pod_set_assignments()[0]
    assert (pods.flavors, pods.usage) == ({"cpu": "a"}, {"cpu": 1, "gpu": 1})


def test_pod_set_without_requests_fits():
    w = world("a")
    cq = queue(w, "q", {"a": {"cpu": 3}})

    result = assign(w, workload(pod_set()), cq, FixedOracle())

    assert result.mode is Mode.FIT
    assert result.usage == {}


def test_no_pods_still_prefer_a_flavor_that_could_hold_one():
    """A pod set scaled to zero will grow again; without such a flavor, any will do."""
    w = world("a", "b")
    cq = queue(w, "q", {"a": {"cpu": 1}, "b": {"cpu": 9}})

    assert chosen(assign(w, workload(pod_set(count=0, requests={"cpu": 5})), cq, FixedOracle())) == {
        "cpu": "b"
    }
    assert chosen(assign(w, workload(pod_set(count=0, requests={"cpu": 50})), cq, FixedOracle())) == {
        "cpu": "a"
    }


def test_scan_goes_on_after_the_flavor_tried_last():
    """An attempt that came to the end starts anew."""
    w = world("a", "b", "c")
    cq = queue(w, "q", {"a": {"cpu": 4}, "b": {"cpu": 4}, "c": {"cpu": 4}}, preempt="MayStopSearch")
    use(w, "q", a={"cpu": 4}, b={"cpu": 4}, c={"cpu": 4})
    oracle = FixedOracle()

    first = assign(w, asks(1), cq, oracle)
    second = assign(w, asks(1), cq, oracle, scan=first.scan)
    third = assign(w, asks(1), cq, oracle, scan=second.scan)
    fourth = assign(w, asks(1), cq, oracle, scan=third.scan)

    assert [chosen(a)["cpu"] for a in (first, second, third, fourth)] == ["a", "b", "c", "a"]
    assert [pending_flavors(a.scan) for a in (first, second, third)] == [True, True, False]


def test_scan_that_found_nothing_starts_anew():
    w = world("a")
    cq = queue(w, "q", {"a": {"cpu": 4}})

    result = assign(w, asks(5), cq, FixedOracle())

    assert result.scan == [{}]
    assert not pending_flavors(result.scan)
    assert not pending_flavors(None)


def test_second_look_keeps_to_the_pinned_flavor():
    w = world("a", "b")
    cq = queue(w, "q", {"a": {"cpu": 4}, "b": {"cpu": 4}})
    use(w, "q", a={"cpu": 4})
    first = assign(w, asks(1), cq, FixedOracle())
    w.tree.remove(cq.node, {("a", "cpu"): 4})

    again = assign(w, asks(1), cq, FixedOracle(), pinned=first.pinned())

    assert chosen(first) == chosen(again) == {"cpu": "b"}


def test_oracle_is_not_asked_when_its_answer_cannot_matter():
    """Where a resource does not fit for good, preemption for another one is no use."""
    w = world("a")
    cq = queue(w, "q", {"a": {"cpu": 4, "memory": 4}})
    use(w, "q", a={"memory": 4})
    oracle = FixedOracle()

    assign(w, workload(pod_set(requests={"cpu": 9, "memory": 1})), cq, oracle)

    assert oracle.asked == []


def test_plan_follows_an_edited_queue_and_flavor():
    """What was derived from an older spec is never used."""
    w = world("a")
    cq = queue(w, "q", {"a": {"cpu": 4}})
    assert assign(w, asks(1), cq, FixedOracle()).mode is Mode.FIT

    del w.flavors["a"]
    assert assign(w, asks(1), cq, FixedOracle()).no_fit_reason == "NoMatchingFlavor"

    w.flavors.update(world("a", "b").flavors)
    edited = queue(w, "q", {"b": {"cpu": 4}})
    cq.spec, cq.groups, cq.group_of = edited.spec, edited.groups, edited.group_of
    assert chosen(assign(w, asks(1), cq, FixedOracle())) == {"cpu": "b"}
