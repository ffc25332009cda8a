"""Manager of pending workloads: one queue per cluster queue, of classes of workloads that are equal (SC2).

A new workload joins its class (`pending_queue.EquivalenceClass`), parked or not, without being looked at.
Queues belong to the tree of cohorts (`CohortQueues`) in which freed capacity could help them. A tree is
*dirty* when capacity was freed since its parked classes were last considered; single queues can be *open* in
the same sense. `busy` lists the trees in which there is anything to decide at all.

Everything here is derived from folded events; only folds change it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from sluice.core.quota.tree import FlavorResource, Node
from sluice.core.world.workload import Workload
from sluice.events.base import WorkloadKey

from .pending_queue import (
    WAITS,
    CohortQueues,
    EquivalenceClass,
    EquivalenceKey,
    PendingQueue,
    Preemptor,
    rank_of,
)
from .request_index import ANY, Least
from .sorted_map import Rank
from .tree_lists import forget_shape, list_queue


class QueueManager:
    """All queues. Names of dictionaries carry no order: sort before deciding."""

    __slots__ = ("_awaited", "_is_common", "_key_of", "_least_of", "_rank_of", "busy", "queues", "trees")

    def __init__(
        self,
        key_of: Callable[[Workload], EquivalenceKey],
        rank_of: Callable[[Workload], Rank],
        least_of: Callable[[Workload, str], Least],
        is_common: Callable[[EquivalenceClass], bool],
    ) -> None:
        self.queues: dict[str, PendingQueue] = {}
        self.trees: dict[Node, CohortQueues] = {}
        self.busy: dict[Node, CohortQueues] = {}
        self._awaited: dict[WorkloadKey, dict[WorkloadKey, Preemptor]] = {}
        """Victim -> the preemptors that wait for it to give up its quota."""
        self._key_of = key_of
        self._rank_of = rank_of
        self._least_of = least_of
        self._is_common = is_common

    # Workloads

    def add(self, workload: Workload, queue_name: str) -> None:
        """Queue *workload*, which does not queue yet."""
        queue = self.queues[queue_name]
        key = self._key_of(workload)
        peers = queue.classes.get(key)
        workload.rank = rank = self._rank_of(workload)
        if peers is None:
            peers = queue.classes[key] = EquivalenceClass(queue, key)
        workload.peers = peers
        peers.add(workload)
        if peers.rank is None or rank < peers.rank:
            is_new = peers.rank is None
            blocker = queue.blocker() if queue.strict else None
            self._rerank(peers, rank)
            if is_new or queue.strict:
                self.refresh(queue)
                self._open_behind(queue, blocker)

    def belongs(self, workload: Workload) -> bool:
        """Is a queued workload still among those that it is equal to? Variants change by their siblings."""
        peers: EquivalenceClass | None = workload.peers
        assert peers is not None
        if workload.record.parent is None:
            return True
        return (peers.key if peers.waiting is None else peers.key[2:]) == self._key_of(workload)

    def remove(self, workload: Workload) -> None:
        """Take *workload* out of its queue, if it is in one."""
        self._remove(workload, True)

    def _remove(self, workload: Workload, wakes: bool) -> None:
        """As `remove`. *wakes*: what was withheld for it in past cycles is free for others."""
        peers = workload.peers
        if peers is None:
            return
        queue = peers.queue
        if peers.waiting is not None:
            self._leave_waiting(peers.waiting)
            self.refresh(queue)
            self.wake(queue)
            return
        blocker = queue.blocker() if queue.strict else None
        workload.peers = None
        peers.discard()
        emptied = not peers.size
        if emptied:
            self._take_out(peers)
            del queue.classes[peers.key]
            shared = queue.tree is not None and len(queue.tree.members) > 1
            if wakes and shared and queue.withholds and peers.indexed and not queue.strict:
                self.wake(queue)
        elif workload.rank == peers.rank:
            self._rerank(peers, peers.head().rank)
        if emptied or queue.strict:
            self.refresh(queue)
            self._open_behind(queue, blocker)

    def _open_behind(self, queue: PendingQueue, blocker: EquivalenceClass | None) -> None:
        """Let another class than *blocker* be looked at, if a StrictFIFO queue waits behind that one now.

        What was freed meanwhile was of no concern to those behind the blocker, so nobody has asked them; nor
        has anybody if there was none, as somebody came before all of them who has left again.
        """
        if queue.blocker() not in (None, blocker):
            self.open(queue)

    def _rerank(self, peers: EquivalenceClass, rank: Rank) -> None:
        before, queue = peers.rank, peers.queue
        peers.rank = rank
        if before is None:
            self._put_in(peers)
        elif not peers.parked:
            queue.active.move(before, rank, peers)
        else:
            queue.parked.move(before, rank, peers)
            if peers.indexed:
                queue.shapes.move(peers.least, before, rank, peers)
                if queue.tree is not None:
                    queue.tree.shapes.move(peers.least, before, rank, peers)
                    queue.tree.touched[queue.name] = queue

    def _take_out(self, peers: EquivalenceClass) -> None:
        rank, queue = rank_of(peers), peers.queue
        if not peers.parked:
            queue.active.discard(rank, peers)
            return
        queue.parked.discard(rank, peers)
        if peers.indexed:
            queue.shapes.discard(peers.least, rank, peers)
            if queue.tree is not None:
                forget_shape(queue.tree, peers)

    def _put_in(self, peers: EquivalenceClass) -> None:
        rank, queue = rank_of(peers), peers.queue
        if not peers.parked:
            queue.active.add(rank, peers)
            return
        queue.parked.add(rank, peers)
        if peers.indexed:
            queue.shapes.add(peers.least, rank, peers)
            if queue.tree is not None:
                queue.tree.shapes.add(peers.least, rank, peers)
                if not peers.common:
                    uncommon = queue.tree.uncommon
                    uncommon[peers.least] = uncommon.get(peers.least, 0) + 1
                queue.tree.touched[queue.name] = queue

    # Verdicts

    def park(
        self, peers: EquivalenceClass, *, aside: bool = False, reserves: bool = False, hopeless: bool = False
    ) -> None:
        """Set the class aside until something changes. `hopeless`: freed capacity will not help it."""
        self._take_out(peers)
        peers.parked = True
        peers.indexed = not hopeless and not aside
        peers.least = self._least_of(peers.head(), peers.queue.name) if peers.indexed else ()
        peers.common = peers.indexed and not reserves and self._is_common(peers)
        self._put_in(peers)
        peers.aside = aside
        peers.reserves = reserves
        tree = peers.queue.tree
        if tree is not None and not tree.dirty and (peers.scan is not None or tree.is_searched(peers)):
            peers.searched = tree.epoch
        else:
            # What was freed in the same step, the search has not seen.
            peers.searched = 0
        missed = tree is not None and peers.scan is not None and peers.began != tree.releases
        if missed:
            peers.searched = 0  # nor what was given back while it went on
        if not (reserves and peers.searched):
            peers.scan = None
        self.refresh(peers.queue)
        if missed:
            self.open(peers.queue)  # the flavors that it looked at first, it looks at again
        if aside and peers.queue.strict and peers.queue.blocker() is not None:
            self.open(peers.queue)  # it was looked at, and does not keep the next one from being so

    def search_on(self, peers: EquivalenceClass, tried: Sequence[dict[str, int]]) -> None:
        """Note how far the search for a flavor has come; the next look goes on with it."""
        self.activate(peers)
        tree = peers.queue.tree
        if peers.scan is None:
            peers.began = tree.releases if tree is not None else 0
        peers.scan = tuple(tried)

    def activate(self, peers: EquivalenceClass) -> None:
        """Let the class compete again."""
        if peers.parked:
            self._take_out(peers)
            peers.parked = peers.aside = peers.reserves = peers.indexed = False
            peers.searched = 0
            peers.scan = None
            self._put_in(peers)
            self.refresh(peers.queue)

    def reconsider(self, queue: PendingQueue, cause: int) -> None:
        """Forget all verdicts of the queue: what they rest on has changed by the input at *cause*."""
        if not queue.classes:
            return
        if queue.tree is not None:
            queue.tree.brought_about_by(cause)
        for peers in list(queue.parked):
            self.activate(peers)
        for peers in queue.classes.values():
            peers.reset()
        for key, waiting in queue.waiting.items():
            waiting.recheck = True
            queue.due[key] = None
        self.refresh(queue)

    def wait(self, waiting: Preemptor) -> None:
        """Let a queued workload wait for its victims; it leaves the class of those that it is equal to."""
        workload = waiting.workload
        peers = workload.peers
        assert peers is not None
        queue, before = peers.queue, peers.waiting
        if before is not None:
            self._forget_victims(before)
            peers.waiting = waiting
        else:
            if queue.strict:
                for other in list(queue.waiting.values()):
                    self.stop_waiting(other.workload)
            self.remove(workload)
            key = (WAITS, workload.uid, *peers.key)
            own = queue.classes[key] = EquivalenceClass(queue, key)
            own.waiting, own.rank = waiting, workload.rank
            own.add(workload)
            workload.peers = own
        queue.waiting[workload.key] = waiting
        if waiting.is_due():
            queue.due[workload.key] = None
        else:
            queue.due.pop(workload.key, None)
        for victim in waiting.victims:
            self._awaited.setdefault(victim, {})[workload.key] = waiting
        self.refresh(queue)

    def serve(self, workload: Workload, usage: Mapping[FlavorResource, int]) -> bool:
        """Take *workload* out of its queue: it has got quota for *usage*. Was that kept for it?"""
        peers = workload.peers
        waiting = None if peers is None else peers.waiting
        if peers is None or waiting is None or waiting.usage != usage:
            if peers is None:
                return False
            queue = peers.queue
            # Where nothing is withheld for those that are looked at, there is nothing to ask.
            is_all = (queue.withholds or queue.withheld_for is peers) and _is_all(peers, workload, usage)
            if is_all and queue.withheld_for is peers:
                queue.withheld_for = None
            self._remove(workload, not is_all)
            return False
        # What was kept for it is its own now, so nothing is free that was not.
        self._leave_waiting(waiting)
        self.refresh(peers.queue)
        return True

    def taken(self, queue: PendingQueue, rank: Rank, usage: Mapping[FlavorResource, int], cause: int) -> None:
        """What was kept for one that waited with *rank* is held now, so that others may preempt it.

        Those that come before it in its queue, or that lend to its queue, were looked at in vain meanwhile.
        """
        node = queue.node
        flavors = [fr[0] for fr in usage if node.borrowing(fr)]
        if flavors:
            self.wake(queue, cause, flavors)
        first = queue.parked.first()
        if first is not None and rank_of(first) < rank:
            self.open(queue)

    def admission_open(self, cause: int) -> None:
        """Nobody's pods are waited for any more: whoever was held up by that is looked at."""
        for name in sorted(self.queues):
            queue = self.queues[name]
            for key, waiting in queue.waiting.items():
                if waiting.held:
                    waiting.held = False
                    queue.due[key] = None
            self.refresh(queue)
            self.wake(queue, cause)

    def stop_waiting(self, workload: Workload) -> None:
        """A preemptor does not wait any more, and queues like others: what it reserved is free for them."""
        peers = workload.peers
        if peers is not None and peers.waiting is not None:
            queue = peers.queue
            self._leave_waiting(peers.waiting)
            self.add(workload, queue.name)
            self.refresh(queue)
            self.wake(queue)

    def _leave_waiting(self, waiting: Preemptor) -> None:
        """Take a preemptor that waits out of its queue."""
        workload = waiting.workload
        peers = workload.peers
        assert peers is not None
        queue = peers.queue
        self._forget_victims(waiting)
        workload.waits_on = False
        del queue.waiting[workload.key]
        queue.due.pop(workload.key, None)
        del queue.classes[peers.key]
        workload.peers = None

    def _forget_victims(self, waiting: Preemptor) -> None:
        for victim in waiting.victims:
            awaiting = self._awaited[victim]
            del awaiting[waiting.workload.key]
            if not awaiting:
                del self._awaited[victim]

    def victim_gone(self, victim: WorkloadKey) -> None:
        """The workload has given up its quota: who waited for it waits for one less."""
        awaiting = self._awaited.pop(victim, None)
        if awaiting is None:
            return
        for key, waiting in awaiting.items():
            del waiting.victims[victim]
            peers = waiting.workload.peers
            if not waiting.victims and peers is not None:
                peers.queue.due[key] = None
                self.refresh(peers.queue)

    # Waking

    def touch(self, queue: PendingQueue) -> None:
        """The usage of the queue itself has changed."""
        if queue.tree is not None:
            queue.tree.touched[queue.name] = queue

    def wake(self, queue: PendingQueue, cause: int = 0, flavors: Iterable[str] = (ANY,)) -> None:
        """Capacity of *flavors* was freed in the tree of *queue*: parked classes there may have a chance."""
        tree = queue.tree
        if tree is None:
            return
        tree.touched[queue.name] = queue
        tree.brought_about_by(cause)
        if cause:
            tree.releases += 1
        if tree.dirty or tree.parked or tree.waiting:
            tree.dirty = True
            tree.epoch += 1
            for flavor in (ANY,) if tree.wary else flavors:
                tree.freed[flavor] = None
            self.busy[tree.root] = tree
        elif tree.root not in self.busy:
            tree.fresh = False

    def open(self, queue: PendingQueue) -> None:
        """The head of the queue has gone: parked classes behind it may have a chance."""
        tree = queue.tree
        if tree is not None and queue.name in tree.parked:
            tree.open[queue.name] = queue
            self.busy[tree.root] = tree

    def settled(self, tree: CohortQueues, still_open: list[PendingQueue]) -> None:
        """The parked classes of the tree have been considered, but for those of *still_open*."""
        tree.dirty = False
        tree.freed.clear()
        tree.open = {queue.name: queue for queue in still_open}
        self._tidy(tree)

    # Queues and trees

    def set_kind(self, queue: PendingQueue, *, strict: bool, special: bool, withholds: bool) -> None:
        """Choose between StrictFIFO and BestEffortFIFO, and how the queue is judged on a wake."""
        queue.withholds = withholds
        if queue.strict != strict or queue.special != special:
            queue.strict = strict
            queue.special = special
            self.refresh(queue)

    def add_queue(self, name: str, node: Node) -> PendingQueue:
        queue = self.queues[name] = PendingQueue(name, node)
        self.regroup(queue)
        return queue

    def remove_queue(self, name: str) -> None:
        """Forget an empty queue."""
        queue = self.queues.pop(name)
        assert not queue.classes, f"queue {name} still has workloads"
        self._leave(queue)

    def regroup(self, queue: PendingQueue) -> None:
        """Bring the queue to the tree that it belongs to now, as cohorts may have changed."""
        root = queue.node.root()
        before = queue.tree
        if before is not None and before.root is root:
            return
        is_open = before is not None and queue.name in before.open
        self._leave(queue)
        tree = self.trees.get(root)
        if tree is None:
            tree = self.trees[root] = CohortQueues(root)
        tree.members[queue.name] = queue
        queue.tree = tree
        for peers in queue.parked:
            self._put_in(peers)
        for peers in queue.classes.values():
            peers.searched = peers.began = 0
        if before is not None:
            tree.dirty = tree.dirty or before.dirty
            if tree.dirty:
                tree.freed[ANY] = None
            tree.cause, tree.fresh = max(tree.cause, before.cause), tree.fresh or before.fresh
            if is_open:
                tree.open[queue.name] = queue
        self.refresh(queue)

    def _leave(self, queue: PendingQueue) -> None:
        """Take the queue out of its tree; the last one takes the tree with it."""
        tree = queue.tree
        if tree is None:
            return
        for peers in queue.parked:
            if peers.indexed:
                forget_shape(tree, peers)
        if queue.withheld_for is not None:
            queue.withheld_for = None
            self.wake(queue)
        tree.forget(queue.name)
        queue.tree = queue.listed = None
        if tree.members:
            self._tidy(tree)
        else:
            del self.trees[tree.root]
            self.busy.pop(tree.root, None)

    def refresh(self, queue: PendingQueue) -> None:
        """Bring the lists of the queue's tree up to date with the queue."""
        tree = queue.tree
        if tree is None:
            return
        name = queue.name
        waits = reserves = False
        withheld_for = None
        if queue.waiting and (queue.stopped or (queue.strict and not queue.holding())):
            # Others come first, or it serves nobody, for as long as that may last: nothing is kept for those
            # that wait, and what they waited for may be for others by then.
            for one in list(queue.waiting.values()):
                self.stop_waiting(one.workload)
            return
        if queue.stopped:
            ready = has_parked = False
            if queue.withholds and queue.listed is not None and queue.listed[2]:
                self.wake(queue)  # nothing is withheld for those that it does not serve
        else:
            has_parked = bool(queue.parked.items)
            waits = bool(queue.waiting)
            ready = bool(queue.active.items) or bool(queue.due)
            if queue.strict:
                if waits:
                    ready = bool(queue.due)
                elif (blocker := queue.blocker()) is not None:
                    reserves, ready = blocker.reserves, False
                    withheld_for = blocker if reserves else None
        if queue.withheld_for is not withheld_for:
            before, queue.withheld_for = queue.withheld_for, withheld_for
            if before is not None:
                self.wake(queue)  # others may have what was withheld for the blocker that there was
        listed = (waits or reserves, ready, has_parked, queue.special)
        if listed != queue.listed:
            list_queue(tree, queue, listed)
        if not has_parked and name in tree.open:
            del tree.open[name]
        self._tidy(tree)

    def _tidy(self, tree: CohortQueues) -> None:
        if tree.dirty and not tree.parked and not tree.waiting:
            tree.dirty = False
            tree.freed.clear()
        if tree.ready or tree.dirty or tree.open:
            self.busy[tree.root] = tree
        else:
            self.busy.pop(tree.root, None)
            tree.fresh = False


def _is_all(peers: EquivalenceClass, workload: Workload, usage: Mapping[FlavorResource, int]) -> bool:
    """Is all that was withheld for *workload* its own now, as it gets *usage*? False is always right."""
    if not peers.indexed or any(pod_set.min_count is not None for pod_set in workload.record.pod_sets):
        return False
    return all(usage.get(fr, 0) >= amount for fr, amount in peers.least)
