"""Preemptors that wait for their victims: what they wait for is theirs, and nothing else waits (CA6, SC5)."""

from collections.abc import Sequence
from typing import Any

import pytest

from sluice.api.core_v1 import Toleration
from sluice.core import step_size
from sluice.core.workload.pending_reasons import WAITING_FOR_PODS_READY
from sluice.events.base import Event, PodSet
from sluice.events.checks import AdmissionCheckStatusChanged, ChecksReady
from sluice.events.scheduler import FlavorScanAdvanced, TreesSettled
from sluice.events.slices import WorkloadPodsReady, WorkloadUpdated
from tests.support.scheduler_cell import RECLAIMS, Cell, admitted, evicted, key, parked, preempting


def preempting_cell(**extra: int) -> Cell:
    """Return a cell in which `m` waits for `low`, which is told to stop, and does not."""
    cell = Cell()
    cell.queue("a", cpu={"one": 4, **extra}, preemption=RECLAIMS)
    cell.submit("low", "a", cpu=4)
    for flavor, amount in extra.items():
        cell.submit(f"low-{flavor}", "a", cpu=amount)
    cell.settle()
    cell.submit("m", "a", cpu=3, priority=10)
    assert preempting(cell.settle()) == {"m": ["low"]}
    return cell


def test_others_of_the_queue_get_what_is_free() -> None:
    """A job of any priority goes to an empty flavor, for however long the preemptor waits."""
    cell = preempting_cell(two=3)
    cell.queue("a", cpu={"one": 4, "two": 5}, preemption=RECLAIMS)
    cell.submit("urgent", "a", cpu=1, priority=20)
    cell.submit("late", "a", cpu=1, priority=0)
    cell.submit("too-late", "a", cpu=1, priority=0)
    assert admitted(cell.settle()) == ["urgent", "late"]
    assert cell.flavor("urgent") == cell.flavor("late") == "two"
    assert cell.waits_for("a") == ["low"]
    cell.stopped("low")
    assert admitted(cell.settle()) == ["m", "too-late"]


def test_what_is_kept_is_nobody_elses() -> None:
    """Not even one that comes before the preemptor in its queue takes it while its victims leave."""
    cell = Cell()
    cell.queue("a", cpu=4, cohort="c", preemption=RECLAIMS)
    cell.queue("b", cpu=0, cohort="c", preemption=RECLAIMS)
    cell.submit("low-1", "a", cpu=2)
    cell.submit("low-2", "a", cpu=2)
    cell.settle()
    cell.submit("m", "a", cpu=4, priority=10)
    assert sorted(evicted(cell.settle())) == ["low-1", "low-2"]
    cell.stopped("low-1")
    cell.submit("borrower", "b", cpu=1, priority=99)
    cell.submit("first", "a", cpu=1, priority=20)
    assert admitted(cell.settle()) == []
    cell.stopped("low-2")
    events = cell.settle()
    assert admitted(events)[0] == "first"  # which would preempt `m`
    assert "m" not in admitted(events)
    assert evicted(events) == []


def test_preemptors_of_one_queue_wait_side_by_side_for_different_flavors() -> None:
    """One whose victim never stops keeps no other from preempting for another flavor (CA6)."""
    cell = Cell()
    cell.queue("a", cpu={"one": 2, "two": 4}, preemption=RECLAIMS)
    for name, cpu in (("stuck", 2), ("fine", 4)):
        cell.submit(name, "a", cpu=cpu)
    cell.settle()
    cell.submit("first", "a", cpu=2, priority=10)
    assert preempting(cell.settle()) == {"first": ["stuck"]}
    cell.submit("second", "a", cpu=4, priority=10)
    assert preempting(cell.settle()) == {"second": ["fine"]}
    cell.stopped("fine")
    assert admitted(cell.settle()) == ["second"]


def test_preemptors_of_one_queue_go_one_after_the_other_for_the_same_capacity() -> None:
    """What the second one lacks may be there when the first one runs: nobody is preempted for nothing."""
    cell = Cell()
    cell.queue("a", cpu=4, preemption=RECLAIMS)
    for name in ("one", "two"):
        cell.submit(name, "a", cpu=2)
    cell.settle()
    cell.submit("first", "a", cpu=2, priority=10)
    cell.submit("second", "a", cpu=2, priority=10)
    ((preemptor, (victim,)),) = preempting(cell.settle()).items()
    assert preemptor == "first"
    (other,) = {"one", "two"} - {victim}
    cell.finish(other)
    cell.stopped(victim)
    assert sorted(admitted(cell.settle())) == ["first", "second"]


