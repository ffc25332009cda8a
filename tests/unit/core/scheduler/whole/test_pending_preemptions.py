"""Preemptions that wait for admission checks (AC6), and what is checked again on admission (AC7)."""

from collections.abc import Sequence
from typing import Any

import pytest

from sluice.core.workload.pending_reasons import GATED
from sluice.events.base import Event, PodSet
from sluice.events.checks import ChecksReady, ChecksRejected, ChecksRetry, PreemptionsAllowed
from sluice.events.scheduler import (
    BlockedOnPreemptionGates,
    PendingPreemptionsIssued,
    PendingReasonChanged,
    Preempted,
    QuotaReleased,
    QuotaReserved,
)
from sluice.events.slices import ReclaimablePodsUpdated, WorkloadUpdated
from sluice.events.variants import PreemptionGateClosed, PreemptionGateOpened
from tests.support.objects import resource_group
from tests.support.scheduler_cell import RECLAIMS, SECOND, Cell, admitted, evicted, key, names, preempting

LOWER: dict[str, Any] = {"preemption": {"withinClusterQueue": "LowerPriority"}}


def checks(*names: str) -> dict[str, Any]:
    return {"admissionChecksStrategy": {"admissionChecks": [{"name": name} for name in names]}}


class CheckedCell(Cell):
    """With the check `late`, before which nobody is preempted, and `early`, which does not mind."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.configure(
            "AdmissionCheck",
            "late",
            {"controllerName": "c", "preemptionPolicy": "AfterCheckPassedOrOnDemand"},
        )
        self.configure("AdmissionCheck", "early", {"controllerName": "c"})

    def ready(self, *names: str) -> list[Event]:
        for name in names:
            self.put(ChecksReady(cause=0, workload=key(name), attempt=self.workload(name).reservations))
        return self.settle()

    def allow(self, *names: str, reason: str = "PreemptionRequired") -> list[Event]:
        for name in names:
            attempt = self.workload(name).reservations
            self.put(PreemptionsAllowed(cause=0, workload=key(name), attempt=attempt, reason=reason))  # type: ignore[arg-type]
        return self.settle()

    def pending(self) -> dict[str, list[str]]:
        """Return who waits with a reservation, and for whom."""
        return {
            names(w.key): sorted(names(v) for v in w.victims)
            for w in self.state.world.workloads.values()
            if w.preemptions
        }


def cell_with(running: dict[str, int], quota: int = 10, *check_names: str) -> CheckedCell:
    """A queue of *quota* cpus; these run in it, at priority 0."""
    cell = CheckedCell()
    cell.queue("q", quota, **LOWER, **checks(*(check_names or ("late",))))
    for name, cpu in running.items():
        cell.submit(name, "q", cpu)
    cell.settle()
    cell.ready(*running)
    return cell


def reserved(events: Sequence[Event]) -> dict[str, list[str]]:
    """Return who got quota with preemptions pending -> whose."""
    return {
        names(e.workload): [names(v) for v in e.pending_victims]
        for e in events
        if isinstance(e, QuotaReserved) and e.preemptions_pending
    }


def requeued(events: Sequence[Event]) -> dict[str, tuple[str, str]]:
    """Return who lost its reservation -> why."""
    gone = [e.workload for e in events if isinstance(e, QuotaReleased)]
    return {
        names(w): (e.reason, e.message)
        for e in events
        if isinstance(e, PendingReasonChanged)
        for w in e.workloads
        if w in gone
    }


def test_victims_run_on_until_the_checks_allow_it() -> None:
    """Quota is reserved at once; victims are evicted when allowed; admission waits for the handshake."""
    cell = cell_with({"low": 10})
    cell.submit("high", "q", 10, priority=5)
    events = cell.settle()
    assert reserved(events) == {"high": ["low"]}
    assert evicted(events) == []

    events = cell.allow("high")
    assert evicted(events) == ["low"]
    assert [e.rule for e in events if isinstance(e, Preempted)] == ["InClusterQueue"]
    assert cell.ready("high") == []
    cell.stopped("low")
    assert admitted(cell.settle()) == ["high"]


def test_all_checks_ready_is_leave_to_preempt() -> None:
    """ChecksReady alone issues what is pending, and the workload is admitted when it can be."""
    cell = cell_with({"low": 10})
    cell.submit("high", "q", 10, priority=5)
    cell.settle()
    assert evicted(cell.ready("high")) == ["low"]
    cell.stopped("low")
    assert admitted(cell.settle()) == ["high"]


def test_checks_that_do_not_mind_leave_preemption_as_it_was() -> None:
    """With policy Anytime only, victims go first and quota is reserved afterwards."""
    cell = cell_with({"low": 10}, 10, "early")
    cell.submit("high", "q", 10, priority=5)
    events = cell.settle()
    assert preempting(events) == {"high": ["low"]}
    assert evicted(events) == ["low"]


def test_one_check_with_the_policy_is_enough() -> None:
    """Preemptions wait for the one check that asks for it, whatever the others say."""
    cell = cell_with({"low": 10}, 10, "early", "late")
    cell.submit("high", "q", 10, priority=5)
    assert reserved(cell.settle()) == {"high": ["low"]}


def test_no_more_is_reserved_than_fits_together() -> None:
    """The same victim makes room once: who comes second stays in the queue."""
    cell = cell_with({"low": 10})
    cell.submit("one", "q", 6, priority=5)
    cell.submit("two", "q", 6, priority=5)
    cell.submit("three", "q", 4, priority=5)
    assert sorted(reserved(cell.settle())) == ["one", "three"]
    assert cell.workload("two").assignment is None


def test_promised_quota_is_not_given_to_newcomers() -> None:
    """What is free is kept for a reservation that needs it beside its victim's."""
    cell = cell_with({"low": 6})
    cell.submit("high", "q", 10, priority=5)
    cell.settle()
    cell.submit("small", "q", 2)
    cell.settle()
    assert cell.workload("small").assignment is None


