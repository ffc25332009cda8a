"""Who waits for quota: one queue per cluster queue, of classes of workloads that are equal (SC2).

Workloads that the scheduler cannot tell apart (`equivalence`) are `Peers`: they share one verdict. A class
is *active*, its best member competes for the head of the queue, or *parked*: it was looked at and cannot be
admitted until something changes. A new workload joins its class, parked or not, without being looked at.

Queues belong to the tree of cohorts (`TreeQueues`) in which freed capacity could help them. A tree is
*dirty* when capacity was freed since its parked classes were last considered; single queues can be *open*
in the same sense. `busy` lists the trees in which there is anything to decide at all.

Everything here is derived from folded events; only folds change it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush

from sluice.events.base import WorkloadKey

from .model import Workload
from .quota import FlavorResource, Node
from .ranked import Rank, Ranked
from .shapes import ANY, Least, Shapes

PeerKey = tuple[object, ...]
"""What makes workloads equal to the scheduler; hashable."""


class Peers:
    """Workloads of one queue that are equal to the scheduler: one verdict holds for all of them."""

    __slots__ = (
        "_heap",
        "aside",
        "indexed",
        "key",
        "least",
        "message",
        "parked",
        "queue",
        "rank",
        "reason",
        "reserves",
        "scan",
        "size",
    )

    def __init__(self, queue: "Queue", key: PeerKey) -> None:
        self.queue = queue
        self.key = key
        self.size = 0
        self.rank: Rank | None = None
        """Rank of the head, as the queue's order has it."""
        self.parked = False
        self.aside = False
        """Parked, and StrictFIFO does not wait for it."""
        self.reserves = False
        """Parked at the head of a StrictFIFO queue, and keeps what it waits for from being lent."""
        self.reason = ""
        """Of QuotaReserved=False (G6); '' before the first verdict."""
        self.message = ""
        self.scan: tuple[dict[str, int], ...] | None = None
        """How far the search for a flavor came, when it is to go on from there (SC4)."""
        self.least: Least = ()
        """While parked: what it needs at least."""
        self.indexed = False
        """It is among the shapes of its queue and tree: freed capacity could help it."""
        self._heap: list[tuple[Rank, Workload]] = []

    def head(self) -> Workload:
        """Return the first member; there is one."""
        heap = self._heap
        while True:
            rank, workload = heap[0]
            if workload.peers is self and workload.rank == rank:
                return workload
            heappop(heap)

    def __iter__(self) -> Iterator[Workload]:
        """Yield the members in order."""
        seen: set[WorkloadKey] = set()
        for rank, workload in sorted(self._heap):
            if workload.peers is self and workload.rank == rank and workload.key not in seen:
                seen.add(workload.key)
                yield workload

    def add(self, workload: Workload) -> None:
        self.size += 1
        # Ranks end in a uid, so comparing entries never comes to comparing workloads.
        heappush(self._heap, (workload.rank, workload))

    def discard(self) -> None:
        """Note that a member has left; its entry goes when it surfaces, or when too many are stale."""
        self.size -= 1
        if len(self._heap) > 2 * self.size + 32:
            self._heap = [e for e in self._heap if e[1].peers is self and e[1].rank == e[0]]
            heapify(self._heap)

    def reset(self) -> None:
        """Forget the verdict: something has changed that it rested on."""
        self.parked = self.aside = self.reserves = False
        self.scan = None


class Waiting:
    """A preemptor that waits for its victims to go; what it waits for stays reserved for it."""

    __slots__ = ("borrowing", "first", "recheck", "usage", "victims", "workload")

    def __init__(
        self,
        workload: Workload,
        victims: list[WorkloadKey],
        usage: dict[FlavorResource, int],
        borrowing: int,
        *,
        first: bool = False,
    ) -> None:
        self.workload = workload
        self.victims: dict[WorkloadKey, None] = dict.fromkeys(victims)
        """Those that still hold quota."""
        self.usage = usage
        self.borrowing = borrowing
        self.first = first
        """It comes before all others: a victim was not admitted, so that its quota is free at once (G9). Else
        that one could take it again and be preempted again, for ever.

        So does a variant that only waits for its sibling to stop (CA10): what it will use is free already.
        Whoever took it meanwhile would have stopped the job for nothing, which would move again, for ever."""
        self.recheck = False
        """What it rests on has changed, so it must be looked at anew."""

    def is_due(self) -> bool:
        return self.recheck or not self.victims