def test_who_preempts_next_is_asked_when_the_first_one_runs() -> None:
    """With nothing freed but what the first one got, the second one preempts in its turn."""
    cell = Cell()
    cell.queue("a", cpu=4, preemption=RECLAIMS)
    for name in ("one", "two"):
        cell.submit(name, "a", cpu=2)
    cell.settle()
    for name in ("first", "second"):
        cell.submit(name, "a", cpu=2, priority=10)
        cell.settle()
    (victim,) = cell.waits_for("a")
    cell.stopped(victim)
    events = cell.settle()
    assert admitted(events) == ["first"]
    assert list(preempting(events)) == ["second"]


def test_who_comes_before_a_preemptor_preempts_nobody_where_those_that_leave_are_enough() -> None:
    """It gets their place, and the preemptor looks again, as in Kueue. Nobody else has to go for it (CA6)."""
    cell = Cell()
    cell.queue("g", cpu=6, preemption=RECLAIMS)
    cell.submit("low", "g", cpu=4)
    cell.submit("mid", "g", cpu=2, priority=5)
    cell.settle()
    cell.submit("m", "g", cpu=3, priority=5)
    assert preempting(cell.settle()) == {"m": ["low"]}
    cell.submit("top", "g", cpu=2, priority=10)
    events = cell.settle()
    assert (evicted(events), preempting(events), parked(events)) == ([], {"top": ["low"]}, ["m"])
    cell.stopped("low")
    events = cell.settle()
    assert (admitted(events), evicted(events)) == (["top"], [])


def test_who_comes_before_a_preemptor_preempts_for_the_rest_at_once() -> None:
    """It does not wait for those that leave before it asks the others to."""
    cell = Cell()
    cell.queue("a", cpu=4, preemption=RECLAIMS)
    for name in ("one", "two"):
        cell.submit(name, "a", cpu=2)
    cell.settle()
    cell.submit("m", "a", cpu=2, priority=10)
    ((_, (first,)),) = preempting(cell.settle()).items()
    (other,) = {"one", "two"} - {first}
    cell.submit("top", "a", cpu=4, priority=20)
    events = cell.settle()
    assert (evicted(events), preempting(events)) == ([other], {"top": ["one", "two"]})
    cell.stopped(first)
    assert admitted(cell.settle()) == []
    cell.stopped(other)
    assert admitted(cell.settle()) == ["top"]


def test_who_comes_before_a_preemptor_gets_all_its_pods_first() -> None:
    """Not with fewer beside the preemptor, whom it would preempt."""
    cell = Cell()
    cell.queue("p", cpu=6, preemption=RECLAIMS)
    cell.submit("low", "p", cpu=5)
    cell.settle()
    cell.submit("m", "p", cpu=3, priority=10)
    assert preempting(cell.settle()) == {"m": ["low"]}
    cell.submit("top", "p", count=6, priority=20, pod_set={"min_count": 2})
    assert preempting(cell.settle()) == {"top": ["low"]}
    cell.stopped("low")
    assert admitted(cell.settle()) == ["top"]
    assert cell.workload("top").usage == {("default", "cpu"): 6000}


def test_what_others_wait_for_does_not_bring_a_preemptor_before_who_comes_first() -> None:
    """The room that victims of another queue will leave is no room yet."""
    cell = Cell()
    cell.queue("a", cpu=4, cohort="c")
    for name in ("b", "c"):
        cell.queue(name, cpu=4, cohort="c", preemption={"reclaimWithinCohort": "Any"})
    for name in ("low", "m", "m3"):
        cell.submit(name, "a", cpu=4, priority=0 if name == "low" else 5)
    cell.settle()
    cell.submit("p", "b", cpu=3, priority=5)
    assert preempting(cell.settle()) == {"p": ["low"]}
    cell.submit("top", "b", cpu=2, priority=20).settle()
    cell.submit("q", "c", cpu=4)
    (victim,) = evicted(cell.settle())
    assert victim in ("m", "m3")
    cell.stopped("low")
    assert "top" in admitted(cell.settle())


def test_a_preemptor_takes_what_is_free_before_its_victims_have_gone() -> None:
    cell = preempting_cell(two=4)
    cell.finish("low-two")
    assert admitted(cell.settle())[0] == "m"
    assert cell.waits_for("a") == []


