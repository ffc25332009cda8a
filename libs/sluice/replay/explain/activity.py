"""Why a workload, or its queue, is switched off."""

from sluice.core.scheduler.state import SchedulerState
from sluice.core.workload.pending_reasons import MISCONFIGURED
from sluice.core.workload.reasons import DEACTIVATED, DEACTIVATED_MESSAGE
from sluice.core.world.inadmissible import stopped
from sluice.core.world.workload import Workload
from sluice.events.slices import WorkloadRecord


def deactivated_words(workload: Workload) -> str:
    """Say who switched the workload off, why, and what switches it on again."""
    why = workload.deactivated_message
    if not why and workload.held_for == DEACTIVATED:
        # What the eviction said that followed from it.
        why = workload.evicted_message.removeprefix(DEACTIVATED_MESSAGE).removeprefix(" due to ")
    said = (
        f"It was deactivated: {why.rstrip('.')}."
        if why
        else "It was deactivated by people (or by its manifest)."
    )
    again = activate_command(workload)
    return f"{said} It is queued again with {again}." if again else said


def activate_command(workload: Workload) -> str:
    """Return what people type to have it queued again, "" for what is no job of its own."""
    job = workload.record.job
    if job is None:
        return ""
    namespace, _, name = job.key.partition("/")
    return f"`sluice job activate {name}{'' if namespace == 'default' else f' -n {namespace}'}`"


def queue_words(state: SchedulerState, record: WorkloadRecord) -> tuple[str, str] | None:
    """Return (rule, message) of what closes the queues that it names, None when they are open."""
    world = state.world
    local = world.local_queues.get(f"{record.namespace}/{record.queue_name}")
    if local is None:
        return MISCONFIGURED, f"LocalQueue {record.queue_name} doesn't exist"
    if local.cluster_queue not in world.cluster_queues:
        return MISCONFIGURED, f"ClusterQueue {local.cluster_queue} doesn't exist"
    if stopped(local.stop_policy):
        return "Suspended", f"LocalQueue {local.key} is stopped ({local.stop_policy})"
    if not world.cluster_queues[local.cluster_queue].active:
        _, reason, message = state.statuses.get(local.cluster_queue, (False, "", ""))
        text = f"ClusterQueue {local.cluster_queue} is inactive: {reason} {message}"
        return "Suspended", text.rstrip(" :")
    return None


__all__ = ["activate_command", "deactivated_words", "queue_words"]