class Queue:
    """The pending workloads of one cluster queue."""

    __slots__ = (
        "active",
        "classes",
        "listed",
        "name",
        "node",
        "parked",
        "shapes",
        "special",
        "stopped",
        "strict",
        "tree",
        "waiting",
    )

    def __init__(self, name: str, node: Node) -> None:
        self.name = name
        self.node = node
        self.strict = False
        self.stopped = False
        """Its cluster queue is inactive: it has no head."""
        self.classes: dict[PeerKey, Peers] = {}
        self.active: Ranked[Peers] = Ranked()
        self.parked: Ranked[Peers] = Ranked()
        self.shapes = Shapes()
        """The parked classes that freed capacity could help."""
        self.special = False
        """What is free at the root says nothing of it: it has quota of its own, or waits in another way."""
        self.waiting: Waiting | None = None
        self.tree: TreeQueues | None = None
        self.listed: tuple[bool, bool, bool, bool] | None = None
        """What its tree's lists say of it, see `Pending.refresh`; None when it is on none."""

    @property
    def size(self) -> int:
        """Number of pending workloads; counts on demand."""
        return sum(peers.size for peers in self.classes.values())

    def sticky(self) -> Waiting | None:
        """Return the waiting preemptor if it is at the head of the queue."""
        waiting = self.waiting
        if waiting is None or not self.strict:
            return waiting
        # StrictFIFO keeps to its order: whoever comes before the preemptor is first.
        rank = waiting.workload.rank
        first = self._first_strict()
        return waiting if first is None or first.rank is None or rank <= first.rank else None

    def head(self) -> Workload | None:
        """Return the workload to be looked at next; None when there is none, or it is parked."""
        if self.stopped:
            return None
        if (waiting := self.sticky()) is not None:
            return waiting.workload
        if self.strict:
            first = self._first_strict()
            return None if first is None or first.parked else first.head()
        peers = self.active.first()
        return None if peers is None else peers.head()

    def blocker(self) -> Peers | None:
        """Return the parked class behind which a StrictFIFO queue waits."""
        if not self.strict or self.stopped:
            return None
        first = self._first_strict()
        return first if first is not None and first.parked else None

    def _first_strict(self) -> Peers | None:
        first = self.active.first()
        for parked in self.parked:
            if not parked.aside:
                if first is None or _rank_of(parked) < _rank_of(first):
                    first = parked
                break
        return first

    def in_order(self) -> Iterator[Workload]:
        """Yield all pending workloads in the order of the queue, the waiting preemptor first."""
        waiting = None if self.strict else self.waiting
        if waiting is not None:
            yield waiting.workload
        members = [w for peers in self.classes.values() for w in peers]
        members.sort(key=_workload_rank)
        for workload in members:
            if waiting is None or workload is not waiting.workload:
                yield workload


class TreeQueues:
    """The queues of one tree of cohorts, or of a cluster queue without a cohort."""

    __slots__ = (
        "cause",
        "dirty",
        "freed",
        "hopeful",
        "is_cohort",
        "members",
        "name",
        "open",
        "parked",
        "ready",
        "root",
        "shapes",
        "special",
        "touched",
        "waiting",
        "wary",
    )

    def __init__(self, root: Node) -> None:
        self.root = root
        self.name = root.name
        self.is_cohort = not root.is_cluster_queue
        self.members: dict[str, Queue] = {}
        self.dirty = False
        """Capacity was freed since the parked classes were last considered."""
        self.freed: dict[str, None] = {}
        """With `dirty`: of which flavors; ANY stands for all. In no meaningful order."""
        self.open: dict[str, Queue] = {}
        """Queues whose parked classes are to be considered although the tree is not dirty."""
        self.ready: dict[str, Queue] = {}
        """Queues with a head that is to be looked at."""
        self.waiting: dict[str, Queue] = {}
        """Queues with a waiting preemptor, or a blocker that reserves: they take part in every cycle."""
        self.parked: dict[str, Queue] = {}
        """Queues with parked classes."""
        self.shapes = Shapes()
        """The parked classes of all queues that freed capacity could help."""
        self.special: dict[str, Queue] = {}
        """Queues that are not judged by what is free at the root (`Queue.special`), with parked classes."""
        self.touched: dict[str, Queue] = {}
        """Queues whose own usage or parked classes have changed since `hopeful` was brought up to date."""
        self.hopeful: dict[str, Queue] = {}
        """Queues that may get what they need without anything being free: by preemption. Kept by `wake`."""
        self.wary: dict[str, Queue] = {}
        """Queues as in `special`, with parked classes or without: what they keep for those that they cannot
        serve is free again without having been freed."""
        self.cause = 0
        """Sequence of the newest input that freed something here."""

    @property
    def sort_key(self) -> tuple[str, bool]:
        return (self.name, self.is_cohort)

    def concerns(self, least: Least) -> bool:
        """Was anything freed that a class which needs *least* could use?"""
        freed = self.freed
        if ANY in freed or not least:
            return True
        return any(flavor == ANY or flavor in freed for (flavor, _), _ in least)

    def forget(self, name: str) -> None:
        """Take a queue off all lists."""
        for table in (self.members, self.open, self.ready, self.waiting, self.parked):
            table.pop(name, None)
        for table in (self.special, self.touched, self.hopeful, self.wary):
            table.pop(name, None)


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
        rank, queue = _rank_of(peers), peers.queue
        if not peers.parked:
            queue.active.discard(rank, peers)
            return
        queue.parked.discard(rank, peers)
        if peers.indexed:
            queue.shapes.discard(peers.least, rank, peers)
            if queue.tree is not None:
                queue.tree.shapes.discard(peers.least, rank, peers)

    def _put_in(self, peers: Peers) -> None:
        rank, queue = _rank_of(peers), peers.queue
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
                tree.shapes.discard(peers.least, _rank_of(peers), peers)
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


def _rank_of(peers: Peers) -> Rank:
    rank = peers.rank
    assert rank is not None
    return rank


def _workload_rank(workload: Workload) -> Rank:
    return workload.rank


__all__ = ["Peers", "Pending", "Queue", "Rank", "TreeQueues", "Waiting"]
