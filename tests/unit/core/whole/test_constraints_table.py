"""All combinations of the two constraints against what an admission can need (AX1-AX6): one table.

`docs/constraints.md` has the same table for users; a test compares the two.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sluice.core.world.inadmissible import constraints_in
from sluice.events.base import Event
from sluice.events.scheduler import (
    BlockedOnPreemptionGates,
    Preempted,
    QuotaReserved,
    WorkloadSliceReplaced,
)
from sluice.events.variants import PreemptionGateOpened
from tests.support.family_world import FamilyWorld, cluster_queue
from tests.support.family_world import cell as family_cell
from tests.support.family_world import job as family_job
from tests.support.objects import priority_class
from tests.support.scheduler_cell import RECLAIMS, SECOND, Cell, admitted, key, preempting

DOCS = Path(__file__).resolve().parents[4] / "docs" / "constraints.md"

COMBINATIONS = {
    "none": {},
    "cannot-preempt": {"cannot_preempt": True},
    "cannot-borrow": {"cannot_borrow": True},
    "both": {"cannot_preempt": True, "cannot_borrow": True},
}

BORROWS = {**RECLAIMS, "borrowWithinCohort": {"policy": "LowerPriority"}}


def run(cell: Cell, name: str, queue: str, cpu: int, priority: int = 0) -> None:
    """Let a workload in that is there before; each a second later than the one before."""
    cell.now += SECOND
    assert admitted(cell.submit(name, queue, cpu, priority=priority).settle()) == [name]


def fits(cell: Cell) -> int:
    cell.queue("q", 4, "all", preemption=RECLAIMS)
    cell.queue("other", 4, "all")
    return 4


def borrows(cell: Cell) -> int:
    cell.queue("q", 2, "all", preemption=RECLAIMS)
    cell.queue("other", 4, "all")
    return 4


def preempts(cell: Cell) -> int:
    cell.queue("q", 4, "all", preemption=RECLAIMS)
    cell.queue("other", 0, "all")
    run(cell, "low", "q", 4)
    return 4


def borrows_or_preempts(cell: Cell) -> int:
    """Its own quota is taken by one of lower priority; the cohort has as much that is free."""
    cell.queue("q", 4, "all", preemption=RECLAIMS)
    cell.queue("other", 4, "all")
    run(cell, "low", "q", 4)
    return 4


def preempts_and_borrows(cell: Cell) -> int:
    """More than its own quota, and the rest of the cohort is in use by lower priorities."""
    cell.queue("q", 2, "all", preemption=BORROWS)
    cell.queue("other", 4, "all")
    run(cell, "low", "other", 6, priority=-1)
    return 4


def reclaims(cell: Cell) -> int:
    cell.queue("q", 4, "all", preemption=RECLAIMS)
    cell.queue("other", 4, "all")
    run(cell, "borrower", "other", 8, priority=100)
    return 4


def shares_fairly(cell: Cell) -> int:
    """Beyond its own quota, taken from whoever has a larger share."""
    cell.settings(fairSharing={"enable": True})
    cell.queue("q", 2, "all", preemption=RECLAIMS)
    cell.queue("other", 2, "all")
    cell.queue("lender", 6, "all")
    for number in range(5):
        run(cell, f"greedy-{number}", "other", 2)
    return 4


def shares_fairly_at_home(cell: Cell) -> int:
    """Within its own quota, with fair sharing."""
    cell.settings(fairSharing={"enable": True})
    cell.queue("q", 4, "all", preemption=RECLAIMS)
    cell.queue("other", 2, "all")
    for number in range(3):
        run(cell, f"greedy-{number}", "other", 2)
    return 4


def tree(cell: Cell, *, own: int) -> None:
    cell.configure("Cohort", "root", {})
    cell.configure("Cohort", "left", {"parentName": "root"})
    cell.configure("Cohort", "right", {"parentName": "root"})
    cell.queue("q", own, "left", preemption=RECLAIMS)
    cell.queue("sibling", 4, "left")
    cell.queue("cousin", 8, "right")


def borrows_from_its_sibling(cell: Cell) -> int:
    tree(cell, own=2)
    return 4


def borrows_from_far(cell: Cell) -> int:
    """More than its own cohort has: the quota is its cousin's."""
    tree(cell, own=2)
    return 10


