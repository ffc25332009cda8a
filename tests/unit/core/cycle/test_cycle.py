"""One cycle: who gets what, in which order, and what becomes of the others (SC1, SC5)."""

from typing import Any

import pytest

from sluice.events.base import PodSet
from sluice.events.checks import ChecksReady
from sluice.events.scheduler import BlockedOnPreemptionGates, PreemptionIssued
from sluice.events.slices import WorkloadDeleted, WorkloadPodsReady, WorkloadUpdated
from tests.support.scheduler_cell import (
    RECLAIMS,
    SECOND,
    Cell,
    admitted,
    evicted,
    key,
    parked,
    preempting,
    scans,
)


def test_own_quota_goes_before_borrowing() -> None:
    """A workload within its own quota is admitted before an older one that would borrow."""
    cell = Cell()
    cell.queue("borrower", cpu=0, cohort="c")
    cell.queue("owner", cpu=2, cohort="c")
    cell.submit("borrows", "borrower", cpu=2)
    assert admitted(cell.submit("owns", "owner", cpu=2).settle()) == ["owns"]
    assert cell.reason("borrows")[0] == "WaitingForQuota"


def test_woken_workloads_keep_that_order() -> None:
    """Freed quota goes to its owner before it is lent, whoever has waited longer."""
    cell = Cell()
    cell.queue("a", cpu=2, cohort="c", preemption=RECLAIMS)
    cell.queue("b", cpu=2, cohort="c", preemption=RECLAIMS)
    cell.submit("running-a", "a", cpu=2)
    cell.submit("running-b", "b", cpu=2).settle()
    cell.submit("older-b", "b", cpu=2)
    cell.submit("newer-a", "a", cpu=2).settle()

    assert admitted(cell.finish("running-a").settle()) == ["newer-a"]


def test_a_preemptor_waits_and_its_claim_is_kept() -> None:
    """Victims are told to stop; until they have, what they give up is the preemptor's, and nobody else's."""
    cell = Cell()
    cell.queue("a", cpu=4, preemption=RECLAIMS)
    cell.submit("low", "a", cpu=4).settle()
    events = cell.submit("high", "a", cpu=3, priority=10).settle()
    assert evicted(events) == ["low"]
    assert preempting(events) == {"high": ["low"]}
    assert cell.reason("high") == (
        "WaitingForPreemptedWorkloads",
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, "
        "3 more needed. Pending the preemption of 1 workload(s)",
    )
    assert parked(cell.submit("other", "a", cpu=2).settle()) == ["other"]
    events = cell.stopped("low").settle()
    assert admitted(events) == ["high"]
    assert cell.workload("low").peers is not None


def test_a_waiting_preemptor_holds_its_claim_against_the_cohort() -> None:
    """In later cycles of the tree others see what it waits for as used."""
    cell = Cell()
    cell.queue("a", cpu=4, cohort="c", preemption=RECLAIMS)
    cell.queue("b", cpu=2, cohort="c", preemption=RECLAIMS)
    cell.submit("low", "a", cpu=2)
    cell.submit("lent", "b", cpu=3).settle()
    events = cell.submit("high", "a", cpu=4, priority=10).settle()
    assert preempting(events) == {"high": ["lent", "low"]} or preempting(events) == {"high": ["low", "lent"]}

    cell.submit("late", "b", cpu=1)

    # One cpu is free now, but with the claim of 4 there are only 2 for b, as soon as the victims have gone.
    cell.settle()
    cell.stopped("low", "lent")
    assert "high" in admitted(cell.settle())


def test_equal_targets_are_not_taken_twice() -> None:
    """A second preemptor of the same cycle looks for victims that the first has left."""
    cell = Cell()
    for name in ("a", "b"):
        cell.queue(name, cpu=2, cohort="c", preemption=RECLAIMS)
    cell.queue("lender", cpu=0, cohort="c")
    cell.submit("x", "lender", cpu=2)
    cell.submit("y", "lender", cpu=2).settle()
    cell.submit("to-a", "a", cpu=2)
    events = cell.submit("to-b", "b", cpu=2).settle()

    assert sorted(evicted(events)) == ["x", "y"]
    assert sorted(victim for victims in preempting(events).values() for victim in victims) == ["x", "y"]


