"""Workloads with quota that are not admitted: their checks, and preemptions that wait for them (G6)."""

from sluice.core.views.holding import leaving_victims
from sluice.core.views.records import WorkloadView
from sluice.core.views.state import State
from sluice.core.workload.admission_checks import (
    PENDING,
    READY,
    CheckState,
    check_names,
    relevant_checks,
    sync_states,
    why_not_admitted,
)
from sluice.core.workload.pending_reasons import TO_PREEMPT, WAITING_FOR_PREEMPTED
from sluice.core.world.inadmissible import Reason

from .preemptions import pending_preemptions


def check_states(workload: WorkloadView) -> list[CheckState]:
    """Return the states of the checks that concern the workload, Pending where none was reported (AC1).

    Without quota, those that were asked for last stay: what they have said is why it waits.
    """
    if workload.parent:
        return []  # its variants have them
    queue = workload.queue
    spec = queue.spec if queue is not None else None
    if spec is None or workload.finished_at is not None:
        return sorted(workload.checks.values())
    names = relevant_checks(spec, None if workload.assignment is None else assigned_flavors(workload))
    if workload.admitted_at is not None:
        # One added since then is not asked.
        names = [name for name in names if name in workload.checks]
    if workload.assignment is None:
        names = sorted({*names, *(name for name in check_names(spec) if name in workload.checks)})
    since = workload.created_at if workload.reserved_at is None else workload.reserved_at
    return sync_states(workload.checks.values(), names, since)


def assigned_flavors(workload: WorkloadView) -> list[str]:
    """Return the flavors that it has quota of, each once, in the order of its pod sets."""
    return list(dict.fromkeys(f for pods in workload.assignment or () for f in pods.flavors.values()))


def waiting_for(view: State, check: str) -> list[tuple[WorkloadView, CheckState]]:
    """Return the workloads with quota for which this check is Pending (AC8), and what is said of it."""
    return [
        (workload, state)
        for queue in view.cluster_queues.values()
        if queue.spec is not None and check in check_names(queue.spec)
        for workload in map(view.workloads.__getitem__, queue.workloads)
        if workload.admitted_at is None
        for state in check_states(workload)
        if state.name == check and state.state == PENDING
    ]


def in_order(workload: WorkloadView) -> list[WorkloadView]:
    """Return the variants of a parent, the most preferred first; [] of any other."""
    return sorted(workload.variants.values(), key=lambda v: (v.record.preference, v.record.uid))


def reserving(parent: WorkloadView) -> list[WorkloadView]:
    """Return the variants that have quota and are not admitted yet, the most preferred first (CA7)."""
    return [
        variant
        for variant in in_order(parent)
        if variant.assignment is not None and variant.admitted_at is None and not variant.evicted
    ]


def waits_for_stop(view: State, variant: WorkloadView) -> bool:
    """Has a variant that has quota passed its checks, and nobody to preempt any more?"""
    passed = why_not_admitted(check_states(variant), has_quota=True) is None
    return passed and not variant.preemptions_pending and not leaving_victims(view, variant)


def why_unadmitted(view: State, workload: WorkloadView) -> Reason:
    """Return (reason, message) of Admitted=False; a parent's are those of the variant that got furthest."""
    if workload.parent and workload.assignment is None and (variants := reserving(workload)):
        texts = (f"{variant.variant}: {told(view, variant)[1]}" for variant in variants)
        return (why_unadmitted(view, variants[0])[0], "; ".join(texts))
    return _why(view, workload, "")


def told(view: State, workload: WorkloadView) -> Reason:
    """Return `why_unadmitted` for people: with the checks that are not Ready, and what they say."""
    if workload.parent:
        return why_unadmitted(view, workload)
    checks = ", ".join(
        f"{state.name} ({state.state}{f': {state.message}' if state.message else ''})"
        for state in check_states(workload)
        if state.state != READY
    )
    return _why(view, workload, f": {checks}" if checks else "")


def _why(view: State, workload: WorkloadView, checks: str) -> Reason:
    reserved = workload.assignment is not None
    missing = why_not_admitted(check_states(workload) if reserved else (), has_quota=reserved)
    if missing is None:
        if victims := leaving_victims(view, workload):
            return (WAITING_FOR_PREEMPTED, TO_PREEMPT.format(len(victims)))
        # Else the scheduler just has not said so yet.
        return _migrating(view, workload) or ("Pending", "The workload is about to be admitted")
    reason, message = missing
    if reserved and (pending := pending_preemptions(workload)):
        return (reason, f"{message}{checks}. {pending}")
    return (reason, f"{message}{checks}")


def _migrating(view: State, workload: WorkloadView) -> Reason | None:
    """A variant has its quota beside the one that runs, and takes over when that has stopped (CA10)."""
    family = workload.record.parent
    parent = view.workloads.get(family) if family is not None else None
    for sibling in parent.variants.values() if parent is not None else ():
        if sibling is not workload and sibling.assignment is not None and sibling.evicted:
            return (WAITING_FOR_PREEMPTED, "Pending the migration of 1 workload(s)")
    return None


__all__ = ["assigned_flavors", "check_states", "in_order", "told", "waiting_for"]
