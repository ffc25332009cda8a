"""What a workload forbids for itself: flavors, preemption, borrowing; and slices (CA4, AX, WS)."""

import pytest

from sluice.api import kueue
from sluice.core.flavors.assigner import assign
from sluice.core.flavors.assignment import Mode, Possibility
from sluice.events.base import PodSetAssignment
from tests.support.flavor_builders import FixedOracle, asks, pod_set, queue, use, workload, world

PREEMPTS = kueue.ClusterQueuePreemption(within_cluster_queue="LowerPriority", reclaim_within_cohort="Any")


def chosen(assignment):
    return {res: choice.name for res, choice in assignment.pod_sets[0].flavors.items()}


def test_only_allowed_flavors_are_considered():
    w = world("a", "b")
    cq = queue(w, "q", {"a": {"cpu": 4}, "b": {"cpu": 4}})

    result = assign(w, asks(1, allowed_flavors=("b",)), cq, FixedOracle())

    assert chosen(result) == {"cpu": "b"}


def test_allowed_flavor_without_quota():
    w = world("a", "b")
    cq = queue(w, "q", {"a": {"cpu": 4}, "b": {"cpu": 0}})

    result = assign(w, asks(1, allowed_flavors=("b",)), cq, FixedOracle())

    assert result.no_fit_reason == "ExceedsMaxQuota"
    assert "skipping flavor a due to WorkloadAllowedResourceFlavorAnnotation annotation" in result.message


def test_no_allowed_flavor_in_the_queue():
    w = world("a")
    cq = queue(w, "q", {"a": {"cpu": 4}})

    assert assign(w, asks(1, allowed_flavors=("z",)), cq, FixedOracle()).no_fit_reason == "NoMatchingFlavor"


CONSTRAINTS = [
    # cannot_preempt, cannot_borrow, a, b -> flavor (None: no fit); a and b are "free", "lent" or "taken"
    (True, False, "taken", "free", "b"),
    (True, False, "taken", "lent", "b"),
    (True, False, "lent", "free", "a"),
    (True, False, "taken", "taken", None),
    (False, True, "lent", "free", "b"),
    (False, True, "lent", "taken", "b"),
    (False, True, "lent", "lent", None),
    (True, True, "lent", "taken", None),
    (True, True, "taken", "free", "b"),
    (False, False, "taken", "free", "a"),
]


@pytest.mark.parametrize(("cannot_preempt", "cannot_borrow", "a", "b", "flavor"), CONSTRAINTS)
def test_constraints_exclude_flavors_while_they_are_assigned(cannot_preempt, cannot_borrow, a, b, flavor):
    """With A needing what is forbidden and B free of it, B is taken (AX2)."""
    w = world("a", "b")
    nominal = {"free": 4, "lent": 0, "taken": 4}
    cq = queue(
        w,
        "q",
        {"a": {"cpu": nominal[a]}, "b": {"cpu": nominal[b]}},
        cohort="c",
        preempt="MayStopSearch",
        preemption=PREEMPTS,
    )
    lent = {"free": 0, "lent": 4, "taken": 0}
    queue(w, "lender", {"a": {"cpu": lent[a]}, "b": {"cpu": lent[b]}}, cohort="c")
    for name, state in (("a", a), ("b", b)):
        if state == "taken":
            use(w, "q", **{name: {"cpu": 4}})

    result = assign(w, asks(2, cannot_preempt=cannot_preempt, cannot_borrow=cannot_borrow), cq, FixedOracle())

    assert chosen(result) == ({"cpu": flavor} if flavor else {})
    if cannot_preempt:
        assert result.mode is not Mode.PREEMPT
    if cannot_borrow:
        assert result.borrowing == 0


def test_message_names_the_constraint():
    """AX4."""
    w = world("a")
    cq = queue(w, "q", {"a": {"cpu": 4}}, cohort="c", preemption=PREEMPTS)
    queue(w, "lender", {"a": {"cpu": 4}}, cohort="c")
    use(w, "q", a={"cpu": 4})

    borrows = assign(w, asks(1, cannot_borrow=True, cannot_preempt=True), cq, FixedOracle())
    exceeds = assign(w, asks(5, cannot_borrow=True), cq, FixedOracle())
    use(w, "lender", a={"cpu": 4})
    preempts = assign(w, asks(1, cannot_preempt=True), cq, FixedOracle())

    assert borrows.no_fit_reason == preempts.no_fit_reason == "WaitingForQuota"
    assert exceeds.no_fit_reason == "ExceedsMaxQuota"
    assert exceeds.constraints == ("cannot-borrow",)
    assert borrows.constraints == ("cannot-borrow", "cannot-preempt")
    assert preempts.constraints == ("cannot-preempt",)
    assert preempts.message == (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor a, 1m more "
        "needed, and the workload cannot preempt (cannot-preempt)"
    )


