"""Logs in which the deciders decide otherwise than they should, each with the invariant that it breaks."""

from collections.abc import Callable, Sequence

import msgspec

from sluice.events.base import Event
from sluice.events.scheduler import (
    Admitted,
    BlockedOnPreemptionGates,
    Evicted,
    PendingPreemptionsIssued,
    Preempted,
    PreemptionIssued,
    QuotaReleased,
    QuotaReserved,
    WorkloadSliceWithdrawn,
    WorkloadsParked,
)
from sluice.events.slices import (
    JobResumed,
    ReclaimablePodsUpdated,
    WorkloadCreated,
    WorkloadDeleted,
    WorkloadStopped,
    WorkloadUpdated,
)
from sluice.events.variants import ParentAdmitted, PreemptionGateClosed, VariantCreated, VariantStopped
from sluice.log.contract import Entry
from tests.support.checked_cell import checked_cell
from tests.support.elastic_cell import Cell
from tests.support.family_world import cell, cluster_queue
from tests.support.objects import priority_class
from tests.unit.replay.damage import (
    Damaged,
    altered,
    edited,
    events_of,
    first,
    followed,
    lacking,
    replaced,
    without,
)

LOWER = {"withinClusterQueue": "LowerPriority"}
CLASSES = [
    priority_class(name, value)
    for name, value in (("low", 1), ("high", 100))
]  # fmt: skip


def race() -> list[Entry]:
    """Jobs race for two flavors; the last one preempts in its turn, and all go on."""
    world = cell(cluster_queue({"res": 1, "od": 1}, preemption=LOWER), *CLASSES)
    for name in ("a", "b"):
        world.submit(name, priority_class="low").settle_all()
    world.submit("c", priority_class="high").settle_all()
    for name in ("b", "a"):
        world.report(name, "JobFinished", success=True).settle_all()
    for name in ("d", "e"):
        world.submit(name).settle_all()
    world.report("c", "JobFinished", success=True).settle_all()
    return world.log


def moving() -> list[Entry]:
    """A job is about to move when something better still comes free; and others come and go beside it."""
    world = cell(cluster_queue({"f0": 1, "f1": 1, "f2": 1}), *CLASSES)
    for name in ("a", "b", "m"):
        world.submit(name).settle_all()
    for name in ("b", "a"):
        world.report(name, "JobFinished", success=True).settle()
    for name in ("d", "e", "f"):
        world.submit(name, priority_class="low").settle()
    world.settle_all()
    return world.log


def plain() -> list[Entry]:
    """Jobs of one queue, which have no choice; one preempts another."""
    world = cell(cluster_queue({"default": 4}, {}, preemption=LOWER), *CLASSES)
    world.submit("a", count=2, priority_class="low").settle_all()
    world.submit("b", priority_class="low").settle_all()
    world.submit("c", priority_class="low").settle_all()
    world.submit("d", priority_class="high").settle_all()
    for name in ("a", "b"):
        world.report(name, "JobFinished", success=True).settle_all()
    return world.log


def quiet() -> list[Entry]:
    """Two jobs run, and nothing more happens."""
    world = cell(cluster_queue({"default": 4}, {}))
    for name in ("a", "b"):
        world.submit(name).settle_all()
    return world.log


def growing() -> list[Entry]:
    """A job grows by a second slice."""
    world = Cell()
    world.queue("left", 8)
    world.submit("a", "left", 2).settle()
    world.scale("a", 5).settle()
    return world.log


def variant_not_made(entries: list[Entry]) -> Damaged:
    return lacking(entries, VariantCreated, 1)


def stopped_for_nothing_said(entries: list[Entry]) -> Damaged:
    """The scheduler takes it for a lost node."""
    found = [(seq, e) for seq, e in events_of(entries) if isinstance(e, VariantStopped) and e.reason]
    seq, stopped = found[0]
    return replaced(entries, stopped, msgspec.structs.replace(stopped, reason="")), seq


def gate_left_open(entries: list[Entry]) -> Damaged:
    return lacking(entries, PreemptionGateClosed)


def second_target_kept(entries: list[Entry]) -> Damaged:
    return lacking(entries, QuotaReleased)


