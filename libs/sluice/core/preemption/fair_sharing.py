"""Preemption with fair sharing: those give first who have the largest share (SC6).

Round by round, from the root cohort down, the child with the largest dominant resource share is chosen until
a cluster queue is reached; its first candidate is considered. Shares are compared at the two nodes below the
lowest cohort that the preemptor's and the victim's queue have in common. The preemptor's usage counts as
charged all the while.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

from sluice.api.features import (
    FAIR_SHARING_PREEMPT_WITHIN_NOMINAL,
    FAIR_SHARING_REEVALUATE_PREEMPTION_CANDIDATES,
    enabled,
)
from sluice.core.quota.fair_share import Share, dominant_resource_share, share_key
from sluice.core.quota.tree import Node
from sluice.core.world.model import ClusterQueue
from sluice.core.world.victim_index import Entry, Rank
from sluice.core.world.workload import Workload
from sluice.events.base import WorkloadKey

from .candidates import (
    IN_CLUSTER_QUEUE,
    IN_COHORT_FAIR_SHARING,
    IN_COHORT_RECLAMATION,
    Search,
    Target,
    fill_back,
)

ShareKey = tuple[int, int]
Strategy = Callable[[ShareKey, ShareKey, ShareKey], bool]
"""May a victim be taken, given the preemptor's share with its workload, and the victim's before and after?"""


def less_than_or_equal_to_final_share(preemptor: ShareKey, before: ShareKey, after: ShareKey) -> bool:  # noqa: ARG001
    return preemptor <= after


def less_than_initial_share(preemptor: ShareKey, before: ShareKey, after: ShareKey) -> bool:  # noqa: ARG001
    return preemptor < before


FINAL_SHARE, INITIAL_SHARE = "LessThanOrEqualToFinalShare", "LessThanInitialShare"

STRATEGIES: dict[str, Strategy] = {
    FINAL_SHARE: less_than_or_equal_to_final_share,
    INITIAL_SHARE: less_than_initial_share,
}


@dataclass(frozen=True, slots=True)
class ShareComparison:
    """What a strategy has compared when it did not let a candidate go; shares are those of that moment."""

    strategy: str
    """"" where none was asked: the victim's share is 0."""
    preemptor: Node
    """The preemptor's queue, or the cohort above it that is compared."""
    share: Share
    """The preemptor's, its workload charged."""
    victim: Node
    before: Share
    after: Share
    """The victim's, with the candidate gone."""
    instead: WorkloadKey | None = None
    """Another one of the same queue that the strategy let go, where it lets only one go of each."""


ShareComparisons = dict[WorkloadKey, dict[str, ShareComparison]]
"""Candidate -> strategy -> what it has compared last."""


def fair_targets(search: Search) -> list[Target]:
    """Return the workloads to preempt, or [] if nothing helps.

    1. Charge the preemptor's usage.
    2. Take out victims by the first strategy, and what it refused by the second, until nothing is overdrawn.
    3. Take the preemptor's usage out again, and spare the victims that turn out not to be needed.
    """
    queues = _queues(search)
    if not queues or not (search.may_borrow or search.can_end_within_quota()):
        return []
    if not search.can_help(_everybody(search, queues)):
        return []
    contenders = _contenders(search, queues)
    mark = search.tree.mark()
    search.tree.add(search.node, search.usage)
    targets: list[Target] = []
    fits = False
    for target in _in_order(search, contenders):
        targets.append(target)
        if search.fits_already_charged():
            fits = True
            break
    if fits:
        search.tree.remove(search.node, search.usage)
        targets = fill_back(search, targets, borrowing=search.may_borrow)
    search.tree.rollback(mark)
    return targets if fits else []


def possible_victims(search: Search) -> Iterator[Workload]:
    """Yield all that are looked at: nobody else is ever a target."""
    yield from (workload for _, workload in _everybody(search, _queues(search)))


