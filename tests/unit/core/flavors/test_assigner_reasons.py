"""Why a flavor is not taken: messages, reasons and attempts, spelled as users know them (G6)."""

import pytest

from sluice.api.core_v1 import Taint
from sluice.core.flavors.assigner import assign
from sluice.core.flavors.assignment import Mode, Possibility
from tests.support.attempts import attempts_text
from tests.support.flavor_builders import FixedOracle, asks, flavor, pod_set, queue, use, workload, world


def test_message_of_quota_that_is_in_use():
    w = world("default")
    cq = queue(w, "q", {"default": {"cpu": 4000}})
    use(w, "q", default={"cpu": 3500})

    result = assign(w, asks(1500), cq, FixedOracle())

    assert result.mode is Mode.PREEMPT
    assert result.message == (
        "couldn't assign flavors to pod set main: "
        "insufficient unused quota for cpu in flavor default, 1 more needed"
    )
    assert result.needs_preemption() == {("default", "cpu")}


def test_message_of_quota_that_is_not_there():
    w = world("default")
    cq = queue(w, "q", {"default": {"cpu": 4000}})

    result = assign(w, asks(4500), cq, FixedOracle())

    assert result.message == (
        "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default, previously "
        "considered podsets requests (0) + current podset request (4500m) > maximum capacity (4)"
    )
    assert result.no_fit_reason == "ExceedsMaxQuota"


def test_message_names_every_pod_set_that_is_held_up():
    w = world("default")
    cq = queue(w, "q", {"default": {"cpu": 4000}})
    use(w, "q", default={"cpu": 4000})
    wl = workload(pod_set("x", requests={"cpu": 1000}), pod_set("y", requests={"cpu": 1000}))

    assert assign(w, wl, cq, FixedOracle()).message == (
        "couldn't assign flavors to pod set x: "
        "insufficient unused quota for cpu in flavor default, 1 more needed; "
        "couldn't assign flavors to pod set y: "
        "insufficient unused quota for cpu in flavor default, 2 more needed"
    )


def test_quota_that_nobody_may_take_back_is_waited_for():
    """Beyond nominal quota, with others in the way and no policy against them: wait."""
    w = world("default")
    cq = queue(w, "q", {"default": {"cpu": 0}}, cohort="c")
    queue(w, "lender", {"default": {"cpu": 4}}, cohort="c")
    use(w, "lender", default={"cpu": 4})
    oracle = FixedOracle()

    result = assign(w, asks(1), cq, oracle)

    assert result.no_fit_reason == "WaitingForQuota"
    assert oracle.asked == []


@pytest.mark.parametrize("used", [0, 4])
def test_what_another_resource_could_have_is_not_what_is_lacking(used: int) -> None:
    """A flavor that is too small does not count where the next one of its group could be had.

    Else freed quota, which is all that is lacking, would not have it looked at again.
    """
    w = world("small", "large", "gpus")
    groups = ({"small": {"cpu": 1}, "large": {"cpu": 4}}, {"gpus": {"gpu": 0}})
    cq = queue(w, "q", *groups, cohort="c")
    queue(w, "lender", {"gpus": {"gpu": 4}}, cohort="c")
    use(w, "q", large={"cpu": used})
    use(w, "lender", gpus={"gpu": 4})

    result = assign(w, workload(pod_set(requests={"cpu": 2, "gpu": 1})), cq, FixedOracle())

    assert (result.mode, result.no_fit_reason) == (Mode.NO_FIT, "WaitingForQuota")


REASONS = [
    # flavors of the one group -> reason: the mildest of the alternatives
    ({"tainted": 9}, "NoMatchingFlavor"),
    ({"small": 1}, "ExceedsMaxQuota"),
    ({"tainted": 9, "small": 1}, "ExceedsMaxQuota"),
    ({"gone": 9}, "NoMatchingFlavor"),
]


@pytest.mark.parametrize(("nominal", "reason"), REASONS)
def test_mildest_reason_of_alternative_flavors(nominal, reason):
    tainted = flavor("tainted", taints=[Taint(key="spot", effect="NoSchedule")])
    w = world("small", tainted)
    cq = queue(w, "q", {name: {"cpu": amount} for name, amount in nominal.items()})

    assert assign(w, asks(5), cq, FixedOracle()).no_fit_reason == reason


def test_attempts_tell_the_outcome_of_each_flavor():
    w = world("a", "b", flavor("c", taints=[Taint(key="spot", effect="NoSchedule")]))
    cq = queue(w, "q", {"a": {"cpu": 4}, "b": {"cpu": 1}, "c": {"cpu": 4}})
    use(w, "q", a={"cpu": 4})

    result = assign(w, asks(2), cq, FixedOracle((Possibility.NO_CANDIDATES, 0)))

    assert [(a.flavor, a.mode, a.no_fit_reason) for a in result.pod_sets[0].attempts] == [
        ("a", Mode.PREEMPT, ""),
        ("b", Mode.NO_FIT, "ExceedsMaxQuota"),
        ("c", Mode.NO_FIT, "NoMatchingFlavor"),
    ]
    assert attempts_text(result) == (
        "main: "
        "a(preemptionMode=NoCandidates;insufficient unused quota for cpu in flavor a, 2m more needed), "
        "b(NoFit;insufficient quota for cpu in flavor b, previously considered podsets requests (0) + "
        "current podset request (2m) > maximum capacity (1m)), "
        "c(NoFit;untolerated taint {spot  NoSchedule <nil>} in flavor c)"
    )
