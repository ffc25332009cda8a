"""Explanation of a workload, or its queue, that is switched off."""

from collections.abc import Iterator

from sluice.core.scheduler.state import SchedulerState
from sluice.core.workload.pending_reasons import ADMISSION_GATED, ADMISSION_GATED_BY, MISCONFIGURED, SUSPENDED
from sluice.core.world.inadmissible import GATED_BY_ANNOTATION, Reason, stopped, why_not_queued
from sluice.core.world.workload import Workload
from sluice.events.slices import WorkloadRecord


def deactivated_words(workload: Workload, *, grows: bool) -> str:
    """Say who switched the workload off, why, and what switches it on again.

    `grows`: its job runs, in the slice that it was to replace.
    """
    why = workload.deactivated_message
    said = (
        f"It was deactivated: {why.rstrip('.')}."
        if why
        else "It was deactivated by people (or by its manifest)."
    )
    again = activate_command(workload)
    if again and grows:
        return f"{said} It is tried again with {again}, or with any size ({_job_command(workload, 'scale')})."
    return f"{said} It is queued again with {again}." if again else said


def activate_command(workload: Workload) -> str:
    """Return what people type to have it queued again, "" for what is no job of its own."""
    return _job_command(workload, "activate")


def _job_command(workload: Workload, verb: str) -> str:
    job = workload.record.job
    if job is None:
        return ""
    namespace, _, name = job.key.partition("/")
    size = " COUNT" if verb == "scale" else ""
    return f"`sluice job {verb} {name}{size}{'' if namespace == 'default' else f' -n {namespace}'}`"


def queue_words(state: SchedulerState, record: WorkloadRecord) -> tuple[str, str] | None:
    """Return (rule, message) of what keeps it out of its queue, None when nothing does.

    The rule is that of its status (G6), which names one obstacle; the message names all of them, and of an
    inactive queue why it is.
    """
    found = list(_obstacles(state, record))
    if not found:
        return None
    if record.misconfigured:
        # Whatever opens its gates: its resources are inadmissible.
        found.insert(
            0 if found[0][0] == ADMISSION_GATED else len(found), (MISCONFIGURED, record.misconfigured)
        )
    return found[0][0], "; besides, ".join(message for _, message in found)


def _obstacles(state: SchedulerState, record: WorkloadRecord) -> Iterator[Reason]:
    """Yield what keeps it out of its queue, the highest reason first."""
    first = why_not_queued(state.world, record)
    local = state.world.local_queues.get(f"{record.namespace}/{record.queue_name}")
    if first is None or local is None:
        yield from (first,) if first is not None else ()
        return
    if stopped(local.stop_policy):
        message = f"LocalQueue {record.queue_name} is inactive: its stopPolicy is {local.stop_policy}"
        yield SUSPENDED, message
    name = local.cluster_queue
    queue = state.world.cluster_queues.get(name)
    gates = record.annotations.get(GATED_BY_ANNOTATION, "")
    behind = why_not_queued(state.world, record, local_stops=False)
    if behind is None or queue is None or behind[0] == MISCONFIGURED:
        yield from (behind,) if behind is not None else ()
        return
    if behind[0] == ADMISSION_GATED:
        yield behind
    if stopped(queue.spec.stop_policy) or not queue.active:
        _, reason, message = state.statuses.get(name, (False, "", ""))
        yield SUSPENDED, f"ClusterQueue {name} is inactive: {reason} {message}".rstrip(" :")
    if gates and behind[0] != ADMISSION_GATED:
        yield ADMISSION_GATED, ADMISSION_GATED_BY.format(gates)
