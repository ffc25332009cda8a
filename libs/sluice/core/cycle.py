"""One scheduling cycle over one tree of cohorts (SC1).

1. Heads: of every queue with something to look at; preemptors that wait take part to keep their claim.
2. Nomination: flavors for each head; victims where quota is short.
3. Order: see `entry.Ordering`, or `tournament` with fair sharing.
4. One by one against the changing tree: admit, issue preemptions, skip, or set aside.

Nothing is copied: the cycle charges what it decides to the quota tree itself, in a trial that is rolled
back at the end; `decisions` turns the finished entries into events.

Classes that were parked before and woken by freed capacity are treated lazily: they are looked at when
their turn comes, and only if arithmetic says that they could still fit then (`wake`). When one proves
impossible the next of its queue gets the turn, so that one cycle settles the whole tree but for the queues
that lost their head.
"""

from collections.abc import Iterator
from heapq import heappop, heappush

from sluice.api.kueue import ConfigurationSpec

from . import entry as texts
from .assignment import Mode, pending_flavors
from .entry import Entry, Order, Ordering, Outcome
from .model import ClusterQueue, Workload, World
from .nomination import nominate, propose
from .pending import Peers, Queue, TreeQueues
from .quota import FlavorResource
from .reservations import Trial, without
from .tournament import winner
from .wake import least_borrowing, may_fit

ALWAYS_RECLAIMS = "Any"


