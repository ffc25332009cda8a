"""Slices as the scheduler charges, admits and preempts them, with admission checks in between (WS3-WS6)."""

from typing import Any

import msgspec
import pytest

from sluice.events.base import Event, PodSet
from sluice.events.checks import ChecksReady, ChecksRejected, ChecksRetry
from sluice.events.scheduler import (
    Evicted,
    QuotaReleased,
    QuotaReserved,
    WorkloadSliceReplaced,
    WorkloadSliceWithdrawn,
)
from sluice.events.slices import ReclaimablePodsUpdated, WorkloadPodsReady, WorkloadUpdated
from tests.support.scheduler_cell import RECLAIMS, SECOND, Cell, admitted, evicted, key, preempting

CHECKED: dict[str, Any] = {
    "admissionChecksStrategy": {"admissionChecks": [{"name": "gpu"}]},
    "preemption": RECLAIMS,
}


def used(cell: Cell, queue: str = "q") -> int:
    """Return how many cpus are charged to a queue."""
    node = cell.state.world.cluster_queues[queue].node
    return node.used(("default", "cpu")) // 1000


def sized(name: str, count: int) -> WorkloadUpdated:
    pods = (PodSet(name="main", count=count, requests={"cpu": 1000}),)
    return WorkloadUpdated(cause=0, workload=key(name), pod_sets=pods)


@pytest.fixture
def cell() -> Cell:
    """An elastic job of two pods in a queue with a check, admitted; its larger slice has quota reserved."""
    made = Cell()
    made.configure("AdmissionCheck", "gpu", {"controllerName": "x"})
    made.queue("q", 8, "all", **CHECKED)
    made.queue("other", 4, "all", preemption=RECLAIMS)
    made.submit("old", "q", count=2)
    assert used_after(made) == 2
    made.put(ChecksReady(cause=0, workload=key("old")))
    assert admitted(made.settle()) == ["old"]
    made.now += SECOND
    made.submit("new", "q", count=6, replaces=key("old"))
    events = made.settle()
    assert [type(event) for event in events if isinstance(event, QuotaReserved)]
    assert admitted(events) == []
    return made


def used_after(cell: Cell) -> int:
    cell.settle()
    return used(cell)


def test_both_slices_charge_what_either_needs(cell: Cell) -> None:
    """WS3: six, not eight; the old one runs on, and the replacement comes with the admission."""
    assert used(cell) == 6
    assert cell.workload("old").admitted_at is not None
    cell.put(ChecksReady(cause=0, workload=key("new")))
    events = cell.settle()
    assert admitted(events) == ["new"]
    assert [event.workload for event in events if isinstance(event, WorkloadSliceReplaced)] == [key("old")]
    assert used(cell) == 6


@pytest.mark.parametrize("answer", [ChecksRetry, ChecksRejected])
def test_a_slice_that_fails_its_checks_leaves_the_old_one_alone(cell: Cell, answer: type) -> None:
    """AC3: its reservation goes, and nothing else."""
    more = {"requeue_at": cell.now + SECOND} if answer is ChecksRetry else {}
    cell.put(answer(cause=0, workload=key("new"), checks=("gpu",), **more))
    events = cell.settle()
    assert evicted(events) == ["new"]
    assert key("old") not in [event.workload for event in events if isinstance(event, QuotaReleased)]
    assert cell.workload("old").evicted_at is None
    if answer is ChecksRejected:
        assert used(cell) == 2


def test_a_reserved_slice_is_not_preempted_alone(cell: Cell) -> None:
    """WS6: the job is one candidate, with the quota of both; the growth is given back at once."""
    cell.submit("owner", "other", 4)
    assert admitted(cell.settle()) == ["owner"]
    cell.submit("high", "q", 1, count=7, priority=10)
    events = cell.settle()
    assert preempting(events) == {"high": ["old"]}
    assert evicted(events) == ["old"]
    assert [event.workload for event in events if isinstance(event, QuotaReleased)] == [key("new")]
    assert used(cell) == 2
    # The answer of its checks comes too late: there is nothing to replace any more.
    cell.put(ChecksReady(cause=0, workload=key("new")))
    assert admitted(cell.settle()) == []
    cell.stopped("old")
    events = cell.settle()
    assert [event.workload for event in events if isinstance(event, QuotaReserved)] == [key("high")]


