"""Reasons of evictions (G8), and what they mean for the return to the queue."""

from collections.abc import Sequence
from typing import Final

PREEMPTED: Final = "Preempted"
FLAVOR_MIGRATION: Final = "FlavorMigration"
PODS_READY_TIMEOUT: Final = "PodsReadyTimeout"
ADMISSION_CHECK: Final = "AdmissionCheck"
CLUSTER_QUEUE_STOPPED: Final = "ClusterQueueStopped"
LOCAL_QUEUE_STOPPED: Final = "LocalQueueStopped"
NODE_FAILURES: Final = "NodeFailures"
DEACTIVATED: Final = "Deactivated"
CONCURRENT_ADMISSION: Final = "ConcurrentAdmission"
"""Its variant is gone, or it is to have variants from now on, or none any more (CA4, CA13)."""

# Of a JobSuspended: the workload is over when the job has stopped.
JOB_DELETED: Final = "JobDeleted"
NO_MATCHING_WORKLOAD: Final = "NoMatchingWorkload"
"""The job has been edited, and gets another workload."""

# Causes of a deactivation.
REQUEUING_LIMIT_EXCEEDED: Final = "RequeuingLimitExceeded"
MAXIMUM_EXECUTION_TIME_EXCEEDED: Final = "MaximumExecutionTimeExceeded"

VARIANT_DEACTIVATED: Final = "Variant Workload deactivated due to {}"

# Causes of a PodsReadyTimeout.
WAIT_FOR_START: Final = "WaitForStart"
WAIT_FOR_START_MESSAGE: Final = "Not all pods are ready or succeeded"
WAIT_FOR_RECOVERY: Final = "WaitForRecovery"

# Reasons of Requeued=True.
BACKOFF_FINISHED: Final = "BackoffFinished"
REACTIVATED: Final = "Reactivated"
CLUSTER_QUEUE_RESTARTED: Final = "ClusterQueueRestarted"
LOCAL_QUEUE_RESTARTED: Final = "LocalQueueRestarted"

REQUEUED_MESSAGES: Final = {
    BACKOFF_FINISHED: "The workload backoff was finished",
    REACTIVATED: "The workload was reactivated",
    CLUSTER_QUEUE_RESTARTED: "The ClusterQueue was restarted after being stopped",
    LOCAL_QUEUE_RESTARTED: "The LocalQueue was restarted after being stopped",
}

HOLDING: Final = frozenset(
    {PODS_READY_TIMEOUT, ADMISSION_CHECK, CLUSTER_QUEUE_STOPPED, LOCAL_QUEUE_STOPPED, DEACTIVATED}
)
"""After these the workload waits for something (Requeued=False); after all others it is queued at once."""

REQUEUING_LIMIT_MESSAGE: Final = "exceeding the maximum number of re-queuing retries"
MAXIMUM_EXECUTION_TIME_MESSAGE: Final = "exceeding the maximum execution time"
_DEACTIVATED_MESSAGE: Final = "The workload is deactivated"


def must_race_message(cluster_queue: str) -> str:
    """Return why a workload with quota of its own has to stop and become a parent (CA4)."""
    return f"ClusterQueue {cluster_queue} has concurrent admission: the workload has to run through variants"


def deactivation_message(cause_message: str) -> str:
    """Return the message of Evicted/Deactivated; *cause_message* '' means that a user gave no reason."""
    return f"{_DEACTIVATED_MESSAGE} due to {cause_message}" if cause_message else _DEACTIVATED_MESSAGE


def condition_reason(reason: str, underlying_cause: str) -> str:
    """Return the reason as the Evicted condition spells it: DeactivatedDueToRequeuingLimitExceeded."""
    if reason == DEACTIVATED and underlying_cause:
        return f"{reason}DueTo{underlying_cause}"
    return reason


def checks_message(state: str, checks: Sequence[tuple[str, str]]) -> str:
    """Return what the conditions say of failed checks, given as (name, message)."""
    noun = "AdmissionCheck" if len(checks) == 1 else "AdmissionChecks"
    quoted = "; ".join(f'"{name}" ({message})' if message else f'"{name}"' for name, message in checks)
    return f"{noun} in {state} state: {quoted}"