def test_a_large_victim_serves_two_preemptors() -> None:
    """Who fits as soon as the others' victims have gone only waits for them."""
    cell = Cell()
    for name in ("a", "b"):
        cell.queue(name, cpu=2, cohort="c", preemption=RECLAIMS)
    cell.queue("lender", cpu=0, cohort="c")
    cell.submit("large", "lender", cpu=4).settle()
    cell.submit("to-a", "a", cpu=2)
    events = cell.submit("to-b", "b", cpu=2).settle()

    assert evicted(events) == ["large"]
    assert preempting(events) == {"to-a": ["large"], "to-b": ["large"]}
    cell.stopped("large")
    assert sorted(admitted(cell.settle())) == ["to-a", "to-b"]


def test_what_a_victim_still_holds_is_not_handed_out() -> None:
    """A victim larger than needed leaves a rest; it is free when the victim has gone, and not before."""
    cell = Cell()
    cell.queue("a", cpu=2, cohort="c", preemption=RECLAIMS)
    cell.queue("b", cpu=1, cohort="c", preemption=RECLAIMS)
    cell.queue("d", cpu=1, cohort="c", preemption=RECLAIMS)
    cell.queue("lender", cpu=6, cohort="c")
    cell.submit("victim", "lender", cpu=9).settle()
    cell.submit("to-a", "a", cpu=2, priority=10)
    cell.submit("to-b", "b", cpu=1)
    cell.submit("to-d", "d", cpu=1)

    cell.settle()

    used = cell.state.world.tree.cohorts["c"].used(("default", "cpu"))
    assert used <= 10_000


def test_one_cycle_admits_one_workload_of_each_queue() -> None:
    """The second of a queue comes in the next cycle, after the heads of the others."""
    cell = Cell()
    cell.queue("a", cpu=0, cohort="c")
    cell.queue("b", cpu=0, cohort="c")
    cell.configure("Cohort", "c", {"resourceGroups": _group(3)}).settle()
    cell.submit("a1", "a")
    cell.submit("a2", "a")
    assert admitted(cell.submit("b1", "b").decide_once()) == ["a1", "b1"]
    assert admitted(cell.settle()) == ["a2"]


