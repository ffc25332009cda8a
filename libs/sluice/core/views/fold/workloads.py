"""Fold of what happens to workloads."""

from collections.abc import Callable
from typing import Any

import msgspec

from sluice.core.slices.responses import SLICE_REPLACED
from sluice.core.views.equivalence import class_key
from sluice.core.views.holding import (
    charge_beside,
    charged,
    count_locally,
    give_back,
    recharge,
    recharge_family,
    replace_victim,
    set_victims,
    stands_alone,
)
from sluice.core.views.present.slices import is_slice
from sluice.core.views.records import JobView, PendingReason, WorkloadView
from sluice.core.views.state import State
from sluice.core.workload import reasons as ev
from sluice.core.workload.admission_checks import reset_on_eviction
from sluice.core.workload.charges import add, counts, shrunk
from sluice.core.workload.deactivation import is_overtaken
from sluice.core.workload.pending_reasons import ADMISSION_GATED, WAITING_FOR_PREEMPTED
from sluice.events import scheduler, slices, variants
from sluice.events.base import Event, Micros, WorkloadKey

from .common import condition, dequeue, enqueue, goes_on, got_quota_again, remember, set_active, stops, told
from .jobs import tell_why_stopped
from .waits import ran

REPLACED = "WorkloadSliceReplaced"
_NOT = object()
_CHANGEABLE = (
    *("queue_name", "priority", "priority_class", "active", "pod_sets", "labels", "annotations"),
    "misconfigured",
)

_VERDICTS_LIMIT = 1000
"""Verdicts kept per cluster queue beyond what its pending workloads can need."""


# Life of a workload


def _created(state: State, event: slices.WorkloadCreated, seq: int, at: Micros) -> None:
    record = event.workload
    key = record.key
    if record.parent is not None and state.live(record.parent) is None:
        return  # whoever made it did not know yet that its parent is over
    if key in state.workloads:
        remove(state, key)
    queue = state.local_queue(f"{record.namespace}/{record.queue_name}")
    created_at = record.created_at if record.parent is None else at
    workload = state.workloads[key] = WorkloadView(record, key, queue, created_at, active=record.active)
    remember(workload, event, seq, at)
    queue.users += 1
    if record.job is not None:
        job = state.jobs.get(record.job.key)
        if job is None:
            job = state.jobs[record.job.key] = JobView(record.job.key, record.job, changed_at=at)
        elif job.reference.uid != record.job.uid:
            # A new job under the name of one that is over and goes with the next event.
            job.reference, job.changed_at = record.job, at
            job.attempt, job.running, job.ran_us = 0, False, 0
            job.executor = job.reason = job.message = ""
        else:
            for before in job.workloads.values():
                if record.replaces is None and before.record.parent is None and before.finished_at is None:
                    tell_why_stopped(before, workload)
        job.workloads[key] = workload
    if is_slice(workload):
        state.slices[key] = None
    enqueue(workload)


def _updated(state: State, event: slices.WorkloadUpdated, seq: int, at: Micros) -> None:
    workload = state.workloads.get(event.workload)
    if workload is None:
        return
    if (event.active is None or workload.record.parent is None) and not _only_marks(workload, event):
        # Of a variant, the event that says why it was switched is remembered.
        remember(workload, event, seq, at)
    changes = {name: value for name in _CHANGEABLE if (value := getattr(event, name)) is not None}
    if event.maximum_execution_time_s is not None:
        changes["maximum_execution_time_s"] = event.maximum_execution_time_s
    dequeue(workload)
    workload.record = msgspec.structs.replace(workload.record, **changes)
    if is_slice(workload):
        state.slices[workload.key] = None
    else:
        state.slices.pop(workload.key, None)
    workload.class_key = None
    # Another spec, another verdict.
    workload.pending = None
    workload.generation += 1
    if event.queue_name is not None:
        left = workload.local_queue
        queue = state.local_queue(f"{workload.record.namespace}/{event.queue_name}")
        count_locally(workload, -1)
        is_running = left.running_parents.pop(workload.key, _NOT) is None
        workload.local_queue = queue
        count_locally(workload, 1)
        if is_running:
            queue.running_parents[workload.key] = None
        queue.users += 1
        left.users -= 1
        state.drop_if_unused(left)
    if event.active is not None:
        workload.switched_by = event.cause
    if event.active is not None and (event.active or event.message or workload.active):
        workload.turn = 0
        if event.active and not workload.active and workload.record.parent is None:
            workload.requeue_count = workload.past_execution_us = 0
        set_active(workload, event.active, at, event.message)
    if event.pod_sets is not None and workload.assignment is not None:
        workload.assignment = shrunk(workload.assignment, counts(event.pod_sets))
        recharge(state, workload)
    enqueue(workload)