@pytest.mark.parametrize("fair", [False, True])
@pytest.mark.parametrize("late", [False, True])
def test_who_could_preempt_it_gets_what_its_victims_leave(*, fair: bool, late: bool) -> None:
    """Nobody is admitted only to be preempted by one who waited already, or has come meanwhile."""
    cell = Cell()
    cell.settings(fairSharing={"enable": fair})
    cell.queue("a", cpu=4, preemption=RECLAIMS)
    cell.submit("low", "a", cpu=4)
    cell.settle()
    cell.submit("m", "a", cpu=4, priority=10)
    assert preempting(cell.settle()) == {"m": ["low"]}
    if late:
        cell.stopped("low")
    cell.submit("urgent", "a", cpu=3, priority=20)
    if not late:
        assert preempting(cell.settle()) == {"urgent": ["low"]}
        cell.stopped("low")
    events = cell.settle()
    assert (admitted(events), evicted(events)) == (["urgent"], [])
    cell.finish("urgent")
    assert admitted(cell.settle()) == ["m"]


@pytest.mark.parametrize("fair", [False, True])
def test_pod_sets_that_come_later_in_the_queue_leave_the_flavor_to_who_comes_first(*, fair: bool) -> None:
    """One lender, two flavors, of which the first has a taint: neither preemptor needs what the other one's
    second pod set waits for."""
    cell = Cell()
    cell.settings(fairSharing={"enable": fair})
    for name in ("ta", "tb"):
        cell.queue(name, cpu={"tn": 2, "p1": 2}, cohort="tc", preemption=RECLAIMS)
    taint = {"key": "special", "value": "y", "effect": "NoSchedule"}
    cell.configure("ResourceFlavor", "tn", {"nodeTaints": [taint]})
    special = (Toleration(key="special", operator="Exists"),)
    tolerates = {"tolerations": special}
    for i in range(4):
        cell.submit(f"t{i}", "ta", cpu=2, pod_set=tolerates)
    cell.settle()
    sets = (
        PodSet(name="a", count=1, requests={"cpu": 2000}, tolerations=special),
        PodSet(name="b", count=1, requests={"cpu": 2000}),
    )
    cell.submit("k1", "tb", pod_sets=sets)
    victims = evicted(cell.settle())
    assert len(victims) == 2
    cell.submit("k2", "tb", cpu=2, priority=5, pod_set=tolerates)
    events = cell.settle()
    assert (evicted(events), list(preempting(events))) == ([], ["k2"])
    cell.stopped(*victims)
    events = cell.settle()
    assert evicted(events) == []
    assert "k2" in admitted(events)
    assert "k1" not in admitted(events)


def test_what_was_kept_is_for_nobody_who_may_not_preempt_it() -> None:
    """Whoever comes first, but preempts nobody: else it would have preempted for others."""
    cell = Cell()
    cell.queue("a", cpu=2, cohort="c", borrow=0, preemption={"reclaimWithinCohort": "Any"})
    cell.queue("b", cpu=2, cohort="c")
    cell.submit("low", "b", cpu=4)
    cell.settle()
    cell.submit("m", "a", cpu=2)
    assert preempting(cell.settle()) == {"m": ["low"]}
    cell.submit("urgent", "a", cpu=2, priority=20, cannot_preempt=True)
    cell.settle()
    cell.stopped("low")
    assert admitted(cell.settle()) == ["m"]


def test_those_behind_a_preemptor_are_not_looked_at_in_vain() -> None:
    """A queue whose head waits for victims has no more to consider before these have gone."""
    cell = Cell()
    cell.queue("a", cpu=4, preemption=RECLAIMS)
    for name in ("one", "two"):
        cell.submit(name, "a", cpu=2)
    cell.settle()
    for name, priority in (("first", 30), ("second", 20), ("third", 10), ("fourth", 10)):
        cell.submit(name, "a", cpu=2, priority=priority)
    ((victim,),) = preempting(cell.settle()).values()
    cell.stopped(victim)
    steps = []
    while events := cell.decide_once():
        steps.append(events)
    assert list(preempting(steps[-1])) == ["second"]
    assert [event.open for event in steps[-1] if isinstance(event, TreesSettled)] == [[]]
    cell.finish("first")
    assert admitted(cell.settle()) == ["second"]


def test_a_woken_class_that_fits_is_not_left_behind() -> None:
    """Capacity freed beside what a preemptor waits for goes to those who wait for it."""
    cell = Cell()
    for name in ("a", "b"):
        cell.queue(name, cpu=4, cohort="c", preemption=RECLAIMS)
    cell.submit("low", "a", cpu=4)
    cell.submit("small", "b", cpu=2)
    cell.submit("other", "b", cpu=2)
    cell.settle()
    cell.submit("m", "a", cpu=4, priority=10)
    cell.submit("waits", "b", cpu=2)
    cell.submit("waits-too", "a", cpu=1)
    cell.settle()
    assert cell.waits_for("a") == ["low"]
    cell.finish("small")
    assert admitted(cell.settle()) == ["waits"]
    cell.finish("other")
    assert "waits-too" in admitted(cell.settle())
    assert cell.waits_for("a") == ["low"]