def borrows_from_its_cohort(cell: Cell) -> int:
    """A cohort's own quota is nobody's nominal quota (AX6)."""
    quota = {"name": "cpu", "nominalQuota": 8}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}
    cell.configure("Cohort", "all", {"resourceGroups": [group]})
    cell.queue("q", 2, "all", preemption=RECLAIMS)
    return 4


def reclaims_from_far(cell: Cell) -> int:
    """Its nominal quota is in use two levels up the tree."""
    tree(cell, own=4)
    run(cell, "borrower", "cousin", 16)
    return 4


def prefers_a_flavor_to_borrow(cell: Cell) -> int:
    """The first flavor needs borrowing, the second is free (AX2)."""
    cell.queue("q", {"first": 2, "second": 4}, "all", preemption=RECLAIMS)
    cell.queue("other", {"first": 4, "second": 0}, "all")
    return 4


def prefers_a_flavor_to_preempt(cell: Cell) -> int:
    """The first flavor needs a preemption, which the queue's fungibility prefers; the second is free."""
    fungibility = {"whenCanPreempt": "MayStopSearch"}
    cell.queue("q", {"first": 4, "second": 4}, "all", preemption=RECLAIMS, flavorFungibility=fungibility)
    run(cell, "low", "q", 4)
    return 4


# In the order of COMBINATIONS; what "waits" names is in the reason.
WORDS: dict[object, str] = {
    fits: "its own quota is free",
    borrows: "more than nominal, and the cohort lends",
    preempts: "its own quota, used by lower priorities",
    borrows_or_preempts: "either of the two: one in use, the other lent",
    preempts_and_borrows: "both: more than nominal, used by lower priorities",
    reclaims: "its own quota, which the queue lent",
    shares_fairly: "fair sharing: more than nominal, from a larger share",
    shares_fairly_at_home: "fair sharing: its own quota, from who borrows it",
    borrows_from_its_sibling: "cohort tree: quota of a queue next to it",
    borrows_from_far: "cohort tree: quota of another branch",
    borrows_from_its_cohort: "cohort tree: the cohort's own quota",
    reclaims_from_far: "cohort tree: its own quota, lent to another branch",
    prefers_a_flavor_to_borrow: "two flavors: borrow the first, the second is free",
    prefers_a_flavor_to_preempt: "two flavors: preempt in the first, the second is free",
}
"""As `docs/constraints.md` says it."""

TABLE: dict[Callable[[Cell], int], tuple[str, str, str, str]] = {
    fits: ("admitted", "admitted", "admitted", "admitted"),
    borrows: ("admitted", "admitted", "waits: cannot-borrow", "waits: cannot-borrow"),
    preempts: ("preempts low", "waits: cannot-preempt", "preempts low", "waits: cannot-preempt"),
    borrows_or_preempts: (
        "admitted",
        "admitted",
        "preempts low",
        "waits: cannot-borrow, cannot-preempt",
    ),
    preempts_and_borrows: (
        "preempts low",
        "waits: cannot-preempt",
        "waits: cannot-borrow",
        "waits: cannot-borrow",
    ),
    reclaims: ("preempts borrower", "waits: cannot-preempt", "preempts borrower", "waits: cannot-preempt"),
    shares_fairly: (
        "preempts greedy-3, greedy-4",
        "waits: cannot-preempt",
        "waits: cannot-borrow",
        "waits: cannot-borrow",
    ),
    shares_fairly_at_home: (
        "preempts greedy-1, greedy-2",
        "waits: cannot-preempt",
        "preempts greedy-1, greedy-2",
        "waits: cannot-preempt",
    ),
    borrows_from_its_sibling: ("admitted", "admitted", "waits: cannot-borrow", "waits: cannot-borrow"),
    borrows_from_far: ("admitted", "admitted", "waits: cannot-borrow", "waits: cannot-borrow"),
    borrows_from_its_cohort: ("admitted", "admitted", "waits: cannot-borrow", "waits: cannot-borrow"),
    reclaims_from_far: (
        "preempts borrower",
        "waits: cannot-preempt",
        "preempts borrower",
        "waits: cannot-preempt",
    ),
    prefers_a_flavor_to_borrow: (
        "admitted: first",
        "admitted: first",
        "admitted: second",
        "admitted: second",
    ),
    prefers_a_flavor_to_preempt: (
        "preempts low",
        "admitted: second",
        "preempts low",
        "admitted: second",
    ),
}

