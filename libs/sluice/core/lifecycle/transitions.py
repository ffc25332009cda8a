"""Transitions that are due for one workload after its quota was reserved (G8, G9, SC7, AC3-AC5).

`transitions` is a pure function of the workload, its surroundings and the time; `due` decides
when to ask it. All events of one call belong to the same step.
"""

from sluice.core.queueing.overcommit import still_fits
from sluice.core.timing import MICROS_PER_S, backoff_s
from sluice.core.workload import reasons as ev
from sluice.core.workload.admission_checks import REJECTED, RETRY
from sluice.core.workload.pending_reasons import (
    ADMISSION_GATED,
    GATED,
    MISCONFIGURED,
    NO_LONGER_ENOUGH,
    PENDING_EVALUATION,
    SUSPENDED,
    WAITING_FOR_QUOTA,
)
from sluice.core.world.activity import admits_what_is_ready
from sluice.core.world.inadmissible import drains, stopped, why_reservation_ends
from sluice.core.world.model import World
from sluice.core.world.pending_preemptions import PENDING
from sluice.core.world.variants import (
    Standing,
    awaits_variants,
    has_passed,
    is_gated,
    migration_message,
    must_race,
    past_execution_us,
    standing,
)
from sluice.core.world.workload import Workload
from sluice.core.world.workload_slices import grants_more, must_wait, replaced_slice, replacement, withdrawal
from sluice.events.base import Event, Micros
from sluice.events.scheduler import (
    Admitted,
    Evicted,
    PendingReasonChanged,
    QuotaReleased,
    RequeueBackoffStarted,
    Requeued,
    WorkloadDeactivated,
)

FREE_LOST_RESERVATIONS = 3
"""So often a reservation may be preempted before its workload is admitted and be queued again at once."""

LONGEST_WAIT_FOR_RESERVATION_S = 60

_BACKING_OFF = (ev.PODS_READY_TIMEOUT, ev.ADMISSION_CHECK, ev.PREEMPTED)

_REQUEUED = {
    ev.DEACTIVATED: ev.REACTIVATED,
    ev.CLUSTER_QUEUE_STOPPED: ev.CLUSTER_QUEUE_RESTARTED,
    ev.LOCAL_QUEUE_STOPPED: ev.LOCAL_QUEUE_RESTARTED,
}
"""Why it was held back -> why it is queued again."""


def transitions(world: World, workload: Workload, at: Micros, cause: int) -> list[Event]:
    """Return what happens to *workload* at *at*; [] if nothing.

    0. A slice that is not needed any more ends; one that was switched off as its predecessor says so.
    1. Without quota: requeue it when what it was held for is over.
    2. Its pods have stopped: give its quota back, after an eviction if nobody had asked for it. What is to
       race from now on keeps it until its variants are there.
    3. Evicted already: wait for the stop (G9), unless it was never admitted.
    4. Else evict, deactivate, give up the reservation, or admit, whichever is due first.
    """
    if workload.finished:
        return []
    if workload.record.replaces is not None:
        withdrawn = withdrawal(world, workload, cause)
        if withdrawn:
            return withdrawn
    if workload.active and workload.deactivated_for:
        return _deactivate(workload, workload.deactivated_for, workload.deactivated_message, cause)
    if workload.checks == RETRY and (workload.assignment is None or workload.evicted_at is not None):
        late = _late_retry(workload, cause)
        if late:
            return late
    if workload.assignment is None:
        return _requeue(world, workload, workload.held_for, workload.evicted_message, at, cause)
    if workload.stopped:
        return _after_stop(world, workload, at, cause)
    if workload.evicted_at is not None:
        if workload.admitted_at is not None or awaits_variants(world, workload):
            return []
        if workload.lost_reservations > FREE_LOST_RESERVATIONS:
            return _hold_back(workload, at, cause)
        return _release(world, workload, workload.held_for, workload.evicted_message, at, cause)
    return _reserved(world, workload, at, cause)


def deadline_of(world: World, workload: Workload) -> Micros | None:
    """Return when time alone will make `transitions` return something, None if never."""
    if workload.finished:
        return None
    if workload.assignment is None:
        waits = workload.held_for and workload.active and _may_queue(world, workload, workload.held_for)
        return workload.requeue_at if waits else None
    if workload.admitted_at is None or workload.evicted_at is not None or workload.stopped:
        return None
    ready_by, _ = pods_ready_deadline(world, workload)
    end_by = execution_deadline(world, workload)
    if ready_by is None or end_by is None:
        return end_by if ready_by is None else ready_by
    return min(ready_by, end_by)