def test_preemptors_that_wait_survive_a_snapshot() -> None:
    cell = Cell()
    flavors = {"one": 1, "two": 2, "three": 3}
    cell.queue("a", cpu=flavors, preemption=RECLAIMS)
    for cpu in flavors.values():
        cell.submit(f"low-{cpu}", "a", cpu=cpu)
    cell.settle()
    for cpu in flavors.values():
        cell.submit(f"high-{cpu}", "a", cpu=cpu, priority=10)
        cell.settle()
    cell.restart()
    assert len(cell.waits_for("a")) == 3
    assert cell.settle() == []


@pytest.mark.parametrize("queue", ["a", "b"])
@pytest.mark.parametrize("lowered", [True, False])
def test_who_runs_with_a_lower_priority_may_be_preempted(queue: str, lowered: bool) -> None:
    """Its priority class is edited: those that wait, and that it came before, are looked at again (SC2)."""
    cell = Cell()
    policy = {**RECLAIMS, "reclaimWithinCohort": "LowerPriority"}
    cell.queue("a", 4, "c", preemption=policy)
    cell.queue("b", 0, "c", preemption=policy)
    cell.submit("runs", queue, 4, priority=10)
    assert admitted(cell.settle()) == ["runs"]
    cell.submit("waits", "a", 4, priority=5)
    cell.settle()
    assert cell.workload("waits").peers is not None
    cell.put(WorkloadUpdated(cause=0, workload=key("runs"), priority=0 if lowered else 7))
    assert preempting(cell.settle()) == ({"waits": ["runs"]} if lowered else {})
    assert cell.settle() == []


@pytest.mark.parametrize("others", [(), ("spare",)])
def test_a_class_that_waits_is_looked_at_when_one_behind_it_is_admitted(others: tuple[str, ...]) -> None:
    """An admission can make room for who could not preempt before: more queues borrow what it lacks now.

    `x` borrows gpus only, and nobody lacked any. When `late` has taken the rest of them, `x` may go for
    `first`, and its cpus with it.
    """
    cell = Cell()
    policy = {"reclaimWithinCohort": "LowerPriority", "withinClusterQueue": "LowerPriority"}

    def queue(name: str, cpu: int, gpu: int) -> None:
        flavors = [_flavor("default", cpu, gpu), *(_flavor(other, 0, 0) for other in others)]
        groups = [{"coveredResources": ["cpu", "gpu"], "flavors": flavors}]
        quotas = {"default": 0, **dict.fromkeys(others, 0)}
        cell.queue(name, quotas, "all", resourceGroups=groups, preemption=policy)

    def submit(name: str, queue: str, priority: int, *, cpu: int = 0, gpu: int = 0) -> None:
        wanted = {"cpu": cpu * 1000, "gpu": gpu}
        pods = PodSet(name="main", count=1, requests={name: n for name, n in wanted.items() if n})
        cell.submit(name, queue, priority=priority, pod_sets=(pods,))

    queue("a", 4, 4)
    queue("b", 0, 0)
    queue("c", 4, 0)
    submit("y", "b", 20, cpu=4)
    submit("x", "c", 0, cpu=2, gpu=1)
    assert sorted(admitted(cell.settle())) == ["x", "y"]
    submit("first", "a", 10, cpu=4, gpu=1)
    assert parked(cell.settle()) == ["first"]
    submit("late", "a", 5, gpu=3)
    events = cell.settle()
    assert admitted(events) == ["late"]
    assert preempting(events) == {"first": ["x"]}


def _flavor(name: str, cpu: int, gpu: int) -> dict[str, Any]:
    amounts = {"cpu": cpu, "gpu": gpu}
    return {"name": name, "resources": [{"name": r, "nominalQuota": n} for r, n in amounts.items()]}


def blocked_by_a_resumed_search() -> Cell:
    """Return a cell in which only the second part of a blocker's search says that it could fit one day.

    From the first flavor on its pods take room from each other: they exceed what there could ever be.
    """
    cell = Cell()
    cell.queue("strict", cpu={"one": 7, "two": 4}, cohort="c", queueingStrategy="StrictFIFO")
    cell.queue("b", cpu={"one": 0, "two": 0}, cohort="c")
    cell.submit("runs", "strict", cpu=2)
    cell.settle()
    pods = tuple(
        PodSet(name=name, count=1, requests={"cpu": 1000 * cpu}) for name, cpu in (("a", 3), ("b", 6))
    )
    cell.submit("blocker", "strict", pod_sets=pods)
    assert parked(cell.settle()) == ["blocker"]
    assert cell.reason("blocker")[0] == "WaitingForQuota"
    return cell


