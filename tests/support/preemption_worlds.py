"""Small worlds for tests of preemption, and preemption worked out the plain way to compare with.

`plain_targets` looks at everybody, sorts everything, and tries one after the other: what the rules say, with
none of the indexes, bounds and heaps of the real thing.
"""

from collections.abc import Iterator, Mapping

from sluice.api import kueue
from sluice.core.preemption.targets import Target
from sluice.core.quota.fair_share import dominant_resource_share
from sluice.core.quota.tree import WEIGHT_SCALE, FlavorResource, Node, Quota, Tree
from sluice.core.world.model import ClusterQueue, World
from sluice.core.world.queue_order import queue_order_timestamp
from sluice.core.world.reservations import reserve
from sluice.core.world.workload import Workload
from sluice.events.base import WorkloadKey
from sluice.events.slices import WorkloadRecord

CPU = ("default", "cpu")
GPU = ("default", "gpu")


def world(*, fair: bool = False, **gates: bool) -> World:
    config = kueue.ConfigurationSpec(fair_sharing=kueue.FairSharingConfig(enable=fair), feature_gates=gates)
    return World(Tree(), config=config)


def queue(
    in_world: World,
    name: str,
    cohort: str = "team",
    *,
    weight: int = WEIGHT_SCALE,
    quotas: Mapping[FlavorResource, Quota] | None = None,
    cpu: int = 0,
    within: str = "LowerPriority",
    reclaim: str = "Any",
    borrow: kueue.BorrowWithinCohort | None = None,
) -> ClusterQueue:
    spec = kueue.ClusterQueueSpec(
        cohort_name=cohort,
        preemption=kueue.ClusterQueuePreemption(
            within_cluster_queue=within,  # type: ignore[arg-type]
            reclaim_within_cohort=reclaim,  # type: ignore[arg-type]
            borrow_within_cohort=borrow,
        ),
    )
    node = in_world.tree.set_cluster_queue(name, cohort, quotas or {CPU: Quota(cpu)}, weight)
    made = in_world.cluster_queues[name] = ClusterQueue(name, spec, node, (), {})
    return made


def pending(name: str, in_queue: str, *, priority: int = 0, created_at: int = 0, **fields: bool) -> Workload:
    record = WorkloadRecord(
        namespace="ns",
        name=name,
        uid=name,
        queue_name="lq",
        created_at=created_at,
        pod_sets=(),
        priority=priority,
        **fields,  # type: ignore[arg-type]
    )
    return Workload(record, WorkloadKey(record.key), name, priority, cluster_queue=in_queue)


def running(
    in_world: World,
    name: str,
    in_queue: str,
    usage: Mapping[FlavorResource, int] | int,
    *,
    priority: int = 0,
    at: int = 1,
    created_at: int = 0,
    evicted: bool = False,
) -> Workload:
    """Add a workload with a reservation; a bare number is cpu."""
    workload = pending(name, in_queue, priority=priority, created_at=created_at)
    workload.usage = {CPU: usage} if isinstance(usage, int) else dict(usage)
    workload.reserved_at = at
    workload.evicted_at = at + 1 if evicted else None
    in_world.workloads[workload.key] = workload
    reserve(in_world, workload)
    return workload


def names(targets: list[Target]) -> list[str]:
    return [target.workload.record.name for target in targets]


# The plain way


def plain_targets(
    w: World, preemptor: Workload, usage: Mapping[FlavorResource, int], frs: list[FlavorResource]
) -> list[tuple[str, str]]:
    """Return (name, reason) of the targets."""
    mark = w.tree.mark()
    try:
        found = _plain(w, preemptor, usage, frs).targets()
        return [(workload.record.name, reason) for workload, reason in found]
    finally:
        w.tree.rollback(mark)


def plain_possible_victims(
    w: World, preemptor: Workload, usage: Mapping[FlavorResource, int], frs: list[FlavorResource]
) -> set[WorkloadKey]:
    """Return all whom the rules allow, enough or not."""
    return {workload.key for workload in _plain(w, preemptor, usage, frs).possible()}


def _plain(w, preemptor, usage, frs) -> "_Classical | _Fair":
    kind = _Fair if w.config.fair_sharing.enable else _Classical
    return kind(w, preemptor, usage, frs)


