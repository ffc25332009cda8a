"""A workload's history in the words of Kubernetes events: what `describe` and the console show."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from sluice.core.timing import MICROS_PER_S
from sluice.core.views.records import Transition, WorkloadView
from sluice.core.workload.charges import counts, size_text
from sluice.core.workload.pending_reasons import ADMISSION_GATED
from sluice.core.workload.reasons import (
    MAXIMUM_EXECUTION_TIME_EXCEEDED,
    condition_reason,
    deactivation_message,
)
from sluice.core.world.inadmissible import GATED_BY_ANNOTATION, constraints_in
from sluice.events import checks, scheduler, slices, variants
from sluice.events.base import Event, Micros

from .preemptions import preemptions_text

GATE_CLEARED = "AdmissionGateCleared"
UPDATED = "UpdatedWorkload"
ADJUSTED = "Adjusted to the limit ranges of its namespace"


class Notice(NamedTuple):
    """One line of the history: what Kueue would say in a Kubernetes event."""

    seq: int
    at: Micros
    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    event: Event | None = None
    """Of which it tells; None when it says more of the one before."""


def notices(workload: WorkloadView) -> list[Notice]:
    """Return the kept history, oldest first."""
    found: list[Notice] = []
    since = workload.created_at
    queue = gates = ""
    sizes: dict[str, int] = {}
    for transition in workload.history:
        seq, at, event = transition
        notice = _notice(workload, transition, since, queue)
        match event:
            case slices.WorkloadCreated():
                sizes = counts(event.workload.pod_sets)
            case scheduler.QuotaReserved():
                queue = event.cluster_queue
            case slices.WorkloadUpdated(pod_sets=[*pod_sets]) if sizes == (now := counts(pod_sets)):
                notice = Notice(seq, at, "Normal", UPDATED, f"{ADJUSTED}: {size_text(now)}")
            case slices.WorkloadUpdated(pod_sets=[*pod_sets]):
                sizes = counts(pod_sets)
        before, gates = gates, _gates(event, gates)
        if before and not gates:
            cleared = "Admission gate cleared, workload is now admissible"
            notice = Notice(seq, at, "Normal", GATE_CLEARED, cleared)
        found.append(notice._replace(event=event))
        if gates and gates != before:
            text = f"Workload admission is gated by: {gates}"
            found.append(Notice(seq, at, "Normal", ADMISSION_GATED, text))
        if isinstance(event, scheduler.QuotaReserved | scheduler.Requeued | variants.ParentReleased):
            since = at
    return found


def _gates(event: Event, before: str) -> str:
    """Return the annotation with the gates that hold up admission, as the event leaves it."""
    match event:
        case slices.WorkloadCreated(workload=record):
            return record.annotations.get(GATED_BY_ANNOTATION, "")
        case slices.WorkloadUpdated(annotations=dict(annotations)):
            return annotations.get(GATED_BY_ANNOTATION, "")
    return before


def _notice(workload: WorkloadView, transition: Transition, since: Micros, reserved_in: str) -> Notice:
    """`reserved_in`: the queue of the latest reservation before it, '' where the history begins later."""
    seq, at, event = transition
    waited_s = (at - since) // MICROS_PER_S
    match event:
        case scheduler.Preempted(workload=victim) if victim != workload.key:
            queue = event.preemptee_path.rpartition("/")[2]
            message = f"Preempted workload {victim}{f' in ClusterQueue {queue}' if queue else ''}"
            return Notice(seq, at, "Normal", "PreemptedWorkload", message)
        case scheduler.QuotaReserved():
            message = f"Quota reserved in ClusterQueue {event.cluster_queue}, wait time since queued was "
            pending = f". {preemptions_text(len(event.pending_victims))}" if event.preemptions_pending else ""
            return Notice(seq, at, "Normal", "QuotaReserved", f"{message}{waited_s}s{pending}")
        case scheduler.Admitted():
            queue = reserved_in or workload.cluster_queue_name
            message = f"Admitted by ClusterQueue {queue}, wait time since reservation was {waited_s}s"
            return Notice(seq, at, "Normal", "Admitted", message)
        case scheduler.Evicted():
            reason = condition_reason(event.reason, event.underlying_cause)
            return Notice(seq, at, "Normal", f"EvictedDueTo{reason}", event.message)
        case scheduler.WorkloadDeactivated(workload=variant) if variant != workload.key:
            message = f'Variant Workload "{variant}" deactivated due to {event.message}'
            return Notice(seq, at, "Warning", "DeactivatedVariant", message)
        case scheduler.WorkloadDeactivated(reason="AdmissionCheck"):
            return Notice(seq, at, "Warning", "AdmissionCheckRejected", f"Deactivated due to {event.message}")
        case scheduler.WorkloadDeactivated() if event.reason == MAXIMUM_EXECUTION_TIME_EXCEEDED:
            limit_s = workload.record.maximum_execution_time_s
            message = f"The maximum execution time ({limit_s}s) exceeded"
            return Notice(seq, at, "Warning", MAXIMUM_EXECUTION_TIME_EXCEEDED, message)
    return _plain(seq, at, event)


def _plain(seq: int, at: Micros, event: Event) -> Notice:
    """What needs no context: the event's own reason and message."""
    match event:
        case scheduler.PendingReasonChanged() | scheduler.WorkloadsParked() if constraints := constraints_in(
            event.message
        ):
            message = f"{', '.join(constraints)}: {event.reason}: {event.message}"
            return Notice(seq, at, "Warning", "AdmissionConstraintUnsatisfied", message)
        case scheduler.PendingReasonChanged() | scheduler.WorkloadsParked() | scheduler.PreemptionIssued():
            return Notice(seq, at, "Warning", event.reason, event.message)
        case scheduler.PendingPreemptionsIssued():
            message = f"The pending preemption of {len(event.victims)} workload(s) is issued"
            if not event.victims:
                message = "Nobody has to be preempted any more for what is reserved"
            return Notice(seq, at, "Normal", "PendingPreemptionsIssued", message)
        case scheduler.RequeueBackoffStarted():
            # Rounded up: who waits for less than a second does wait.
            wait_s = -(-max(0, event.requeue_at - at) // MICROS_PER_S)
            # Counted are attempts whose pods were not ready in time; a check's Retry is none.
            failed = f", failed attempts: {event.count}" if event.count else ""
            message = f"Requeued after {wait_s}s{failed}"
            return Notice(seq, at, "Normal", "RequeueBackoffStarted", message)
        case scheduler.Requeued():
            return Notice(seq, at, "Normal", f"Requeued{event.reason}", event.message)
        case checks.CheckStateChanged():
            message = f"Admission check {event.check} is {event.state}" + _suffix(event.message)
            return Notice(seq, at, "Normal", "AdmissionCheckUpdated", message)
        case checks.ChecksRetry():
            message = f"Admission check {', '.join(event.checks)} is Retry, too" + _suffix(event.message)
            return Notice(seq, at, "Normal", "AdmissionCheckUpdated", message)
        case checks.VerdictIgnored():
            said = f"{event.state} of admission check {event.check} for attempt {event.attempt}"
            message = f"{said}: {event.reason}" + _suffix(event.message)
            return Notice(seq, at, "Warning", "AdmissionCheckVerdictIgnored", message)
        case variants.PreemptionGateClosed():
            message = f'Closed preemption gate for variant workload "{event.workload}"'
            return Notice(seq, at, "Normal", "PreemptionGatedVariant", message)
        case variants.ParentEvicted():
            why = f"{event.message}: {event.cause_message}" if event.cause_message else event.message
            return Notice(seq, at, "Normal", f"EvictedDueTo{event.reason}", why)
    return _of_slices(seq, at, event)


def _of_slices(seq: int, at: Micros, event: Event) -> Notice:
    """What the slice-aggregator says, and what has nothing to add to its name."""
    match event:
        case slices.WorkloadCreated() if event.workload.replaces is not None:
            message = f"Workload slice to replace {event.workload.replaces}"
            return Notice(seq, at, "Normal", "CreatedWorkload", message)
        case slices.WorkloadUpdated(active=False):
            return Notice(seq, at, "Normal", "Deactivated", deactivation_message(event.message))
        case slices.WorkloadUpdated(active=True):
            return Notice(seq, at, "Normal", "Activated", event.message or "The workload is active again")
        case slices.WorkloadUpdated() if event.pod_sets is not None:
            return Notice(
                seq, at, "Normal", UPDATED, f"Resized in place to {size_text(counts(event.pod_sets))}"
            )
        case slices.WorkloadUpdated() if event.misconfigured is not None:
            return Notice(seq, at, "Normal", UPDATED, ADJUSTED)
        case slices.WorkloadFinished(reason="WorkloadSliceReplaced"):
            return Notice(seq, at, "Normal", event.reason, event.message)
        case slices.WorkloadFinished():
            kind: Literal["Normal", "Warning"] = "Warning" if event.reason == "Failed" else "Normal"
            return Notice(seq, at, kind, f"Finished{event.reason}", event.message)
        case slices.Rejected():
            errors = "; ".join(str(error) for error in event.errors)
            return Notice(seq, at, "Warning", "Refused", f"{event.event_type} at {event.cause}: {errors}")
        case slices.JobSuspended():
            return Notice(seq, at, "Normal", "Stopped", f"{event.reason}{_suffix(event.message)}")
    reason = _REASONS.get(type(event), type(event).__name__)
    return Notice(seq, at, "Normal", reason, getattr(event, "message", ""))


_REASONS: Mapping[type[Event], str] = {
    scheduler.BlockedOnPreemptionGates: "PreemptionGated",
    variants.ParentAdmitted: "Admitted",
    variants.PreemptionGateOpened: "PreemptionUngatedVariant",
    variants.VariantActivated: "ActivatedVariant",
    variants.VariantCreated: "CreatedVariant",
    variants.VariantDeactivated: "DeactivatedVariant",
    variants.VariantDeleted: "DeletedVariant",
}
"""What Kueue calls events that speak for themselves; others have their own names."""


def _suffix(message: str) -> str:
    return f": {message}" if message else ""