def _only_marks(workload: WorkloadView, event: slices.WorkloadUpdated) -> bool:
    """Does it say nothing but how limit ranges judge what has quota? That means nothing until it has none."""
    return workload.assignment is not None and event.changes.keys() == {"misconfigured"}


def _reserved(state: State, event: scheduler.QuotaReserved, seq: int, at: Micros) -> None:
    workload = told(state, event, seq, at)
    if workload is None:
        return
    dequeue(workload)
    give_back(state, workload)
    queue = state.cluster_queue(event.cluster_queue)
    workload.cluster_queue = queue
    workload.assignment = event.pod_sets
    workload.reserved_at, workload.admitted_at = at, None
    workload.reserved_generation = workload.generation
    workload.preemptions_pending = event.preemptions_pending
    if event.preemptions_pending:
        set_victims(state, workload, event.pending_victims)
    replaced = state.workloads.get(workload.record.replaces) if workload.record.replaces else None
    if replaced is not None and replaced.holds_quota and stands_alone(replaced, workload):
        workload.beside = replaced
    else:
        workload.beside = None
    workload.charge = charge_beside(state, workload)
    workload.evicted = False
    workload.pending = None
    workload.turn = 0
    workload.requeue_at = workload.last_evicted_at = None
    workload.last_evicted_reason = ""
    queue.workloads[workload.key] = None
    if event.preemptions_pending:
        queue.preemptors[workload.key] = None
    add(queue.reservation, workload.charge)
    recharge_family(state, workload, queue)
    workload.local_queue.reserving += 1
    if workload.conditions:
        got_quota_again(workload, at)


def _admitted(state: State, event: scheduler.Admitted, seq: int, at: Micros) -> None:
    workload = state.live(event.workload)
    if workload is None or (queue := charged(workload)) is None or workload.admitted_at is not None:
        return
    remember(workload, event, seq, at)
    workload.admitted_at = workload.started_at = at
    if workload.record.parent is None:
        # It may have run through variants before, which are no more.
        workload.admitted_message = ""
        if moved := goes_on(workload, workload.assignment, at):
            workload.migrations = (*workload.migrations[:-1], moved)
    queue.admitted += 1
    add(queue.usage, workload.charge)
    recharge_family(state, workload, queue)
    workload.local_queue.admitted += 1


def _evicted(state: State, event: scheduler.Evicted, seq: int, at: Micros) -> None:
    workload = told(state, event, seq, at)
    if workload is None:
        return
    if workload.admitted_at is not None and (workload.migrations or event.reason == ev.CONCURRENT_ADMISSION):
        stops(workload, event.reason, seq, at)
    workload.evicted = True
    reason = ev.condition_reason(event.reason, event.underlying_cause)
    condition(workload, "Evicted", True, reason, event.message, at)
    times = (event.reason, event.underlying_cause)
    workload.evictions = {**workload.evictions, times: workload.evictions.get(times, 0) + 1}
    if workload.checks:
        states = reset_on_eviction(workload.checks.values(), at)
        workload.checks = {state.name: state for state in states}
    if "BlockedOnPreemptionGates" in workload.conditions:
        condition(workload, "BlockedOnPreemptionGates", False, "Evicted", event.message, at)
    workload.last_evicted_at, workload.last_evicted_reason = at, event.reason


