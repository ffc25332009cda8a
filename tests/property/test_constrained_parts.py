"""A constraint never makes a job run with fewer pods than it would have without it (AX4)."""

from random import Random

from tests.support.scheduler_cell import SECOND, Cell

SEEDS = 120


def pods(seed: int, **constraints: bool) -> tuple[int, int]:
    """Return with how many pods a job gets in, at once or after preemption, and how many it wants.

    0: not at all. The cell is drawn from the seed; the constraints are all that differs between two calls.
    """
    random = Random(seed)
    cell = Cell()
    cell.settings(fairSharing={"enable": random.random() < 0.3})
    names = ("a", "b", "c")[: random.randint(1, 3)]
    for name in names:
        flavors = {flavor: random.randint(0, 6) for flavor in ("f", "g")[: random.randint(1, 2)]}
        policies = {
            "withinClusterQueue": random.choice(("Never", "LowerPriority")),
            "reclaimWithinCohort": random.choice(("Never", "LowerPriority", "Any")),
        }
        if random.random() < 0.4:
            policies["borrowWithinCohort"] = {"policy": "LowerPriority"}  # type: ignore[assignment]
        limit = random.choice((None, None, random.randint(0, 4)))
        cell.queue(name, flavors, random.choice(("all", "all", "")), borrow=limit, preemption=policies)
    for number in range(random.randint(0, 5)):
        cell.now += SECOND
        priority = random.choice((0, 5))
        cell.submit(f"w{number}", random.choice(names), random.randint(1, 4), priority=priority).settle()
    count, least = random.randint(2, 10), random.randint(1, 2)
    cell.submit(
        "w", random.choice(names), 1, count=count, priority=3, pod_set={"min_count": least}, **constraints
    )
    cell.settle()
    workload = cell.workload("w")
    usage = workload.usage
    waiting = None if workload.peers is None else workload.peers.waiting
    if waiting is not None:
        usage = waiting.usage
    return sum(usage.values()) // 1000, count


def test_a_part_is_never_smaller_for_a_constraint() -> None:
    smaller = 0
    for seed in range(SEEDS):
        free, count = pods(seed)
        for constraints in (
            {"cannot_borrow": True},
            {"cannot_preempt": True},
            {"cannot_borrow": True, "cannot_preempt": True},
        ):
            bound, _ = pods(seed, **constraints)
            assert bound in (0, free, count), f"seed {seed}: {bound} pods with {constraints}, {free} without"
            smaller += 0 < bound == free < count
    assert smaller > SEEDS // 4, "too few of these histories are about parts"