def test_all_of_a_job_counts_for_whoever_preempts_it(cell: Cell) -> None:
    """What old and new slice hold together is enough; nobody else has to go."""
    cell.submit("bystander", "q", 2, priority=0)
    cell.settle()
    cell.put(ChecksReady(cause=0, workload=key("bystander")))
    assert admitted(cell.settle()) == ["bystander"]
    assert used(cell) == 8
    cell.now += SECOND
    cell.submit("owner", "other", 1, count=4)
    assert admitted(cell.settle()) == ["owner"]
    cell.submit("high", "q", 1, count=6, priority=10)
    assert preempting(cell.settle()) == {"high": ["old"]}


def test_sizes_while_both_have_quota(cell: Cell) -> None:
    """Shrinking either charges what is left of both; ended pods too (SC7)."""
    cell.put(sized("new", 4))
    assert used_after(cell) == 4
    cell.put(ReclaimablePodsUpdated(cause=0, workload=key("old"), pods={"main": 1}))
    assert used_after(cell) == 4
    cell.put(sized("old", 1))
    assert used_after(cell) == 4


def taken_back(cell: Cell, count: int = 2) -> None:
    """Take the growth back: it ends, and what runs goes on as if nothing had been (WS3)."""
    cell.put(WorkloadPodsReady(cause=0, workload=key("old")))
    cell.settle()
    ready = cell.workload("old").pods_ready_at
    reserved = cell.workload("new").assignment is not None
    if count < 2:
        cell.put(sized("old", count))
    cell.put(sized("new", count))
    events = cell.settle()
    assert [event.workload for event in events if isinstance(event, WorkloadSliceWithdrawn)] == [key("new")]
    released = [event.workload for event in events if isinstance(event, QuotaReleased)]
    assert released == ([key("new")] if reserved else [])
    assert admitted(events) == evicted(events) == []
    assert key("new") not in cell.state.world.workloads
    assert not cell.state.world.pending_preemptions.due
    old = cell.workload("old")
    assert old.admitted_at is not None
    assert old.pods_ready_at == ready is not None
    # What comes too late finds nothing, and nothing is due in time either.
    cell.put(ChecksReady(cause=0, workload=key("new")))
    cell.put(sized("new", 5))
    cell.now += 1000 * SECOND
    assert cell.settle() == []


@pytest.mark.parametrize("count", [2, 1])
def test_a_reserved_growth_is_taken_back(cell: Cell, count: int) -> None:
    """Its reservation goes; below the running size the running one shrinks in place."""
    cell.settings(waitForPodsReady={"enable": True, "timeoutSeconds": 60})
    taken_back(cell, count)
    assert used(cell) == count


@pytest.mark.parametrize("again", [True, False])
def test_a_rejected_growth_is_tried_again_or_taken_back(cell: Cell, again: bool) -> None:
    """Activated with another size it asks its checks anew; taken back, it ends as any other."""
    cell.put(ChecksRejected(cause=0, workload=key("new"), checks=("gpu",)))
    assert evicted(cell.settle()) == ["new"]
    if again:
        cell.put(msgspec.structs.replace(sized("new", 5), active=True))
        events = cell.settle()
        assert [event.workload for event in events if isinstance(event, QuotaReserved)] == [key("new")]
        assert used(cell) == 5
        cell.put(ChecksReady(cause=0, workload=key("new"), attempt=2))
        assert admitted(cell.settle()) == ["new"]
    else:
        taken_back(cell)


def test_a_queued_growth_is_taken_back() -> None:
    """Not a slice of two in place of a slice of two, whose pods would have to become ready once more."""
    cell = Cell()
    cell.settings(waitForPodsReady={"enable": True, "timeoutSeconds": 60})
    cell.queue("q", 3)
    cell.submit("old", "q", count=2)
    cell.settle()
    cell.submit("new", "q", count=9, replaces=key("old"))
    assert admitted(cell.settle()) == []
    taken_back(cell)