def pods_ready_deadline(world: World, workload: Workload) -> tuple[Micros | None, str]:
    """Return by when the pods of an admitted workload must be ready, and what it waits for (SC7)."""
    settings = world.config.wait_for_pods_ready
    admitted_at = workload.admitted_at
    if not settings.enable or admitted_at is None or workload.pods_ready_at is not None:
        return None, ""
    if workload.pods_lost_at is None:
        return admitted_at + settings.timeout_seconds * MICROS_PER_S, ev.WAIT_FOR_START
    if settings.recovery_timeout_seconds is None:
        return None, ""
    return workload.pods_lost_at + settings.recovery_timeout_seconds * MICROS_PER_S, ev.WAIT_FOR_RECOVERY


def execution_deadline(world: World, workload: Workload) -> Micros | None:
    """Return when an admitted workload's maximum execution time is used up, earlier attempts counted."""
    limit_s = workload.record.maximum_execution_time_s
    if limit_s is None or workload.admitted_at is None:
        return None
    return workload.admitted_at + limit_s * MICROS_PER_S - past_execution_us(world, workload)


# With quota


def _reserved(world: World, workload: Workload, at: Micros, cause: int) -> list[Event]:
    if not workload.active:
        message = ev.deactivation_message(workload.deactivated_message)
        cause_of_it = workload.deactivated_for
        return _evict(world, workload, ev.DEACTIVATED, message, at, cause, underlying_cause=cause_of_it)
    if workload.checks == REJECTED:
        return _deactivate(workload, ev.ADMISSION_CHECK, workload.checks_message, cause)
    if workload.checks == RETRY:
        return _retry(world, workload, at, cause)
    if workload.admitted_at is None:
        return _waiting(world, workload, cause)
    drained = _why_drained(world, workload)
    if drained is not None:
        return _evict(world, workload, *drained, at, cause)
    ready_by, waits_for = pods_ready_deadline(world, workload)
    if ready_by is not None and ready_by <= at:
        return _not_ready(world, workload, waits_for, at, cause)
    end_by = execution_deadline(world, workload)
    if end_by is not None and end_by <= at:
        reason, message = ev.MAXIMUM_EXECUTION_TIME_EXCEEDED, ev.MAXIMUM_EXECUTION_TIME_MESSAGE
        return _deactivate(workload, reason, message, cause)
    return []


def _waiting(world: World, workload: Workload, cause: int) -> list[Event]:
    """Reserved, not admitted: admit when its checks are Ready (AC1), give up when its queue is gone.

    Pending preemptions come first; `cycle.pending_preemptions` sees to them.
    """
    ended = why_reservation_ends(world, workload)
    if ended is None:
        racing = must_race(world, workload)
        if racing is not None:
            message = ev.must_race_message(racing.name)
            return [
                Evicted(workload=workload.key, reason=ev.CONCURRENT_ADMISSION, message=message, cause=cause)
            ]
    if ended is None and workload.preemptions == PENDING and is_gated(workload):
        ended = (ADMISSION_GATED, GATED)  # its turn was over before it had preempted anybody (CA11)
    if ended is None and workload.record.parent is not None:
        ended = _why_overtaken(world, workload)
    if ended is None and workload.record.replaces is not None:
        ended = _why_not_replacing(world, workload)
    if ended is None and not workload.preemptions and has_passed(world, workload):
        ended = _why_not_admitted(world, workload)
        if ended is None:
            first = _take_over(world, workload, cause)
            if first is not None:
                return first
            return [Admitted(workload=workload.key, cause=cause), *replacement(world, workload, cause)]
    if ended is None:
        return []
    reason, message = ended
    return [
        QuotaReleased(workload=workload.key, cause=cause),
        PendingReasonChanged(workloads=(workload.key,), reason=reason, message=message, cause=cause),
    ]


def _why_not_replacing(world: World, workload: Workload) -> tuple[str, str] | None:
    """WS6: without the old slice, what was reserved is less than the job needs; or it adds nothing."""
    old = workload.record.replaces
    if workload.delta and (old not in world.workloads or must_wait(world, workload, workload.cluster_queue)):
        return (PENDING_EVALUATION, "The workload slice to be replaced has no quota any more")
    running = replaced_slice(world, workload)
    if running is not None and not grants_more(workload, running):
        # WS3: to replace it would give the job nothing, and use up what checks have approved.
        return (PENDING_EVALUATION, f"What was reserved is no more than {old} has")
    return None