def _preempted(state: State, event: scheduler.Preempted, seq: int, at: Micros) -> None:
    workload = told(state, event, seq, at)
    if workload is not None:
        condition(workload, "Preempted", True, event.rule, event.message, at)
    preemptor = state.live(event.preemptor)
    if preemptor is not None and preemptor is not workload:
        remember(preemptor, event, seq, at)


def _released(state: State, event: scheduler.QuotaReleased, seq: int, at: Micros) -> None:
    workload = state.live(event.workload)
    if workload is None or charged(workload) is None:
        return
    remember(workload, event, seq, at)
    reclaimable = workload.reclaimable if workload.admitted_at is None else {}
    if workload.admitted_at is not None:
        ran(state, workload, at)
        workload.unadmitted_at = at
    give_back(state, workload)
    workload.cluster_queue = workload.assignment = workload.reserved_at = workload.admitted_at = None
    workload.charge = {}
    workload.beside = None
    workload.reclaimable = reclaimable
    workload.class_key = None
    workload.released_at = at
    if "PodsReady" in workload.conditions:
        condition(workload, "PodsReady", False, ev.WAIT_FOR_START, ev.WAIT_FOR_START_MESSAGE, at)
    evicted = workload.conditions.get("Evicted")
    if workload.evicted and evicted is not None:
        workload.evicted = False
        condition(workload, "Requeued", False, evicted.reason, evicted.message, at)
    enqueue(workload)


def _requeued(state: State, event: scheduler.Requeued, seq: int, at: Micros) -> None:
    workload = told(state, event, seq, at)
    if workload is None:
        return
    condition(workload, "Requeued", True, event.reason, event.message, at)
    workload.requeue_at = None
    if event.reason == ev.REACTIVATED:
        workload.requeue_count = workload.past_execution_us = 0


def _backoff(state: State, event: scheduler.RequeueBackoffStarted, seq: int, at: Micros) -> None:
    workload = told(state, event, seq, at)
    if workload is not None:
        workload.requeue_count = event.count
        workload.requeue_at = event.requeue_at
        evicted, queued = workload.conditions.get("Evicted"), workload.conditions.get("Requeued")
        if workload.assignment is None and evicted is not None and queued is not None and queued.status:
            # Back in its queue already, when another of its checks asked for a longer wait (AC3).
            condition(workload, "Requeued", False, evicted.reason, evicted.message, at)


def deactivated(
    state: State, event: scheduler.WorkloadDeactivated | variants.ParentDeactivated, seq: int, at: Micros
) -> None:
    workload = told(state, event, seq, at)
    if workload is None or is_overtaken(event, workload.switched_by):
        return
    parent = state.workloads.get(workload.record.parent) if workload.record.parent is not None else None
    if parent is not None:
        # Nobody else says so at the job: the controller of its variants finds this one switched off.
        remember(parent, event, seq, at)
    dequeue(workload)
    set_active(workload, False, at, event.message)
    condition(workload, "DeactivationTarget", True, event.reason, event.message, at)


def _pods_ready(state: State, event: slices.WorkloadPodsReady, seq: int, at: Micros) -> None:
    workload = told(state, event, seq, at)
    if workload is None:
        return
    before = workload.conditions.get("PodsReady")
    if event.ready:
        recovered = before is not None and before.reason == ev.WAIT_FOR_RECOVERY
        reason = "Recovered" if recovered else "Started"
        message = "All pods reached readiness and the workload is running"
    elif before is not None and (before.status or before.reason == ev.WAIT_FOR_RECOVERY):
        reason, message = ev.WAIT_FOR_RECOVERY, "At least one pod has failed, waiting for recovery"
    else:
        reason, message = ev.WAIT_FOR_START, ev.WAIT_FOR_START_MESSAGE
    condition(workload, "PodsReady", event.ready, reason, message, at)
    if event.ready and workload.migrations and workload.migrations[-1].ready_at is None:
        last = workload.migrations[-1]._replace(ready_at=at)
        workload.migrations = (*workload.migrations[:-1], last)