def test_what_nobody_needs_is_given_to_newcomers() -> None:
    """What is free now and stays so is for others; what is left over of a victim is not, yet."""
    cell = cell_with({"low": 8})
    cell.submit("high", "q", 4, priority=5)
    assert reserved(cell.settle()) == {"high": ["low"]}
    cell.submit("small", "q", 2)
    cell.submit("medium", "q", 3)
    cell.settle()
    cell.ready("small")
    assert cell.workload("small").admitted_at is not None
    assert cell.workload("medium").assignment is None


def test_a_victim_that_ends_by_itself_need_not_be_preempted() -> None:
    """What has become free in the meantime is less to preempt."""
    cell = cell_with({"a": 5, "b": 5})
    cell.submit("high", "q", 10, priority=5)
    assert reserved(cell.settle()) == {"high": ["a", "b"]}
    cell.finish("a")
    cell.settle()
    assert evicted(cell.allow("high")) == ["b"]


def test_nobody_is_preempted_when_nobody_is_in_the_way_any_more() -> None:
    """With all victims gone the checks are all that is waited for."""
    cell = cell_with({"low": 10})
    cell.submit("high", "q", 10, priority=5)
    cell.settle()
    cell.finish("low")
    cell.settle()
    assert admitted(cell.ready("high")) == ["high"]


def settled_without(events: Sequence[Event]) -> list[str]:
    """Return whose pending preemptions have come to an end without anybody's going."""
    assert evicted(events) == []
    return [names(e.workload) for e in events if isinstance(e, PendingPreemptionsIssued) and not e.victims]


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("change", ["the victim ends", "another ends", "more quota", "fewer pods"])
def test_a_promise_that_needs_nobody_is_a_reservation_like_others(
    change: str, restart: bool, told: bool
) -> None:
    """AC6: preemptions wait for leave. Where nobody is left to preempt there is nothing to wait with; a
    victim that was told and takes its time is waited for by nobody.
    """
    cell = cell_with({"low": 6, "other": 4})
    cell.submit("high", "q", 4, priority=5)
    (victim,) = reserved(cell.settle())["high"]
    if told:
        assert evicted(cell.allow("high")) == [victim]
    other = {"low": "other", "other": "low"}[victim]
    match change:
        case "the victim ends":
            cell.finish(victim)
        case "another ends":
            cell.finish(other)
        case "more quota":
            cell.queue("q", 14, **LOWER, **checks("late"))
        case _:
            cell.put(ReclaimablePodsUpdated(cause=0, workload=key(other), pods={"main": 1}))
    if restart:
        cell.restart()
    said = settled_without(cell.settle())
    assert said == ([] if told and change == "the victim ends" else ["high"])
    assert cell.pending() == {}
    assert admitted(cell.ready("high")) == ["high"]


