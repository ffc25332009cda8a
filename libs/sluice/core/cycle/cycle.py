"""One scheduling cycle over one tree of cohorts (SC1).

`Cycle.run` shows Kueue's six phases: heads, snapshot, nomination, order, admission, requeueing. Nothing is
copied: the cycle charges what it decides to the quota tree itself, in a trial that is rolled back at the end;
`events.decisions` turns the finished entries into events.

Classes that were parked before and woken by freed capacity are treated lazily: they are looked at when
the cycle comes to them, and only if arithmetic says that they could still fit then (`wake`). When one proves
impossible the next of its queue is looked at, so that one cycle settles the whole tree but for the queues
that lost their head. Most queues are not even asked: the tree's `shapes` name their classes in order.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import chain, count

from sluice.core.queueing.pending_queue import CohortQueues, EquivalenceClass, PendingQueue
from sluice.core.queueing.request_index import Least
from sluice.core.queueing.sorted_map import Rank
from sluice.core.quota.tree import Node
from sluice.core.world.model import ClusterQueue, World

from .entry import Entry, Order, Ordering, Outcome
from .fair_sharing_order import winner
from .looks import Looks
from .nomination import nominate
from .requeue_filter import (
    fits_root,
    is_refused_again,
    least_borrowing,
    may_fit,
    root_bounds,
    update_hopeful,
)
from .serving import Serving, waiting_preemptors
from .woken import Woken, lends_for_good

_SET_ASIDE = (Outcome.PARKED, Outcome.ASIDE, Outcome.GATED)


class _Shape:
    """The classes of one size in the whole tree, next in rank first."""

    __slots__ = ("_ranked", "_ranks", "least", "rank")

    def __init__(self, least: Least, ranked: "object") -> None:
        self.least = least
        self._ranked = ranked
        self._ranks = ranked.ranks()  # type: ignore[attr-defined]
        self.rank: Rank | None = next(self._ranks, None)

    def pop(self) -> EquivalenceClass:
        peers: EquivalenceClass = self._ranked[self.rank]  # type: ignore[index]
        self.rank = next(self._ranks, None)
        return peers


class _Candidate:
    """A woken class that is to be looked at when the cycle comes to it."""

    __slots__ = ("peers", "rest")

    def __init__(self, peers: EquivalenceClass, rest: Iterator[EquivalenceClass]) -> None:
        self.peers = peers
        self.rest = rest
        """Those of its queue that come after it."""


_Item = tuple[Order, int, Entry | _Candidate | _Shape]


class Cycle:
    """The cycle of one tree: `run` it once, then read `entries`."""

    __slots__ = (
        "_admission",
        "_heap",
        "_looks",
        "_number",
        "_ordering",
        "_rests",
        "_taken",
        "_tree",
        "_woken",
        "_world",
        "entries",
        "open",
    )

    def __init__(self, world: World, tree: CohortQueues, *, blocked: bool = False) -> None:
        self._world = world
        self._tree = tree
        self._woken = Woken(world, tree)
        self._ordering = Ordering(world.config)
        self._looks = Looks(world, blocked=blocked)
        self._admission = self._looks.admission
        self._heap: list[_Item] = []
        self._number = count()
        self._taken: set[str] = set()
        """Queues that are not to be looked at by way of the tree's shapes (any more)."""
        self._rests: dict[Entry, Iterator[EquivalenceClass]] = {}
        """Woken classes that come after an entry which has been put off within the cycle."""
        self.entries = self._looks.entries
        """In the order in which they were processed."""
        self.open: list[PendingQueue] = []
        """Queues that lost their head and have a parked class that could fit now; by name."""

    @property
    def skipped_preemptions(self) -> dict[str, int]:
        """Cluster queue -> how many preemptions were not issued because others of this cycle came first."""
        return self._admission.skipped_preemptions

    @property
    def recomputations(self) -> dict[str, str]:
        """Cluster queue -> what a second search for targets came to: new_targets, deferred_fit, skipped."""
        return self._admission.recomputations

    def leads_on(self) -> bool:
        """Will the next cycle find something else, although this one has decided nothing?

        Those who come next were kept out by what was withheld for those that are put aside. They are fewer
        each time, until something is freed.
        """
        if not self._admission.withheld.passes:
            return False
        tree = self._tree
        opened = {queue.name for queue in self.open}
        skipped = any(entry.outcome is Outcome.SKIPPED and not entry.peers.parked for entry in self.entries)
        return (skipped or bool(opened)) and (tree.dirty or opened < tree.open.keys())

    def first_admitted(self) -> Order | None:
        """Return the place of the first entry that gets quota, None if none does; the cycle has run."""
        got = (e for e in self.entries if e.outcome in (Outcome.ADMITTED, Outcome.PROMISED))
        return next(map(self._order, got), None)

    def run(self) -> None:
        """Process all heads of the tree. The world is as before when it returns."""
        tree = self._tree
        # 1. Heads: of every queue with something to look at (`_eager`). Those that wait for victims come
        #    before them, and what they wait for is kept for them.
        waiting = waiting_preemptors(tree, self._ordering) if tree.waiting else []
        # 2. Snapshot: in its place, whatever is tried is taken back in the end.
        with self._admission.trial:
            first = waiting[0].preemptor if waiting else None
            self._admission.begin(tree, but=first if first is not None and first.is_due() else None)
            # 3. Nomination: flavors for each head, victims where quota is short (`looks`). Here of those that
            #    wait for victims, who are served at once where that is possible (`serving`); of others as
            #    the cycle comes to them, if arithmetic says that they could still fit then.
            again = Serving(self._looks, tree, self._woken, self._taken).serve(waiting) if waiting else []
            if tree.dirty:
                update_hopeful(self._world, tree)
            # 4. Order: see `entry.Ordering`, or the tournament of fair sharing.
            # 5. Admission: one by one against the changing tree: admit, preempt, skip, set aside (`looks`).
            if self._world.config.fair_sharing.enable:
                self._run_fair(again)
            else:
                self._run_classical(again)
            # 6. Requeueing: who has got nothing stays in its queue, and is parked by `events.decisions`.
            #    Queues that lost their head and have more to consider are left open for the next cycle.
            self._find_open()
        self._world.circles.planned.clear()

    # Heads

    def _eager(self) -> Iterator[Entry]:
        """Yield the nominated entries of heads that were not looked at since something changed."""
        tree = self._tree
        for name in sorted(tree.ready.keys() | tree.waiting.keys()):
            queue = tree.ready.get(name) or tree.waiting[name]
            if name in self._taken or self._is_mixed(queue):
                continue
            entry = self._head_entry(queue)
            if entry is not None:
                self._taken.add(name)
                if self._looks.nominate(entry):
                    yield entry

    def _is_mixed(self, queue: PendingQueue) -> bool:
        """Has the queue both a new head and woken classes, which may come before it?"""
        tree = self._tree
        return (
            (tree.dirty or queue.name in tree.open)
            and queue.name in tree.ready
            and bool(queue.parked)
            and not queue.strict
        )

    def _head_entry(self, queue: PendingQueue) -> Entry | None:
        cq = self._world.cluster_queues[queue.name]
        blocker = queue.blocker()
        if blocker is not None:
            return Entry(blocker.head(), queue, cq)
        head = queue.head()
        return None if head is None else Entry(head, queue, cq)

    # Without fair sharing

    def _run_classical(self, again: Iterable[Entry]) -> None:
        for entry in again:
            self._push(self._order(entry), entry)
        for entry in self._eager():
            self._push(self._order(entry), entry)
        ordering, tree = self._ordering, self._tree
        for queue in self._woken.queues(self._taken, all_queues=not ordering.by_rank):
            self._push_next(self._woken.candidates(queue))
        if tree.dirty and ordering.by_rank:
            for least, ranked in tree.shapes.within(root_bounds(tree.root)):
                if tree.concerns(least):
                    self._push_shape(_Shape(least, ranked))
        heap = self._heap
        while heap:
            item = heappop(heap)[2]
            if isinstance(item, Entry):
                self._looks.take(item)
                rest = self._rests.pop(item, None)
                if rest is not None and item.outcome in _SET_ASIDE:
                    self._push_next(rest)
            elif isinstance(item, _Candidate):
                self._look_if_it_fits(item)
            else:
                self._pop_shape(item)

    def _push(self, order: Order, item: Entry | _Candidate | _Shape) -> None:
        heappush(self._heap, (order, next(self._number), item))

    def _push_shape(self, shape: _Shape) -> None:
        if shape.rank is not None:
            # These queues borrow if they get anything, or they would be hopeful.
            self._push((1, 1, *shape.rank), shape)

    def _pop_shape(self, shape: _Shape) -> None:
        """Go on to the next class of this size, unless there is not enough for it left."""
        tree, least = self._tree, shape.least
        if not fits_root(tree.root, least) or self._admission.are_in_use(tree, least):
            return
        while True:
            peers = shape.pop()
            queue = peers.queue
            if queue.name not in self._taken and not queue.stopped:
                cq = self._world.cluster_queues[queue.name]
                if self._may_get_in(cq, peers):
                    self._push_shape(shape)
                    self._push_or_look_at(queue, cq, peers)
                    return
            if shape.rank is None or self._comes_later((1, 1, *shape.rank)):
                self._push_shape(shape)
                return

    def _push_or_look_at(self, queue: PendingQueue, cq: ClusterQueue, peers: EquivalenceClass) -> None:
        self._taken.add(queue.name)
        candidate = _Candidate(peers, self._woken.candidates(queue, peers.rank))
        order = self._ordering.key(peers.head(), least_borrowing(cq, peers))
        if self._comes_later(order):
            self._push(order, candidate)
        else:
            self._look_or_foretell(candidate)

    def _comes_later(self, order: Order) -> bool:
        return bool(self._heap) and self._heap[0][0] < order

    def _look_if_it_fits(self, candidate: _Candidate) -> None:
        """Look at a woken class, as the cycle has come to it, if it could still fit."""
        peers = candidate.peers
        cq = self._world.cluster_queues[peers.queue.name]
        if not peers.parked or lends_for_good(cq):
            self._look_at(candidate)
        elif not self._may_get_in(cq, peers):
            self._push_next(candidate.rest)
        else:
            self._look_or_foretell(candidate)

    def _look_or_foretell(self, candidate: _Candidate) -> None:
        """Look at a parked class, unless it is known that this would only repeat that it waits."""
        peers = candidate.peers
        cq = self._world.cluster_queues[peers.queue.name]
        if is_refused_again(self._world, cq, peers) and self._admission.is_apart(peers.head()):
            entry = Entry(peers.head(), peers.queue, cq)
            entry.finish(Outcome.PARKED, peers.reason, peers.message)
            self.entries.append(entry)
            self._push_next(candidate.rest)
        else:
            self._look_at(candidate)

    def _may_get_in(self, cq: ClusterQueue, peers: EquivalenceClass) -> bool:
        """Is a woken class worth a look?"""
        admission = self._admission
        if admission.overcommit and admission.is_in_use(cq, peers):
            return False
        return may_fit(self._world, cq, peers)

    def _look_at(self, candidate: _Candidate) -> None:
        peers = candidate.peers
        queue = peers.queue
        entry = Entry(peers.head(), queue, self._world.cluster_queues[queue.name])
        if self._looks.nominate(entry):
            order = self._order(entry)
            if entry.proposal.is_possible() and self._comes_later(order):
                # It borrows more than the lower bound said, so others come first.
                self._rests[entry] = candidate.rest
                self._push(order, entry)
                return
            self._looks.take(entry)
        if entry.outcome in _SET_ASIDE:
            self._push_next(candidate.rest)

    def _push_next(self, candidates: Iterator[EquivalenceClass]) -> None:
        for peers in candidates:
            cq = self._world.cluster_queues[peers.queue.name]
            self._admission.withheld.release(cq)
            order = self._ordering.key(peers.head(), least_borrowing(cq, peers))
            self._push(order, _Candidate(peers, candidates))
            return

    def _order(self, entry: Entry) -> Order:
        return self._ordering.key(
            entry.workload, entry.proposal.assignment.borrowing, is_preemptor=entry.peers.waiting is not None
        )

    # With fair sharing

    def _run_fair(self, again: Iterable[Entry]) -> None:
        entries: dict[Node, Entry] = {}
        for entry in again:
            if entries.setdefault(entry.cq.node, entry) is not entry and entry.peers.waiting is not None:
                self._looks.keep_beside(entry.peers.waiting, entry)
        for entry in self._eager():
            entries[entry.cq.node] = entry
        rests: dict[Node, Iterator[EquivalenceClass]] = {}
        for queue in self._woken.queues(self._taken, all_queues=True):
            rests[queue.node] = self._woken.candidates(queue)
            self._next_fair(queue.node, rests, entries)
        while entries:
            entry = winner(self._world.tree, self._tree.root, entries, self._world.config)
            node = entry.cq.node
            del entries[node]
            self._looks.take(entry)
            if entry.outcome in _SET_ASIDE and node in rests:
                self._next_fair(node, rests, entries)

    def _next_fair(
        self, node: Node, rests: dict[Node, Iterator[EquivalenceClass]], entries: dict[Node, Entry]
    ) -> None:
        """Enter the next woken class of the queue at *node* for the tournament."""
        for peers in rests[node]:
            cq = self._world.cluster_queues[peers.queue.name]
            self._admission.withheld.release(cq)
            entry = Entry(peers.head(), peers.queue, cq)
            if self._looks.nominate(entry):
                entries[node] = entry
                return

    # Afterwards

    def _kept_out(self) -> Iterator[PendingQueue]:
        """Yield the queues with a class that can have what was withheld from it in this cycle.

        It is there for it when those have been put aside for whom it was withheld, who cannot have it (SC2).
        Of who takes part for the first time, and is put aside, too, its queue is asked as well.
        """
        tree, world = self._tree, self._world
        new: dict[str, list[EquivalenceClass]] = {}
        for entry in self.entries:
            if entry.outcome is Outcome.PARKED and not entry.peers.parked:
                new.setdefault(entry.queue.name, []).append(entry.peers)
        for name in sorted({*(tree.parked if tree.dirty else tree.open), *new}):
            queue = tree.members[name]
            with self._admission.withheld.lifted(world.cluster_queues[name]):
                asked = chain(self._woken.fitting(queue), new.get(name, ()))
                could = any(self._could_have(queue, peers) for peers in asked)
            if could:
                yield queue

    def _could_have(self, queue: PendingQueue, peers: EquivalenceClass) -> bool:
        entry = Entry(peers.head(), queue, self._world.cluster_queues[queue.name])
        if not nominate(self._world, entry, may_defer=False):
            return False
        # As it will be looked at: not as if those had gone whose preemption waits for a check (AC6).
        self._admission.reconcile(entry)
        return entry.proposal.is_possible()

    def _find_open(self) -> None:
        """Find the queues with more to consider, now that their head has gone or was skipped."""
        # What was withheld for those that were looked at is so while they are, so not in the next cycle.
        self._admission.withheld.release_passing()
        found = {queue.name: queue for queue in self._kept_out()} if self._admission.withheld.passes else {}
        self._admission.withheld.release_all()
        tree = self._tree
        self._woken.note(self.entries)
        for entry in self.entries:
            queue = entry.queue
            if not queue.parked or queue.name in found:
                continue
            gone = entry.outcome in (Outcome.ADMITTED, Outcome.PROMISED) or (
                entry.outcome is Outcome.PREEMPTING and not queue.strict
            )
            # It is looked at again, and only then those that were woken with it and come behind it.
            again = entry.outcome in (Outcome.SKIPPED, Outcome.SCANNING) and (
                entry.peers.parked or tree.dirty or queue.name in tree.open
            )
            if again or (gone and self._woken.has_more(entry)):
                found[queue.name] = queue
        self.open = [found[name] for name in sorted(found)]
