"""What an equal workload got is a short way to the same answer, never to another one."""

from itertools import product
from typing import Any

import pytest

from sluice.api.kueue import BorrowWithinCohort, ClusterQueuePreemption
from sluice.core.flavors.assigner import assign, assign_like
from sluice.core.flavors.assignment import Assignment, Mode, Possibility
from tests.support.attempts import attempts_text
from tests.support.flavor_builders import FixedOracle, asks, pod_set, queue, use, workload, world

NEVER = ClusterQueuePreemption()
RECLAIMS = ClusterQueuePreemption(reclaim_within_cohort="Any", within_cluster_queue="LowerPriority")
BORROWS = ClusterQueuePreemption(
    reclaim_within_cohort="LowerPriority", borrow_within_cohort=BorrowWithinCohort(policy="LowerPriority")
)
ONE_GROUP = ({"on-demand": {"cpu": (10, 5), "memory": (10, None)}},)
TWO_GROUPS = ({"on-demand": {"cpu": (10, 5)}}, {"disk": {"memory": (10, None)}})


def told(found: Assignment) -> dict[str, Any]:
    """Return all that can be asked of an assignment."""
    return {
        "mode": found.mode,
        "borrowing": found.borrowing,
        "usage": found.usage,
        "scan": found.scan,
        "message": found.message,
        "no_fit_reason": found.no_fit_reason,
        "constraints": found.constraints,
        "attempts": attempts_text(found),
        "needs_preemption": found.needs_preemption(),
        "pinned": found.pinned(),
        "pod_sets": [(p.name, p.count, p.requests, p.flavors, p.mode, p.severity) for p in found.pod_sets],
        "recorded": found.pod_set_assignments(),
    }


PREFERENCES: Any = ("BorrowingOverPreemption", "PreemptionOverBorrowing")


@pytest.mark.parametrize("groups", [ONE_GROUP, TWO_GROUPS], ids=["one group", "two groups"])
@pytest.mark.parametrize("policy", [NEVER, RECLAIMS, BORROWS], ids=["never", "reclaims", "borrows"])
def test_an_equal_workload_gets_the_same_answer_by_the_short_way(groups: Any, policy: Any) -> None:
    answers = [(possibility, height) for possibility in Possibility for height in (0, 1)]
    short_ways = 0
    for own, others, preference, answer in product((0, 6, 9, 14), (0, 4, 12, 30), PREFERENCES, answers):
        at = world("on-demand", "disk")
        cq = queue(at, "here", *groups, cohort="all", preemption=policy, preference=preference)
        queue(at, "there", *groups, cohort="all")
        job = workload(pod_set(count=2, requests={"cpu": 2, "memory": 3}))
        oracle = FixedOracle(answer)
        like = assign(at, job, cq, oracle)
        assert like.mode is Mode.FIT
        disk = next(iter(groups[-1]))
        for name, amount in (("here", own), ("there", others)):
            use(at, name, **{"on-demand": {"cpu": amount}})
            use(at, name, **{disk: {"memory": amount // 2}})
        found = assign_like(at, job, cq, oracle, like)
        expected = assign(at, job, cq, oracle)
        if found is not None:
            short_ways += 1
            assert told(found) == told(expected)
        else:
            assert expected.mode is not Mode.PREEMPT
    assert short_ways or policy is NEVER


def test_what_cannot_be_had_at_all_takes_the_long_way() -> None:
    at = world("on-demand")
    cq = queue(at, "here", {"on-demand": {"cpu": 10}}, cohort="all")
    queue(at, "there", {"on-demand": {"cpu": 10}}, cohort="all")
    job, oracle = asks(12), FixedOracle()
    like = assign(at, job, cq, oracle)
    use(at, "there", **{"on-demand": {"cpu": 10}})
    assert assign_like(at, job, cq, oracle, like) is None