def test_a_promise_that_needs_some_of_its_victims_goes_on() -> None:
    cell = cell_with({"a": 5, "b": 5})
    cell.submit("high", "q", 10, priority=5)
    cell.settle()
    cell.finish("a")
    assert settled_without(cell.settle()) == []
    assert cell.pending() == {"high": ["b"]}


def test_of_two_promises_each_needs_its_own() -> None:
    """What has become free for the one is not free for the other."""
    cell = cell_with({"a": 5, "b": 5})
    cell.submit("one", "q", 5, priority=5)
    cell.submit("two", "q", 5, priority=5)
    cell.settle()
    ((_, first), (name, second)) = sorted(cell.pending().items())
    cell.finish(*first)
    assert settled_without(cell.settle()) == ["one"]
    assert cell.pending() == {name: second}
    assert evicted(cell.allow(name)) == second


def test_quota_that_is_cut_is_not_there_because_nobody_is_left() -> None:
    """Its victim has gone, and so has the quota that it had: whom to preempt is chosen when it may."""
    cell = cell_with({"low": 6, "other": 4})
    cell.submit("high", "q", 6, priority=5)
    assert reserved(cell.settle()) == {"high": ["low"]}
    cell.queue("q", 6, **LOWER, **checks("late"))
    cell.settle()
    cell.finish("low")
    assert settled_without(cell.settle()) == []
    assert cell.pending() == {"high": []}
    assert evicted(cell.allow("high")) == ["other"]


def test_victims_are_chosen_anew() -> None:
    """Those who go are the best choice when the preemptions are issued, not when they were planned."""
    cell = cell_with({"a": 5, "b": 5})
    cell.submit("high", "q", 5, priority=5)
    planned = reserved(cell.settle())["high"]
    other = {"a": "b", "b": "a"}[planned[0]]

    cell.put(WorkloadUpdated(cause=0, workload=key(planned[0]), priority=9))
    cell.settle()
    assert evicted(cell.allow("high")) == [other]


def test_preemption_that_is_not_possible_any_more_gives_the_reservation_up() -> None:
    """Its victim has become more important: the workload is queued again, and it is said why."""
    cell = cell_with({"low": 10})
    cell.submit("high", "q", 10, priority=5)
    cell.settle()

    cell.put(WorkloadUpdated(cause=0, workload=key("low"), priority=9))
    cell.settle()
    events = cell.allow("high")
    assert requeued(events) == {
        "high": ("WaitingForQuota", "The preemptions that were pending are no longer possible")
    }
    assert evicted(events) == []
    cell.finish("low")
    assert "high" in [names(e.workload) for e in cell.settle() if isinstance(e, QuotaReserved)]


@pytest.mark.parametrize("retry", [False, True])
def test_refused_by_a_check_nobody_was_preempted_for_nothing(retry: bool) -> None:
    """Retry and Rejected end the claim; the victims never learn of it."""
    cell = cell_with({"low": 10})
    cell.submit("high", "q", 10, priority=5)
    cell.settle()
    if retry:
        cell.put(ChecksRetry(cause=0, workload=key("high"), checks=("late",), requeue_at=cell.now + SECOND))
    else:
        cell.put(ChecksRejected(cause=0, workload=key("high"), checks=("late",)))
    assert evicted(cell.settle()) == ["high"]
    assert cell.pending() == {}
    assert cell.workload("low").evicted_at is None


def test_leave_given_to_an_older_reservation_counts_for_nothing() -> None:
    """Attempts are told apart, so that victims of the new one run on (AC4)."""
    cell = cell_with({"low": 10})
    cell.submit("high", "q", 10, priority=5)
    cell.settle()
    cell.put(ChecksRetry(cause=0, workload=key("high"), checks=("late",), requeue_at=cell.now))
    assert reserved(cell.settle()) == {"high": ["low"]}
    stale = PreemptionsAllowed(cause=0, workload=key("high"), attempt=1, reason="PreemptionRequired")
    cell.put(stale)
    cell.put(ChecksReady(cause=0, workload=key("high"), attempt=1))
    assert cell.settle() == []