def _group(cpu: int) -> list[object]:
    quota = {"name": "cpu", "nominalQuota": cpu}
    return [{"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}]


@pytest.mark.parametrize("strategy", ["StrictFIFO", "BestEffortFIFO"])
def test_quota_that_cannot_be_reclaimed_is_kept_for_its_owner(strategy: str) -> None:
    """Without a way to get it back, a StrictFIFO queue does not lend what its own head waits for.

    Another one has put its head aside, so that who can use it gets what is free (SC2).
    """
    cell = Cell()
    never = {"reclaimWithinCohort": "Never"}
    cell.queue("owner", cpu=4, cohort="c", preemption=never, queueingStrategy=strategy)
    cell.queue("borrower", cpu=0, cohort="c")
    cell.submit("lent", "borrower", cpu=2)
    cell.submit("kept", "borrower", cpu=2).settle()
    cell.submit("head", "owner", cpu=4)
    cell.submit("greedy", "borrower", cpu=2).settle()

    first = admitted(cell.finish("lent").settle())
    assert first == ([] if strategy == "StrictFIFO" else ["greedy"])
    cell.finish(*first)
    assert admitted(cell.finish("kept").settle()) == ["head"]


def test_a_closed_gate_blocks_preemption_only() -> None:
    """A gated workload may take what is free, but nobody is preempted for it (CA11)."""
    cell = Cell()
    cell.queue("a", cpu=2, preemption=RECLAIMS)
    cell.submit("low", "a", cpu=2).settle()
    events = cell.submit("gated", "a", cpu=2, priority=10, preemption_gates=("gate",)).settle()

    assert evicted(events) == []
    assert [e.message for e in events if isinstance(e, BlockedOnPreemptionGates)] == [
        "Workload requires preemption, but it's gated"
    ]
    assert cell.reason("gated")[0] == "AdmissionGated"
    assert admitted(cell.finish("low").settle()) == ["gated"]


def test_gated_workloads_do_not_wait_for_the_victims_of_others() -> None:
    """Else two of them, each gated when its turn comes first, wake each other for ever (CA11)."""
    cell = Cell()
    for name in ("a", "b", "owner"):
        cell.queue(name, cpu=2, cohort="c", preemption=RECLAIMS)
    cell.queue("lender", cpu=0, cohort="c")
    cell.submit("big", "lender", cpu=6).settle()
    assert evicted(cell.submit("opens", "owner", cpu=2, created_at=7 * SECOND).settle()) == ["big"]
    gates: dict[str, Any] = {"preemption_gates": ("gate",)}
    cell.submit("gated-a", "a", cpu=2, created_at=8 * SECOND, **gates)
    cell.submit("gated-b", "b", cpu=2, created_at=9 * SECOND, **gates)

    assert preempting(cell.settle()) == {}
    assert [cell.reason(name)[0] for name in ("gated-a", "gated-b")] == ["WaitingForQuota"] * 2

    cell.stopped("big")
    assert sorted(admitted(cell.settle())) == ["gated-a", "gated-b", "opens"]


def test_one_at_a_time_until_pods_are_ready() -> None:
    """With waitForPodsReady.blockAdmission the next is admitted when the pods of the last are ready (SC7)."""
    cell = Cell()
    cell.settings(waitForPodsReady={"enable": True, "blockAdmission": True})
    cell.queue("a", cpu=4)
    cell.queue("b", cpu=4)
    cell.submit("one", "a")
    assert admitted(cell.submit("two", "b").settle()) == ["one"]
    assert cell.reason("two") == (
        "WaitingForPodsReady",
        "waiting for all admitted workloads to be in PodsReady condition",
    )
    assert admitted(cell.put(WorkloadPodsReady(cause=0, workload=key("one"))).settle()) == ["two"]


def test_who_only_reserves_keeps_nobody_waiting_for_pods() -> None:
    """A reservation that waits for checks has no pods: when it ends, nobody would wake those behind (SC7)."""
    cell = Cell()
    cell.settings(waitForPodsReady={"enable": True, "blockAdmission": True})
    cell.configure("AdmissionCheck", "slow", {"controllerName": "c"})
    cell.queue("a", cpu=4, admissionChecksStrategy={"admissionChecks": [{"name": "slow"}]})
    cell.queue("b", cpu=4)
    cell.submit("checked", "a")
    assert admitted(cell.submit("plain", "b").settle()) == ["plain"]
    cell.put(WorkloadDeleted(cause=0, workload=key("checked"))).settle()


def test_who_cannot_borrow_keeps_its_reservation_beside_those_that_borrow() -> None:
    """Those that came after it, within the cohort's quota, are above the queue's own; not it (AX6, AC7)."""
    cell = Cell()
    cell.configure("AdmissionCheck", "slow", {"controllerName": "c"})
    checked: dict[str, Any] = {"admissionChecksStrategy": {"admissionChecks": [{"name": "slow"}]}}
    cell.queue("a", cpu=4, cohort="c", preemption={"withinClusterQueue": "LowerPriority"}, **checked)
    cell.queue("b", cpu=1, cohort="c")
    cell.submit("high", "a", cpu=3, priority=10, cannot_borrow=True)
    cell.submit("low", "a", cpu=2).settle()
    for name in ("low", "high"):
        cell.put(ChecksReady(cause=0, workload=key(name)))

    events = cell.settle()
    assert sorted(admitted(events)) == ["high", "low"]
    assert evicted(events) == []


def test_the_search_goes_on_with_the_next_flavor() -> None:
    """A search that stopped at a flavor without candidates goes on behind it in the next cycle (SC4)."""
    cell = Cell()
    cell.queue(
        "a",
        cpu={"first": 2, "second": 2},
        cohort="c",
        preemption={"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"},
        flavorFungibility={"whenCanPreempt": "MayStopSearch", "whenCanBorrow": "MayStopSearch"},
    )
    cell.queue("b", cpu={"first": 0, "second": 0}, cohort="c")
    cell.submit("same-priority", "a", cpu=2).settle()
    assert cell.flavor("same-priority") == "first"
    events = cell.submit("next", "a", cpu=2).settle()

    assert admitted(events) == ["next"]
    assert cell.flavor("next") == "second"
    assert scans(events) in ([], [({"cpu": 0},)], [[{"cpu": 0}]])


def pods(name: str, count: int, cpu: int = 1) -> PodSet:
    return PodSet(name=name, count=count, requests={"cpu": cpu * 1000})


def test_the_search_of_several_pod_sets_ends() -> None:
    """Pod sets that come to the last flavor at different times do not begin anew by turns, for ever (SC4)."""
    cell = Cell()
    cell.queue("a", cpu={"one": 1, "two": 2, "three": 4})
    cell.submit("both", "a", pod_sets=(pods("head", 1), pods("workers", 2)))
    cell.submit("fills-three", "a", cpu=3)
    assert set(admitted(cell.settle())) == {"both", "fills-three"}
    for number in range(3):
        cell.submit(f"too-large-{number}", "a", cpu=3, count=1 + number)
    cell.settle()
    cell.submit("w", "a", pod_sets=(pods("r0", 2), pods("r1", 2)))
    cell.put(WorkloadDeleted(cause=0, workload=key("both")))

    # Of 1, 2 and 1 that are free, either pod set fits the 2, and the other one nothing.
    assert len(scans(cell.settle())) == 1
    assert cell.reason("w")[0] == "WaitingForQuota"


def test_a_verdict_on_the_last_flavors_only_does_not_outlive_freed_capacity() -> None:
    """A search that went on says what it found behind the first flavors; these may have room later (SC2)."""
    cell = Cell()
    cell.queue("a", cpu={"one": 3, "two": 4, "three": 1})
    cell.submit("first", "a", cpu=1).settle()
    # The head takes of "two" what the workers would need, and finds nothing behind it.
    cell.submit("w", "a", pod_sets=(pods("head", 1, cpu=3), pods("workers", 2, cpu=2)))
    assert len(scans(cell.settle())) == 1
    assert cell.reason("w")[0] == "ExceedsMaxQuota"

    assert admitted(cell.finish("first").settle()) == ["w"]


def test_what_pod_sets_exceed_together_may_fit_when_something_is_freed() -> None:
    """The first takes what is free; with something else free it leaves that to the second (SC2)."""
    cell = Cell()
    cell.queue("a", cpu={"one": 2, "two": 3})
    cell.submit("first", "a", cpu=1).settle()
    cell.submit("w", "a", pod_sets=(pods("head", 1, cpu=2), pods("workers", 1, cpu=3)))
    assert scans(cell.settle()) == []
    assert cell.reason("w")[0] == "ExceedsMaxQuota"

    assert admitted(cell.finish("first").settle()) == ["w"]


def test_partial_admission_takes_fewer_pods() -> None:
    """Where all pods do not fit, as many as do are admitted, down to minCount (SC7)."""
    cell = Cell()
    cell.queue("a", cpu=3)
    assert admitted(cell.submit("w", "a", count=5, pod_set={"min_count": 2}).settle()) == ["w"]
    assignment = cell.workload("w").assignment
    assert assignment is not None
    assert assignment[0].count == 3


def test_a_preemptor_that_goes_away_frees_its_claim() -> None:
    """Deleting the preemptor lets others have what it waited for."""
    cell = Cell()
    cell.queue("a", cpu=2, preemption=RECLAIMS)
    cell.submit("low", "a", cpu=2).settle()
    cell.submit("high", "a", cpu=2, priority=10)
    assert preempting(cell.submit("middle", "a", cpu=2, priority=5).settle()) == {"high": ["low"]}
    cell.put(WorkloadDeleted(cause=0, workload=key("high")))
    assert admitted(cell.stopped("low").settle()) == ["middle"]


def test_nothing_is_recorded_twice() -> None:
    """A preemptor that goes on waiting, and a verdict that stays, cause no event (G7)."""
    cell = Cell()
    cell.queue("a", cpu=4, cohort="c", preemption=RECLAIMS)
    cell.queue("b", cpu=1, cohort="c", preemption=RECLAIMS)
    cell.submit("low", "a", cpu=4)
    cell.submit("in-b", "b", cpu=1).settle()
    cell.submit("high", "a", cpu=4, priority=10)
    cell.submit("more-b", "b", cpu=2).settle()

    events = cell.finish("in-b").settle()

    assert not [event for event in events if isinstance(event, PreemptionIssued)]
    assert parked(events) == []


@pytest.mark.parametrize("how", ["deleted", "finished", "switched off", "lowered", "overtaken"])
def test_who_stands_behind_a_blocker_is_asked_when_it_has_gone(how: str) -> None:
    """What was freed while a StrictFIFO queue waited for its head is there for the next one (SC2)."""
    cell = Cell()
    cell.queue("q", 3, queueingStrategy="StrictFIFO")
    cell.submit("runs", "q", 3, priority=20).settle()
    assert parked(cell.submit("next", "q", 2, priority=10).settle()) == ["next"]
    assert parked(cell.submit("blocker", "q", 4, priority=20).settle()) == ["blocker"]
    assert admitted(cell.finish("runs").settle()) == []
    match how:
        case "deleted":
            cell.put(WorkloadDeleted(cause=0, workload=key("blocker")))
        case "finished":
            cell.finish("blocker")
        case "switched off":
            cell.put(WorkloadUpdated(cause=0, workload=key("blocker"), active=False))
        case "lowered":
            cell.put(WorkloadUpdated(cause=0, workload=key("blocker"), priority=0))
        case _:
            cell.put(WorkloadUpdated(cause=0, workload=key("next"), priority=30))
    assert admitted(cell.settle()) == ["next"]
    assert cell.settle() == []


@pytest.mark.parametrize("how", ["deleted", "switched off", "overtaken", "stopped", "moved"])
def test_what_was_kept_for_a_blocker_is_there_for_others_when_it_has_gone(how: str) -> None:
    """Nothing was freed, but what a StrictFIFO queue kept from being lent can be lent again (SC1, SC5)."""
    cell = Cell()
    cell.queue("owner", cpu=4, cohort="c", queueingStrategy="StrictFIFO")
    cell.queue("borrower", cpu=0, cohort="c")
    cell.submit("lent", "borrower", cpu=2).settle()
    cell.submit("blocker", "owner", cpu=4)
    assert parked(cell.submit("small", "owner", cpu=1).settle()) == ["blocker"]
    assert parked(cell.submit("waits", "borrower", cpu=1).settle()) == ["waits"]
    others = []
    match how:
        case "deleted":
            cell.put(WorkloadDeleted(cause=0, workload=key("blocker")))
            others = ["small"]
        case "switched off":
            cell.put(WorkloadUpdated(cause=0, workload=key("blocker"), active=False))
            others = ["small"]
        case "overtaken":
            cell.put(WorkloadUpdated(cause=0, workload=key("small"), priority=30))
            others = ["small"]
            cell.put(WorkloadUpdated(cause=0, workload=key("blocker"), active=False))
        case "stopped":
            cell.queue("owner", cpu=4, cohort="c", queueingStrategy="StrictFIFO", stopPolicy="Hold")
        case _:
            cell.queue("owner", cpu=4, cohort="c", queueingStrategy="BestEffortFIFO")
            others = ["small"]
    assert sorted(admitted(cell.settle())) == [*others, "waits"]
    assert cell.settle() == []


def test_who_stands_behind_one_that_is_set_aside_is_asked() -> None:
    """A StrictFIFO queue does not wait for whom its namespace keeps out, nor forget whom it stood before."""
    cell = Cell()
    selector = {"matchExpressions": [{"key": "open", "operator": "DoesNotExist"}]}
    cell.queue("q", 3, queueingStrategy="StrictFIFO", namespaceSelector=selector)
    cell.submit("runs", "q", 3).settle()
    assert parked(cell.submit("next", "q", 2).settle()) == ["next"]
    cell.configure("Namespace", "other", {}, labels={"open": "no"})
    cell.configure("LocalQueue", "q", {"clusterQueue": "q"}, "other")
    cell.submit("elsewhere", "q", 1, priority=10, namespace="other")
    events = cell.finish("runs").settle()
    assert (parked(events), admitted(events)) == (["elsewhere"], ["next"])
    assert cell.settle() == []


@pytest.mark.parametrize("together", [True, False])
def test_a_blocker_that_reserves_searches_once(together: bool) -> None:
    """It takes part in every cycle, so that what it waits for is kept; its search is over all the same.

    One that began anew each time was progress, and whoever was skipped for it was tried again, for ever.
    """
    cell = Cell()
    flavors = {"one": 4, "two": 4}
    cell.queue("a", flavors, "all", queueingStrategy="StrictFIFO")
    cell.queue("b", dict.fromkeys(flavors, 0), "all")
    for flavor in flavors:
        cell.submit(f"on-{flavor}", "b", 2, allowed_flavors=(flavor,))
    assert len(admitted(cell.settle())) == 2
    # The head would have a place, and may look for another one; the workers have none anywhere.
    cell.submit("blocker", "a", priority=10, pod_sets=(pods("head", 1), pods("workers", 1, cpu=4)))
    found = [] if together else cell.settle()
    cell.submit("skipped", "b", 2)
    found += cell.settle()
    assert len(scans(found)) == 1
    assert admitted(found) == []
    assert cell.reason("blocker")[0] == cell.reason("skipped")[0] == "WaitingForQuota"
    assert scans(cell.submit("no-matter", "b", 2).settle()) == []
    assert admitted(cell.finish("on-two").settle()) == ["blocker"]


def test_a_queue_beyond_its_limit_keeps_nothing_for_itself():
    """After a cut it uses more than it may; what one of its workloads waits for frees nothing for others."""
    cell = Cell()
    never: dict[str, Any] = {"preemption": {"withinClusterQueue": "LowerPriority"}}
    cell.queue("lender", 6, "all", **never)
    cell.queue("b", 10, "all", **never)
    cell.queue("a", 8, "all", borrow=6, **never)
    cell.submit("running", "a", 14)
    cell.submit("tiny", "lender", 1)
    assert sorted(admitted(cell.settle())) == ["running", "tiny"]
    cell.queue("a", 8, "all", borrow=0, **never)
    cell.submit("waits", "a", 2, priority=0)
    assert admitted(cell.submit("large", "b", 11, priority=0).settle()) == []
    assert admitted(cell.finish("tiny").settle()) == []


@pytest.mark.parametrize("how", ["deleted", "switched off", "stopped"])
def test_what_was_kept_in_a_cycle_for_one_that_has_gone_is_there_for_others(how: str) -> None:
    """A StrictFIFO queue that cannot reclaim keeps what its head waits for no longer than that waits."""
    cell = Cell()
    strict: dict[str, Any] = {"queueingStrategy": "StrictFIFO"}
    cell.queue("owner", cpu=4, cohort="c", preemption={"reclaimWithinCohort": "Never"}, **strict)
    cell.queue("borrower", cpu=0, cohort="c")
    cell.submit("lent", "borrower", cpu=2)
    cell.submit("runs", "borrower", cpu=1).settle()
    cell.submit("head", "owner", cpu=4)
    cell.submit("small", "borrower", cpu=2)
    assert sorted(parked(cell.settle())) == ["head", "small"]
    assert admitted(cell.finish("runs").settle()) == []
    match how:
        case "deleted":
            cell.put(WorkloadDeleted(cause=0, workload=key("head")))
        case "switched off":
            cell.put(WorkloadUpdated(cause=0, workload=key("head"), active=False))
        case _:
            held: dict[str, Any] = {
                "preemption": {"reclaimWithinCohort": "Never"},
                "stopPolicy": "Hold",
            } | strict
            cell.queue("owner", cpu=4, cohort="c", **held)
    assert admitted(cell.settle()) == ["small"]
    assert cell.settle() == []