def _why_overtaken(world: World, workload: Workload) -> tuple[str, str] | None:
    """CA10: while the job stops, nothing is kept for a variant that cannot be admitted once it has.

    Nor while it runs for one that would move it nowhere: that one looks for a better flavor again.
    """
    how, sibling, why = standing(world, workload)
    if how is Standing.MOVES_NOWHERE:
        return (WAITING_FOR_QUOTA, why)
    if how is not Standing.BARRED or sibling is None or sibling.evicted_at is None:
        return None
    return (PENDING_EVALUATION, why)


def _take_over(world: World, workload: Workload, cause: int) -> list[Event] | None:
    """CA10: a variant is admitted when its sibling has gone. None: no sibling is in its way."""
    how, sibling, _ = standing(world, workload)
    if sibling is None:
        return None
    if how is not Standing.MIGRATES:
        return []
    message = migration_message(workload)
    return [Evicted(workload=sibling.key, reason=ev.FLAVOR_MIGRATION, message=message, cause=cause)]


def _why_not_admitted(world: World, workload: Workload) -> tuple[str, str] | None:
    """AC7: what has changed, since quota was reserved, against admitting the workload."""
    queue = world.cluster_queues[workload.cluster_queue]
    if not admits_what_is_ready(world, queue):
        return (SUSPENDED, f"ClusterQueue {queue.name} is inactive")
    for flavor, resource in workload.usage:
        if flavor not in world.flavors:
            return (MISCONFIGURED, f"Flavor {flavor} doesn't exist")
        group = queue.group_of.get(resource)
        if group is None or flavor not in group.flavors:
            return (PENDING_EVALUATION, f"ClusterQueue {queue.name} has no flavor {flavor} any more")
    if not still_fits(world, workload):
        return (WAITING_FOR_QUOTA, NO_LONGER_ENOUGH)
    return None


def _why_drained(world: World, workload: Workload) -> tuple[str, str] | None:
    record = workload.record
    local = world.local_queues.get(f"{record.namespace}/{record.queue_name}")
    if local is not None and drains(local.stop_policy):
        return (ev.LOCAL_QUEUE_STOPPED, "The LocalQueue is stopped")
    queue = world.cluster_queues.get(workload.cluster_queue)
    if queue is None:
        # Ours: there is no finalizer that keeps the queue until its workloads have ended.
        return (ev.CLUSTER_QUEUE_STOPPED, f"ClusterQueue {workload.cluster_queue} is terminating or missing")
    if drains(queue.spec.stop_policy):
        return (ev.CLUSTER_QUEUE_STOPPED, "The ClusterQueue is stopped")
    racing = must_race(world, workload)
    if racing is not None:
        return (ev.CONCURRENT_ADMISSION, ev.must_race_message(racing.name))
    return None


def _retry(world: World, workload: Workload, at: Micros, cause: int) -> list[Event]:
    """AC3: evicted, and not queued again before the longest of the delays."""
    events: list[Event] = []
    requeue_at = workload.checks_requeue_at
    if requeue_at is not None and requeue_at > at:
        count = workload.requeue_count
        events.append(
            RequeueBackoffStarted(workload=workload.key, count=count, requeue_at=requeue_at, cause=cause)
        )
    else:
        requeue_at = None
    message = f"Evicted due to {workload.checks_message}"
    return events + _evict(world, workload, ev.ADMISSION_CHECK, message, at, cause, requeue_at=requeue_at)


def _not_ready(world: World, workload: Workload, waits_for: str, at: Micros, cause: int) -> list[Event]:
    """SC7: backoff after a PodsReady timeout, or the end of all attempts."""
    strategy = world.config.wait_for_pods_ready.requeuing_strategy
    count = workload.requeue_count + 1
    if strategy.backoff_limit_count is not None and count > strategy.backoff_limit_count:
        reason, message = ev.REQUEUING_LIMIT_EXCEEDED, ev.REQUEUING_LIMIT_MESSAGE
        return _deactivate(workload, reason, message, cause)
    wait_s = backoff_s(count, strategy.backoff_base_seconds, strategy.backoff_max_seconds)
    requeue_at = at + wait_s * MICROS_PER_S
    message = f"Exceeded the PodsReady timeout {workload.key}"
    return [
        RequeueBackoffStarted(workload=workload.key, count=count, requeue_at=requeue_at, cause=cause),
        *_evict(
            world,
            workload,
            ev.PODS_READY_TIMEOUT,
            message,
            at,
            cause,
            underlying_cause=waits_for,
            requeue_at=requeue_at,
        ),
    ]