def test_a_more_important_workload_takes_the_promise_and_what_it_was_for() -> None:
    """The first claim ends at once; the victims run on for the second."""
    cell = cell_with({"low": 10})
    cell.submit("high", "q", 10, priority=5)
    cell.settle()
    cell.submit("higher", "q", 10, priority=7)
    events = cell.settle()
    assert reserved(events) == {"higher": ["low"]}
    assert evicted(events) == ["high"]
    assert cell.pending() == {"higher": ["low"]}


@pytest.mark.parametrize("fair", [False, True])
@pytest.mark.parametrize("others", [0, 1])
def test_a_more_important_workload_takes_back_what_was_promised_from_others(fair: bool, others: int) -> None:
    """Victims may be in another queue, of which this one takes its own back: nobody runs on the promise."""
    cell = CheckedCell()
    if fair:
        cell.settings(fairSharing={"enable": True})
    preemption = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
    cell.queue("lent", 0, "cohort").queue("q", 10 + others, "cohort", preemption=preemption, **checks("late"))
    cell.submit("low", "lent", 10, priority=-5)
    cell.settle()
    if others:
        cell.submit("small", "q", 1)
        cell.settle()
        cell.ready("small")
    cell.submit("high", "q", 10, priority=2)
    assert reserved(cell.settle()) == {"high": ["low"]}
    cell.submit("higher", "q", 10, priority=5)
    events = cell.settle()
    assert reserved(events) == {"higher": ["low"]}
    assert cell.pending() == {"higher": ["low"]}
    assert evicted(events) == ["high"]
    cell.ready("higher")
    cell.stopped("low")
    assert admitted(cell.settle()) == ["higher"]


@pytest.mark.parametrize("spare", [0, 1])
def test_nobody_that_runs_goes_for_what_is_only_promised(spare: int) -> None:
    """Borrowers go before those of its own queue, also for whom a promise was to take from them."""
    cell = CheckedCell()
    preemption = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
    cell.queue("lent", 0, "cohort").queue("q", 2 + spare, "cohort", preemption=preemption, **checks("late"))
    cell.submit("runs", "q", 1 + spare, priority=3)
    cell.settle()
    cell.ready("runs")
    cell.submit("low", "lent", 1, priority=-5)
    cell.settle()
    cell.submit("promised", "q", 1)
    assert reserved(cell.settle()) == {"promised": ["low"]}
    cell.submit("high", "q", 1, priority=5)
    assert reserved(cell.settle()) == {"high": ["low"]}
    assert cell.pending() == {"high": ["low"]}
    assert evicted(cell.ready("high")) == ["low"]
    cell.stopped("low")
    assert admitted(cell.settle()) == ["high"]
    assert cell.workload("runs").evicted_at is None


def test_growth_that_is_promised_from_others_is_taken_over_with_them() -> None:
    """The job that grows runs on, as it was."""
    cell = CheckedCell()
    preemption = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
    cell.queue("lent", 0, "cohort").queue("q", 2, "cohort", preemption=preemption, **checks("late"))
    cell.submit("old", "q", 1)
    cell.settle()
    cell.ready("old")
    cell.submit("low", "lent", 1, priority=-5)
    cell.settle()
    cell.submit("new", "q", 2, replaces=key("old"))
    assert reserved(cell.settle()) == {"new": ["low"]}
    cell.submit("high", "q", 1, priority=5)
    assert reserved(cell.settle()) == {"high": ["low"]}
    assert evicted(cell.ready("high")) == ["low"]
    cell.stopped("low")
    assert admitted(cell.settle()) == ["high"]
    assert cell.workload("old").evicted_at is None


def test_a_preemptor_without_checks_spares_those_that_are_promised() -> None:
    """There are two victims; the one that is to go for somebody else is left to it."""
    cell = CheckedCell()
    cell.queue("q", 10, "all", **LOWER, **checks("late"))
    cell.queue("p", 10, "all", preemption=RECLAIMS)
    for name in ("a", "b", "c", "d"):
        cell.submit(name, "q", 5)
    cell.settle()
    cell.ready("a", "b", "c", "d")
    cell.submit("high", "q", 5, priority=5)
    (victim,) = reserved(cell.settle())["high"]
    cell.submit("reclaimer", "p", 10)
    events = cell.settle()
    assert len(evicted(events)) == 2
    assert victim not in evicted(events)


