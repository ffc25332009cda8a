"""Woken classes of a tree, which a cycle considers, and their order (SC2).

All of them when capacity was freed in the tree, as far as arithmetic says that it could help them (`wake`);
else those of the queues that are open, as they lost their head. A cycle asks for one after the other, since
each is judged by what those before it have left.
"""

from collections.abc import Iterable, Iterator

from sluice.core.queueing.pending_queue import CohortQueues, EquivalenceClass, PendingQueue
from sluice.core.queueing.sorted_map import Rank
from sluice.core.world.model import ClusterQueue, World
from sluice.events.base import WorkloadKey

from .entry import Entry, Outcome
from .requeue_filter import may_be_free, may_fit, queue_bounds
from .withheld_quota import ALWAYS_RECLAIMS

FEW = 4
"""Up to so many classes are quicker asked one by one than by their sizes."""


class Woken:
    """The parked classes that the cycle of one tree considers."""

    __slots__ = ("_preempting", "_served", "_tree", "_world")

    def __init__(self, world: World, tree: CohortQueues) -> None:
        self._world = world
        self._tree = tree
        self._served: set[WorkloadKey] = set()
        """Preemptors that waited when the cycle began, and wait no more, or for something else."""
        self._preempting: dict[str, list[Entry]] = {}
        """Cluster queue -> those of the cycle that will wait there for their victims."""

    def queues(self, taken: set[str], *, all_queues: bool) -> Iterator[PendingQueue]:
        """Yield the queues, but for those *taken*, whose classes are to be asked for; take them."""
        tree = self._tree
        if not tree.dirty:
            names = sorted(tree.open)
        elif all_queues:
            names = sorted(tree.parked)
        else:
            names = sorted({*tree.hopeful, *tree.special, *tree.ready})
        for name in names:
            queue = tree.parked.get(name)
            if queue is not None and name not in taken:
                taken.add(name)
                yield queue

    def candidates(self, queue: PendingQueue, after: Rank | None = None) -> Iterator[EquivalenceClass]:
        """Return the classes of *queue* to be considered, in order: the active ones and the woken ones."""
        if queue.strict or not queue.active.items:
            return self.classes(queue, after)
        return _merged(iter(queue.active), self.classes(queue, after))

    def classes(self, queue: PendingQueue, after: Rank | None = None) -> Iterator[EquivalenceClass]:
        """Yield the parked classes of *queue* that could fit as things are when asked, in order."""
        world, tree, parked = self._world, self._tree, queue.parked
        cq = world.cluster_queues[queue.name]
        freed = tree.dirty
        if queue.strict:
            blocker = queue.blocker()
            # What a blocker waits for may be withheld for it, so it is looked at although it cannot fit.
            if (
                blocker is not None
                and blocker.indexed
                and (freed or not tree.is_searched(blocker))
                and (lends_for_good(cq) or may_fit(world, cq, blocker))
            ):
                yield blocker
            return
        if lends_for_good(cq):
            yield from (p for p in parked if p.indexed and (freed or not tree.is_searched(p)))
            return
        classes: Iterable[EquivalenceClass]
        if len(parked.items) > FEW:
            first = parked.first()
            assert first is not None
            classes = queue.shapes.merged(queue_bounds(world, cq, first.head()))
        else:
            classes = parked.listed()
        for peers in classes:
            if (after is None or _rank(peers) > after) and self._may_get_in(queue, cq, peers):
                yield peers

    def _may_get_in(self, queue: PendingQueue, cq: ClusterQueue, peers: EquivalenceClass) -> bool:
        """Could the parked class get in, as things are, by what was freed or because its queue is open?"""
        tree, name = self._tree, queue.name
        if not peers.indexed:
            return False
        if not tree.dirty:
            if tree.is_searched(peers):
                return False
        elif name not in tree.open and not tree.concerns(peers.least):
            return False
        if (queue.waiting or name in self._preempting) and self._comes_behind(queue, peers):
            return may_be_free(self._world, cq, peers)
        return may_fit(self._world, cq, peers)

    def _comes_behind(self, queue: PendingQueue, peers: EquivalenceClass) -> bool:
        """Does a preemptor of the queue come first for what the class needs, so that it preempts nobody?"""
        frs = [fr for fr, _ in peers.least]
        if queue.is_kept_from(peers.head(), frs, self._served):
            return True
        rank = _rank(peers)
        for entry in self._preempting.get(queue.name, ()):
            # Its equals, if it has any, come after it.
            if entry.workload.rank <= rank and any(fr in entry.proposal.usage for fr in frs):
                return True
        return False

    # When the cycle is over

    def fitting(self, queue: PendingQueue) -> Iterator[EquivalenceClass]:
        """Yield the parked classes that could fit as things are, also of a queue that lends for good."""
        cq = self._world.cluster_queues[queue.name]
        return (peers for peers in self.classes(queue) if self._may_get_in(queue, cq, peers))

    def note(self, entries: Iterable[Entry]) -> None:
        """Note what follows from these entries, which are finished, for who waits from now on."""
        for entry in entries:
            preempts = entry.outcome is Outcome.PREEMPTING
            if preempts:
                self._preempting.setdefault(entry.queue.name, []).append(entry)
            if entry.peers.waiting is not None and (preempts or entry.outcome is Outcome.ADMITTED):
                self._served.add(entry.workload.key)

    def has_more(self, entry: Entry) -> bool:
        """Has the queue a parked class to be considered, with the entry out of the way?"""
        queue, cq = entry.queue, entry.cq
        if queue.strict:
            return True
        own = entry.peers if entry.peers.size == 1 else None
        parked = queue.parked.items
        if len(parked) > FEW or lends_for_good(cq):
            return any(peers is not own for peers in self.classes(queue))
        for peers in parked.values():  # noqa: SIM110 - asked of whatever is admitted
            if peers is not own and self._may_get_in(queue, cq, peers):
                return True
        return False


def lends_for_good(cq: ClusterQueue) -> bool:
    """Can the queue not be sure to get back what it lends?

    Then what it waits for is withheld for it while it is looked at, so its classes take part in a cycle even
    when they cannot fit.
    """
    policy = cq.spec.preemption  # as not `always_reclaims`, in one call: asked of every class that is woken
    return policy is None or policy.reclaim_within_cohort != ALWAYS_RECLAIMS


def _merged(
    active: Iterator[EquivalenceClass], woken: Iterator[EquivalenceClass]
) -> Iterator[EquivalenceClass]:
    """Yield the classes of both by rank; the woken ones as late as can be."""
    following = next(active, None)
    for peers in woken:
        while following is not None and _rank(following) < _rank(peers):
            yield following
            following = next(active, None)
        yield peers
    if following is not None:
        yield following
        yield from active


def _rank(peers: EquivalenceClass) -> Rank:
    assert peers.rank is not None
    return peers.rank