def _finished(state: State, event: slices.WorkloadFinished, seq: int, at: Micros) -> None:
    workload = state.workloads.get(event.workload)
    if workload is None or workload.finished_at is not None:
        return
    remember(workload, event, seq, at)
    dequeue(workload)
    give_back(state, workload)
    workload.finished_at = at
    last = workload.migrations[-1] if workload.migrations else None
    if last is not None and last.admitted_at is None and last.is_move:
        workload.migrations = workload.migrations[:-1]  # it ended where it ran, before it had stopped to move
    condition(workload, "Finished", True, event.reason, event.message, at)
    if workload.record.job is not None:
        state.finished.ended(workload.record.job.key)
    if event.reason == SLICE_REPLACED:
        _take_place(state, workload, at)
    for key in workload.variants:
        # Its variants finish with it (CA7).
        _finished(state, msgspec.structs.replace(event, workload=key), seq, at)


def _take_place(state: State, old: WorkloadView, at: Micros) -> None:
    """The job has stopped as a whole: what held the old slice back holds the newest one back (WS6)."""
    job = old.record.job
    found = state.jobs.get(job.key) if job is not None else None
    for new in found.workloads.values() if found is not None else ():
        if new.record.replaces != old.key or new.assignment is not None or new.finished_at is not None:
            continue
        new.past_execution_us, new.requeue_count = old.past_execution_us, old.requeue_count
        if (old.requeue_at or 0) >= (new.requeue_at or 0):
            new.requeue_at = old.requeue_at
            if old.held_for:  # else it was back in its queue already, and the slice that follows comes to it
                new.last_evicted_at, new.last_evicted_reason = old.last_evicted_at, old.last_evicted_reason
            kept = ("Evicted", "Requeued", "DeactivationTarget")
            new.conditions = {**new.conditions, **{k: old.conditions[k] for k in kept if k in old.conditions}}
        if not old.active:
            dequeue(new)
            set_active(new, False, at, old.inactive_because)


def _slice_replaced(state: State, event: scheduler.WorkloadSliceReplaced, seq: int, at: Micros) -> None:
    """The new slice takes over quota, execution time and attempts of the old one, which is Finished (WS4)."""
    old, new = state.workloads.get(event.workload), state.workloads.get(event.by)
    if old is None or old.finished_at is not None:
        return
    remember(old, event, seq, at)
    dequeue(old)
    give_back(state, old)
    old.finished_at = at
    condition(old, "Finished", True, REPLACED, event.message, at)
    if old.record.job is not None:
        state.finished.ended(old.record.job.key)
    ran(state, old, at)
    if new is None:
        return
    new.past_execution_us = old.past_execution_us
    new.requeue_count = old.requeue_count
    new.started_at = old.started_at
    new.beside = None
    recharge(state, new)
    replace_victim(state, old, new)


def _deleted(state: State, event: slices.WorkloadDeleted, _seq: int, _at: Micros) -> None:
    remove(state, event.workload)


def remove(state: State, key: WorkloadKey) -> None:
    """Forget a workload, and its variants with it."""
    workload = state.workloads.pop(key, None)
    if workload is None:
        return
    for variant in tuple(workload.variants):
        remove(state, variant)
    parent = state.workloads.get(workload.record.parent) if workload.record.parent is not None else None
    if parent is not None:
        parent.variants = {name: v for name, v in parent.variants.items() if name != key}
    dequeue(workload)
    state.parents.pop(key, None)
    state.slices.pop(key, None)
    give_back(state, workload)
    workload.local_queue.users -= 1
    state.drop_if_unused(workload.local_queue)
    job = state.jobs.get(workload.record.job.key) if workload.record.job is not None else None
    if job is not None:
        job.workloads.pop(key, None)
        if not job.workloads:
            del state.jobs[job.key]
        else:
            state.finished.ended(job.key)