def test_a_growth_that_waits_for_victims_is_taken_back() -> None:
    """Nobody waits for what its victims give up any more: whoever comes next may have it."""
    cell = Cell()
    cell.queue("q", 4, preemption=RECLAIMS)
    cell.submit("old", "q", count=2, priority=10)
    cell.submit("low", "q", 2)
    assert sorted(admitted(cell.settle())) == ["low", "old"]
    cell.submit("new", "q", count=4, priority=10, replaces=key("old"))
    assert preempting(cell.settle()) == {"new": ["low"]}
    taken_back(cell)
    cell.submit("next", "q", 2)
    cell.stopped("low")
    assert admitted(cell.settle()) in (["next"], ["low"])


def test_a_growth_that_is_promised_its_quota_is_taken_back() -> None:
    """Its claim goes with it: its victims run on, and are not preempted when its checks are ready."""
    cell = Cell()
    spec = {"controllerName": "x", "preemptionPolicy": "AfterCheckPassedOrOnDemand"}
    cell.configure("AdmissionCheck", "gpu", spec)
    cell.queue("q", 4, **CHECKED)
    cell.submit("old", "q", count=2, priority=10)
    cell.submit("low", "q", 2)
    cell.settle()
    for name in ("old", "low"):
        cell.put(ChecksReady(cause=0, workload=key(name)))
    cell.settle()
    cell.submit("new", "q", count=4, priority=10, replaces=key("old"))
    (reserved,) = [event for event in cell.settle() if isinstance(event, QuotaReserved)]
    assert reserved.preemptions_pending
    taken_back(cell)
    assert used(cell) == 4
    assert cell.workload("low").admitted_at is not None


@pytest.mark.parametrize("shrunk_first", [True, False])
@pytest.mark.parametrize("count", [2, 1])
def test_a_growth_is_taken_back_while_its_job_stops(count: int, shrunk_first: bool) -> None:
    """Both slices queue again, and the old one comes first: the new one has nothing to add to it (WS3)."""
    cell = Cell()
    cell.queue("q", 3, preemption=RECLAIMS)
    cell.submit("old", "q", count=2)
    cell.settle()
    cell.submit("new", "q", count=9, replaces=key("old"))
    assert admitted(cell.settle()) == []
    cell.put(Evicted(cause=0, workload=key("old"), reason="Preempted", message="for a while"))
    if not shrunk_first:
        cell.stopped("old")
        cell.put(sized("new", count))
    else:
        cell.put(sized("new", count))
        assert not [event for event in cell.settle() if isinstance(event, WorkloadSliceWithdrawn)]
        cell.stopped("old")
    events = cell.settle()
    assert admitted(events) == ["old"]
    assert [event.workload for event in events if isinstance(event, WorkloadSliceWithdrawn)] == [key("new")]
    assert not [event for event in events if isinstance(event, WorkloadSliceReplaced)]
    assert key("new") not in cell.state.world.workloads


@pytest.mark.parametrize("running", [True, False])
def test_a_growth_that_the_old_slice_has_come_up_to_ends(running: bool) -> None:
    """Whichever of the two changes: a slice that asks for no more than the one with quota ends (WS3)."""
    cell = Cell()
    cell.queue("q", 3)
    cell.submit("old", "q", count=2)
    if running:
        cell.settle()
    cell.submit("new", "q", count=9, replaces=key("old"))
    cell.settle()
    cell.put(sized("old", 9 if running else 3))
    if not running:
        cell.put(sized("new", 3))
    events = cell.settle()
    assert [event.workload for event in events if isinstance(event, WorkloadSliceWithdrawn)] == [key("new")]
    assert cell.workload("old").assignment is not None


