"""Reasons of QuotaReserved=False, and the texts that go with them (G6)."""

from typing import Final

ON_HOLD: Final = "OnHold"
MISCONFIGURED: Final = "Misconfigured"
NO_MATCHING_FLAVOR: Final = "NoMatchingFlavor"
SUSPENDED: Final = "Suspended"
ADMISSION_GATED: Final = "AdmissionGated"
WAITING_FOR_PODS_READY: Final = "WaitingForPodsReady"
EXCEEDS_MAX_QUOTA: Final = "ExceedsMaxQuota"
WAITING_FOR_QUOTA: Final = "WaitingForQuota"
TOPOLOGY_PLACEMENT_FAILED: Final = "TopologyPlacementFailed"
WAITING_FOR_PREEMPTED: Final = "WaitingForPreemptedWorkloads"
PENDING_EVALUATION: Final = "PendingEvaluation"


ADMISSION_GATED_BY: Final = "Admission is gated by: {}"
PENDING_EVALUATION_MESSAGE: Final = "Workload is pending evaluation in the scheduling queue"
BEHIND_HEAD: Final = "ClusterQueue {} is StrictFIFO, and nobody overtakes its head"
NO_LONGER_FITS: Final = "Workload no longer fits after processing another workload"
OVERLAPS: Final = "Workload has overlapping preemption targets with another workload"
DEFERRED: Final = f"{OVERLAPS}, but will fit after these preemptions complete"
BEHIND: Final = "Another workload of the queue preempts for the same capacity, and comes first"
AHEAD: Final = "Another workload of the queue preempts for the same capacity, and comes after this one"
OVER: Final = {
    BEHIND: "Another workload of the queue preempted for the same capacity, and came first",
    AHEAD: "Another workload of the queue preempted for the same capacity, and came after this one",
}
"""The same when that one has got in, or waits no more, and nobody has been looked at since."""
GATED: Final = "Workload requires preemption, but it's gated"
CIRCLE: Final = "; to preempt for it again would go round in a circle"
PODS_NOT_READY: Final = "waiting for all admitted workloads to be in PodsReady condition"
IMPOSSIBLE: Final = "The preemptions that were pending are no longer possible"
TO_PREEMPT: Final = "Pending the preemption of {} workload(s)"
NAMESPACE_MISMATCH: Final = "Workload namespace doesn't match ClusterQueue selector"
NO_LONGER_ENOUGH: Final = "The reserved quota is no longer enough"
