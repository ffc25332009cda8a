"""Pending preemptions at this moment: targets, preemptors, and who is to go for a reservation (AC6)."""

from sluice.core.views.holding import charged
from sluice.core.views.records import WorkloadView
from sluice.core.views.state import State

__all__ = ["to_make_way_for"]


def pending_preemptions(workload: WorkloadView) -> str:
    """Return what to say of preemptions that its reservation waits with, '' if there are none."""
    if not workload.preemptions_pending:
        return ""
    return preemptions_text(len(workload.victims))


def preemptions_text(victims: int) -> str:
    if not victims:
        # Those who were have ended; it still needs somebody's quota.
        return "Whom to preempt is chosen when its checks allow it"
    return f"The preemption of {victims} workload(s) is pending until its checks allow it"


def to_make_way_for(view: State, workload: WorkloadView) -> list[WorkloadView]:
    """Return whose pending preemptions are to take this workload's quota; a parent's are its variants'."""
    keys = dict.fromkeys(
        key
        for one in (workload, *workload.variants.values())
        if one.promised_to and not one.evicted and charged(one) is not None
        for key in one.promised_to
    )
    found = (view.workloads.get(key) for key in keys)
    preemptors = [c for c in found if c is not None and c.preemptions_pending and not c.evicted]
    return sorted(preemptors, key=lambda preemptor: preemptor.record.uid)