def _deactivate(workload: Workload, reason: str, message: str, cause: int) -> list[Event]:
    """The eviction follows from it, as from a user's deactivation."""
    return [
        WorkloadDeactivated(
            workload=workload.key,
            reason=reason,
            message=message,
            observed_switch=workload.switched_by,
            cause=cause,
        )
    ]


def _evict(
    world: World,
    workload: Workload,
    reason: str,
    message: str,
    at: Micros,
    cause: int,
    *,
    underlying_cause: str = "",
    requeue_at: Micros | None = None,
) -> list[Event]:
    """Evict; what was never admitted has no pods to wait for, so its quota is free at once (G9)."""
    events: list[Event] = [
        Evicted(
            workload=workload.key,
            reason=reason,
            message=message,
            underlying_cause=underlying_cause,
            cause=cause,
        )
    ]
    if workload.admitted_at is None or workload.stopped:
        waits = reason in ev.HOLDING and requeue_at is not None and requeue_at > at
        events.append(QuotaReleased(workload=workload.key, cause=cause))
        if not waits and reason != ev.DEACTIVATED:
            events += _requeue(world, workload, reason, message, at, cause, backing_off=False)
    return events


def _after_stop(world: World, workload: Workload, at: Micros, cause: int) -> list[Event]:
    if workload.evicted_at is not None:
        if awaits_variants(world, workload):
            return []
        return _release(world, workload, workload.held_for, workload.evicted_message, at, cause)
    reason = workload.stopped_reason or ev.NODE_FAILURES
    message = workload.stopped_message or "The pods of the workload have stopped unexpectedly"
    return _evict(world, workload, reason, message, at, cause)


def _release(
    world: World, workload: Workload, reason: str, message: str, at: Micros, cause: int
) -> list[Event]:
    return [
        QuotaReleased(workload=workload.key, cause=cause),
        *_requeue(world, workload, reason, message, at, cause),
    ]


def _hold_back(workload: Workload, at: Micros, cause: int) -> list[Event]:
    """Ours: who loses its reservation over and over waits a while before it tries again.

    Policies can be such that workloads preempt each other in a circle. While they run, each round takes as
    long as it takes to stop them; reservations would go round in no time, for ever.
    """
    wait_s = backoff_s(workload.lost_reservations - FREE_LOST_RESERVATIONS, 1, LONGEST_WAIT_FOR_RESERVATION_S)
    requeue_at = at + wait_s * MICROS_PER_S
    return [
        RequeueBackoffStarted(
            workload=workload.key, count=workload.requeue_count, requeue_at=requeue_at, cause=cause
        ),
        QuotaReleased(workload=workload.key, cause=cause),
    ]


# Without quota


def _requeue(
    world: World,
    workload: Workload,
    held_for: str,
    message: str,
    at: Micros,
    cause: int,
    *,
    backing_off: bool = True,
) -> list[Event]:
    """Return the event that ends Requeued=False, or [] while what it waits for lasts."""
    if not held_for or not workload.active:
        return []
    if backing_off and (workload.requeue_at or 0) > at:
        return []
    if not _may_queue(world, workload, held_for):
        return []
    reason = _REQUEUED.get(held_for, held_for)
    if held_for in _BACKING_OFF and (held_for != ev.PREEMPTED or workload.requeue_at is not None):
        reason = ev.BACKOFF_FINISHED
    text = ev.REQUEUED_MESSAGES.get(reason, message)
    return [Requeued(workload=workload.key, reason=reason, message=text, cause=cause)]


def _late_retry(workload: Workload, cause: int) -> list[Event]:
    """AC3: a check that asks for a retry after the eviction can make the wait longer."""
    until = workload.checks_requeue_at
    if until is None or until <= (workload.requeue_at or 0):
        return []
    count = workload.requeue_count
    return [RequeueBackoffStarted(workload=workload.key, count=count, requeue_at=until, cause=cause)]


def _may_queue(world: World, workload: Workload, held_for: str) -> bool:
    """Do the queues run that it was held for, if it was for one?"""
    if held_for not in (ev.CLUSTER_QUEUE_STOPPED, ev.LOCAL_QUEUE_STOPPED):
        return True
    local = world.local_queues.get(f"{workload.record.namespace}/{workload.record.queue_name}")
    if local is None:
        return False
    if held_for == ev.LOCAL_QUEUE_STOPPED:
        return not stopped(local.stop_policy)
    queue = world.cluster_queues.get(local.cluster_queue)
    return queue is not None and not stopped(queue.spec.stop_policy)


__all__ = ["pods_ready_deadline"]