class _Plain:
    def __init__(self, w, preemptor, usage, frs):
        self.w, self.preemptor, self.usage, self.frs = w, preemptor, usage, frs
        self.cq = w.cluster_queues[preemptor.cluster_queue]
        self.policy = self.cq.spec.preemption

    def within(self, node: Node) -> bool:
        return all(node.used(fr) <= node.subtree_quota(fr) for fr in self.frs)

    def fits(self, borrowing: bool) -> bool:
        return all(
            (borrowing or not self.cq.node.borrowing_with(fr, amount))
            and amount <= self.cq.node.available(fr)
            for fr, amount in self.usage.items()
        )

    def allowed(self, candidate: Workload) -> bool:
        if not any(fr in candidate.usage for fr in self.frs):
            return False
        same = candidate.cluster_queue == self.cq.name
        rule = self.policy.within_cluster_queue if same else self.policy.reclaim_within_cohort
        mine, theirs = self.preemptor.priority, candidate.priority
        if rule == "Any":
            return True
        if rule == "LowerOrNewerEqualPriority" and mine == theirs:
            config = self.w.config
            return queue_order_timestamp(self.preemptor, config) < queue_order_timestamp(candidate, config)
        return rule in ("LowerPriority", "LowerOrNewerEqualPriority") and theirs < mine

    def order(self, candidate: Workload):
        return (
            candidate.evicted_at is None,
            candidate.cluster_queue == self.cq.name,
            candidate.priority,
            -(candidate.reserved_at or 0),
            candidate.uid,
        )

    def candidates_of(self, name: str) -> list[Workload]:
        return [c for c in self.w.cluster_queues[name].workloads.values() if self.allowed(c)]

    def take(self, candidate: Workload) -> None:
        self.w.tree.remove(self.w.cluster_queues[candidate.cluster_queue].node, candidate.usage)

    def give(self, candidate: Workload) -> None:
        self.w.tree.add(self.w.cluster_queues[candidate.cluster_queue].node, candidate.usage)

    def fill_back(self, taken, borrowing):
        for i in reversed(range(len(taken) - 1)):
            self.give(taken[i][0])
            if self.fits(borrowing):
                taken[i] = taken[-1]
                taken.pop()
            else:
                self.take(taken[i][0])
        return taken


class _Classical(_Plain):
    def possible(self):
        attempts, everybody = self.plan()
        return [
            c
            for borrowing in attempts
            for c, common, kind in everybody
            if self.reason(c, common, kind, borrowing) is not None
        ]

    def plan(self):
        """Return with which answers to "may it borrow?" to try, and everybody in order."""
        own = sorted(self.candidates_of(self.cq.name), key=self.order)
        hierarchical, by_priority = self.others()
        borrow = self.policy.borrow_within_cohort
        forbidden = borrow is None or borrow.policy != "LowerPriority"
        below = all(self.cq.node.used(fr) < self.cq.node.nominal(fr) for fr in self.frs)
        if not (hierarchical or by_priority) or (forbidden and not below):
            attempts = [True]
        elif forbidden and not hierarchical:
            attempts = [False, True]
        else:
            attempts = [True, False]
        lists = [(hierarchical, "H"), (by_priority, "P"), ([(c, None) for c in own], "O")]
        everybody = [
            (c, common, kind)
            for evicted in (True, False)
            for found, kind in lists
            for c, common in found
            if (c.evicted_at is not None) == evicted
        ]
        return attempts, everybody

    def targets(self):
        attempts, everybody = self.plan()
        for borrowing in attempts:
            taken = []
            for candidate, common, kind in everybody:
                reason = self.reason(candidate, common, kind, borrowing)
                if reason is None:
                    continue
                self.take(candidate)
                taken.append((candidate, reason))
                if self.fits(borrowing):
                    return self.fill_back(taken, borrowing)
            for candidate, _ in taken:
                self.give(candidate)
        return []

    def reason(self, candidate, common, kind, borrowing):
        if kind == "O":
            return "InClusterQueue"
        node = self.w.cluster_queues[candidate.cluster_queue].node
        while node is not common:
            if self.within(node):
                return None
            node = node.parent
        if kind == "H":
            return "InCohortReclamation"
        borrow = self.policy.borrow_within_cohort
        if (
            borrow is not None
            and borrow.policy == "LowerPriority"
            and candidate.priority < self.preemptor.priority
        ):
            threshold = borrow.max_priority_threshold
            if threshold is None or candidate.priority <= threshold:
                return "InCohortReclaimWhileBorrowing"
        return None if borrowing else "InCohortReclamation"

    def others(self):
        hierarchical, by_priority = [], []
        if self.cq.node.parent is None or self.policy.reclaim_within_cohort == "Never":
            return hierarchical, by_priority
        remaining, advantage, below = dict(self.usage), False, None
        for node in (self.cq.node, *self.cq.node.path_to_root()):
            if node is not self.cq.node:
                found = []
                for name in self.over_quota(node, below):
                    found += [(c, node) for c in self.candidates_of(name)]
                (hierarchical if advantage else by_priority).extend(found)
            if all(node.used(fr) + amount <= node.subtree_quota(fr) for fr, amount in remaining.items()):
                advantage = True
            remaining = {fr: max(0, amount - node.local_available(fr)) for fr, amount in remaining.items()}
            below = node
        return sorted(hierarchical, key=lambda f: self.order(f[0])), sorted(
            by_priority, key=lambda f: self.order(f[0])
        )

    def over_quota(self, cohort, below) -> Iterator[str]:
        for child in cohort.children:
            if child is below or self.within(child):
                continue
            if child.is_cluster_queue:
                yield child.name
            else:
                yield from self.over_quota(child, below)


