"""Which workloads the scheduler's verdict is shared by, as in its own state (SC2, `state.peer_key`)."""

from sluice.api.labels import GATE_CONCURRENT_ADMISSION
from sluice.core.workload.equivalence import equivalence_key
from sluice.core.workload.reasons import FLAVOR_MIGRATION
from sluice.core.world.queue_order import effective_priority
from sluice.core.world.variants import BETTER_ADMITTED, MAY_PREEMPT, bars

from .records import WorkloadView
from .state import State


def peers_of(view: State, workload: WorkloadView) -> object:
    """Return what is the same for workloads of a cluster queue that the scheduler cannot tell apart."""
    own = workload.peers
    if own is None:
        record = workload.record
        own = workload.peers = (
            equivalence_key(record),
            effective_priority(record, view.config),
            tuple(sorted(workload.reclaimable.items())),
        )
    if workload.record.parent is None:
        return (*own, "")
    blocked = workload.conditions.get("BlockedOnPreemptionGates")
    stands = why_barred(view, workload) or "/".join(
        gate for gate in sorted(workload.gates) if workload.gates[gate][0]
    )
    if blocked is not None and blocked.status:
        stands += "/blocked"
    return (*own, stands)


def why_barred(view: State, variant: WorkloadView) -> str:
    """Return why a variant waits for its admitted sibling to go, '' if it does not (CA10)."""
    family = variant.record.parent
    parent = view.workloads.get(family) if family is not None else None
    queue = variant.local_queue.cluster_queue
    spec = queue.spec if queue is not None else None
    for other in parent.variants.values() if parent is not None else ():
        if other is variant or other.admitted_at is None:
            continue
        if not other.evicted:
            return bars(view.config, spec, variant.record.preference, other.record.preference)
        evicted = other.conditions.get("Evicted")
        moves = evicted is not None and evicted.reason == FLAVOR_MIGRATION
        if moves and other.record.preference <= variant.record.preference:
            return BETTER_ADMITTED  # it makes room for one that is better still
    return ""


def yields(view: State, variant: WorkloadView) -> str:
    """Return why a variant leaves it to a better sibling to preempt first, '' if it does not (decision 0017).

    Not where the scheduler has said something of it since: then that is what it waits for.
    """
    family = variant.record.parent
    parent = view.workloads.get(family) if family is not None else None
    for other in parent.variants.values() if parent is not None else ():
        if (
            other.turn
            and other.record.preference < variant.record.preference
            and other.active
            and not other.spent
            and not _gated_by_its_job(other)
            and (variant.pending is None or variant.pending.seq < other.turn)
        ):
            return MAY_PREEMPT
    return ""


def _gated_by_its_job(variant: WorkloadView) -> bool:
    return any(
        gate != GATE_CONCURRENT_ADMISSION and not variant.gates.get(gate, (False, 0))[0]
        for gate in variant.record.preemption_gates
    )


__all__ = ["peers_of", "why_barred", "yields"]
