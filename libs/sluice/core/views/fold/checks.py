"""Fold of what the admission-check service says of workloads and of checks."""

from collections.abc import Callable
from typing import Any

from sluice.core.views.records import ActiveState
from sluice.core.views.state import State
from sluice.core.workload.admission_checks import (
    PENDING,
    CheckState,
    asked_for,
    reset_on_eviction,
    retried_late,
)
from sluice.events import checks
from sluice.events.base import Event, Micros

from .common import remember


def _requested(state: State, event: checks.ChecksRequested, _seq: int, at: Micros) -> None:
    workload = state.workloads.get(event.workload)
    if workload is not None:
        again = event.attempt == workload.check_attempt
        new = [name for name in event.checks if not again or name not in workload.checks]
        workload.check_attempt = event.attempt
        workload.checks = asked_for(workload.checks, event.checks, new, at)


def _withdrawn(state: State, event: checks.ChecksWithdrawn, _seq: int, at: Micros) -> None:
    """Most were reset by the eviction; quota that was given back without one resets them, too (AC4)."""
    workload = state.workloads.get(event.workload)
    if workload is not None and workload.checks and workload.finished_at is None:
        states = reset_on_eviction(workload.checks.values(), at)
        workload.checks = {said.name: said for said in states}


def _check(state: State, event: checks.CheckStateChanged, seq: int, at: Micros) -> None:
    workload = state.workloads.get(event.workload)
    if workload is None:
        return
    remember(workload, event, seq, at)
    before = workload.checks.get(event.check)
    since = before.at if before is not None and before.state == event.state else at
    said = CheckState(
        event.check,
        event.state,
        since,
        event.message,
        event.requeue_after_s,
        event.retry_count,
        event.pod_set_updates,
        event.reason,
    )
    workload.checks = {**workload.checks, event.check: said}


def _retry(state: State, event: checks.ChecksRetry, seq: int, at: Micros) -> None:
    """One that was said after the eviction made the wait longer, and counts like the others (AC3).

    All others come with a CheckStateChanged.
    """
    workload = state.workloads.get(event.workload)
    if workload is None or event.attempt != workload.check_attempt:
        return
    said = [workload.checks.get(name) for name in event.checks]
    if all(check is None or check.state == PENDING for check in said):
        remember(workload, event, seq, at)
        workload.checks = retried_late(workload.checks, event.checks, at)


def _ignored(state: State, event: checks.VerdictIgnored, seq: int, at: Micros) -> None:
    """Part of the history, but somebody who goes on saying it does not push out all else."""
    workload = state.workloads.get(event.workload)
    if workload is None or event.reason == "Duplicate":
        return
    last = workload.history[-1].event if workload.history else None
    if isinstance(last, checks.VerdictIgnored) and (last.check, last.reason) == (event.check, event.reason):
        workload.history.pop()
    remember(workload, event, seq, at)


def _status(state: State, event: checks.AdmissionCheckStatusChanged, _seq: int, at: Micros) -> None:
    before = state.checks.get(event.check)
    since = before.since if before is not None and before.active == event.active else at
    state.checks[event.check] = ActiveState(event.active, event.reason, event.message, since)


CHECK_FOLDS: dict[type[Event], Callable[[State, Any, int, Micros], None]] = {
    checks.AdmissionCheckStatusChanged: _status,
    checks.CheckStateChanged: _check,
    checks.ChecksRequested: _requested,
    checks.ChecksRetry: _retry,
    checks.ChecksWithdrawn: _withdrawn,
    checks.VerdictIgnored: _ignored,
}