class _Fair(_Plain):
    def possible(self):
        return [workload for found in self.candidates().values() for workload in found]

    def candidates(self):
        """Return the candidates of each queue that must give, and of its own."""
        lists = {self.cq.name: self.candidates_of(self.cq.name)}
        if self.cq.node.parent is not None and self.policy.reclaim_within_cohort != "Never":
            root = self.cq.node.root()
            for name, other in self.w.cluster_queues.items():
                if other is not self.cq and other.node.root() is root and not self.within(other.node):
                    lists[name] = self.candidates_of(name)
        return {name: sorted(found, key=self.order) for name, found in lists.items()}

    def targets(self):
        self.lists = self.candidates()
        if not any(self.lists.values()):
            return []
        self.w.tree.add(self.cq.node, self.usage)
        self.taken = []
        configured = self.w.config.fair_sharing.preemption_strategies
        names = configured or ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
        if not (self.first(names[0]) or (len(names) > 1 and self.second())):
            return []
        self.w.tree.remove(self.cq.node, self.usage)
        return self.fill_back(self.taken, True)

    def fits_charged(self):
        self.w.tree.remove(self.cq.node, self.usage)
        fits = self.fits(True)
        self.w.tree.add(self.cq.node, self.usage)
        return fits

    def preempt(self, candidate, reason) -> bool:
        self.take(candidate)
        self.taken.append((candidate, reason))
        return self.fits_charged()

    def first(self, strategy) -> bool:
        self.pruned, refused = set(), []
        gates = self.w.config.feature_gates
        within = self.within(self.cq.node) and gates.get("FairSharingPreemptWithinNominal", True)
        while (name := self.next_queue()) is not None:
            found = self.lists[name]
            if name == self.cq.name or within:
                reason = "InClusterQueue" if name == self.cq.name else "InCohortReclamation"
                if self.preempt(found.pop(0), reason):
                    return True
                continue
            while found:
                candidate = found.pop(0)
                mine, before, node = self.shares(name)
                self.take(candidate)
                after = self.key(node)
                self.give(candidate)
                passes = mine <= after if strategy == "LessThanOrEqualToFinalShare" else mine < before
                if passes:
                    if self.preempt(candidate, "InCohortFairSharing"):
                        return True
                    break
                refused.append(candidate)
        self.lists = {}
        for candidate in refused:
            self.lists.setdefault(candidate.cluster_queue, []).append(candidate)
        return False

    def second(self) -> bool:
        self.pruned = set()
        while (name := self.next_queue()) is not None:
            candidate = self.lists[name][0]
            mine, before, _ = self.shares(name)
            if mine < before and self.preempt(candidate, "InCohortFairSharing"):
                return True
            self.lists[name] = []
        return False

    def key(self, node):
        return dominant_resource_share(self.w.tree, node).key

    def shares(self, name):
        path = [self.cq.node, *self.cq.node.path_to_root()]
        victim = self.w.cluster_queues[name].node
        while victim.parent not in path:
            victim = victim.parent
        mine = path[path.index(victim.parent) - 1]
        return self.key(mine), self.key(victim), victim

    def next_queue(self):
        root = self.cq.node.root()
        if root is self.cq.node:
            return self.cq.name if self.lists.get(self.cq.name) else None
        while root not in self.pruned:
            name = self.descend(root)
            if name is not None:
                return name
        return None

    def descend(self, cohort):
        path = list(self.cq.node.path_to_root())
        best_queue = best_cohort = None
        for child in cohort.child_cluster_queues:
            if child in self.pruned:
                continue
            key = self.key(child)
            if (key[1] == 0 and child is not self.cq.node) or not self.lists.get(child.name):
                self.pruned.add(child)
                continue
            place = ((-key[0], -key[1]), self.order(self.lists[child.name][0]))
            if best_queue is None or place < best_queue[0]:
                best_queue = (place, child)
        for child in cohort.child_cohorts:
            if child in self.pruned:
                continue
            key = self.key(child)
            if key[1] == 0 and child not in path:
                self.pruned.add(child)
            elif best_cohort is None or key > best_cohort[0]:
                best_cohort = (key, child)
        if best_queue is None and best_cohort is None:
            self.pruned.add(cohort)
            return None
        if best_cohort is not None and (
            best_queue is None or (-best_cohort[0][0], -best_cohort[0][1]) <= best_queue[0][0]
        ):
            return self.descend(best_cohort[1])
        assert best_queue is not None
        return best_queue[1].name
