"""The queues of pending workloads: what one cluster queue, and one tree of cohorts, is known to wait for.

Workloads that the scheduler cannot tell apart (`equivalence`) are `EquivalenceClass`: they share one verdict.
A class
is *active*, its best member competes for the head of the queue, or *parked*: it was looked at and cannot be
admitted until something changes. Only `Pending` changes what is here.
"""

from collections.abc import Collection, Container, Iterator, Mapping
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Final

from sluice.core.quota.tree import FlavorResource, Node
from sluice.core.world.workload import Workload
from sluice.events.base import WorkloadKey

from .request_index import ANY, Least, RequestIndex
from .sorted_map import Rank, SortedMap

WAITS: Final = "waits"
"""First part of the key of the class of a preemptor that waits; its uid and the key that it had follow."""

EquivalenceKey = tuple[object, ...]
"""What makes workloads equal to the scheduler; hashable."""


class EquivalenceClass:
    """Workloads of one queue that are equal to the scheduler: one verdict holds for all of them."""

    __slots__ = (
        "_added",
        "_heap",
        "aside",
        "began",
        "circling",
        "common",
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
        "searched",
        "size",
        "waiting",
    )

    def __init__(self, queue: "PendingQueue", key: EquivalenceKey) -> None:
        self.queue = queue
        self.key = key
        self.size = 0
        self.rank: Rank | None = None
        """Rank of the head, as the queue's order has it."""
        self.parked = False
        self.aside = False
        """Parked, and StrictFIFO does not wait for it."""
        self.reserves = False
        """Parked at the head of a StrictFIFO queue, and withholds what it waits for from others."""
        self.circling = False
        """It would preempt, but for what is remembered of past preemptions (`World.circles`)."""
        self.reason = ""
        """Of QuotaReserved=False (G6); '' before the first verdict."""
        self.message = ""
        self.scan: tuple[dict[str, int], ...] | None = None
        """How far the search for a flavor came, when it is to go on from there (SC4); see `resumes_at`."""
        self.began = 0
        """While the search goes on: how many `releases` its tree had seen when it began."""
        self.searched = 0
        """While parked: the tree's `epoch` in which the search for a flavor has gone through all of them, so
        that there is nothing to look at again before something is freed; 0: it has not."""
        self.least: Least = ()
        """While parked: what it needs at least."""
        self.waiting: Preemptor | None = None
        """Of a preemptor that waits for its victims: it is in a class of its own meanwhile, which is neither
        active nor parked."""
        self.indexed = False
        """It is among the shapes of its queue and tree: freed capacity could help it."""
        self.common = False
        """While it is `indexed`: nothing but what is free decides whether it gets in (`is_common`)."""
        self._heap: list[tuple[Rank, int, Workload]] = []
        self._added = 0
        """How often a member was added; what orders entries of one rank."""

    def head(self) -> Workload:
        """Return the first member; there is one."""
        return self._heap[0][2]

    def resumes_at(self) -> tuple[dict[str, int], ...] | None:
        """Return how far the search for a flavor came that the next look goes on with; None: it begins.

        A blocker that reserves takes part in every cycle. Until something is freed it is looked at as it was
        last, at the end of its search, since another verdict would free what was withheld for it.
        """
        if self.parked and self.scan is not None:
            tree = self.queue.tree
            return self.scan if tree is not None and tree.is_searched(self) else None
        return self.scan

    def __iter__(self) -> Iterator[Workload]:
        """Yield the members in order."""
        seen: set[WorkloadKey] = set()
        for rank, _, workload in sorted(self._heap):
            if workload.peers is self and workload.rank == rank and workload.key not in seen:
                seen.add(workload.key)
                yield workload

    def add(self, workload: Workload) -> None:
        self.size += 1
        self._added += 1
        # One rank can stand here twice: a workload may come back while the entry that it left is still here.
        heappush(self._heap, (workload.rank, self._added, workload))

    def discard(self) -> None:
        """Note that a member has left; its entry goes when it surfaces, or when too many are stale."""
        self.size -= 1
        heap = self._heap
        # The first entry is always that of a member: `head` is asked far more often than anybody leaves.
        while heap:
            rank, _, first = heap[0]
            if first.peers is self and first.rank == rank:
                break
            heappop(heap)
        if len(heap) > 2 * self.size + 32:
            self._heap = [e for e in heap if e[2].peers is self and e[2].rank == e[0]]
            heapify(self._heap)

    def reset(self) -> None:
        """Forget the verdict: something has changed that it rested on."""
        self.parked = self.aside = self.reserves = False
        self.scan = None
        if self.waiting is None:
            # Nobody may look at it for as long as others are before it in a StrictFIFO queue.
            self.reason = self.message = ""


