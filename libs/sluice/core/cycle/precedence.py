"""Who preempts nobody, as another workload of its queue preempts for the same capacity (decision 0023)."""

from sluice.core.flavors.assignment import Mode
from sluice.core.preemption.targets import could_preempt
from sluice.core.queueing.overcommit import Overcommit
from sluice.core.workload.pending_reasons import AHEAD, BEHIND
from sluice.core.world.model import World

from .entry import Entry
from .nomination import propose


def stands_back(world: World, entry: Entry, promises: Overcommit | None) -> str:
    """Return why an entry that would preempt does not, '' if it does."""
    if entry.queue.is_kept_from(entry.workload, entry.proposal.usage):
        return BEHIND
    return AHEAD if _gets_it_first(world, entry, promises) else ""


def _gets_it_first(world: World, entry: Entry, promises: Overcommit | None) -> bool:
    """Is what preemptors that come after *entry* wait for enough for it, so that nobody else has to go?

    When their victims have gone, it is looked at before them (`serving`).
    """
    workload, queue = entry.workload, entry.queue
    if promises is None or queue.strict:
        return False
    after = [
        one
        for one in queue.waiting.values()
        if one.workload.rank > workload.rank and could_preempt(world, workload, one.workload)
    ]
    if not after:
        return False
    content = Entry(workload, queue, entry.cq)
    with promises.spared(after):
        propose(world, content, may_preempt=False)
    return content.proposal.mode is Mode.FIT


__all__ = ["stands_back"]
