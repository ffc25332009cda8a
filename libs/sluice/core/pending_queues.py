"""The queues of pending workloads: what one cluster queue, and one tree of cohorts, is known to wait for.

Workloads that the scheduler cannot tell apart (`equivalence`) are `Peers`: they share one verdict. A class
is *active*, its best member competes for the head of the queue, or *parked*: it was looked at and cannot be
admitted until something changes. Only `Pending` changes what is here.
"""

from collections.abc import Iterator
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
        "circling",
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
        self.circling = False
        """It would preempt, but for what is remembered of past preemptions (`circles`)."""
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
        that one could take it again and be preempted again, for ever. So does who has preempted one of them
        before and did not get in (decision 0018)."""
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
                if first is None or rank_of(parked) < rank_of(first):
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


def rank_of(peers: Peers) -> Rank:
    """Return the rank of a class that has members."""
    rank = peers.rank
    assert rank is not None
    return rank


def _workload_rank(workload: Workload) -> Rank:
    return workload.rank


__all__ = ["PeerKey", "Peers", "Queue", "TreeQueues", "Waiting", "rank_of"]