def out_of_turn(entries: list[Entry]) -> Damaged:
    """The better one waits for its gate, and the other one gets in by preemption."""
    seq, blocked = first(entries, BlockedOnPreemptionGates)
    parents = {
        e.workload.key: (e.workload.parent, e.variant)
        for _, e in events_of(entries)
        if isinstance(e, VariantCreated)
    }
    parent = parents[blocked.workload][0]
    worse = next(key for key, found in parents.items() if found == (parent, "od"))
    reserved = first(entries, QuotaReserved)[1]
    (pods,) = reserved.pod_sets
    given = msgspec.structs.replace(pods, flavors={"cpu": "od"})
    return followed(
        entries, blocked, msgspec.structs.replace(reserved, workload=worse, pod_sets=(given,))
    ), seq


def one_victim_more(entries: list[Entry]) -> Damaged:
    """It would do with one of the two."""
    seq, issued = first(entries, PreemptionIssued)
    _, evicted = first(entries, Evicted)
    _, preempted = first(entries, Preempted)
    holders = [e.workload for _, e in events_of(entries) if isinstance(e, Admitted)]
    other = next(key for key in holders[1:3] if key != preempted.workload)
    both = msgspec.structs.replace(issued, victims=sorted([*issued.victims, other]))
    more = [msgspec.structs.replace(each, workload=other) for each in (evicted, preempted)]
    return replaced(entries, issued, *more, both), seq


def left_waiting(entries: list[Entry]) -> Damaged:
    """Everything is free, and it is said to wait for quota."""
    seq, reserved = first(entries, QuotaReserved, -1)
    key = reserved.workload
    parked = WorkloadsParked(cause=reserved.cause, workloads=(key,), reason="WaitingForQuota", message="none")

    def change(event: Event) -> Sequence[Event]:
        if event == reserved:
            return (parked,)
        return (
            ()
            if getattr(event, "workload", None) == key and isinstance(event, Admitted | Evicted)
            else (event,)
        )

    return altered(entries, change), seq


def fewer_for_a_constraint(entries: list[Entry]) -> Damaged:
    """Of two pods it gets one, as it must not borrow; nobody would have to lend it anything."""
    seq, reserved = first(entries, QuotaReserved)
    (pods,) = reserved.pod_sets
    less = msgspec.structs.replace(pods, count=1, usage={"cpu": 1000})

    def change(event: Event) -> Sequence[Event]:
        if event == reserved:
            return (msgspec.structs.replace(reserved, pod_sets=(less,)),)
        if isinstance(event, WorkloadCreated) and event.workload.key == reserved.workload:
            return (
                WorkloadCreated(
                    cause=event.cause, workload=msgspec.structs.replace(event.workload, cannot_borrow=True)
                ),
            )
        return (event,)

    return altered(entries, change), seq


def rejected_for_ever(entries: list[Entry]) -> Damaged:
    """The growth was rejected, is to have another size, and stays switched off."""
    seq, made = first(entries, WorkloadCreated, 1)
    key = made.workload.key
    (pods,) = made.workload.pod_sets
    return followed(
        entries,
        made,
        WorkloadUpdated(cause=made.cause, workload=key, active=False),
        WorkloadUpdated(cause=made.cause, workload=key, pod_sets=(msgspec.structs.replace(pods, count=6),)),
    ), seq


def granted_no_more(entries: list[Entry]) -> Damaged:
    """Five pods are asked for, quota was reserved for the two that run."""
    seq, _ = first(entries, Admitted, 1)
    _, reserved = first(entries, QuotaReserved, 1)
    (pods,) = reserved.pod_sets
    less = msgspec.structs.replace(pods, count=2, usage={"cpu": 2000})
    changed = msgspec.structs.replace(reserved, pod_sets=(less,))
    return replaced(entries, reserved, changed), seq


def approved() -> list[Entry]:
    """A job waits for its checks with quota; then it is to have another priority."""
    world = checked_cell("gpu")
    for each in CLASSES:
        world.apply(each)
    world.submit("a", priority_class="low").settle()
    world.say("a", "gpu", "Pending", message="soon").settle()
    world.submit("a", priority_class="high").settle()
    return world.log


def made_anew_for_a_label(entries: list[Entry]) -> Damaged:
    """The workload is exchanged, and with it its reservation and what checks have said."""
    _, made = first(entries, WorkloadCreated)
    seq, updated = first(entries, WorkloadUpdated)
    other = msgspec.structs.replace(made.workload, name="other", uid="u-2", priority=100)
    exchange = (
        WorkloadCreated(cause=updated.cause, workload=other),
        WorkloadDeleted(cause=updated.cause, workload=updated.workload),
    )
    return replaced(entries, updated, *exchange), seq