CASES = [
    pytest.param(situation, combination, outcome, id=f"{situation.__name__}-{combination}")
    for situation, outcomes in TABLE.items()
    for combination, outcome in zip(COMBINATIONS, outcomes, strict=True)
]


@pytest.mark.parametrize(("situation", "combination", "outcome"), CASES)
def test_constraints(situation: Callable[[Cell], int], combination: str, outcome: str) -> None:
    """What a workload of priority 10 gets, by what its admission needs and what it forbids itself."""
    cell = Cell()
    cpu = situation(cell)
    cell.settle()
    cell.now += SECOND
    events = cell.submit("w", "q", cpu, priority=10, **COMBINATIONS[combination]).settle()
    if outcome.startswith("admitted"):
        assert admitted(events) == ["w"]
        assert preempting(events) == {}
        assert outcome in ("admitted", f"admitted: {cell.flavor('w')}")
    elif outcome.startswith("preempts"):
        assert ", ".join(sorted(preempting(events)["w"])) == outcome.removeprefix("preempts ")
    else:
        assert admitted(events) == []
        assert preempting(events) == {}
        reason, message = cell.reason("w")
        assert reason in ("WaitingForQuota", "ExceedsMaxQuota")
        assert ", ".join(constraints_in(message)) == outcome.removeprefix("waits: ")


def test_the_docs_have_this_table() -> None:
    """Users read what is tested."""
    expected = []
    for situation, outcomes in TABLE.items():
        cells = [WORDS[situation], *(re.sub(r" (low|borrower|greedy).*", "", text) for text in outcomes)]
        expected.append(f"| {' | '.join(cells)} |")
    assert "\n".join(expected) in DOCS.read_text()


# What the constraints do not do


@pytest.mark.parametrize("combination", COMBINATIONS)
@pytest.mark.parametrize("fair", [False, True])
def test_a_constrained_workload_is_preempted_like_any_other(combination: str, fair: bool) -> None:
    """AX3: once in, a higher priority takes its place."""
    cell = Cell()
    cell.settings(fairSharing={"enable": fair})
    cell.queue("q", 4, "all", preemption=RECLAIMS)
    assert admitted(cell.submit("w", "q", 4, **COMBINATIONS[combination]).settle()) == ["w"]
    assert preempting(cell.submit("high", "q", 4, priority=10).settle()) == {"high": ["w"]}