def test_flavors_are_chosen_by_what_is_free_now() -> None:
    """The rest of a victim that has not gone yet is not preferred to another flavor that is free."""
    cell = CheckedCell()
    cell.queue("q", {"first": 10, "second": 10}, **LOWER, **checks("late"))
    cell.submit("low", "q", 10)
    cell.submit("other", "q", 10)
    cell.settle()
    cell.ready("low", "other")
    cell.submit("high", "q", 4, priority=5)
    cell.settle()
    cell.finish("other")
    cell.settle()
    cell.submit("new", "q", 4)
    cell.settle()
    assert cell.flavor("new") == "second"


def test_quota_that_was_cut_is_noticed_before_admission() -> None:
    """AC7: what was reserved is given up when it is not there any more; then it waits as all do."""
    cell = CheckedCell()
    cell.queue("q", 10, **checks("early"))
    cell.submit("w", "q", 8)
    cell.settle()
    cell.queue("q", 6, **checks("early"))
    events = cell.ready("w")
    assert admitted(events) == []
    assert requeued(events) == {"w": ("WaitingForQuota", "The reserved quota is no longer enough")}


def test_of_two_reservations_beyond_the_quota_one_is_given_up() -> None:
    """What the first gives back is enough for the second."""
    cell = CheckedCell()
    cell.queue("q", 10, **checks("early"))
    cell.submit("a", "q", 5)
    cell.submit("b", "q", 5)
    cell.settle()
    cell.queue("q", 5, **checks("early"))
    events = cell.ready("a", "b")
    assert len(admitted(events)) == 1
    assert len(requeued(events)) == 1


def test_a_flavor_that_the_queue_lost_is_noticed_before_admission() -> None:
    """AC7: quota of the flavor in the cohort does not make up for it."""
    cell = CheckedCell()
    cell.queue("q", {"gone": 5, "kept": 5}, "all", **checks("early"))
    cell.queue("p", {"gone": 10}, "all")
    cell.submit("w", "q", 4)
    cell.settle()
    assert cell.flavor("w") == "gone"
    cell.queue("q", {"kept": 5}, "all", **checks("early"))
    events = cell.ready("w")
    assert requeued(events)["w"][0] == "PendingEvaluation"
    assert cell.flavor("w") == "kept"


def test_promises_to_others_do_not_keep_the_reserved_from_starting() -> None:
    """A workload that has its quota starts although a claim is charged beside its victim."""
    cell = CheckedCell()
    cell.queue("q", 10, **LOWER, **checks("late"))
    cell.submit("low", "q", 6)
    cell.settle()
    cell.ready("low")
    cell.submit("w", "q", 4, priority=5)
    cell.submit("high", "q", 6, priority=5)
    assert reserved(cell.settle()) == {"high": ["low"]}
    assert admitted(cell.ready("w")) == ["w"]


def test_a_policy_that_is_lifted_lets_preemptions_go() -> None:
    """Edited to Anytime, a check is nothing to wait for."""
    cell = cell_with({"low": 10})
    cell.submit("high", "q", 10, priority=5)
    cell.settle()
    cell.configure("AdmissionCheck", "late", {"controllerName": "c"})
    assert evicted(cell.settle()) == ["low"]


def test_pending_preemptions_survive_a_restart() -> None:
    """A snapshot knows who waits for whom, and what has been issued."""
    cell = cell_with({"low": 10})
    cell.submit("high", "q", 10, priority=5)
    cell.settle()
    cell.restart()
    assert cell.pending() == {"high": ["low"]}
    events = cell.allow("high")
    assert [e.victims for e in events if isinstance(e, PendingPreemptionsIssued)] == [[key("low")]]
    cell.restart()
    cell.ready("high")
    cell.stopped("low")
    assert admitted(cell.settle()) == ["high"]


def test_who_must_not_preempt_is_not_promised_anything() -> None:
    """AX1: preemption that waits for checks is preemption all the same."""
    cell = cell_with({"low": 10})
    cell.submit("careful", "q", 10, priority=5, cannot_preempt=True)
    assert reserved(cell.settle()) == {}
    assert cell.workload("careful").assignment is None


