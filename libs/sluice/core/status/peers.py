"""Which workloads the scheduler's verdict is shared by, as in its own state (SC2)."""

from sluice.api.kueue import ConfigurationSpec
from sluice.core.equivalence import equivalence_key
from sluice.core.ordering import effective_priority

from .records import WorkloadView


def peers_of(workload: WorkloadView, config: ConfigurationSpec) -> object:
    """Return what is the same for workloads of a cluster queue that the scheduler cannot tell apart."""
    if workload.peers is None:
        record = workload.record
        workload.peers = (
            equivalence_key(record),
            effective_priority(record, config),
            tuple(sorted(workload.reclaimable.items())),
            record.parent,
        )
    return workload.peers


__all__ = ["peers_of"]
