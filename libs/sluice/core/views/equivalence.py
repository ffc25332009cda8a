"""Equivalence classes of pending workloads, which share the scheduler's verdict (SC2, `state.class_key`)."""

from sluice.api.features import SCHEDULING_EQUIVALENCE_HASHING, enabled
from sluice.api.labels import GATE_CONCURRENT_ADMISSION as GATE
from sluice.core.workload.charges import add
from sluice.core.workload.equivalence import equivalence_key
from sluice.core.world.preemption_turns import goes_first
from sluice.core.world.queue_order import effective_priority
from sluice.core.world.variants import MAY_PREEMPT, bars, stays_at

from .records import FlavorResource, WorkloadView
from .state import State

__all__ = ["class_key"]


def class_key(view: State, workload: WorkloadView) -> object:
    """Return what is the same for workloads of a cluster queue that the scheduler cannot tell apart."""
    own = workload.class_key
    if own is None:
        record = workload.record
        own = workload.class_key = (
            equivalence_key(record),
            effective_priority(record, view.config),
            tuple(sorted(workload.reclaimable.items())),
        )
    if not enabled(view.config.feature_gates, SCHEDULING_EQUIVALENCE_HASHING):
        return (*own, workload.record.uid)  # each is looked at for itself
    if workload.record.parent is None:
        return (*own, "")
    blocked = workload.conditions.get("BlockedOnPreemptionGates")
    stands = why_barred(view, workload) or "/".join(workload.open_gates)
    if blocked is not None and blocked.status:
        stands += "/blocked"
    return (*own, stands + _runs_on(view, workload) + _shares(view, workload))


def _runs_on(view: State, variant: WorkloadView) -> str:
    """Return where the job of a variant runs, if the variant could take it there once more (CA10)."""
    other = _admitted_sibling(view, variant)
    if other is None or other.evicted:
        return ""
    place = stays_at(variant.record, other.assignment or ())
    return f"/on {place}" if place else ""


def _shares(view: State, variant: WorkloadView) -> str:
    """Return what siblings of a variant are charged for in its queue: it needs that no second time (CA10)."""
    family, queue = variant.record.parent, variant.local_queue.cluster_queue
    parent = view.workloads.get(family) if family is not None else None
    allowed = variant.record.allowed_flavors
    held: dict[FlavorResource, int] = {}
    for other in parent.variants.values() if parent is not None else ():
        counts = (
            other.assignment is not None and other.cluster_queue is queue and not other.preemptions_pending
        )
        if counts and other is not variant:
            add(held, {fr: n for fr, n in other.charge.items() if not allowed or fr[0] in allowed})
    return f"/has {sorted(held.items())}" if held else ""


def _admitted_sibling(view: State, variant: WorkloadView) -> WorkloadView | None:
    family = variant.record.parent
    parent = view.workloads.get(family) if family is not None else None
    for other in parent.variants.values() if parent is not None else ():
        if other is not variant and other.admitted_at is not None:
            return other
    return None


def why_barred(view: State, variant: WorkloadView) -> str:
    """Return why a variant waits for its admitted sibling to go, '' if it does not (CA10)."""
    other = _admitted_sibling(view, variant)
    if other is None:
        return ""
    queue = variant.local_queue.cluster_queue
    spec = queue.spec if queue is not None else None
    evicted = other.conditions.get("Evicted")
    leaves = evicted.reason if evicted is not None and other.evicted else None
    return bars(view.config, spec, variant.record.preference, other.record.preference, leaves=leaves)


def yields(view: State, variant: WorkloadView) -> str:
    """Return why a variant leaves it to a better sibling to preempt first, '' if it does not (decision 0017).

    Not where the scheduler has said something of it since: then that is what it waits for. Nor while it is
    its own turn, or it waits for those who were to go for it in its turn.
    """
    in_turn = variant.turn and GATE in variant.open_gates
    waits_on = variant.pending is not None and variant.pending.preempts
    family = variant.record.parent if not (in_turn or waits_on) else None
    parent = view.workloads.get(family) if family is not None else None
    for other in parent.variants.values() if parent is not None else ():
        if (
            other.turn
            and goes_first(other, variant.record.preference)
            and (variant.pending is None or variant.pending.seq < other.turn)
        ):
            return MAY_PREEMPT
    return ""