@pytest.mark.parametrize("combination", ["none", "cannot-preempt"])
@pytest.mark.parametrize("fair", [False, True])
def test_a_lender_reclaims_from_a_constrained_workload(combination: str, fair: bool) -> None:
    """AX3: what cannot preempt may have borrowed; its lender takes it back, or its share."""
    cell = Cell()
    cell.settings(fairSharing={"enable": fair})
    cell.queue("q", 4, "all")
    cell.queue("lender", 4, "all", preemption=RECLAIMS)
    assert admitted(cell.submit("w", "q", 6, **COMBINATIONS[combination]).settle()) == ["w"]
    assert preempting(cell.submit("owner", "lender", 4).settle()) == {"owner": ["w"]}


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_a_constraint_does_not_admit_a_part(combination: str) -> None:
    """AX4: fewer pods would fit, but what keeps the job out is its own wish; without one they are taken."""
    cell = Cell()
    cell.queue("q", 4, "all", preemption=RECLAIMS)
    cell.queue("other", 2, "all")
    run(cell, "low", "q", 2)
    cell.submit("w", "q", 1, count=4, priority=10, pod_set={"min_count": 1}, **COMBINATIONS[combination])
    events = cell.settle()
    if combination in ("none", "cannot-preempt"):
        assert admitted(events) == ["w"]
    elif combination == "cannot-borrow":
        assert preempting(events) == {"w": ["low"]}
    else:
        assert admitted(events) == []
        assert admitted(cell.finish("low").settle()) == ["w"]
        assert cell.workload("w").assignment[0].count == 4  # type: ignore[index]


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_a_constraint_does_not_admit_a_smaller_part(combination: str) -> None:
    """AX4: all of it could never be had. What could be had without the constraint is had, or nothing."""
    cell = Cell()
    cell.queue("q", 3, "all", preemption=RECLAIMS)
    cell.queue("other", 3, "all")
    events = cell.submit("w", "q", 1, count=8, pod_set={"min_count": 1}, **COMBINATIONS[combination]).settle()
    if combination in ("none", "cannot-preempt"):
        assert admitted(events) == ["w"]
        assert cell.workload("w").assignment[0].count == 6  # type: ignore[index]
    else:
        assert admitted(events) == []
        assert constraints_in(cell.reason("w")[1]) == ("cannot-borrow",)


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_a_part_that_the_constraint_does_not_matter_for(combination: str) -> None:
    """AX4: others have what it could borrow, so it gets as much as anybody would."""
    cell = Cell()
    cell.queue("q", 4, "all", preemption=RECLAIMS)
    cell.queue("other", 4, "all")
    run(cell, "high", "other", 4, priority=100)
    cell.submit("w", "q", 1, count=6, pod_set={"min_count": 1}, **COMBINATIONS[combination])
    assert admitted(cell.settle()) == ["w"]
    assert cell.workload("w").assignment[0].count == 4  # type: ignore[index]


# Workload slices (AX5)


def grow(cell: Cell, cpu: int, **fields: object) -> list[Event]:
    """Ask for a larger slice of the workload `w`, which is admitted."""
    cell.now += SECOND
    cell.submit("w2", "q", 1, count=cpu, priority=10, replaces=key("w"), **fields)
    return cell.settle()


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_replacing_ones_own_slice_is_no_preemption(combination: str) -> None:
    """Within what is free a slice grows whatever it forbids itself."""
    cell = Cell()
    cell.queue("q", 4, "all", preemption=RECLAIMS)
    cell.submit("w", "q", 1, count=2, priority=10, **COMBINATIONS[combination]).settle()
    events = grow(cell, 4, **COMBINATIONS[combination])
    assert admitted(events) == ["w2"]
    assert [event.workload for event in events if isinstance(event, WorkloadSliceReplaced)] == [key("w")]