def test_a_growth_of_a_job_that_is_being_stopped_is_not_taken_back(cell: Cell) -> None:
    """The old slice is losing its quota: the job goes on with the new one, whatever its size."""
    cell.submit("owner", "other", 4)
    cell.settle()
    cell.submit("high", "q", 1, count=8, priority=10)
    assert evicted(cell.settle()) == ["old"]
    cell.put(sized("new", 2))
    cell.stopped("old")
    assert not [e for e in cell.settle() if isinstance(e, WorkloadSliceWithdrawn)]
    assert cell.workload("old").assignment is None
    assert key("new") in cell.state.world.workloads


@pytest.mark.parametrize("first", ["old", "new"])
def test_the_end_of_either_frees_its_part(cell: Cell, first: str) -> None:
    """A finished new slice leaves the old one as it was; without the old one the new one starts over."""
    cell.finish(first)
    events = cell.settle()
    if first == "new":
        assert used(cell) == 2
        return
    released = [event.workload for event in events if isinstance(event, QuotaReleased)]
    assert released == [key("new")]
    # It asks for all of its pods now, as any workload.
    assert used(cell) == 6
    assert not cell.workload("new").delta


def test_an_evicted_job_takes_its_growth_along(cell: Cell) -> None:
    """WS6: eviction for any reason ends the reservation of the growth; the handshake is the old slice's."""
    cell.put(Evicted(cause=0, workload=key("old"), reason="LocalQueueStopped", message="stopped"))
    events = cell.settle()
    assert [event.workload for event in events if isinstance(event, QuotaReleased)] == [key("new")]
    assert used(cell) == 2


def pods(a: int, b: int) -> tuple[PodSet, ...]:
    return tuple(
        PodSet(name=name, count=count, requests={"cpu": 1000}) for name, count in (("a", a), ("b", b))
    )


def test_a_pod_set_alone_may_grow() -> None:
    """WS3: what one pod set gives up another one may have, in whatever order they stand."""
    cell = Cell()
    cell.queue("q", 8)

    def submit(name: str, a: int, b: int, **fields: Any) -> None:
        cell.now += SECOND
        cell.submit(name, "q", 1, **fields)
        cell.put(WorkloadUpdated(cause=0, workload=key(name), pod_sets=pods(a, b)))

    submit("one", 3, 3)
    assert used_after(cell) == 6
    submit("two", 5, 1, replaces=key("one"))
    assert admitted(cell.settle()) == ["two"]
    assert used(cell) == 6
    submit("other", 0, 2)
    assert used_after(cell) == 8
    # Two more of one, and one of the other less: there is one too few.
    submit("three", 7, 0, replaces=key("two"))
    assert admitted(cell.settle()) == []
    assert cell.reason("three")[0] == "WaitingForQuota"
    cell.put(WorkloadUpdated(cause=0, workload=key("three"), pod_sets=pods(6, 0)))
    assert admitted(cell.settle()) == ["three"]
    assert used(cell) == 8
    submit("four", 0, 6, replaces=key("three"))
    assert admitted(cell.settle()) == ["four"]


def test_a_slice_that_needs_less_is_admitted_although_its_queue_was_cut() -> None:
    """It makes nobody exceed anything: what was too much is that of the slice which it replaces."""
    cell = Cell()
    cell.queue("q", 8)

    cell.submit("one", "q", 1, pod_sets=pods(2, 4))
    assert used_after(cell) == 6
    cell.queue("q", 5)
    cell.submit("two", "q", 1, pod_sets=pods(4, 1), replaces=key("one"))
    assert admitted(cell.settle()) == ["two"]
    assert used(cell) == 5