@pytest.mark.parametrize("restarted", [False, True])
def test_a_blocker_is_refused_as_before_until_something_is_freed(restarted: bool) -> None:
    """It takes part in every cycle, for what is kept for it, and its search is over (SC4).

    With another verdict each time, what was kept for it would be free and wake everybody, for ever.
    """
    cell = blocked_by_a_resumed_search()
    if restarted:
        cell.restart()
    before = cell.reason("blocker")
    for name, cpu in (("x", 9), ("y", 10)):
        cell.submit(name, "b", cpu=cpu)
        assert parked(cell.settle()) == [name]
        assert cell.reason("blocker") == before
    cell.stopped("runs")
    cell.finish("runs")
    assert admitted(cell.settle()) == ["blocker"]
    assert [part.flavors["cpu"] for part in cell.workload("blocker").assignment or ()] == ["two", "one"]


def test_nobody_is_preempted_by_one_that_waits_when_they_have_gone() -> None:
    """AX4: with the room that its victim leaves, it would be whole if it could borrow: so it waits then.

    It is not preempted for the part that there is within nominal quota: it would come back, for ever.
    """
    cell = Cell()
    cell.queue("a", cpu=2, cohort="c", preemption=RECLAIMS)
    cell.queue("b", cpu=4, cohort="c", preemption=RECLAIMS)
    cell.submit("borrows", "a", cpu=4)
    cell.settle()
    cell.submit("partial", "a", cpu=1, count=4, priority=9, pod_set={"min_count": 1}, cannot_borrow=True)
    assert evicted(cell.settle()) == []
    cell.finish("borrows")
    assert admitted(cell.settle()) == []


def test_who_waited_for_victims_is_content_with_what_it_was_promised() -> None:
    """All its pods could be had by now, by preempting once more; it takes the part that its victim made free.

    While it waited for more, its victim could come back, to be preempted again.
    """
    cell = Cell()
    cell.queue("a", cpu=6, cohort="c", preemption=RECLAIMS)
    cell.queue("b", cpu=4, cohort="c", preemption=RECLAIMS)
    cell.submit("ends", "a", cpu=2, priority=20)
    cell.submit("stays", "b", cpu=4, priority=5)
    cell.submit("borrows", "b", cpu=4)
    cell.settle()
    cell.submit("partial", "a", cpu=1, count=6, priority=9, pod_set={"min_count": 1})
    assert preempting(cell.settle()) == {"partial": ["borrows"]}
    cell.finish("ends")
    cell.submit("low", "a", cpu=2)
    assert admitted(cell.settle()) == ["low"]
    cell.stopped("borrows")
    steps = cell.settle()
    assert (admitted(steps), evicted(steps)) == (["partial"], [])
    assert cell.workload("partial").usage == {("default", "cpu"): 4000}


def test_pod_sets_are_content_with_the_flavors_that_they_were_promised() -> None:
    """Each for itself, the first would take the flavor by now that its victim has left for the second.

    While it looked for more, others would take that.
    """
    cell = Cell()
    cell.queue("a", cpu={"one": 3, "two": 2}, cohort="c", preemption=RECLAIMS)
    cell.queue("b", cpu={"one": 1}, cohort="c")
    tainted = {"nodeTaints": [{"key": "tier", "value": "gold", "effect": "NoSchedule"}]}
    cell.configure("ResourceFlavor", "two", tainted)
    cell.submit("stays", "a", cpu=1, priority=99)
    cell.submit("low", "b", cpu=2)
    cell.settle()
    tolerant = PodSet(name="p", count=1, requests={"cpu": 2000}, tolerations=(Toleration(operator="Exists"),))
    plain = PodSet(name="q", count=1, requests={"cpu": 2000})
    cell.submit("m", "a", priority=9, pod_sets=(tolerant, plain))
    assert preempting(cell.settle()) == {"m": ["low"]}
    cell.submit("rival", "b", cpu=2, priority=50)
    assert admitted(cell.settle()) == []
    cell.restart()
    cell.stopped("low")
    steps = cell.settle()
    assert (admitted(steps), evicted(steps)) == (["m"], [])
    assert [each.flavors for each in cell.workload("m").assignment or ()] == [{"cpu": "two"}, {"cpu": "one"}]