def test_a_closed_gate_comes_before_the_checks() -> None:
    """CA11: gated, it is promised nothing; once the gate is open its preemptions wait for the checks."""
    cell = cell_with({"low": 10})
    cell.submit("gated", "q", 10, priority=5, preemption_gates=("gate",))
    events = cell.settle()
    assert reserved(events) == {}
    assert [names(e.workload) for e in events if isinstance(e, BlockedOnPreemptionGates)] == ["gated"]
    cell.put(PreemptionGateOpened(cause=0, parent=key("p"), workload=key("gated"), gate="gate"))
    events = cell.settle()
    assert reserved(events) == {"gated": ["low"]}
    assert evicted(events) == []


@pytest.mark.parametrize("answer", ["allow", "ready", "restart", "none"])
def test_what_is_promised_ends_with_the_gate(answer: str) -> None:
    """CA11: whose gate closes before its victims are told gives its reservation up, and is blocked again."""
    cell = cell_with({"low": 10})
    cell.submit("gated", "q", 10, priority=5, preemption_gates=("gate",))
    gate = {"cause": 0, "parent": key("p"), "workload": key("gated"), "gate": "gate"}
    for turn in range(4):  # as often as its turn comes
        cell.settle()
        cell.put(PreemptionGateOpened(**gate))  # type: ignore[arg-type]
        assert reserved(cell.settle()) == {"gated": ["low"]}, turn
        cell.put(PreemptionGateClosed(**gate))  # type: ignore[arg-type]
        if answer == "restart":
            cell.restart()
        events = [] if answer in ("restart", "none") else list(getattr(cell, answer)("gated"))
        events += cell.settle()
        assert evicted(events) == []
        assert requeued(events) == {"gated": ("AdmissionGated", GATED)}
        assert [names(e.workload) for e in events if isinstance(e, BlockedOnPreemptionGates)] == ["gated"]
    assert cell.workload("low").admitted_at is not None


def test_what_is_issued_outlasts_the_gate() -> None:
    """Its victims are going: what it waits for is its own."""
    cell = cell_with({"low": 10})
    cell.submit("gated", "q", 10, priority=5, preemption_gates=("gate",))
    gate = {"cause": 0, "parent": key("p"), "workload": key("gated"), "gate": "gate"}
    cell.put(PreemptionGateOpened(**gate))  # type: ignore[arg-type]
    cell.settle()
    assert evicted(cell.ready("gated")) == ["low"]
    cell.put(PreemptionGateClosed(**gate))  # type: ignore[arg-type]
    assert cell.settle() == []
    cell.stopped("low")
    assert admitted(cell.settle()) == ["gated"]


def test_a_slice_that_grows_waits_with_the_preemptions_for_its_growth() -> None:
    """WS6: the old slice runs on; others are preempted for the growth only, when the checks allow it."""
    cell = cell_with({"old": 4, "low": 6})
    cell.put(WorkloadUpdated(cause=0, workload=key("old"), priority=5))
    cell.submit("new", "q", 8, priority=5, replaces=key("old"))
    assert reserved(cell.settle()) == {"new": ["low"]}
    assert evicted(cell.ready("new")) == ["low"]
    cell.stopped("low")
    assert admitted(cell.settle()) == ["new"]
    assert key("old") not in cell.state.world.workloads


def growing() -> CheckedCell:
    """A job of priority 5 that runs with 4 cpus, and is promised 4 more, for which `low` is to go."""
    cell = cell_with({"old": 4, "low": 6})
    cell.put(WorkloadUpdated(cause=0, workload=key("old"), priority=5))
    cell.now += SECOND
    cell.submit("new", "q", 8, priority=5, replaces=key("old"))
    assert reserved(cell.settle()) == {"new": ["low"]}
    return cell


@pytest.mark.parametrize("issued", [False, True])
def test_growth_that_is_only_promised_is_taken_away_alone(issued: bool) -> None:
    """0012: no pod runs on a promise, so the running slice is left alone (WS3), and may grow later."""
    cell = growing()
    if issued:
        assert evicted(cell.ready("new")) == ["low"]
    cell.submit("higher", "q", 6, priority=7)
    events = cell.settle()
    assert evicted(events) == ["new"]
    assert cell.workload("old").evicted_at is None
    assert cell.workload("new").assignment is None
    cell.ready("higher")
    cell.stopped("low")
    assert admitted(cell.settle()) == ["higher"]
    assert cell.workload("old").admitted_at is not None
    cell.finish("higher")
    cell.settle()
    assert admitted(cell.ready("new")) == ["new"]
    assert key("old") not in cell.state.world.workloads