def refusals(search: Search) -> ShareComparisons:
    """Return whom the shares keep although it would make room if all candidates went; {} if it would not.

    For those who explain: the search is carried on behind the point at which it would have found enough, so
    of all candidates those who are not named here may go.
    """
    queues = _queues(search)
    everybody = [(queue, entry[1]) for queue in queues for entry in _everybody(search, [queue])]
    mark = search.tree.mark()
    for queue, workload in everybody:
        search.tree.remove(queue.node, workload.usage)
    room = search.fits(borrowing=search.may_borrow)
    search.tree.rollback(mark)
    if not room:
        return {}
    mark = search.tree.mark()
    search.tree.add(search.node, search.usage)
    found: ShareComparisons = {}
    taken = {target.workload.key for target in _in_order(search, _contenders(search, queues), found)}
    for queue, workload in everybody:
        if workload.key not in taken and workload.key not in found:
            # Nobody gives who does not borrow, or only what its parent cannot lend.
            found[workload.key] = {"": _without_share(search, queue.node)}
    search.tree.rollback(mark)
    return {key: compared for key, compared in found.items() if key not in taken}


def _without_share(search: Search, node: Node) -> ShareComparison:
    """Return that *node*, or a cohort above it and below the preemptor's, has no share (any more)."""
    tree, above = search.tree, frozenset(search.node.path_to_root())
    while share_key(tree, node)[1] and node.parent is not None and node.parent not in above:
        node = node.parent
    share, own = dominant_resource_share(tree, search.node), dominant_resource_share(tree, node)
    return ShareComparison("", search.node, share, node, own, own)


class _Contender:
    """A queue with candidates, the first to go first."""

    __slots__ = ("_rest", "dropped", "head", "node", "queue", "refused")

    def __init__(self, queue: ClusterQueue, candidates: Iterator[Entry]) -> None:
        self.queue = queue
        self.node: Node = queue.node
        self._rest = candidates
        self.head: Entry | None = next(candidates, None)
        self.dropped = False
        self.refused: list[Entry] = []
        """Popped, but not taken by the first strategy."""

    def pop(self) -> Entry:
        entry = self.head
        if entry is None:
            raise LookupError(f"no candidate left in {self.queue.name}")
        self.head = next(self._rest, None)
        return entry

    def left(self, popped: Entry) -> Iterator[Entry]:
        """Yield *popped* and all that have not been popped, for good."""
        yield popped
        while self.head is not None:
            yield self.pop()


def _queues(search: Search) -> list[ClusterQueue]:
    """Return the preemptor's queue, if it has candidates, and all others that must give."""
    queues = [search.queue] if search.has_own() else []
    if search.may_reclaim:
        _collect_borrowers(search, search.node.root(), queues)
    return queues


def _contenders(search: Search, queues: list[ClusterQueue]) -> list[_Contender]:
    contenders = [_Contender(queue, _everybody(search, [queue])) for queue in queues]
    return [contender for contender in contenders if contender.head is not None]


def _everybody(search: Search, queues: list[ClusterQueue]) -> Iterator[Entry]:
    """Yield the candidates of one queue after the other, within each the first to go first."""
    for queue in queues:
        index = queue.candidates
        for evicted, entries in ((True, index.evicted), (False, index.running)):
            if entries and queue is search.queue:
                yield from search.own(evicted=evicted)
            elif entries:
                yield from search.others(queue, evicted=evicted)


def _collect_borrowers(search: Search, cohort: Node, queues: list[ClusterQueue]) -> None:
    """Find the queues that borrow, below cohorts that do not borrow themselves too."""
    for child in cohort.child_cohorts:
        _collect_borrowers(search, child, queues)
    for child in search.borrowers(cohort):
        if child.is_cluster_queue and child is not search.node:
            queue = search.world.cluster_queues.get(child.name)
            if queue is not None:
                queues.append(queue)


