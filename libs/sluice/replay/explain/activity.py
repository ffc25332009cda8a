"""Why a workload, or its queue, is switched off."""

from sluice.core.scheduler.state import SchedulerState
from sluice.core.workload.pending_reasons import SUSPENDED
from sluice.core.workload.reasons import DEACTIVATED, DEACTIVATED_MESSAGE
from sluice.core.world.inadmissible import stopped, why_not_queued
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
    """Return (rule, message) of what keeps it out of its queue, None when nothing does.

    Rule and message are those of its status (G6); of an inactive queue it is said why it is.
    """
    found = why_not_queued(state.world, record)
    if found is None or found[0] != SUSPENDED:
        return found
    local = state.world.local_queues[f"{record.namespace}/{record.queue_name}"]
    if stopped(local.stop_policy):
        return SUSPENDED, f"{found[1]}: its stopPolicy is {local.stop_policy}"
    _, reason, message = state.statuses.get(local.cluster_queue, (False, "", ""))
    return SUSPENDED, f"{found[1]}: {reason} {message}".rstrip(" :")


__all__ = ["activate_command", "deactivated_words", "queue_words"]