def test_preemption_after_which_the_queue_would_borrow_is_no_way_out():
    """AX6."""
    w = world("a")
    cq = queue(w, "q", {"a": {"cpu": 4}}, cohort="c", preemption=PREEMPTS)
    queue(w, "lender", {"a": {"cpu": 4}}, cohort="c")
    use(w, "q", a={"cpu": 4})

    result = assign(w, asks(1, cannot_borrow=True), cq, FixedOracle((Possibility.RECLAIM, 1)))

    assert result.mode is Mode.NO_FIT
    assert "cannot-borrow" in result.message


def test_constraints_are_ignored_without_the_feature():
    w = world("a", WorkloadAdmissionConstraints=False)
    cq = queue(w, "q", {"a": {"cpu": 0}}, cohort="c")
    queue(w, "lender", {"a": {"cpu": 4}}, cohort="c")

    result = assign(w, asks(1, cannot_borrow=True), cq, FixedOracle())

    assert (result.mode, result.borrowing) == (Mode.FIT, 1)


def old(flavor, cpu, count=2):
    return (PodSetAssignment(name="main", count=count, flavors={"cpu": flavor}, usage={"cpu": cpu}),)


def test_slice_keeps_the_flavor_of_the_one_that_it_replaces():
    """WS5: even where another flavor comes first."""
    w = world("a", "b")
    cq = queue(w, "q", {"a": {"cpu": 9}, "b": {"cpu": 9}})
    use(w, "q", b={"cpu": 2})
    wl = workload(pod_set(count=5, requests={"cpu": 1}))

    result = assign(w, wl, cq, FixedOracle(), replaced=old("b", 2))

    assert chosen(result) == {"cpu": "b"}
    assert result.pod_sets[0].attempts[0].reasons == (
        "could not assign a flavor since the original workload is assigned: b",
    )


def test_slice_is_charged_the_difference_only():
    """WS3: and records the whole."""
    w = world("a")
    cq = queue(w, "q", {"a": {"cpu": 5}})
    use(w, "q", a={"cpu": 2})
    wl = workload(pod_set(count=5, requests={"cpu": 1}))

    result = assign(w, wl, cq, FixedOracle(), replaced=old("a", 2))

    assert result.mode is Mode.FIT
    assert result.usage == {("a", "cpu"): 3}
    assert result.pod_set_assignments()[0].usage == {"cpu": 5}


def test_slice_that_cannot_have_its_flavor_does_not_move():
    w = world("a", "b")
    cq = queue(w, "q", {"a": {"cpu": 9}, "b": {"cpu": 3}})
    use(w, "q", b={"cpu": 2})
    wl = workload(pod_set(count=6, requests={"cpu": 1}))

    result = assign(w, wl, cq, FixedOracle(), replaced=old("b", 2))

    assert result.mode is Mode.NO_FIT
    assert "could not assign a flavor since the original workload is assigned: b" in result.message


def test_constraint_binds_the_difference_only():
    """AX5: within nominal quota is what the queue uses with the old slice, plus what the new one adds."""
    w = world("a")
    cq = queue(w, "q", {"a": {"cpu": 4}}, cohort="c")
    queue(w, "lender", {"a": {"cpu": 9}}, cohort="c")
    use(w, "q", a={"cpu": 2})
    wl = workload(pod_set(count=5, requests={"cpu": 1}), cannot_borrow=True)

    assert assign(w, wl, cq, FixedOracle(), replaced=old("a", 2)).mode is not Mode.FIT
    wl = workload(pod_set(count=4, requests={"cpu": 1}), cannot_borrow=True)
    assert assign(w, wl, cq, FixedOracle(), replaced=old("a", 2)).mode is Mode.FIT