def grown_back() -> list[Entry]:
    """A waiting job gets smaller, and as large as it was, before it gets quota."""
    world = Cell()
    world.queue("left", 3)
    world.submit("hold", "left", 3, elastic=False).submit("a", "left", 3, elastic=False).settle()
    for size in (2, 3):
        world.scale("a", size).settle()
    world.report("hold", "JobFinished", success=True).settle()
    return world.log


def made_anew_for_a_size(entries: list[Entry]) -> Damaged:
    """As if the quota were for the job as it was."""
    _, made = first(entries, WorkloadCreated, 1)
    seq, resumed = first(entries, JobResumed, 1)
    other = msgspec.structs.replace(made.workload, name="other", uid="u-2")
    exchange = (
        WorkloadCreated(cause=resumed.cause, workload=other),
        WorkloadDeleted(cause=resumed.cause, workload=resumed.workload),
    )
    return replaced(entries, resumed, *exchange), seq


def resized_while_it_stops() -> list[Entry]:
    """A job is preempted, and gets smaller before its pods have stopped."""
    world = Cell()
    world.queue("left", 3, preemption=LOWER)
    world.submit("a", "left", 3).settle()
    world.submit("b", "left", 3, priority=9).settle(executor=False)
    world.scale("a", 2).settle()
    return world.log


def made_anew_as_it_stops(entries: list[Entry]) -> Damaged:
    """The new size is that of a workload without a history."""
    _, made = first(entries, WorkloadCreated)
    seq, stopped = first(entries, WorkloadStopped)
    other = msgspec.structs.replace(made.workload, name="other", uid="u-2")
    exchange = (
        WorkloadCreated(cause=stopped.cause, workload=other),
        WorkloadDeleted(cause=stopped.cause, workload=stopped.workload),
    )
    return followed(entries, stopped, *exchange), seq


def limited() -> list[Entry]:
    """Of a job with three completions, which runs two pods, three are to run."""
    world = Cell()
    world.queue("left", 8)
    world.submit("a", "left", 2, completions=3).settle()
    world.scale("a", 3).settle()
    return world.log


def more_than_must_complete(entries: list[Entry]) -> Damaged:
    seq, made = first(entries, WorkloadCreated, 1)
    (pods,) = made.workload.pod_sets
    record = msgspec.structs.replace(made.workload, pod_sets=(msgspec.structs.replace(pods, count=5),))
    other = msgspec.structs.replace(made, workload=record)
    return replaced(entries, made, other), seq


def reclassified() -> list[Entry]:
    """A class has another value by the time that its job is edited."""
    world = cell(cluster_queue({"default": 4}, {}), *CLASSES)
    world.submit("a", priority_class="low").settle_all()
    world.apply({**CLASSES[0], "value": 50})
    world.submit("a", priority_class="low", backoffLimit=3).settle_all()
    return world.log


def another_value_by_an_edit(entries: list[Entry]) -> Damaged:
    return edited(entries, WorkloadUpdated, priority=50)


def promised() -> list[Entry]:
    """A job is to preempt another once its check allows it; that one ends by itself."""
    world = checked_cell("gpu", quota=2, preemption=LOWER)
    world.add_check("gpu", preemptionPolicy="AfterCheckPassedOrOnDemand")
    for each in CLASSES:
        world.apply(each)
    world.submit("a", cpu=2, priority_class="low").settle()
    world.say("a", "gpu", "Ready").settle()
    world.submit("b", cpu=2, priority_class="high").settle()
    world.report("a", "JobFinished", success=True).settle()
    world.run_until(60)
    world.submit("c", cpu=2, priority_class="low").settle()
    world.say("b", "gpu", "Ready").settle()
    return world.log


def nobody_to_preempt(entries: list[Entry]) -> Damaged:
    return lacking(entries, PendingPreemptionsIssued)


def passed() -> list[Entry]:
    """While a preemptor waits for its victim, others come that would like to have that room."""
    world = cell(cluster_queue({"default": 4}, {}, preemption=LOWER), *CLASSES)
    world.submit("a", count=3, priority_class="low").settle_all()
    for name, count in (("b", 4), ("c", 3), ("d", 1), ("e", 1)):
        world.submit(name, count=count, priority_class="high" if name == "b" else "low").settle()
    return world.log