class Cycle:
    """The cycle of one tree: `run` it once, then read `entries`."""

    __slots__ = (
        "_blocked",
        "_config",
        "_ordering",
        "_preempted",
        "_reserved",
        "_tree",
        "_trial",
        "_world",
        "entries",
        "open",
        "recomputations",
        "skipped_preemptions",
    )

    def __init__(self, world: World, tree: TreeQueues, *, blocked: bool = False) -> None:
        self._world = world
        self._config = world.config
        self._tree = tree
        self._blocked = blocked
        self._ordering = Ordering(world.config)
        self._preempted: dict[str, Workload] = {}
        self._reserved: dict[str, dict[FlavorResource, int]] = {}
        self._trial = Trial(world)
        self.entries: list[Entry] = []
        """In the order in which they were processed."""
        self.open: list[Queue] = []
        """Queues that lost their head and have a parked class that could fit now; by name."""
        self.skipped_preemptions: dict[str, int] = {}
        self.recomputations: dict[str, str] = {}
        """Cluster queue -> what a second search for targets came to: new_targets, deferred_fit, skipped."""

    def run(self) -> None:
        """Process all heads of the tree. The world is as before when it returns."""
        with self._trial:
            if self._config.fair_sharing.enable:
                self._run_fair()
            else:
                self._run_classical()
            self._find_open()

    # Heads

    def _eager(self) -> Iterator[Entry]:
        """Yield the nominated entries of heads that were not looked at since something changed."""
        tree = self._tree
        names = tree.ready.keys() | tree.waiting.keys()
        for name in sorted(names):
            queue = tree.ready.get(name) or tree.waiting[name]
            entry = self._head_entry(queue)
            if entry is not None and (entry.waiting is not None or self._nominate(entry)):
                yield entry

    def _head_entry(self, queue: Queue) -> Entry | None:
        cq = self._world.cluster_queues[queue.name]
        waiting = queue.sticky()
        if waiting is not None:
            entry = Entry(waiting.workload, queue, cq)
            revisit = self._tree.dirty and may_fit(self._world, cq, entry.peers)
            if not waiting.is_due() and not revisit:
                entry.waiting = waiting
                entry.usage = waiting.usage
            return entry
        blocker = queue.blocker()
        if blocker is not None:
            entry = Entry(blocker.head(), queue, cq)
            entry.recorded = True
            return entry
        head = queue.head()
        return None if head is None else Entry(head, queue, cq)

    def _woken(self) -> Iterator[Queue]:
        """Yield the queues whose parked classes are to be considered."""
        tree = self._tree
        queues = tree.parked if tree.dirty else tree.open
        for name in sorted(queues):
            queue = queues[name]
            if name not in tree.ready and name not in tree.waiting:
                yield queue

    def _candidates(self, queue: Queue) -> Iterator[Peers]:
        """Yield the parked classes of *queue* that could fit as things are when asked, in order."""
        cq = self._world.cluster_queues[queue.name]
        if queue.strict:
            blocker = queue.blocker()
            if blocker is not None and may_fit(self._world, cq, blocker):
                yield blocker
            return
        # A queue that cannot be sure to get its quota back has what it waits for kept for it, so its
        # classes take part although they do not fit (see `_reserve`).
        lends_for_good = not _always_reclaims(cq.spec.preemption)
        for peers in queue.parked:
            if lends_for_good or may_fit(self._world, cq, peers):
                yield peers

    def _nominate(self, entry: Entry) -> bool:
        """Return whether the entry is to be processed; else it is finished."""
        if nominate(self._world, entry):
            return True
        self.entries.append(entry)
        return False

    # Order

    def _run_classical(self) -> None:
        heap: list[tuple[Order, Entry]] = []
        for entry in self._eager():
            heappush(heap, (self._order(entry), entry))
        lazy: list[tuple[Order, Peers, Iterator[Peers]]] = []
        for queue in self._woken():
            self._push_next(lazy, self._candidates(queue))
        while heap or lazy:
            if not lazy or (heap and heap[0][0] <= lazy[0][0]):
                entry = heappop(heap)[1]
                self._process(entry)
                continue
            _, peers, rest = heappop(lazy)
            self._take_turn(peers, rest, heap, lazy)

    def _take_turn(
        self,
        peers: Peers,
        rest: Iterator[Peers],
        heap: list[tuple[Order, Entry]],
        lazy: list[tuple[Order, Peers, Iterator[Peers]]],
    ) -> None:
        """Look at a woken class now that its turn has come."""
        queue = peers.queue
        cq = self._world.cluster_queues[queue.name]
        if may_fit(self._world, cq, peers) or not _always_reclaims(cq.spec.preemption):
            entry = Entry(peers.head(), queue, cq)
            entry.recorded = True
            if self._nominate(entry):
                order = self._order(entry)
                if entry.is_possible() and (
                    (heap and heap[0][0] < order) or (lazy and lazy[0][0] < order)
                ):
                    # It borrows more than the lower bound said, so others come first.
                    heappush(heap, (order, entry))
                    return
                self._process(entry)
            if entry.outcome not in (Outcome.PARKED, Outcome.ASIDE, Outcome.GATED):
                return
        self._push_next(lazy, rest)

    def _push_next(
        self, lazy: list[tuple[Order, Peers, Iterator[Peers]]], candidates: Iterator[Peers]
    ) -> None:
        for peers in candidates:
            cq = self._world.cluster_queues[peers.queue.name]
            self._unreserve(cq)
            order = self._ordering.key(peers.head(), least_borrowing(cq, peers))
            heappush(lazy, (order, peers, candidates))
            return

    def _order(self, entry: Entry) -> Order:
        waiting = entry.queue.waiting
        is_preemptor = waiting is not None and waiting.workload is entry.workload
        return self._ordering.key(entry.workload, entry.borrowing, is_preemptor=is_preemptor)

    def _run_fair(self) -> None:
        entries = {entry.cq.node: entry for entry in self._eager()}
        rests = {}
        for queue in self._woken():
            rests[queue.node] = self._candidates(queue)
            self._next_fair(queue.node, rests, entries)
        while entries:
            entry = winner(self._world.tree, self._tree.root, entries, self._config)
            del entries[entry.cq.node]
            self._process(entry)
            if entry.outcome in (Outcome.PARKED, Outcome.GATED) and entry.cq.node in rests:
                self._next_fair(entry.cq.node, rests, entries)

    def _next_fair(self, node: object, rests: dict, entries: dict) -> None:  # type: ignore[type-arg]
        for peers in rests[node]:
            cq = self._world.cluster_queues[peers.queue.name]
            self._unreserve(cq)
            entry = Entry(peers.head(), peers.queue, cq)
            entry.recorded = True
            if self._nominate(entry):
                entries[node] = entry
                return

    # Processing

    def _process(self, entry: Entry) -> None:
        """Decide on one entry against the tree as the entries before it have left it."""
        self.entries.append(entry)
        if entry.waiting is not None:
            self._keep_waiting(entry)
            return
        recompute = self._gate("RecomputeAssignmentUponPreemptionTargetsOverlap")
        if recompute and self._overlaps(entry) and self._recompute(entry):
            return
        if entry.mode is Mode.NO_FIT:
            assert entry.assignment is not None
            self._set_aside(entry, entry.assignment.no_fit_reason or texts.PENDING_EVALUATION)
            return
        if entry.mode is Mode.PREEMPT:
            if not entry.targets:
                self._reserve(entry)
                self._set_aside(entry, texts.WAITING_FOR_QUOTA)
                return
            if self._gated(entry.workload):
                entry.finish(Outcome.GATED, texts.ADMISSION_GATED, texts.GATED)
                return
        if self._overlaps(entry):
            self._skip(entry, texts.OVERLAPS)
            return
        if not self._fits(entry):
            self._skip(entry, texts.NO_LONGER_FITS)
            return
        self._take(entry)

    def _take(self, entry: Entry) -> None:
        """The entry fits, now or when its targets have gone: what it gets is its own from here on."""
        if entry.mode is Mode.FIT and self._blocked:
            entry.finish(Outcome.PARKED, texts.WAITING_FOR_PODS_READY, texts.PODS_NOT_READY)
            return
        self._trial.charge(entry.cq.node, entry.usage)
        if entry.mode is Mode.PREEMPT:
            assert entry.assignment is not None
            self._wait_for(entry, [target.workload for target in entry.targets])
            message = (
                f"{entry.assignment.message}. Pending the preemption of {len(entry.targets)} workload(s)"
            )
            entry.finish(Outcome.PREEMPTING, texts.WAITING_FOR_PREEMPTED, message)
        else:
            entry.finish(Outcome.ADMITTED)
            self._blocked = blocks_admission(self._config)

    def _wait_for(self, entry: Entry, victims: list[Workload]) -> None:
        entry.victims = victims
        for victim in victims:
            self._preempted[victim.key] = victim

    def _keep_waiting(self, entry: Entry) -> None:
        waiting = entry.waiting
        assert waiting is not None
        workloads = self._world.workloads
        self._wait_for(entry, [workloads[key] for key in waiting.victims if key in workloads])
        self._trial.charge(entry.cq.node, waiting.usage)
        entry.outcome = Outcome.PREEMPTING

    def _set_aside(self, entry: Entry, reason: str) -> None:
        assert entry.assignment is not None
        outcome = Outcome.SCANNING if pending_flavors(entry.assignment.scan) else Outcome.PARKED
        entry.finish(outcome, reason, entry.assignment.message)

    def _skip(self, entry: Entry, message: str) -> None:
        if entry.mode is Mode.PREEMPT:
            name = entry.cq.name
            self.skipped_preemptions[name] = self.skipped_preemptions.get(name, 0) + 1
        entry.finish(Outcome.SKIPPED, texts.WAITING_FOR_QUOTA, message)

    def _overlaps(self, entry: Entry) -> bool:
        return any(target.workload.key in self._preempted for target in entry.targets)

    def _fits(self, entry: Entry) -> bool:
        if not self._preempted and not entry.targets:
            return self._world.tree.fits(entry.cq.node, entry.usage)
        gone = [*self._preempted.values(), *(target.workload for target in entry.targets)]
        with without(self._world, gone):
            return self._world.tree.fits(entry.cq.node, entry.usage)

    def _recompute(self, entry: Entry) -> bool:
        """Look again for targets, those of earlier entries gone; True when the entry is finished."""
        assert entry.assignment is not None
        overlapping = [t.workload for t in entry.targets if t.workload.key in self._preempted]
        with without(self._world, list(self._preempted.values())):
            propose(self._world, entry, entry.assignment.pinned())
        name = entry.cq.name
        if entry.mode is Mode.FIT:
            self.recomputations[name] = "deferred_fit"
            self._trial.charge(entry.cq.node, entry.usage)
            self._wait_for(entry, overlapping)
            entry.finish(Outcome.PREEMPTING, texts.WAITING_FOR_PREEMPTED, texts.DEFERRED)
            return True
        self.recomputations[name] = "new_targets" if entry.targets else "skipped"
        return False

    def _gated(self, workload: Workload) -> bool:
        gates = workload.record.preemption_gates
        return any(gate not in workload.open_gates for gate in gates)

    def _gate(self, name: str) -> bool:
        return self._config.feature_gates.get(name, True)

    def _reserve(self, entry: Entry) -> None:
        """Keep quota from being lent to others that the queue could not get back when it needs it."""
        if _always_reclaims(entry.cq.spec.preemption):
            return
        entry.reserves = entry.queue.strict
        node = entry.cq.node
        reserved: dict[FlavorResource, int] = {}
        for fr, amount in entry.usage.items():
            quota = node.quotas.get(fr)
            nominal = 0 if quota is None else quota.nominal
            if entry.borrowing:
                limit = None if quota is None else quota.borrowing_limit
                reserved[fr] = amount if limit is None else min(amount, nominal + limit - node.used(fr))
            else:
                reserved[fr] = max(0, min(amount, nominal - node.used(fr)))
        self._trial.charge(node, reserved)
        self._reserved[entry.cq.name] = reserved

    def _unreserve(self, cq: ClusterQueue) -> None:
        """What is kept for one class of a queue does not keep the next one out."""
        reserved = self._reserved.pop(cq.name, None)
        if reserved is not None:
            self._trial.discharge(cq.node, reserved)

    # Afterwards

    def _find_open(self) -> None:
        """Find the queues with more to consider, now that their head has gone or was skipped."""
        tree = self._tree
        found: dict[str, Queue] = {}
        for entry in self.entries:
            queue = entry.queue
            if not queue.parked or queue.name in found:
                continue
            # A fresh head took the turn that the queue's parked classes were to have.
            ousted = queue.name in tree.ready and (tree.dirty or queue.name in tree.open)
            gone = entry.outcome is Outcome.ADMITTED or (ousted and entry.outcome is not Outcome.PREEMPTING)
            skipped = entry.outcome is Outcome.SKIPPED and entry.peers.parked
            if skipped or (gone and self._more(queue, entry)):
                found[queue.name] = queue
        self.open = [found[name] for name in sorted(found)]

    def _more(self, queue: Queue, entry: Entry) -> bool:
        """Has the queue a parked class to be considered, with the entry out of the way?"""
        if queue.strict:
            return True
        cq = self._world.cluster_queues[queue.name]
        lends_for_good = not _always_reclaims(cq.spec.preemption)
        return any(
            (peers is not entry.peers or peers.size > 1)
            and (lends_for_good or may_fit(self._world, cq, peers))
            for peers in queue.parked
        )


def blocks_admission(config: ConfigurationSpec) -> bool:
    """Must the pods of one workload be ready before the next one is admitted?"""
    settings = config.wait_for_pods_ready
    return settings.enable and settings.block_admission


def _always_reclaims(policy: object) -> bool:
    return getattr(policy, "reclaim_within_cohort", "") == ALWAYS_RECLAIMS


__all__ = ["Cycle", "blocks_admission"]
