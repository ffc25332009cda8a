"""Growths that wait for victims, of jobs that somebody is about to stop (decision 0023)."""

from sluice.core.queueing.overcommit import Overcommit
from sluice.core.queueing.pending_queue import Preemptor
from sluice.core.quota.tree import Node
from sluice.core.world.model import World
from sluice.core.world.workload_slices import successor
from sluice.events.base import WorkloadKey

from .entry import Entry, Proposal


def kept_for_growths(world: World, overcommit: Overcommit, entry: Entry) -> list[tuple[Preemptor, Node]]:
    """Return the growths of the entry's targets for which something is kept, each with its queue's node."""
    return [
        (growth.peers.waiting, growth.peers.queue.node)
        for victim in entry.proposal.preempted
        if (growth := successor(world, victim.key)) is not None
        and growth is not entry.workload
        and growth.peers is not None
        and growth.peers.waiting is not None
        and overcommit.holds(growth.peers.waiting)
    ]


def stops_fewer(found: Proposal, planned: Proposal) -> bool:
    """Would *found* preempt only some of those that *planned* would, but for those that leave already?"""
    return bool(found.targets) and _to_be_told(found) < _to_be_told(planned)


def _to_be_told(planned: Proposal) -> set[WorkloadKey]:
    return {victim.key for victim in planned.preempted if victim.evicted_at is None}