def _in_order(
    search: Search, contenders: list[_Contender], noted: ShareComparisons | None = None
) -> Iterator[Target]:
    """Yield victims, each taken out of the quota tree already, by one strategy after the other.

    *noted* is told whom a strategy does not let go.
    """
    fair_sharing = search.world.config.fair_sharing
    names: Sequence[str] = fair_sharing.preemption_strategies or tuple(STRATEGIES)
    first = names[0]
    took_own = False
    for target in _first_pass(search, _Tournament(search, contenders), first, noted):
        took_own = took_own or target.reason == IN_CLUSTER_QUEUE
        yield target
    contenders = _retry(contenders)
    gates = search.world.config.feature_gates
    if took_own and enabled(gates, FAIR_SHARING_REEVALUATE_PREEMPTION_CANDIDATES):
        # Its own victims have lowered the preemptor's share: what was refused before may pass now.
        yield from _first_pass(search, _Tournament(search, contenders), first, noted)
        contenders = _retry(contenders)
    if len(names) > 1:
        yield from _second_pass(_Tournament(search, contenders), noted)


def _retry(contenders: list[_Contender]) -> list[_Contender]:
    return [_Contender(c.queue, iter(c.refused)) for c in contenders if c.refused]


def _first_pass(
    search: Search, tournament: "_Tournament", name: str, noted: ShareComparisons | None
) -> Iterator[Target]:
    strategy = STRATEGIES[name]
    # Who stays within its nominal quota only takes back what is its own, whatever the shares.
    within_nominal = enabled(
        search.world.config.feature_gates, FAIR_SHARING_PREEMPT_WITHIN_NOMINAL
    ) and not search.is_over_quota(search.node)
    while (contender := tournament.next()) is not None:
        if contender.node is search.node:
            yield tournament.take(contender, Target(contender.pop()[1], IN_CLUSTER_QUEUE))
            continue
        if within_nominal:
            yield tournament.take(contender, Target(contender.pop()[1], IN_COHORT_RECLAMATION))
            continue
        preemptor, before, below_common = tournament.shares(contender)
        hopeless = preemptor[0] > before[0]
        while contender.head is not None:
            entry = contender.pop()
            if not hopeless:
                after = tournament.share_without(contender, entry, below_common)
                if strategy(preemptor, before, after):
                    yield tournament.take(contender, Target(entry[1], IN_COHORT_FAIR_SHARING))
                    break
            contender.refused.append(entry)
            if noted is not None:
                tournament.note(noted, contender, entry, name)
        tournament.touch(contender)


def _second_pass(tournament: "_Tournament", noted: ShareComparisons | None) -> Iterator[Target]:
    """Yield at most one victim per queue, where the preemptor's share is less than the victim's is now."""
    while (contender := tournament.next()) is not None:
        entry = contender.pop()
        contender.dropped = True
        preemptor, before, _ = tournament.shares(contender)
        goes = less_than_initial_share(preemptor, before, before)
        if noted is not None:
            instead = entry[1].key if goes else None
            for other in contender.left(entry):
                tournament.note(noted, contender, other, INITIAL_SHARE, instead)
        if goes:
            yield tournament.take(contender, Target(entry[1], IN_COHORT_FAIR_SHARING))
        tournament.touch(contender)


_Standing = tuple[tuple[int, int], bool, tuple[bool, bool, Rank] | str]