def _pending(state: State, event: scheduler.PendingReasonChanged, seq: int, at: Micros) -> None:
    verdict = PendingReason(event.reason, event.message, seq, at)
    for key in event.workloads:
        workload = state.workloads.get(key)
        if workload is not None:
            workload.pending = verdict
            remember(workload, event, seq, at)


def _parked(state: State, event: scheduler.WorkloadsParked, seq: int, at: Micros) -> None:
    verdict = PendingReason(event.reason, event.message, seq, at, aside=event.aside)
    for key in event.workloads:
        workload = state.workloads.get(key)
        if workload is None:
            continue
        workload.pending = verdict
        if workload.turn and event.reason not in (ADMISSION_GATED, WAITING_FOR_PREEMPTED):
            workload.turn = 0  # it cannot preempt after all
        remember(workload, event, seq, at)
        queue = workload.local_queue.cluster_queue
        if queue is not None:
            verdicts = queue.verdicts
            if len(verdicts) > _VERDICTS_LIMIT + 2 * queue.pending:
                verdicts.clear()
            verdicts[class_key(state, workload)] = verdict


def _preemption_issued(state: State, event: scheduler.PreemptionIssued, seq: int, at: Micros) -> None:
    workload = told(state, event, seq, at)
    if workload is not None:
        workload.pending = PendingReason(event.reason, event.message, seq, at, preempts=True)


def _preemptions_begun(state: State, event: scheduler.PendingPreemptionsIssued, seq: int, at: Micros) -> None:
    workload = told(state, event, seq, at)
    if workload is not None:
        workload.preemptions_pending = False
        set_victims(state, workload, event.victims)


def _blocked(state: State, event: scheduler.BlockedOnPreemptionGates, seq: int, at: Micros) -> None:
    workload = told(state, event, seq, at)
    if workload is not None:
        workload.pending = PendingReason(ADMISSION_GATED, event.message, seq, at)
        workload.turn = seq
        condition(workload, "BlockedOnPreemptionGates", True, "PreemptionGated", event.message, at)


def _reclaimable(state: State, event: slices.ReclaimablePodsUpdated, seq: int, at: Micros) -> None:
    workload = told(state, event, seq, at)
    if workload is not None:
        workload.reclaimable = dict(event.pods)
        workload.class_key = None
        recharge(state, workload)


WORKLOAD_FOLDS: dict[type[Event], Callable[[State, Any, int, Micros], object]] = {
    scheduler.Admitted: _admitted,
    scheduler.BlockedOnPreemptionGates: _blocked,
    scheduler.Evicted: _evicted,
    scheduler.PendingPreemptionsIssued: _preemptions_begun,
    scheduler.PendingReasonChanged: _pending,
    scheduler.Preempted: _preempted,
    scheduler.PreemptionIssued: _preemption_issued,
    scheduler.QuotaReleased: _released,
    scheduler.QuotaReserved: _reserved,
    slices.ReclaimablePodsUpdated: _reclaimable,
    scheduler.RequeueBackoffStarted: _backoff,
    scheduler.Requeued: _requeued,
    slices.WorkloadCreated: _created,
    scheduler.WorkloadDeactivated: deactivated,
    slices.WorkloadDeleted: _deleted,
    slices.WorkloadFinished: _finished,
    scheduler.WorkloadSliceReplaced: _slice_replaced,
    slices.WorkloadPodsReady: _pods_ready,
    slices.WorkloadStopped: told,
    slices.WorkloadUpdated: _updated,
    scheduler.WorkloadsParked: _parked,
}