def promised_to_another(entries: list[Entry]) -> Damaged:
    """One of them waits for the same victim, with a reservation."""
    _, other = first(entries, QuotaReserved)
    seq, parked = first(entries, WorkloadsParked)
    said = msgspec.structs.replace(
        other,
        workload=parked.workloads[0],
        preemptions_pending=True,
        pending_victims=[other.workload],
    )
    return replaced(entries, parked, said), seq


def partly_done() -> list[Entry]:
    """Of five completions three are done when four pods are to run: quota for two is enough."""
    world = Cell()
    world.queue("left", 8)
    world.submit("a", "left", 1, completions=5).settle()
    world.do("a", 5, 3).settle()
    world.scale("a", 4).settle()
    return world.log


def all_are_needed(entries: list[Entry]) -> Damaged:
    """Nobody says that two of the four can never run."""
    seq, _ = first(entries, QuotaReserved, 1)
    _, said = first(entries, ReclaimablePodsUpdated)
    return without(entries, said), seq


def deleted() -> list[Entry]:
    """A job whose growth waits is deleted; another one ends before its pods have stopped."""
    world = Cell()
    world.queue("left", 4)
    world.submit("a", "left", 2)
    world.submit("b", "left", 2).settle()
    world.scale("a", 4).settle()
    world.message("a", "JobDeleted", {}).settle(executor=False)
    world.message("b", "JobFinished", {"attempt": 1}).settle()
    return world.log


def grows_though_deleted(entries: list[Entry]) -> Damaged:
    """The growth is not taken back, and gets what has become free."""
    _, taken_back = first(entries, WorkloadUpdated)
    seq, withdrawn = first(entries, WorkloadSliceWithdrawn)
    _, had = first(entries, QuotaReserved)
    pods = [msgspec.structs.replace(of, count=4, usage={"cpu": 4000}) for of in had.pod_sets]
    reserved = msgspec.structs.replace(had, workload=withdrawn.workload, pod_sets=pods)
    return replaced(without(entries, taken_back), withdrawn, reserved), seq


def ranged() -> list[Entry]:
    """A job that says nothing of cpu runs through a variant with the default; its executor gives it up."""
    world = cell(cluster_queue({"res": 4, "od": 4}))
    item = {"type": "Container", "defaultRequest": {"cpu": 1}}
    metadata = {"name": "limits", "namespace": "default"}
    world.apply({"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": [item]}})
    bare = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}
    world.submit("a", template=bare).settle_all()
    world.report("a", "JobStopped").settle_all()
    return world.log


def started_with_former_requests(entries: list[Entry]) -> Damaged:
    """It gets quota for half of what it asks for by then, and begins."""
    _, admitted = first(entries, ParentAdmitted, 1)
    pods = [msgspec.structs.replace(each, usage={"cpu": 500}) for each in admitted.pod_sets]
    seq, _ = first(entries, JobResumed, 1)
    return replaced(entries, admitted, msgspec.structs.replace(admitted, pod_sets=pods)), seq


LATE_DECISIONS = (
    variant_not_made,
    gate_left_open,
    second_target_kept,
    left_waiting,
    nobody_to_preempt,
    promised_to_another,
)

BROKEN_DECISIONS: list[tuple[str, Callable[[], list[Entry]], Callable[[list[Entry]], Damaged]]] = [
    ("wanted-variants", race, variant_not_made),
    ("stopped-for-cause", race, stopped_for_nothing_said),
    ("open-gate", race, gate_left_open),
    ("turns", race, out_of_turn),
    ("one-target", moving, second_target_kept),
    ("needed-victims", plain, one_victim_more),
    ("idle-quota", quiet, left_waiting),
    ("constraints-keep-pods", plain, fewer_for_a_constraint),
    ("asked-again", growing, rejected_for_ever),
    ("growth", growing, granted_no_more),
    ("completions", limited, more_than_must_complete),
    ("useless-growth", partly_done, all_are_needed),
    ("useless-growth", deleted, grows_though_deleted),
    ("reservation-kept", approved, made_anew_for_a_label),
    ("reservation-kept", grown_back, made_anew_for_a_size),
    ("workload-kept", resized_while_it_stops, made_anew_as_it_stops),
    ("limits-of-then", ranged, started_with_former_requests),
    ("needed-promise", promised, nobody_to_preempt),
    ("quota", passed, promised_to_another),
    ("priority-kept", reclassified, another_value_by_an_edit),
]
