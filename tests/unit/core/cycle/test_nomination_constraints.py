"""A job that would run with fewer pods, and waits for a constraint of its own, says which (AX4)."""

from itertools import product
from typing import Any

import pytest

from sluice.events.scheduler import WorkloadsParked
from tests.support.family_world import FamilyWorld, cluster_queue, flavor, job, local_queue

CONSTRAINT = "kueue.x-k8s.io/cannot-borrow"
LEAST = "kueue.x-k8s.io/job-min-parallelism"


def manifest(name: str, queue: str, pods: int, **annotations: str) -> dict[str, Any]:
    found = job(name, 1, pods)
    found["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = queue
    found["metadata"]["annotations"] = annotations
    return found


def cohort(borrowed: int) -> FamilyWorld:
    """Return two queues of two cpus each that lend to each other; one job uses some of them."""
    world = FamilyWorld()
    careful = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
    for name, preemption in (("careful", careful), ("lender", {"reclaimWithinCohort": "Any"})):
        queue = cluster_queue({"od": 2}, {}, name=name, cohortName="all", preemption=preemption)
        world.apply(flavor("od"), queue, local_queue(name, name))
    world.settle()
    world.message("job.default.filler", "JobSubmitted", manifest("filler", "lender", borrowed)).settle_all()
    return world


def outcome(used: int, pods: int, *, constrained: bool) -> tuple[int, str]:
    """Return the pods that a job has got, and why it waits if it has none."""
    world = cohort(used)
    annotations = {LEAST: "1"} | ({CONSTRAINT: "true"} if constrained else {})
    world.message("job.default.j", "JobSubmitted", manifest("j", "careful", pods, **annotations)).settle_all()
    entry = world.dispatch("j")
    got = entry.pod_sets[0].count if entry is not None and entry.state == "Running" else 0
    parked = world.events(WorkloadsParked)
    return got, parked[-1].message if parked and not got else ""


@pytest.mark.parametrize(("used", "pods"), [*product((1, 2, 3, 4), (2, 3, 4, 5))])
def test_who_waits_for_a_constraint_says_so(used: int, pods: int) -> None:
    """Without it the job runs; with it, it gets as many pods, or waits and names it."""
    free, _ = outcome(used, pods, constrained=False)
    got, message = outcome(used, pods, constrained=True)
    assert got in (0, free)
    assert got or "cannot-borrow" in message, message