@pytest.mark.parametrize(
    ("combination", "outcome"),
    [
        ("none", "admitted"),
        ("cannot-preempt", "admitted"),
        ("cannot-borrow", "cannot-borrow"),
        ("both", "cannot-borrow"),
    ],
)
def test_growth_that_borrows(combination: str, outcome: str) -> None:
    """The old slice runs on meanwhile."""
    cell = Cell()
    cell.queue("q", 4, "all", preemption=RECLAIMS)
    cell.queue("other", 4, "all")
    cell.submit("w", "q", 1, count=3, priority=10, **COMBINATIONS[combination]).settle()
    events = grow(cell, 6, **COMBINATIONS[combination])
    if outcome == "admitted":
        assert admitted(events) == ["w2"]
        return
    assert admitted(events) == []
    assert constraints_in(cell.reason("w2")[1]) == (outcome,)
    assert cell.workload("w").admitted_at is not None


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_growth_that_preempts(combination: str) -> None:
    """Only the growth is bound; room that becomes free by itself is taken."""
    cell = Cell()
    cell.queue("q", 4, "all", preemption=RECLAIMS)
    cell.submit("w", "q", 1, count=2, priority=10, **COMBINATIONS[combination]).settle()
    run(cell, "low", "q", 2)
    events = grow(cell, 4, **COMBINATIONS[combination])
    if "cannot_preempt" not in COMBINATIONS[combination]:
        assert preempting(events) == {"w2": ["low"]}
        return
    assert preempting(events) == {}
    assert constraints_in(cell.reason("w2")[1]) == ("cannot-preempt",)
    assert admitted(cell.finish("low").settle()) == ["w2"]


# Variants (AX5)

CLASS = priority_class("high", 100)


def constrained(world: FamilyWorld, name: str, *constraints: str, **fields: Any) -> None:
    manifest = family_job(name, **fields)
    manifest["metadata"]["annotations"] = {f"kueue.x-k8s.io/{c}": "true" for c in constraints}
    world.message(f"job.default.{name}", "JobSubmitted", manifest)


def test_variants_do_not_preempt_for_a_job_that_must_not() -> None:
    """No gate is opened for what would not be done; a flavor that becomes free is taken."""
    queue = cluster_queue({"best": 1, "rest": 1}, preemption={"withinClusterQueue": "LowerPriority"})
    world = family_cell(queue, CLASS)
    for name in ("low-1", "low-2"):
        world.submit(name)
    world.settle_all()
    constrained(world, "w", "cannot-preempt", priority_class="high")
    world.settle_all()
    world.run_until(1000)
    assert world.flavor_of("w") == ""
    assert not world.events(BlockedOnPreemptionGates, PreemptionGateOpened, Preempted)
    world.report("low-2", "JobFinished").settle_all()
    assert world.flavor_of("w") == "rest"
    world.verify()


def test_migrating_ones_own_variant_is_no_preemption() -> None:
    """A better flavor that becomes free is moved to, also by a job that must not preempt."""
    world = family_cell(cluster_queue({"best": 1, "rest": 1}), CLASS)
    world.submit("other").settle_all()
    constrained(world, "w", "cannot-preempt", "cannot-borrow")
    world.settle_all()
    assert world.flavor_of("w") == "rest"
    world.report("other", "JobFinished").settle_all()
    assert world.flavor_of("w") == "best"
    world.verify()


# Admission checks


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_a_pending_preemption_is_a_preemption(combination: str) -> None:
    """What is put off until a check has passed is not reserved for a job that cannot preempt (AC6)."""
    cell = Cell()
    spec = {"controllerName": "x", "preemptionPolicy": "AfterCheckPassedOrOnDemand"}
    cell.configure("AdmissionCheck", "gpu", spec)
    cell.queue("q", 4, "all", preemption=RECLAIMS)
    run(cell, "low", "q", 4)
    strategy = {"admissionChecks": [{"name": "gpu"}]}
    cell.queue("q", 4, "all", preemption=RECLAIMS, admissionChecksStrategy=strategy).settle()
    cell.now += SECOND
    cell.submit("w", "q", 4, priority=10, **COMBINATIONS[combination])
    reserved = [event for event in cell.settle() if isinstance(event, QuotaReserved)]
    if "cannot_preempt" in COMBINATIONS[combination]:
        assert reserved == []
        assert constraints_in(cell.reason("w")[1]) == ("cannot-preempt",)
    else:
        assert [event.preemptions_pending for event in reserved] == [True]
