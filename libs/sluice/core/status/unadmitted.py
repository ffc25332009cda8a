"""Why a workload with quota is not admitted: its checks, and preemptions that wait for them (G6)."""

from sluice.core.check_states import (
    READY,
    CheckState,
    relevant_checks,
    sync_states,
    why_not_admitted,
)
from sluice.core.inadmissible import Reason

from .notices import pending_preemptions
from .records import WorkloadView


def check_states(workload: WorkloadView) -> list[CheckState]:
    """Return the states of the checks that concern the workload, Pending where none was reported (AC1)."""
    if workload.parent:
        return []  # its variants have them
    queue = workload.cluster_queue or workload.local_queue.cluster_queue
    spec = queue.spec if queue is not None else None
    if spec is None or workload.finished_at is not None:
        return sorted(workload.checks.values())
    flavors = None
    if workload.assignment is not None:
        flavors = [flavor for assigned in workload.assignment for flavor in assigned.flavors.values()]
    names = relevant_checks(spec, flavors)
    if workload.admitted_at is not None:
        # One added since then is not asked.
        names = [name for name in names if name in workload.checks]
    since = workload.record.created_at if workload.reserved_at is None else workload.reserved_at
    return sync_states(workload.checks.values(), names, since)


def reserving(parent: WorkloadView) -> list[WorkloadView]:
    """Return the variants that have quota and are not admitted yet, the most preferred first (CA7)."""
    return [
        variant
        for variant in sorted(parent.variants.values(), key=lambda v: (v.record.preference, v.record.uid))
        if variant.assignment is not None and variant.admitted_at is None and not variant.evicted
    ]


def why_unadmitted(workload: WorkloadView) -> Reason:
    """Return (reason, message) of Admitted=False; a parent's are those of the variant that got furthest."""
    if workload.parent and workload.assignment is None and (variants := reserving(workload)):
        return (why_unadmitted(variants[0])[0], "; ".join(_named(variant) for variant in variants))
    # With all checks ready, the scheduler just has not said so yet.
    states = check_states(workload) if workload.assignment is not None else ()
    missing = why_not_admitted(states, has_quota=workload.assignment is not None)
    reason, message = missing or ("Pending", "The workload is about to be admitted")
    if workload.assignment is not None and (pending := pending_preemptions(workload)):
        message = f"{message}. {pending}"
    return (reason, message)


def checks_text(workload: WorkloadView) -> str:
    """Return which checks a workload with quota waits for: `budget (Pending: asked), capacity (Retry)`."""
    return ", ".join(
        f"{state.name} ({state.state}{f': {state.message}' if state.message else ''})"
        for state in check_states(workload)
        if state.state != READY
    )


def _named(variant: WorkloadView) -> str:
    message, checks = why_unadmitted(variant)[1], checks_text(variant)
    return f"{variant.variant}: {message}" + (f": {checks}" if checks else "")


__all__ = ["check_states", "checks_text", "reserving", "why_unadmitted"]
