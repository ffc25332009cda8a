"""Who waits for quota: one queue per cluster queue, of classes of workloads that are equal (SC2).

A new workload joins its class (`pending_queues.Peers`), parked or not, without being looked at. Queues belong
to the tree of cohorts (`TreeQueues`) in which freed capacity could help them. A tree is *dirty* when capacity
was freed since its parked classes were last considered; single queues can be *open* in the same sense. `busy`
lists the trees in which there is anything to decide at all.

Everything here is derived from folded events; only folds change it.
"""

from collections.abc import Callable, Iterable, Mapping

from sluice.events.base import WorkloadKey

from .model import Workload
from .pending_queues import PeerKey, Peers, Queue, TreeQueues, Waiting, rank_of
from .quota import FlavorResource, Node
from .ranked import Rank
from .shapes import ANY, Least


class Pending:
    """All queues. Names of dictionaries carry no order: sort before deciding."""

    __slots__ = ("_awaited", "_key_of", "_least_of", "_rank_of", "busy", "queues", "trees")

    def __init__(
        self,
        key_of: Callable[[Workload], PeerKey],
        rank_of: Callable[[Workload], Rank],
        least_of: Callable[[Workload, str], Least],
    ) -> None:
        self.queues: dict[str, Queue] = {}
        self.trees: dict[Node, TreeQueues] = {}
        self.busy: dict[Node, TreeQueues] = {}
        self._awaited: dict[WorkloadKey, dict[str, Queue]] = {}
        """Victim -> the queues whose preemptor waits for it to give up its quota."""
        self._key_of = key_of
        self._rank_of = rank_of
        self._least_of = least_of

    # Workloads

    def add(self, workload: Workload, queue_name: str) -> None:
        """Queue *workload*, which does not queue yet."""
        queue = self.queues[queue_name]
        key = self._key_of(workload)
        peers = queue.classes.get(key)
        workload.rank = rank = self._rank_of(workload)
        if peers is None:
            peers = queue.classes[key] = Peers(queue, key)
        workload.peers = peers
        peers.add(workload)
        if peers.rank is None or rank < peers.rank:
            is_new = peers.rank is None
            self._rerank(peers, rank)
            if is_new or queue.strict:
                self.refresh(queue)

    def belongs(self, workload: Workload) -> bool:
        """Is a queued workload still among those that it is equal to? Variants change by their siblings."""
        peers = workload.peers
        assert peers is not None
        return workload.record.parent is None or peers.key == self._key_of(workload)

    def remove(self, workload: Workload) -> None:
        """Take *workload* out of its queue, if it is in one."""
        peers = workload.peers
        if peers is None:
            return
        queue = peers.queue
        workload.peers = None
        peers.discard()
        emptied = not peers.size
        if emptied:
            self._take_out(peers)
            del queue.classes[peers.key]
        elif workload.rank == peers.rank:
            self._rerank(peers, peers.head().rank)
        if queue.waiting is not None and queue.waiting.workload is workload:
            self.stop_waiting(queue)
        elif emptied or queue.strict:
            self.refresh(queue)

    def _rerank(self, peers: Peers, rank: Rank) -> None:
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

    def _take_out(self, peers: Peers) -> None:
        rank, queue = rank_of(peers), peers.queue
        if not peers.parked:
            queue.active.discard(rank, peers)
            return
        queue.parked.discard(rank, peers)
        if peers.indexed:
            queue.shapes.discard(peers.least, rank, peers)
            if queue.tree is not None:
                queue.tree.shapes.discard(peers.least, rank, peers)

    def _put_in(self, peers: Peers) -> None:
        rank, queue = rank_of(peers), peers.queue
        if not peers.parked:
            queue.active.add(rank, peers)
            return
        queue.parked.add(rank, peers)
        if peers.indexed:
            queue.shapes.add(peers.least, rank, peers)
            if queue.tree is not None:
                queue.tree.shapes.add(peers.least, rank, peers)
                queue.tree.touched[queue.name] = queue

    # Verdicts

    def park(
        self, peers: Peers, *, aside: bool = False, reserves: bool = False, hopeless: bool = False
    ) -> None:
        """Set the class aside until something changes. `hopeless`: freed capacity will not help it."""
        self._take_out(peers)
        peers.parked = True
        peers.indexed = not hopeless and not aside
        peers.least = self._least_of(peers.head(), peers.queue.name) if peers.indexed else ()
        self._put_in(peers)
        peers.aside = aside
        peers.reserves = reserves
        peers.scan = None
        waiting = peers.queue.waiting
        if waiting is not None and waiting.workload.peers is peers:
            self.stop_waiting(peers.queue)
        else:
            self.refresh(peers.queue)

    def activate(self, peers: Peers) -> None:
        """Let the class compete again."""
        if peers.parked:
            self._take_out(peers)
            peers.parked = peers.aside = peers.reserves = peers.indexed = False
            self._put_in(peers)
            self.refresh(peers.queue)

    def reconsider(self, queue: Queue) -> None:
        """Forget all verdicts of the queue: what they rest on, its spec or a flavor, has changed."""
        if not queue.classes:
            return
        for peers in list(queue.parked):
            self.activate(peers)
        for peers in queue.classes.values():
            peers.reset()
        if queue.waiting is not None:
            queue.waiting.recheck = True
        self.refresh(queue)

    def wait(self, queue: Queue, waiting: Waiting) -> None:
        """Let a preemptor wait at the head of its queue."""
        if waiting.workload.peers is not None:
            waiting.workload.peers.scan = None
        self._forget_victims(queue)
        queue.waiting = waiting
        for victim in waiting.victims:
            self._awaited.setdefault(victim, {})[queue.name] = queue
        self.refresh(queue)

    def serve(self, workload: Workload, usage: Mapping[FlavorResource, int]) -> None:
        """Take *workload* out of its queue: it has got quota for *usage*."""
        queue = workload.peers.queue if workload.peers is not None else None
        if queue is None:
            return
        waiting = queue.waiting
        if waiting is not None and waiting.workload is workload and waiting.usage == usage:
            # What was kept for it is its own now, so nothing is free that was not.
            self._forget_victims(queue)
            queue.waiting = None
            self.refresh(queue)
        self.remove(workload)

    def stop_waiting(self, queue: Queue) -> None:
        """The preemptor does not wait any more: what it reserved is free for others."""
        self._forget_victims(queue)
        queue.waiting = None
        self.refresh(queue)
        self.wake(queue)

    def _forget_victims(self, queue: Queue) -> None:
        if queue.waiting is None:
            return
        for victim in queue.waiting.victims:
            awaiting = self._awaited[victim]
            del awaiting[queue.name]
            if not awaiting:
                del self._awaited[victim]

    def victim_gone(self, victim: WorkloadKey) -> None:
        """The workload has given up its quota: who waited for it waits for one less."""
        awaiting = self._awaited.pop(victim, None)
        if awaiting is None:
            return
        for queue in awaiting.values():
            assert queue.waiting is not None
            del queue.waiting.victims[victim]
            if not queue.waiting.victims:
                self.refresh(queue)

    # Waking

    def touch(self, queue: Queue) -> None:
        """The usage of the queue itself has changed."""
        if queue.tree is not None:
            queue.tree.touched[queue.name] = queue

    def wake(self, queue: Queue, cause: int = 0, flavors: Iterable[str] = (ANY,)) -> None:
        """Capacity of *flavors* was freed in the tree of *queue*: parked classes there may have a chance."""
        tree = queue.tree
        if tree is None:
            return
        tree.touched[queue.name] = queue
        if cause > tree.cause:
            tree.cause = cause
        if tree.dirty or tree.parked or tree.waiting:
            tree.dirty = True
            for flavor in (ANY,) if tree.wary else flavors:
                tree.freed[flavor] = None
            self.busy[tree.root] = tree

    def open(self, queue: Queue) -> None:
        """The head of the queue has gone: parked classes behind it may have a chance."""
        tree = queue.tree
        if tree is not None and queue.name in tree.parked:
            tree.open[queue.name] = queue
            self.busy[tree.root] = tree

    def settled(self, tree: TreeQueues, still_open: list[Queue]) -> None:
        """The parked classes of the tree have been considered, but for those of *still_open*."""
        tree.dirty = False
        tree.freed.clear()
        tree.open = {queue.name: queue for queue in still_open}
        self._tidy(tree)

    # Queues and trees

    def set_kind(self, queue: Queue, *, strict: bool, special: bool) -> None:
        """Choose between StrictFIFO and BestEffortFIFO, and how the queue is judged on a wake."""
        if queue.strict != strict or queue.special != special:
            queue.strict = strict
            queue.special = special
            self.refresh(queue)

    def add_queue(self, name: str, node: Node) -> Queue:
        queue = self.queues[name] = Queue(name, node)
        self.regroup(queue)
        return queue

    def remove_queue(self, name: str) -> None:
        """Forget an empty queue."""
        queue = self.queues.pop(name)
        assert not queue.classes, f"queue {name} still has workloads"
        self._leave(queue)

    def regroup(self, queue: Queue) -> None:
        """Bring the queue to the tree that it belongs to now, as cohorts may have changed."""
        root = queue.node.root()
        before = queue.tree
        if before is not None and before.root is root:
            return
        is_open = before is not None and queue.name in before.open
        self._leave(queue)
        tree = self.trees.get(root)
        if tree is None:
            tree = self.trees[root] = TreeQueues(root)
        tree.members[queue.name] = queue
        queue.tree = tree
        for peers in queue.parked:
            self._put_in(peers)
        if before is not None:
            tree.dirty = tree.dirty or before.dirty
            if tree.dirty:
                tree.freed[ANY] = None
            tree.cause = max(tree.cause, before.cause)
            if is_open:
                tree.open[queue.name] = queue
        self.refresh(queue)

    def _leave(self, queue: Queue) -> None:
        """Take the queue out of its tree; the last one takes the tree with it."""
        tree = queue.tree
        if tree is None:
            return
        for peers in queue.parked:
            if peers.indexed:
                tree.shapes.discard(peers.least, rank_of(peers), peers)
        tree.forget(queue.name)
        queue.tree = queue.listed = None
        if tree.members:
            self._tidy(tree)
        else:
            del self.trees[tree.root]
            self.busy.pop(tree.root, None)

    def refresh(self, queue: Queue) -> None:
        """Bring the lists of the queue's tree up to date with the queue."""
        tree = queue.tree
        if tree is None:
            return
        name = queue.name
        waits = reserves = False
        if queue.stopped:
            ready = has_parked = False
        else:
            has_parked = bool(queue.parked.items)
            sticky = None if queue.waiting is None else queue.sticky()
            if sticky is not None:
                waits, ready = True, sticky.is_due()
            else:
                ready = bool(queue.active.items)
            if queue.strict and (blocker := queue.blocker()) is not None:
                reserves = blocker.reserves
                ready = ready and waits
        listed = (waits or reserves, ready, has_parked, queue.special)
        if listed != queue.listed:
            queue.listed = listed
            _member(tree.waiting, queue, waits or reserves)
            _member(tree.ready, queue, ready)
            _member(tree.parked, queue, has_parked)
            _member(tree.special, queue, has_parked and queue.special)
            _member(tree.wary, queue, queue.special)
        if not has_parked and name in tree.open:
            del tree.open[name]
        self._tidy(tree)

    def _tidy(self, tree: TreeQueues) -> None:
        if tree.dirty and not tree.parked and not tree.waiting:
            tree.dirty = False
            tree.freed.clear()
        if tree.ready or tree.dirty or tree.open:
            self.busy[tree.root] = tree
        else:
            self.busy.pop(tree.root, None)


def _member(table: dict[str, Queue], queue: Queue, belongs: bool) -> None:
    if belongs:
        table[queue.name] = queue
    elif table:
        table.pop(queue.name, None)


__all__ = ["Pending"]
