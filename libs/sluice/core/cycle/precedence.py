"""Precedence over a waiting preemptor: earlier workloads of its queue get what it waits for (decision 0023).

It preempts as if nothing were kept for those behind it: whoever leaves already goes for it, too. Those behind
it wait on, if there is still enough for them; else they look again.
"""

from collections.abc import Sequence

from sluice.core.flavors.assignment import Mode
from sluice.core.preemption.targets import could_preempt
from sluice.core.queueing.overcommit import came_later
from sluice.core.queueing.pending_queue import Preemptor
from sluice.core.workload.admission_constraints import may_borrow
from sluice.core.workload.pending_reasons import AHEAD, WAITING_FOR_QUOTA
from sluice.core.world.model import ClusterQueue, World
from sluice.core.world.reservations import without

from .admission import Admission
from .entry import Entry, Outcome
from .nomination import propose


def give_way(world: World, admission: Admission, entry: Entry) -> Sequence[Preemptor]:
    """Let *entry* preempt in the place of those behind it; return these, for whom nothing is kept then.

    () if it does not: it is finished if what they wait for is there already, and else as it was.
    """
    queue, planned = entry.queue, entry.proposal
    if queue.strict or (planned.mode is Mode.FIT and admission.is_free(entry)):
        return ()
    rank = entry.workload.rank
    behind = [one for one in queue.holding() if one.workload.rank > rank and admission.overcommit.holds(one)]
    if not behind:
        return ()
    for one in behind:
        admission.lift(one)
    propose(world, entry)
    admission.reconcile(entry)
    if entry.proposal.mode is Mode.PREEMPT and entry.proposal.targets:
        return behind
    is_there = entry.proposal.mode is Mode.FIT and entry.proposal.has_enough(planned.needed())
    entry.proposal = planned
    for one in behind:
        admission.keep(one, entry.cq.node)
    if is_there and any(could_preempt(world, entry.workload, one.workload) for one in behind):
        # What has left for them is not divided before all have: then it comes first (`serving`).
        entry.finish(Outcome.PARKED, WAITING_FOR_QUOTA, AHEAD)
    return ()


def keep_behind(world: World, admission: Admission, behind: Sequence[Preemptor], entry: Entry) -> list[Entry]:
    """Keep on what those behind *entry* wait for; return those for whom there is not enough any more.

    They are of its queue, or growths of those that it would have preempted.
    """
    displaced = []
    takes = entry.victims or entry.outcome is Outcome.ADMITTED
    for one in behind:
        assert one.workload.peers is not None
        queue = one.workload.peers.queue
        cq = world.cluster_queues[queue.name]
        admission.keep(one, cq.node)
        if takes and not _is_left(world, one, cq):
            admission.lift(one)
            other = Entry(one.workload, queue, cq)
            other.finish(Outcome.DISPLACED)
            other.displaced_by = entry.workload
            displaced.append(other)
    return displaced


def _is_left(world: World, waiting: Preemptor, cq: ClusterQueue) -> bool:
    """Is as much left for a preemptor as is kept for it, once all have gone that are to go?

    To one that cannot borrow, what its cohort has beside is of no use; but those that came later do.
    """
    node, workload = cq.node, waiting.workload
    if any(node.available(fr) < 0 for fr in waiting.usage):
        return False
    if may_borrow(world.config, workload.record):
        return True
    with without(world, came_later(workload, cq)):
        return all(node.used(fr) <= node.nominal(fr) for fr in waiting.usage)