class _Tournament:
    """Finds the queue to give next: a heap of children per cohort, the largest share on top.

    While victims are taken out, usage and so shares only fall, and the next candidate of a queue ranks behind
    the one before. So a place in a heap may be out of date but is never too low: it is enough to put right
    what has been touched when it comes up.
    """

    __slots__ = ("_ancestors", "_contenders", "_heaps", "_search", "_stale")

    def __init__(self, search: Search, contenders: list[_Contender]) -> None:
        self._search = search
        self._contenders = {contender.node: contender for contender in contenders}
        self._ancestors = frozenset(search.node.path_to_root())
        self._stale: set[Node] = set()
        self._heaps: dict[Node, list[tuple[_Standing, Node]]] = {}
        for contender in contenders:
            node = contender.node
            while node.parent is not None:
                heap = self._heaps.get(node.parent)
                if heap is not None:
                    heap.append((self._standing(node), node))
                    break
                self._heaps[node.parent] = [(self._standing(node), node)]
                node = node.parent
        for heap in self._heaps.values():
            heapify(heap)

    def next(self) -> _Contender | None:
        """Return the queue to give next, or None when nobody is left. Then `take` or `touch` it."""
        root = self._search.node.root()
        if root is self._search.node:
            own = self._contenders.get(root)
            return own if own is not None and own.head is not None and not own.dropped else None
        cohort = root
        while True:
            heap = self._heaps.get(cohort)
            if not heap:
                if cohort is root or cohort.parent is None:
                    return None
                # Nobody is left below: on top of the parent's heap is this very cohort.
                cohort = cohort.parent
                heappop(self._heaps[cohort])
                continue
            standing, node = heap[0]
            if self._is_out(node, standing):
                heappop(heap)
            elif node in self._stale:
                self._stale.discard(node)
                if (now := self._standing(node)) != standing:
                    heapreplace(heap, (now, node))
            elif node.is_cluster_queue:
                return self._contenders[node]
            else:
                cohort = node

    def _is_out(self, node: Node, standing: _Standing) -> bool:
        contender = self._contenders.get(node)
        if contender is not None and (contender.dropped or contender.head is None):
            return True
        if node is self._search.node or node in self._ancestors or node in self._stale:
            return False
        return standing[0][1] == 0

    def _standing(self, node: Node) -> _Standing:
        """Return the node's place in its parent's heap, lowest first."""
        kind, amount = share_key(self._search.tree, node)
        contender = self._contenders.get(node)
        if contender is None:
            return (-kind, -amount), False, node.name
        if contender.head is None:
            return (-kind, -amount), True, node.name
        rank, workload = contender.head
        own = node is self._search.node
        return (-kind, -amount), True, (workload.evicted_at is None, own, rank)

    def take(self, contender: _Contender, target: Target) -> Target:
        """Take the victim out of the quota tree."""
        self._search.tree.remove(contender.node, target.workload.usage)
        self.touch(contender)
        return target

    def touch(self, contender: _Contender) -> None:
        """Note that the queue's share or next candidate may have changed, and the shares above."""
        self._stale.add(contender.node)
        self._stale.update(contender.node.path_to_root())

    def shares(self, contender: _Contender) -> tuple[ShareKey, ShareKey, Node]:
        """Return the preemptor's and the victim's shares where they are compared, and the latter's node."""
        preemptor, victim = self._compared(contender)
        tree = self._search.tree
        return share_key(tree, preemptor), share_key(tree, victim), victim

    def _compared(self, contender: _Contender) -> tuple[Node, Node]:
        victim = contender.node
        while victim.parent is not None and victim.parent not in self._ancestors:
            victim = victim.parent
        preemptor = self._search.node
        while preemptor.parent is not None and preemptor.parent is not victim.parent:
            preemptor = preemptor.parent
        return preemptor, victim

    def note(
        self,
        noted: ShareComparisons,
        contender: _Contender,
        entry: Entry,
        strategy: str,
        instead: WorkloadKey | None = None,
    ) -> None:
        """Note that *strategy* does not let the entry's workload go, and by which shares."""
        tree, key = self._search.tree, entry[1].key
        preemptor, victim = self._compared(contender)
        share, before = dominant_resource_share(tree, preemptor), dominant_resource_share(tree, victim)
        after = self._without(contender, entry, victim)
        noted.setdefault(key, {})[strategy] = ShareComparison(
            strategy, preemptor, share, victim, before, after, instead
        )

    def share_without(self, contender: _Contender, entry: Entry, node: Node) -> ShareKey:
        """Return the share of *node* with the entry's workload gone."""
        return self._without(contender, entry, node).key

    def _without(self, contender: _Contender, entry: Entry, node: Node) -> Share:
        tree = self._search.tree
        mark = tree.mark()
        tree.remove(contender.node, entry[1].usage)
        share = dominant_resource_share(tree, node)
        tree.rollback(mark)
        return share