class Preemptor:
    """A preemptor that waits for its victims to go; what it waits for is kept for it.

    Nobody takes it meanwhile, whoever comes first in other ways, or somebody would have been preempted for
    nothing; and those who do not need it are not held up (CA6). See `overcommit`.
    """

    __slots__ = ("borrowing", "flavors", "held", "recheck", "usage", "victims", "workload")

    def __init__(
        self,
        workload: Workload,
        victims: list[WorkloadKey],
        usage: dict[FlavorResource, int],
        borrowing: int,
        flavors: Mapping[str, Mapping[str, str]],
    ) -> None:
        self.workload = workload
        self.victims: dict[WorkloadKey, None] = dict.fromkeys(victims)
        """Those that still hold quota."""
        self.usage = usage
        self.borrowing = borrowing
        self.flavors = flavors
        """Pod set -> resource -> flavor of `usage`, where that does not tell."""
        self.recheck = False
        """What it rests on has changed, so it must be looked at anew."""
        self.held = False
        """Its victims have gone, but the pods of others must be ready first (waitForPodsReady)."""

    def is_due(self) -> bool:
        return self.recheck or not (self.victims or self.held)


class PendingQueue:
    """The pending workloads of one cluster queue."""

    __slots__ = (
        "active",
        "classes",
        "due",
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
        "withheld_for",
        "withholds",
    )

    def __init__(self, name: str, node: Node) -> None:
        self.name = name
        self.node = node
        self.strict = False
        self.stopped = False
        """Its cluster queue is inactive: it has no head."""
        self.classes: dict[EquivalenceKey, EquivalenceClass] = {}
        self.active: SortedMap[EquivalenceClass] = SortedMap()
        self.parked: SortedMap[EquivalenceClass] = SortedMap()
        self.shapes: RequestIndex[EquivalenceClass] = RequestIndex()
        """The parked classes that freed capacity could help."""
        self.special = False
        """What is free at the root says nothing of it: it has quota of its own, or waits in another way."""
        self.waiting: dict[WorkloadKey, Preemptor] = {}
        """Preemptors that wait for their victims, each in a class of its own. With StrictFIFO one at most."""
        self.due: dict[WorkloadKey, None] = {}
        """Those of them that are to be looked at again. In no meaningful order."""
        self.withholds = False
        """It cannot be sure to get back what it lends, so each cycle withholds what its head waits for."""
        self.withheld_for: EquivalenceClass | None = None
        """The blocker for which quota is withheld from cycle to cycle; see `EquivalenceClass.reserves`."""
        self.tree: CohortQueues | None = None
        self.listed: tuple[bool, bool, bool, bool] | None = None
        """What its tree's lists say of it, see `QueueManager.refresh`; None when it is on none."""

    @property
    def size(self) -> int:
        """Number of pending workloads; counts on demand."""
        return sum(peers.size for peers in self.classes.values())

    def holding(self) -> list[Preemptor]:
        """Return the preemptors that wait, in order, and keep what they wait for."""
        found = sorted(self.waiting.values(), key=attrgetter("workload.rank"))
        if not found or not self.strict:
            return found
        # StrictFIFO keeps to its order: whoever comes before the preemptor is first.
        first = self.first_strict()
        return found if first is not None and first.waiting is not None else []

    def is_kept_from(
        self, workload: Workload, usage: Collection[FlavorResource], served: Container[WorkloadKey] = ()
    ) -> bool:
        """Does a preemptor that comes before *workload* wait for some of *usage*, but for those *served*?

        One after the other preempts for the same capacity of a queue: what the second one lacks may be
        there when the first one has been served, and then nobody is preempted for nothing (CA6).
        """
        for waiting in self.waiting.values():
            first = waiting.workload
            if first.rank < workload.rank and first.key not in served:
                for fr in usage:
                    if fr in waiting.usage:
                        return True
        return False

    def head(self) -> Workload | None:
        """Return the workload to be looked at next; None when there is none, or it is parked, or waits."""
        if self.stopped:
            return None
        if self.strict:
            first = self.first_strict()
            return None if first is None or first.parked or first.waiting is not None else first.head()
        peers = self.active.first()
        return None if peers is None else peers.head()

    def blocker(self) -> EquivalenceClass | None:
        """Return the parked class behind which a StrictFIFO queue waits."""
        if not self.strict or self.stopped:
            return None
        first = self.first_strict()
        return first if first is not None and first.parked else None

    def first_strict(self) -> EquivalenceClass | None:
        """Return the class at the head of a StrictFIFO queue: those that were put aside are passed over."""
        first = self.active.first()
        for parked in self.parked:
            if not parked.aside:
                if first is None or rank_of(parked) < rank_of(first):
                    first = parked
                break
        for waiting in self.waiting.values():
            own = waiting.workload.peers
            if own is not None and (first is None or rank_of(own) < rank_of(first)):
                first = own
        return first

    def in_order(self) -> Iterator[Workload]:
        """Yield all pending workloads in the order of the queue, preemptors that wait first."""
        first = [] if self.strict else sorted(self.waiting.values(), key=attrgetter("workload.rank"))
        for waiting in first:
            yield waiting.workload
        members = [w for peers in self.classes.values() for w in peers]
        members.sort(key=attrgetter("rank"))
        for workload in members:
            if not first or workload.key not in self.waiting:
                yield workload


