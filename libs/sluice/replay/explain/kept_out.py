"""Explanation of a workload that is in no queue, though the queue that it is to be in is open."""

from sluice.core.scheduler.state import SchedulerState
from sluice.core.views import no_variant
from sluice.core.workload.pending_reasons import MISCONFIGURED, PENDING_EVALUATION
from sluice.core.world.inadmissible import grows_elsewhere
from sluice.core.world.variants import HELD_BACK, backs_off, is_parent, parent_holds
from sluice.core.world.workload import Workload
from sluice.core.world.workload_slices import replaced_slice


def kept_out(state: SchedulerState, workload: Workload) -> tuple[str, str]:
    """Return (reason, message) of a workload whose queue is open, and which is not queued."""
    if why := _grows_elsewhere(state, workload):
        return (MISCONFIGURED, why)
    none = _no_variant(state, workload)
    return none or (PENDING_EVALUATION, f"It is not queued: {_words(state, workload)}.")


def _grows_elsewhere(state: SchedulerState, workload: Workload) -> str:
    """Return that a slice's job runs in another cluster queue than its local queue leads to, '' if not."""
    old, name = replaced_slice(state.world, workload), workload.record.queue_name
    local = state.world.local_queues.get(f"{workload.record.namespace}/{name}")
    if old is None or old.evicted_at is not None or local is None:
        return ""
    return grows_elsewhere(old.cluster_queue, name, local.cluster_queue)


def _no_variant(state: SchedulerState, workload: Workload) -> tuple[str, str] | None:
    """Return what its status says of a parent whose job allows none of the flavors of variants (CA4)."""
    record, world = workload.record, state.world
    local = world.local_queues.get(f"{record.namespace}/{record.queue_name}")
    cq = world.cluster_queues.get(local.cluster_queue) if local is not None else None
    if cq is None or not is_parent(world.config, workload, cq) or world.families.get(workload.key):
        return None
    return no_variant(cq.spec, cq.name, record)


def _words(state: SchedulerState, workload: Workload) -> str:
    """Return for whom a workload whose queue is open has to wait before it is queued."""
    if workload.record.replaces is not None:
        return f"{workload.record.replaces}, which it is to replace, has no quota or is about to lose it"
    if parent_holds(state.world, workload):
        return f"{workload.record.parent} has quota of its own, and gives it back first"
    if backs_off(state.world, workload):
        return HELD_BACK[0].lower() + HELD_BACK[1:]
    if not state.world.families.get(workload.key):
        return "its variants are to be queued in its place, and are not made yet"
    return "it has variants, which are queued in its place"