def test_what_is_kept_for_a_blocker_is_kept_until_something_is_freed() -> None:
    """Where nothing was freed, nothing is kept for those that take no part in the cycle (SC2).

    A blocker that seems to fit then, and waits for pods of others only, still keeps what it lacks. If it did
    not, all would be woken, it would lack it again, and keep it again, for ever.
    """
    cell = Cell()
    cell.settings(waitForPodsReady={"enable": True, "blockAdmission": True, "timeoutSeconds": 600})
    cell.queue("b", cpu=6, cohort="c", preemption={"reclaimWithinCohort": "LowerPriority"})
    cell.queue("strict", cpu=4, cohort="c", queueingStrategy="StrictFIFO")
    cell.queue("c", cpu=2, cohort="c")
    cell.submit("ends", "c", cpu=1, priority=99)
    cell.settle()
    cell.put(WorkloadPodsReady(cause=0, workload=key("ends")))
    cell.submit("runs", "c", cpu=7, priority=99)
    assert admitted(cell.settle()) == ["runs"]
    cell.submit("large", "b", cpu=6, priority=9)
    cell.submit("blocker", "strict", cpu=3, priority=8)
    cell.settle()
    cell.finish("ends")
    cell.settle()
    assert cell.reason("blocker")[0] == "WaitingForPodsReady"
    cell.submit("late", "c", cpu=1, priority=-1)
    assert parked(cell.settle()) == ["late"]
    assert cell.reason("blocker")[0] == "WaitingForPodsReady"
    cell.put(WorkloadPodsReady(cause=0, workload=key("runs")))
    assert admitted(cell.settle()) == ["blocker"]


def test_who_was_admitted_before_the_switch_blocks_admission_too() -> None:
    """As in Kueue, all admitted workloads count; switched off and on again, also those of meanwhile."""
    cell = Cell()
    on = {"enable": True, "blockAdmission": True, "timeoutSeconds": 600}
    cell.queue("a", cpu=9)
    cell.submit("ready", "a")
    cell.submit("before", "a")
    cell.settle()
    cell.put(WorkloadPodsReady(cause=0, workload=key("ready")))
    cell.settings(waitForPodsReady=on)
    cell.submit("first", "a")
    assert parked(cell.settle()) == ["first"]
    cell.put(WorkloadPodsReady(cause=0, workload=key("before")))
    assert admitted(cell.settle()) == ["first"]
    cell.settings()
    cell.submit("meanwhile", "a")
    assert admitted(cell.settle()) == ["meanwhile"]
    cell.finish("first")
    cell.settings(waitForPodsReady=on)
    cell.submit("last", "a")
    assert parked(cell.settle()) == ["last"]
    cell.finish("meanwhile")
    assert admitted(cell.settle()) == ["last"]