class CohortQueues:
    """The queues of one tree of cohorts, or of a cluster queue without a cohort."""

    __slots__ = (
        "cause",
        "dirty",
        "epoch",
        "freed",
        "fresh",
        "hopeful",
        "is_cohort",
        "members",
        "name",
        "open",
        "parked",
        "ready",
        "releases",
        "root",
        "shapes",
        "special",
        "touched",
        "uncommon",
        "waiting",
        "wary",
    )

    def __init__(self, root: Node) -> None:
        self.root = root
        self.name = root.name
        self.is_cohort = not root.is_cluster_queue
        self.members: dict[str, PendingQueue] = {}
        self.dirty = False
        """Capacity was freed since the parked classes were last considered."""
        self.freed: dict[str, None] = {}
        """With `dirty`: of which flavors; ANY stands for all. In no meaningful order."""
        self.open: dict[str, PendingQueue] = {}
        """Queues whose parked classes are to be considered although the tree is not dirty."""
        self.ready: dict[str, PendingQueue] = {}
        """Queues with a head that is to be looked at."""
        self.waiting: dict[str, PendingQueue] = {}
        """Queues with preemptors that wait, or a blocker that reserves: they take part in every cycle."""
        self.parked: dict[str, PendingQueue] = {}
        """Queues with parked classes."""
        self.shapes: RequestIndex[EquivalenceClass] = RequestIndex()
        """The parked classes of all queues that freed capacity could help."""
        self.uncommon: dict[Least, int] = {}
        """How many of the classes in `shapes` that need so much at least are not `common`; without zeros."""
        self.special: dict[str, PendingQueue] = {}
        """Queues that are `special`, not judged by what is free at the root; with parked classes."""
        self.touched: dict[str, PendingQueue] = {}
        """Queues whose own usage or parked classes have changed since `hopeful` was brought up to date."""
        self.hopeful: dict[str, PendingQueue] = {}
        """Queues that may get what they need without anything being free: by preemption. Kept by `wake`."""
        self.wary: dict[str, PendingQueue] = {}
        """Queues as in `special`, with parked classes or without: what they keep for those that they cannot
        serve is free again without having been freed."""
        self.cause = 0
        """Sequence of the newest input that freed something here, or voided verdicts."""
        self.fresh = False
        """The tree has not come to rest since that input: whatever is decided, it may have brought about."""
        self.releases = 1
        """Grows when quota is given back, or something else from outside gives those who wait a chance."""
        self.epoch = 1
        """Grows when something is freed."""

    @property
    def sort_key(self) -> tuple[str, bool]:
        return (self.name, self.is_cohort)

    def brought_about_by(self, cause: int) -> None:
        """Note the input that gives those who wait here something to be looked at for; 0: it is not known."""
        if cause:
            self.cause = max(self.cause, cause) if self.fresh else cause
            self.fresh = True

    def concerns(self, least: Least) -> bool:
        """Was anything freed that a class which needs *least* could use?"""
        freed = self.freed
        if ANY in freed or not least:
            return True
        for fr, _ in least:  # noqa: SIM110 - asked of every class that is woken
            if fr[0] == ANY or fr[0] in freed:
                return True
        return False

    def is_searched(self, peers: EquivalenceClass) -> bool:
        """Has the class looked at all flavors since something was freed last?"""
        return peers.searched == self.epoch

    def forget(self, name: str) -> None:
        """Take a queue off all lists."""
        for table in (self.members, self.open, self.ready, self.waiting, self.parked):
            table.pop(name, None)
        for table in (self.special, self.touched, self.hopeful, self.wary):
            table.pop(name, None)


def rank_of(peers: EquivalenceClass) -> Rank:
    """Return the rank of a class that has members."""
    rank = peers.rank
    assert rank is not None
    return rank


__all__ = ["CohortQueues", "EquivalenceClass", "PendingQueue", "Preemptor"]