def test_a_job_that_is_preempted_is_promised_nothing_any_more() -> None:
    """WS6: who needs more than the promise gets the whole job, and no promise outlives it."""
    cell = growing()
    cell.submit("higher", "q", 10, priority=7)
    assert "new" in evicted(cell.settle())
    assert cell.pending() == {"higher": ["low", "old"]}
    assert evicted(cell.ready("higher")) == ["low", "old"]
    cell.stopped("low", "old")
    assert admitted(cell.settle()) == ["higher"]
    assert cell.workload("new").assignment is None


def test_growth_whose_victims_have_gone_is_part_of_its_job() -> None:
    """WS6: what is reserved and free is preempted with the running slice, never by itself."""
    cell = growing()
    cell.put(PreemptionsAllowed(cause=0, workload=key("new"), attempt=1, reason="PreemptionRequired"))
    assert evicted(cell.settle()) == ["low"]
    cell.stopped("low")
    cell.settle()
    assert cell.pending() == {}
    assert cell.workload("new").assignment is not None
    cell.submit("higher", "q", 6, priority=7)
    assert reserved(cell.settle()) == {"higher": ["old"]}


def test_no_slice_takes_the_place_of_one_that_is_only_promised_its_quota() -> None:
    """WS3: growth is charged beside what the old slice has, which is nothing yet."""
    cell = cell_with({"low": 10})
    cell.submit("old", "q", 6, priority=5)
    assert reserved(cell.settle()) == {"old": ["low"]}
    cell.submit("new", "q", 8, priority=5, replaces=key("old"))
    cell.settle()
    assert cell.workload("new").assignment is None
    cell.ready("old")
    cell.stopped("low")
    assert admitted(cell.settle()) == ["old"]
    assert cell.workload("new").assignment is not None


def test_a_slice_that_takes_the_place_of_a_victim_is_to_go_instead() -> None:
    """Chosen while the old slice ran, issued when the new one does: it is the one to go (AC6, WS6)."""
    cell = cell_with({"old": 4})
    cell.now += SECOND
    cell.submit("new", "q", count=5, replaces=key("old"))
    cell.settle()
    cell.submit("high", "q", 8, priority=10)
    cell.settle()
    assert cell.pending() == {"high": ["old"]}

    assert admitted(cell.ready("new")) == ["new"]
    assert cell.pending() == {"high": ["new"]}
    assert evicted(cell.ready("high")) == ["new"]
    cell.stopped("new")
    assert admitted(cell.settle()) == ["high"]


def test_what_is_withheld_beside_a_promise_goes_to_whom_it_kept_out() -> None:
    """The head of `own` could have what it lacks when a promise comes true. It takes nothing back.

    What is free, within its nominal quota, is withheld for it in each cycle of which it is a part: of one.
    """
    cell = CheckedCell()
    cell.queue("own", 6, "c", preemption={"withinClusterQueue": "LowerPriority"})
    groups = [resource_group({"default": 10}), resource_group({"gpus": 1}, "gpu")]
    spec = {"cohortName": "c", "namespaceSelector": {}, "resourceGroups": groups, **LOWER, **checks("late")}
    cell.configure("ResourceFlavor", "gpus", {})
    cell.configure("ClusterQueue", "lent", spec)
    cell.configure("LocalQueue", "lent", {"clusterQueue": "lent"}, "ns")
    gpu = PodSet(name="main", count=1, requests={"cpu": 7000, "gpu": 1})
    cell.submit("leaves", "lent", pod_sets=(gpu,)).submit("stays", "lent", 6, priority=5).settle()
    cell.ready("leaves", "stays")
    cell.submit("asks", "lent", priority=9, pod_sets=(PodSet(name="main", count=1, requests={"gpu": 1}),))
    cell.settle()
    assert cell.pending() == {"asks": ["leaves"]}
    cell.submit("lacks", "own", 4).submit("fits", "lent", 2, priority=-1).settle()
    assert cell.workload("lacks").assignment is None
    assert cell.workload("fits").assignment is not None, "3 are free"
