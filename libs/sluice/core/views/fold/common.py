"""Steps that folds of several writers share: conditions, history, the place among those that wait."""

from collections.abc import Sequence
from typing import Any

from sluice.core.views.records import HISTORY_LIMIT, Migration, ShownCondition, Transition, WorkloadView
from sluice.core.views.state import State
from sluice.core.workload import reasons as ev
from sluice.events.base import Event, Micros, PodSetAssignment

MIGRATIONS_LIMIT = 50
"""Migrations kept per workload."""


def condition(workload: WorkloadView, kind: str, status: bool, reason: str, message: str, at: Micros) -> None:
    before = workload.conditions.get(kind)
    since = before.since if before is not None and before.status == status else at
    recorded = ShownCondition(status, reason, message, since, workload.generation)
    workload.conditions = {**workload.conditions, kind: recorded}


def got_quota_again(workload: WorkloadView, at: Micros) -> None:
    """It is evicted, or preempted, no more."""
    for kind in ("Evicted", "Preempted"):
        before = workload.conditions.get(kind)
        if before is not None and before.status:
            condition(workload, kind, False, "QuotaReserved", f"Previously: {before.message}", at)


def remember(workload: WorkloadView, event: Event, seq: int, at: Micros) -> None:
    history = workload.history
    history.append(Transition(seq, at, event))
    workload.remembered += 1
    if len(history) > HISTORY_LIMIT:
        # The first entry, its creation, stays.
        del history[1]


def told(state: State, event: Any, seq: int, at: Micros) -> WorkloadView | None:
    """Note the event in its workload's history, and return that; None of one that is over."""
    workload = state.live(event.workload)
    if workload is not None:
        remember(workload, event, seq, at)
    return workload


def enqueue(workload: WorkloadView) -> None:
    """Count the workload as pending if it is: active, without quota, and no concurrent-admission parent."""
    if (
        workload.assignment is None
        and workload.active
        and workload.finished_at is None
        and not workload.parent
    ):
        queue, parent = workload.local_queue, workload.record.parent
        if parent is not None and workload.key not in queue.pending:
            queue.families[parent] = queue.families.get(parent, 0) + 1
        queue.pending[workload.key] = None
        queue.version += 1


def dequeue(workload: WorkloadView) -> None:
    queue, parent = workload.local_queue, workload.record.parent
    if workload.key not in queue.pending:
        return
    del queue.pending[workload.key]
    queue.version += 1
    if parent is not None:
        queue.families[parent] -= 1
        if not queue.families[parent]:
            del queue.families[parent]


def set_active(workload: WorkloadView, active: bool, at: Micros, message: str = "") -> None:
    """Switch the workload on or off, for the reason that *message* says.

    Who has no quota need not stop, so the scheduler writes no Evicted for it: that is True while it is off,
    and no longer. One that is True of an eviction stays so until there is quota again, as in Kueue.
    """
    workload.active, workload.inactive_because = active, "" if active else message
    evicted, queued = workload.conditions.get("Evicted"), workload.conditions.get("Requeued")
    is_evicted = evicted is not None and evicted.status
    if active:
        kept = {k: c for k, c in workload.conditions.items() if k != "DeactivationTarget"}
        workload.conditions = kept
        had_to_stop = workload.evicted or (queued is not None and queued.reason == ev.DEACTIVATED)
        if evicted is not None and is_evicted and evicted.reason == ev.DEACTIVATED and not had_to_stop:
            condition(workload, "Evicted", False, ev.REACTIVATED, f"Previously: {evicted.message}", at)
    elif not workload.holds_quota and workload.finished_at is None and not is_evicted:
        condition(workload, "Evicted", True, ev.DEACTIVATED, ev.deactivation_message(message), at)


# Stops of jobs that run through variants, or did


def flavors_of(assignment: Sequence[PodSetAssignment] | None) -> str:
    """Return the flavors of an assignment, in order of first use: `a,b`."""
    found = dict.fromkeys(flavor for assigned in assignment or () for flavor in assigned.flavors.values())
    return ",".join(found)


def pods_of(assignment: Sequence[PodSetAssignment] | None) -> int:
    return sum(assigned.count for assigned in assignment or ())


def stops(workload: WorkloadView, reason: str, seq: int, at: Micros) -> None:
    """Note that the job, which was admitted, has to stop."""
    pods = pods_of(workload.assignment)
    stop = Migration(seq, at, reason, flavors_of(workload.assignment), more_pods=-pods)
    workload.migrations = (*workload.migrations[-MIGRATIONS_LIMIT + 1 :], stop)


def goes_on(
    workload: WorkloadView, assignment: Sequence[PodSetAssignment] | None, at: Micros, variant: str = ""
) -> Migration | None:
    """Return the latest stop as it is with this admission; None if the job went on after it before, or never
    stopped.
    """
    last = workload.migrations[-1] if workload.migrations else None
    if last is None or last.admitted_at is not None:
        return None
    more = last.more_pods + pods_of(assignment)
    return last._replace(target=flavors_of(assignment), variant=variant, admitted_at=at, more_pods=more)