@pytest.mark.parametrize("growth", [(4, 1), (5, 2)])
def test_a_growth_is_rechecked_for_what_it_adds(growth: tuple[int, int]) -> None:
    """AC7: a queue that was cut takes back what it does not have, not what a running slice has of it."""
    cell = Cell()
    cell.configure("AdmissionCheck", "gpu", {"controllerName": "x"})
    cell.queue("q", 8, **CHECKED)

    cell.submit("one", "q", 1, pod_sets=pods(2, 4))
    cell.settle()
    cell.put(ChecksReady(cause=0, workload=key("one")))
    assert admitted(cell.settle()) == ["one"]
    cell.submit("two", "q", 1, pod_sets=pods(*growth), replaces=key("one"))
    cell.settle()
    assert used(cell) == max(6, sum(growth))
    cell.queue("q", 5, **CHECKED)
    cell.put(ChecksReady(cause=0, workload=key("two")))
    events = cell.settle()
    if sum(growth) <= 6:
        assert admitted(events) == ["two"]
    else:
        assert [event.workload for event in events if isinstance(event, QuotaReleased)] == [key("two")]
        assert admitted(events) == []
        assert cell.reason("two")[0] == "ExceedsMaxQuota"


@pytest.mark.parametrize("borrows", [False, True])
def test_growth_within_policy(borrows: bool) -> None:
    """Growth borrows and preempts as any admission does (WS6)."""
    cell = Cell()
    cell.queue("q", 4, "all", preemption=RECLAIMS)
    cell.queue("other", 4, "all")
    cell.submit("old", "q", count=2, priority=10)
    cell.settle()
    if not borrows:
        cell.submit("busy", "other", 4)
        cell.submit("low", "q", 2)
        cell.settle()
    cell.now += SECOND
    cell.submit("new", "q", count=4 if not borrows else 7, priority=10, replaces=key("old"))
    events = cell.settle()
    if borrows:
        assert admitted(events) == ["new"]
        assert used(cell) == 7
        return
    assert preempting(events) == {"new": ["low"]}
    cell.stopped("low")
    assert "new" in admitted(cell.settle())
    assert used(cell) == 4


def test_growth_waits_for_pods_that_are_not_ready() -> None:
    """SC7: while admission is blocked by a job that is not ready, growth waits too; its own job counts."""
    cell = Cell()
    cell.settings(waitForPodsReady={"enable": True, "blockAdmission": True, "timeoutSeconds": 60})
    cell.queue("q", 8)
    cell.submit("old", "q", count=2)
    cell.settle()
    cell.submit("new", "q", count=4, replaces=key("old"))
    assert admitted(cell.settle()) == []
    cell.put(WorkloadPodsReady(cause=0, workload=key("old")))
    assert admitted(cell.settle()) == ["new"]
    # Its new pods have as long as any to come up; if they do not, the job is evicted as a whole.
    cell.now += 61 * SECOND
    assert evicted(cell.settle()) == ["new"]


def test_growth_whose_preemptions_wait_for_its_checks() -> None:
    """AC6: the growth is a claim until its victims have gone; then the job is charged as one again."""
    cell = Cell()
    spec = {"controllerName": "x", "preemptionPolicy": "AfterCheckPassedOrOnDemand"}
    cell.configure("AdmissionCheck", "gpu", spec)
    cell.queue("q", 4, "all", **CHECKED)
    cell.submit("old", "q", count=2, priority=10)
    cell.settle()
    cell.put(ChecksReady(cause=0, workload=key("old")))
    assert admitted(cell.settle()) == ["old"]
    cell.submit("low", "q", 2)
    cell.settle()
    cell.put(ChecksReady(cause=0, workload=key("low")))
    assert admitted(cell.settle()) == ["low"]
    cell.now += SECOND
    cell.submit("new", "q", count=4, priority=10, replaces=key("old"))
    events = cell.settle()
    (reserved,) = [event for event in events if isinstance(event, QuotaReserved)]
    assert reserved.preemptions_pending
    assert evicted(events) == []
    assert used(cell) == 6  # what runs, and what is promised to the growth
    cell.put(ChecksReady(cause=0, workload=key("new")))
    assert evicted(cell.settle()) == ["low"]
    assert cell.workload("old").admitted_at is not None
    cell.stopped("low")
    events = cell.settle()
    assert admitted(events)[:1] == ["new"]
    assert [event.workload for event in events if isinstance(event, WorkloadSliceReplaced)] == [key("old")]
    assert used(cell) == 4


