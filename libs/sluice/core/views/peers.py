"""Which workloads the scheduler's verdict is shared by, as in its own state (SC2, `state.peer_key`)."""

from sluice.core.workload.equivalence import equivalence_key
from sluice.core.world.queue_order import effective_priority
from sluice.core.world.variants import bars

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
        if other is not variant and other.admitted_at is not None and not other.evicted:
            return bars(view.config, spec, variant.record.preference, other.record.preference)
    return ""


__all__ = ["peers_of", "why_barred"]