@pytest.mark.parametrize("most", list(range(20, 1600, 20)))
def test_a_search_that_ends_with_more_to_say_than_a_step_holds(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the tree has settled is said before it, once: what says nothing new would be said for ever."""
    monkeypatch.setattr(step_size, "MOST", most)
    cell = blocked_by_a_resumed_search()
    for name, cpu in (("x", 9), ("y", 10)):
        cell.submit(name, "b", cpu=cpu)
        assert name in parked(cell.settle())
    cell.stopped("runs")
    cell.finish("runs")
    assert admitted(cell.settle()) == ["blocker"]


def test_a_preemptor_waits_on_while_the_pods_of_others_are_not_ready() -> None:
    """It fits before its victims have gone, but nobody is admitted for now. If it gave up waiting for that,
    it could have to preempt again at once, as others keep what is free from newcomers: for ever.
    """
    cell = preempting_cell(two=4)
    cell.settings(waitForPodsReady={"enable": True, "blockAdmission": True, "timeoutSeconds": 600}).settle()
    cell.finish("low-two")
    events = cell.settle()
    assert (admitted(events), parked(events), cell.waits_for("a")) == ([], [], ["low"])
    cell.put(WorkloadPodsReady(cause=0, workload=key("low")))
    assert admitted(cell.settle()) == ["m"]


def test_who_comes_before_two_preemptors_is_served_once() -> None:
    """What was kept for either of them would do; it gets quota in the place of one."""
    cell = Cell()
    cell.queue("a", cpu={"one": 2, "two": 2}, preemption=RECLAIMS)
    for name in ("low", "lower"):
        cell.submit(name, "a", cpu=2)
    cell.settle()
    for name in ("m", "n"):
        cell.submit(name, "a", cpu=2, priority=10).settle()
    assert sorted(cell.waits_for("a")) == ["low", "lower"]
    cell.submit("urgent", "a", cpu=2, priority=20).settle()
    cell.stopped("low", "lower")
    first, other = admitted(cell.settle())
    assert first == "urgent"
    assert other in ("m", "n")


@pytest.mark.parametrize("restarted", [False, True])
def test_who_cannot_borrow_gets_what_was_kept_for_it_beside_those_that_borrow(*, restarted: bool) -> None:
    """Who came to its queue meanwhile borrows, and it does not: else it would preempt that one, and so on."""
    cell = Cell()
    cell.queue("a", cpu=4, cohort="c", preemption=RECLAIMS)
    cell.queue("lender", cpu=4, cohort="c")
    cell.submit("low", "a", cpu=4)
    cell.settle()
    cell.submit("own", "a", cpu=4, priority=10, cannot_borrow=True)
    assert preempting(cell.settle()) == {"own": ["low"]}
    cell.submit("late", "a", cpu=2)
    assert admitted(cell.settle()) == ["late"]
    if restarted:
        cell.restart()
    cell.stopped("low")
    events = cell.settle()
    assert admitted(events) == ["own"]
    assert evicted(events) == []


@pytest.mark.parametrize("restarted", [False, True])
def test_what_was_kept_is_kept_on_while_admission_is_blocked(*, restarted: bool) -> None:
    """Its victims have gone, but the pods of another one are not ready: nobody takes its place meanwhile."""
    cell = preempting_cell()
    cell.queue("other", cpu=1)
    cell.settings(waitForPodsReady={"enable": True, "blockAdmission": True, "timeoutSeconds": 600}).settle()
    cell.put(WorkloadPodsReady(cause=0, workload=key("low")))
    assert admitted(cell.submit("slow", "other").settle()) == ["slow"]
    cell.stopped("low")
    assert admitted(cell.settle()) == []
    assert cell.reason("m")[0] == WAITING_FOR_PODS_READY
    cell.submit("urgent", "a", cpu=4, priority=20, cannot_preempt=True)
    assert admitted(cell.settle()) == []
    if restarted:
        cell.restart()
    cell.put(WorkloadPodsReady(cause=0, workload=key("slow")))
    assert admitted(cell.settle()) == ["m"]


def blocking_cell(*queues: str, cpu: int = 2) -> Cell:
    """Return a cell in which the pods of `slow` are not ready, and block admission."""
    cell = Cell()
    for name in ("other", *queues):
        cell.queue(name, cpu=cpu)
    cell.settings(waitForPodsReady={"enable": True, "blockAdmission": True, "timeoutSeconds": 600}).settle()
    assert admitted(cell.submit("slow", "other", cpu=cpu).settle()) == ["slow"]
    return cell


def ready(cell: Cell, name: str) -> list[str]:
    """Let the pods of *name* be ready; return who is admitted then."""
    return admitted(cell.put(WorkloadPodsReady(cause=0, workload=key(name))).settle())


@pytest.mark.parametrize("fair", [False, True])
def test_one_at_a_time_the_first_of_all_trees_is_admitted(*, fair: bool) -> None:
    """Not that of the tree with the first name, which would keep others out for as long as jobs come."""
    cell = blocking_cell("y1", "y2", "y3")
    if fair:
        blocks = {"enable": True, "blockAdmission": True, "timeoutSeconds": 600}
        cell.settings(waitForPodsReady=blocks, fairSharing={})
    for number, priority in ((1, 10), (2, 100), (3, 1000)):
        cell.submit(f"w{number}", f"y{number}", priority=priority)
    cell.submit("younger", "y1", priority=10)
    assert admitted(cell.settle()) == []
    order = ["slow", "w3", "w2", "w1", "younger"]
    assert [ready(cell, name) for name in order] == [["w3"], ["w2"], ["w1"], ["younger"], []]


@pytest.mark.parametrize("restarted", [False, True])
def test_what_is_freed_while_a_search_goes_on_is_looked_at_once_more(*, restarted: bool) -> None:
    """The flavors that it came through before are not looked at by what is left of it (SC4)."""
    cell = Cell()
    cell.queue("a", cpu={"one": 4, "two": 1})
    cell.submit("runs", "a", cpu=2).settle()
    pods = tuple(PodSet(name=name, count=1, requests={"cpu": 2000}) for name in ("x", "y"))
    cell.submit("m", "a", pod_sets=pods)
    found: Sequence[Event] = ()
    while not any(isinstance(event, FlavorScanAdvanced) for event in found):
        found = cell.decide_once()
        assert found
    if restarted:
        cell.restart()
    cell.finish("runs")
    assert admitted(cell.settle()) == ["m"]
    assert cell.flavor("m") == "one"


def test_a_preemptor_that_cannot_borrow_gives_way_though_its_cohort_has_enough() -> None:
    """What is left of its queue's own quota is too little for it, so it does not wait on."""
    cell = Cell()
    for name in ("a", "b"):
        cell.queue(name, cpu=2, cohort="c", preemption=RECLAIMS)
    for name, queue in (("v1", "a"), ("v2", "a"), ("w", "b")):
        cell.submit(name, queue).settle()
    cell.submit("m", "a", cpu=2, priority=10, cannot_borrow=True)
    assert preempting(cell.settle()) == {"m": ["v1", "v2"]}
    cell.submit("high", "a", cpu=1, priority=20, cannot_borrow=True)
    events = cell.settle()
    ((name, (victim,)),) = preempting(events).items()
    assert name == "high"
    assert cell.waits_for("a") == [victim]
    cell.stopped(victim)
    assert admitted(cell.settle())[0] == "high"


def test_a_preemptor_whose_place_is_taken_goes_for_another_flavor() -> None:
    """As it would if it came after the one that took it."""
    cell = Cell()
    cell.queue("a", cpu={"one": 1, "two": 1}, preemption=RECLAIMS)
    for name in ("low", "lower"):
        cell.submit(name, "a").settle()
    cell.submit("m", "a", priority=10)
    assert preempting(cell.settle()) == {"m": ["low"]}
    cell.submit("high", "a", priority=20)
    assert preempting(cell.settle()) == {"high": ["low"], "m": ["lower"]}
    cell.stopped("low", "lower")
    assert sorted(admitted(cell.settle())) == ["high", "m"]


def test_what_a_preemptor_of_a_strict_queue_waited_for_is_not_promised_twice() -> None:
    """Another one comes before it and gets quota for which the same victim is to go; then it looks again."""
    cell = Cell()
    cell.configure(
        "AdmissionCheck", "slow", {"controllerName": "x", "preemptionPolicy": "AfterCheckPassedOrOnDemand"}
    )
    cell.put(AdmissionCheckStatusChanged(cause=0, check="slow", active=True, reason="Active", message=""))
    checks = {"admissionChecks": [{"name": "slow", "onFlavors": ["two"]}]}
    strict: dict[str, Any] = {"queueingStrategy": "StrictFIFO", "admissionChecksStrategy": checks}
    cell.queue("a", cpu={"one": 4, "two": 2}, cohort="c", preemption=RECLAIMS, **strict)
    cell.queue("b", cpu={"one": 0, "two": 0}, cohort="c")
    cell.submit("low", "b", cpu=4).settle()
    cell.submit("m", "a", cpu=4)
    assert preempting(cell.settle()) == {"m": ["low"]}
    pods = tuple(
        PodSet(name=name, count=1, requests={"cpu": cpu}) for name, cpu in (("x", 2000), ("y", 4000))
    )
    cell.submit("high", "a", priority=20, pod_sets=pods).settle()
    assert cell.workload("high").preemptions
    assert cell.waits_for("a") == []
    cell.stopped("low")
    cell.settle()
    assert cell.workload("m").assignment is None


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
@pytest.mark.parametrize("overtaken", [False, True])
def test_nothing_is_kept_in_a_queue_that_admits_nobody(strategy: str, overtaken: bool) -> None:
    """Its check has lost its controller: nobody knows for how long, and others have use for the quota."""
    cell = Cell()
    checks: dict[str, Any] = {"admissionChecksStrategy": {"admissionChecks": [{"name": "slow"}]}}
    cell.configure("AdmissionCheck", "slow", {"controllerName": "x"})
    cell.put(AdmissionCheckStatusChanged(cause=0, check="slow", active=True, reason="Active", message=""))
    cell.queue("a", cpu=4, cohort="c", preemption=RECLAIMS, queueingStrategy=strategy, **checks)
    cell.queue("b", cpu=1, cohort="c")
    cell.submit("low", "a", cpu=3).settle()
    cell.put(ChecksReady(cause=0, workload=key("low"))).settle()
    cell.submit("m", "a", cpu=4, priority=10)
    assert preempting(cell.settle()) == {"m": ["low"]}
    cell.submit("other", "b", cpu=2)
    assert admitted(cell.settle()) == []
    if overtaken:
        cell.submit("urgent", "a", cpu=5, priority=20)
    cell.put(AdmissionCheckStatusChanged(cause=0, check="slow", active=False, reason="Lost", message=""))
    assert admitted(cell.settle()) == ["other"]
    cell.stopped("low").settle()
    cell.put(AdmissionCheckStatusChanged(cause=0, check="slow", active=True, reason="Active", message=""))
    cell.settle()
    assert cell.workload("m").assignment is None