@pytest.mark.parametrize("due_s", [0, 60])
def test_what_is_due_for_both_slices_at_once_is_decided_one_after_the_other(due_s: int) -> None:
    """The old slice is to try again as the new one may replace it: it goes or is replaced, not both (WS4)."""
    cell = Cell()
    cell.configure("AdmissionCheck", "gpu", {"controllerName": "x"})
    cell.queue("q", 8, "all", **CHECKED)
    cell.submit("old", "q", count=2)
    cell.settle()
    cell.submit("new", "q", count=6, replaces=key("old"))
    cell.settle()
    assert used(cell) == 6
    cell.put(ChecksRetry(cause=0, workload=key("old"), checks=("gpu",), requeue_at=cell.now + due_s * SECOND))
    cell.put(ChecksReady(cause=0, workload=key("new")))

    events = cell.settle()

    replaced = [event.workload for event in events if isinstance(event, WorkloadSliceReplaced)]
    assert (replaced == [key("old")]) is (evicted(events) == [])
    assert evicted(events) in ([], ["old"])
    held = {name for name, workload in cell.state.world.workloads.items() if workload.assignment is not None}
    assert used(cell) == (6 if key("new") in held else 2 if held else 0)
    assert cell.settle() == []


# Pods for which no completion is left


def not_needed(name: str, count: int) -> ReclaimablePodsUpdated:
    return ReclaimablePodsUpdated(cause=0, workload=key(name), pods={"main": count} if count else {})


def assigned(events: list[Event], name: str) -> int:
    """Return how many pods were given to a workload."""
    (event,) = [each for each in events if isinstance(each, QuotaReserved) and each.workload == key(name)]
    return sum(pods.count for pods in event.pod_sets)


def lent(preemption: dict[str, str] = RECLAIMS, **checks: Any) -> Cell:
    """An elastic job of one pod in a queue of four cpus, of which another queue has borrowed three."""
    cell = Cell()
    if checks:
        cell.configure("AdmissionCheck", "gpu", {"controllerName": "x"})
    cell.queue("q", 4, "all", preemption=preemption, **checks)
    cell.queue("lender", 4, "all", preemption=RECLAIMS)
    cell.submit("old", "q", count=1)
    cell.settle()
    if checks:
        cell.put(ChecksReady(cause=0, workload=key("old")))
        cell.settle()
    cell.now += SECOND
    cell.submit("other", "lender", count=7)
    assert admitted(cell.settle()) == ["other"]
    cell.now += SECOND
    return cell


def test_nobody_is_preempted_for_pods_that_can_never_run() -> None:
    """WS3: of three completions two are done, so of three pods one runs, for which there is quota."""
    cell = lent()
    cell.submit("new", "q", count=3, replaces=key("old"))
    cell.put(not_needed("new", 2))
    events = cell.settle()
    assert (admitted(events), evicted(events)) == (["new"], [])
    assert assigned(events, "new") == 3, "executors are told of all"
    assert used(cell) == 1
    cell.put(not_needed("new", 2))
    assert not cell.settle()


def test_only_what_can_run_is_preempted_for() -> None:
    cell = lent()
    cell.submit("new", "q", count=9, replaces=key("old"))
    cell.put(not_needed("new", 6))
    assert preempting(cell.settle()) == {"new": ["other"]}
    cell.stopped("other")
    events = cell.settle()
    assert (admitted(events), assigned(events, "new")) == (["new"], 9)
    assert used(cell) == 3


def test_a_growth_that_waits_needs_less_by_and_by() -> None:
    """It would be more than there can ever be; when enough is done, it has all that it can use."""
    cell = lent({"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"})
    cell.submit("new", "q", count=3, replaces=key("old"))
    assert admitted(cell.settle()) == []
    cell.put(not_needed("new", 1))
    assert admitted(cell.settle()) == []
    cell.put(not_needed("new", 2))
    assert admitted(cell.settle()) == ["new"]
    assert used(cell) == 1


