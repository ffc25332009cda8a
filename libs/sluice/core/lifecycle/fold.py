"""Fold of the fields of `model.Workload` that belong to its life-cycle.

Quota, usage and queues are the scheduler's fold; nothing here touches them. Every function may run
twice for the same event without harm.
"""

from collections.abc import Callable
from typing import Any

from sluice.core.workload import reasons as ev
from sluice.core.workload.admission_checks import READY, REJECTED, RETRY
from sluice.core.workload.deactivation import is_overtaken
from sluice.core.world.workload import Workload
from sluice.events import checks, scheduler, slices, variants
from sluice.events.base import Event, Micros


def fold_lifecycle(workload: Workload, event: Event, at: Micros) -> None:
    """Fold *event*, which is about *workload*."""
    fold = _FOLDS.get(type(event))
    if fold is not None:
        fold(workload, event, at)


def _reserved(workload: Workload, _event: scheduler.QuotaReserved, at: Micros) -> None:
    workload.reserved_at = at
    workload.requeue_at = workload.last_evicted_at = None
    workload.last_evicted_reason = ""


def _admitted(workload: Workload, _event: scheduler.Admitted, at: Micros) -> None:
    workload.admitted_at = at


def _evicted(workload: Workload, event: scheduler.Evicted, at: Micros) -> None:
    workload.evicted_at = workload.last_evicted_at = at
    workload.evicted_reason = workload.last_evicted_reason = workload.held_for = event.reason
    workload.evicted_message = event.message
    if event.reason == ev.ADMISSION_CHECK:
        _forget_checks(workload)


def execution_us(workload: Workload, at: Micros) -> Micros:
    """Return for how long it has been admitted up to *at*, in all of its attempts."""
    if workload.admitted_at is None:
        return workload.past_execution_us
    return workload.past_execution_us + max(0, at - workload.admitted_at)


def _released(workload: Workload, _event: scheduler.QuotaReleased, at: Micros) -> None:
    workload.past_execution_us = execution_us(workload, at)
    workload.reserved_at = workload.admitted_at = workload.promised_at = None
    workload.pods_ready_at = workload.pods_lost_at = None
    workload.evicted_at = None
    workload.evicted_reason = ""
    workload.stopped = False
    workload.stopped_reason = workload.stopped_message = ""
    _forget_checks(workload)


def _forget_checks(workload: Workload) -> None:
    workload.checks = workload.checks_message = ""
    workload.checks_requeue_at = None


def _backoff(workload: Workload, event: scheduler.RequeueBackoffStarted, _at: Micros) -> None:
    if workload.assignment is None and workload.reservations and not workload.held_for:
        # Back in its queue already, when another of its checks asked for a longer wait.
        workload.held_for = ev.ADMISSION_CHECK
    workload.requeue_count = event.count
    workload.requeue_at = event.requeue_at
    _forget_checks(workload)


def _requeued(workload: Workload, event: scheduler.Requeued, _at: Micros) -> None:
    workload.held_for = ""
    workload.requeue_at = None
    _forget_checks(workload)
    if event.reason == ev.REACTIVATED:
        # It had to stop first, which took some time.
        begin_anew(workload)


def begin_anew(workload: Workload) -> None:
    """Whoever starts it again means it: earlier attempts count no longer."""
    workload.requeue_count = 0
    workload.past_execution_us = 0


def _deactivated(
    workload: Workload, event: scheduler.WorkloadDeactivated | variants.ParentDeactivated, _at: Micros
) -> None:
    if is_overtaken(event, workload.switched_by):
        return
    workload.active = False
    workload.deactivated_for = event.reason
    workload.deactivated_message = event.message


def _updated(workload: Workload, event: slices.WorkloadUpdated, _at: Micros) -> None:
    if event.active is not None:
        workload.switched_by = event.cause
    if event.active is not None and (event.active or event.message or workload.active):
        if event.active and not workload.active and workload.record.parent is None:
            begin_anew(workload)
        workload.active = event.active
        workload.deactivated_for = ""
        workload.deactivated_message = "" if event.active else event.message


def _stopped(workload: Workload, event: slices.WorkloadStopped, _at: Micros) -> None:
    if workload.assignment is not None and not workload.stopped:
        workload.stopped = True
        workload.stopped_reason = event.reason
        workload.stopped_message = event.message


def _pods_ready(workload: Workload, event: slices.WorkloadPodsReady, at: Micros) -> None:
    if workload.assignment is None:
        return
    if event.ready:
        if workload.pods_ready_at is None:
            workload.pods_ready_at = at
        workload.pods_lost_at = None
    elif workload.pods_ready_at is not None:
        workload.pods_ready_at = None
        workload.pods_lost_at = at


def _finished(workload: Workload, _event: slices.WorkloadFinished, _at: Micros) -> None:
    workload.finished = True


def _checks_ready(workload: Workload, event: checks.ChecksReady, _at: Micros) -> None:
    if workload.assignment is not None and _is_current(workload, event):
        workload.checks = READY
        workload.checks_message = ""


def _checks_pending(workload: Workload, event: checks.ChecksPending, _at: Micros) -> None:
    if workload.checks == READY and _is_current(workload, event):
        workload.checks = ""


def _is_current(
    workload: Workload,
    event: checks.ChecksReady | checks.ChecksPending | checks.ChecksRetry | checks.ChecksRejected,
) -> bool:
    """Is it about the present reservation, or the latest one (AC4)?"""
    return event.attempt in (0, workload.reservations)


def _checks_retry(workload: Workload, event: checks.ChecksRetry, _at: Micros) -> None:
    if not _is_current(workload, event):
        return
    over = workload.assignment is None or workload.evicted_at is not None
    if over and event.requeue_at <= max(workload.requeue_at or 0, workload.checks_requeue_at or 0):
        return
    workload.checks = RETRY
    workload.checks_message = ev.checks_message(RETRY, _said(event))
    workload.checks_requeue_at = event.requeue_at


def _checks_rejected(workload: Workload, event: checks.ChecksRejected, _at: Micros) -> None:
    if workload.assignment is not None and _is_current(workload, event):
        workload.checks = REJECTED
        workload.checks_message = ev.checks_message(REJECTED, _said(event))


def _said(event: checks.ChecksRetry | checks.ChecksRejected) -> list[tuple[str, str]]:
    """Return each check with its message; older logs have that of the last one only."""
    messages = event.messages or [*[""] * (len(event.checks) - 1), event.message]
    return list(zip(event.checks, messages, strict=False))


_FOLDS: dict[type[Event], Callable[[Workload, Any, Micros], None]] = {
    scheduler.Admitted: _admitted,
    checks.ChecksPending: _checks_pending,
    checks.ChecksReady: _checks_ready,
    checks.ChecksRejected: _checks_rejected,
    checks.ChecksRetry: _checks_retry,
    scheduler.Evicted: _evicted,
    scheduler.QuotaReleased: _released,
    scheduler.QuotaReserved: _reserved,
    scheduler.RequeueBackoffStarted: _backoff,
    scheduler.Requeued: _requeued,
    scheduler.WorkloadDeactivated: _deactivated,
    slices.WorkloadFinished: _finished,
    slices.WorkloadPodsReady: _pods_ready,
    slices.WorkloadStopped: _stopped,
    slices.WorkloadUpdated: _updated,
    variants.ParentDeactivated: _deactivated,
}