@pytest.mark.parametrize("answer", [ChecksRetry, ChecksReady])
def test_a_growth_that_waits_for_checks(answer: type) -> None:
    """A retry forgets what was reserved, not what can never run."""
    cell = lent(admissionChecksStrategy=CHECKED["admissionChecksStrategy"])
    cell.submit("new", "q", count=3, replaces=key("old"))
    cell.put(not_needed("new", 2))
    events = cell.settle()
    assert assigned(events, "new") == 3
    assert used(cell) == 1
    more = {"requeue_at": cell.now + SECOND, "checks": ("gpu",)} if answer is ChecksRetry else {}
    cell.put(answer(cause=0, workload=key("new"), **more))
    events = cell.settle()
    cell.now += 2 * SECOND
    events += cell.settle()
    assert "other" not in evicted(events)
    assert cell.workload("new").reclaimable == {"main": 2}
    if answer is ChecksRetry:
        assert assigned(events, "new") == 3
        cell.put(not_needed("new", 1))  # some of it is to be done again
    assert used_after(cell) == (1 if answer is ChecksReady else 2)


def test_a_job_that_queues_again_needs_all() -> None:
    cell = lent()
    cell.submit("new", "q", count=3, replaces=key("old"))
    cell.put(not_needed("new", 2))
    cell.settle()
    cell.submit("high", "q", count=4, priority=10)
    assert "new" in evicted(cell.settle())
    cell.stopped("new")
    cell.settle()
    assert cell.workload("new").reclaimable == {}


def test_a_slice_is_not_both_preempted_and_replaced() -> None:
    """WS6: whoever preempts a job would not get what a growth takes over in the very same cycle."""
    cell = Cell()
    cell.queue("elastic", cpu=0, cohort="all")
    cell.queue("owner", cpu=4, cohort="all", preemption=RECLAIMS)
    cell.queue("others", cpu=10, cohort="all")
    cell.submit("stays", "others", cpu=8)
    cell.submit("old", "elastic", count=4)
    assert sorted(admitted(cell.settle())) == ["old", "stays"]
    cell.submit("new", "elastic", count=6, replaces=key("old"))
    cell.submit("urgent", "owner", cpu=4)
    events = cell.settle()
    assert preempting(events) == {"urgent": ["old"]}
    assert admitted(events) == []
    cell.stopped("old")
    assert admitted(cell.settle()) == ["urgent"]


def growing() -> Cell:
    """A job of one pod in a queue that borrows; its growth waits for `low`, and would have what is free.

    One cpu is free.
    """
    cell = Cell()
    cell.queue("q", 4, "all", preemption=RECLAIMS)
    cell.queue("lender", 7, "all", preemption=RECLAIMS)
    cell.submit("mid", "q", 2, priority=60)
    cell.submit("old", "q", priority=50)
    cell.submit("low", "q", 2)
    cell.submit("urgent", "q", priority=99)
    cell.submit("own", "lender", 4)
    cell.settle()
    cell.submit("new", "q", count=4, priority=50, replaces=key("old"))
    assert preempting(cell.settle()) == {"new": ["low"]}
    return cell


def test_who_may_stop_a_job_may_have_what_is_kept_for_its_growth() -> None:
    """A queue that takes back its own stops nobody for what is only kept for a growth."""
    cell = growing()
    cell.submit("mine", "lender")
    events = cell.settle()
    assert (admitted(events), evicted(events)) == (["mine"], [])
    assert cell.waits_for("q") == []  # too little is left, so it looks again
    cell.stopped("low")
    assert evicted(cell.settle()) == []
    assert cell.reason("new")[0] == "WaitingForQuota"


def test_who_leaves_for_a_growth_goes_for_who_may_stop_its_job() -> None:
    """Nobody stops beside those that leave already, where these are enough for the lender."""
    cell = growing()
    cell.submit("mine", "lender", 3)
    events = cell.settle()
    assert evicted(events) == []
    assert preempting(events) == {"mine": ["low"]}
    cell.stopped("low")
    events = cell.settle()
    assert (admitted(events), evicted(events)) == (["mine"], [])
