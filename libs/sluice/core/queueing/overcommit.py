"""Quota that is promised to those whose victims have not gone yet: three ways to see a tree.

That is to reservations with pending preemptions (AC6), and to preemptors that wait in their queues (CA6).
Both a preemptor's usage and that of its victims are charged, so the tree itself is *overdrawn*. There is room
for somebody else if there is in both of these:

- *planned*: the victims have gone, the preemptors have come. Nothing is promised twice;
- *real*: the victims run, the preemptors do not yet. Nobody starts on quota that is in use.

While a cycle runs, the victims are out of the tree (planned). Whoever cannot be served so, as it would have
to take what is promised, is judged against the overdrawn tree: what fits there, fits either way.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from sluice.core.quota.tree import Cell, FlavorResource, Node, cell_of
from sluice.core.workload.admission_constraints import may_borrow
from sluice.core.workload.charges import beyond
from sluice.core.world.charging import added
from sluice.core.world.model import ClusterQueue, World
from sluice.core.world.reservations import Trial
from sluice.core.world.variants import family_usage, siblings
from sluice.core.world.workload import Workload
from sluice.events.base import WorkloadKey

from .pending_queue import CohortQueues, Preemptor
from .request_index import Least

_Promise = tuple[Node, Mapping[FlavorResource, int], Sequence[Workload]]


class _Overdraft:
    """How much more is in use in the real tree than in the planned one, cell by cell.

    Many may ask while the promises stay as they are, and a look is cheaper than a trial. Where there are
    lending limits, what reaches a cohort depends on what else does, so it has to be tried.
    """

    __slots__ = ("_limited", "_more")

    def __init__(
        self,
        world: World,
        promises: Mapping[WorkloadKey, _Promise],
        victims: Mapping[WorkloadKey, tuple[Workload, int]],
    ) -> None:
        self._more: dict[Cell, int] = {}
        """In no meaningful order."""
        self._limited: set[FlavorResource] = set()
        """Where a lending limit keeps some of it below the root."""
        for key, (victim, _) in victims.items():
            queue = world.cluster_queues.get(victim.cluster_queue)
            if key in world.absent and queue is not None and key in queue.workloads:
                self._add(queue.node, victim.usage, 1)
        for key, (node, usage, _) in promises.items():
            if key not in world.absent:
                self._add(node, usage, -1)

    def _add(self, node: Node, usage: Mapping[FlavorResource, int], sign: int) -> None:
        more = self._more
        for fr, amount in usage.items():
            cell: Cell | None = cell_of(node, fr)
            while cell is not None:
                if cell.local:
                    self._limited.add(fr)
                more[cell] = more.get(cell, 0) + sign * amount
                cell = cell.parent

    def leaves(self, node: Node, usage: Mapping[FlavorResource, int]) -> bool | None:
        """Is *usage* available to *node* in the real tree? None: it has to be tried."""
        more = self._more
        for fr, amount in usage.items():
            if fr in self._limited:
                return None
            cell = cell_of(node, fr)
            # As `Cell.available` without lending limits.
            while (parent := cell.parent) is not None:
                if cell.local:
                    return None
                if cell.cap is not None and amount > cell.cap - cell.usage - more.get(cell, 0):
                    return False
                cell = parent
            if amount > cell.subtree - cell.usage - more.get(cell, 0):
                return False
        return True

    def root_lacks(self, root: Node, least: Least) -> bool:
        """Is less than *least* free at the root of the real tree? False where it has to be tried."""
        return any(
            (cell := root.cells.get(fr)) is not None
            and fr not in self._limited
            and amount > cell.subtree - cell.usage - self._more.get(cell, 0)
            for fr, amount in least
        )


class Overcommit:
    """The promises of one tree within a trial. Falsy when there are none.

    `trial` must be entered; the victims are out of the tree when this has been made.
    """

    __slots__ = ("_overdraft", "_promises", "_trial", "_victims", "_world", "pending")

    def __init__(self, trial: Trial, queues: Container[str], *, but: Workload | None = None) -> None:
        """Collect what is promised to preemptors, other than *but*, of the tree with these cluster queues."""
        self._trial = trial
        self._world = trial.world
        self._promises: dict[WorkloadKey, _Promise] = {}
        self._victims: dict[WorkloadKey, tuple[Workload, int]] = {}
        """Those who are to go, and for how many; out of the tree but when they are `shown`."""
        self._overdraft: _Overdraft | None = None
        """Kept until a promise comes or goes."""
        self.pending = False
        """Are there reservations among the promises? Their victims may not have been told yet."""
        world = self._world
        for name, preemptors in world.pending_preemptions.by_queue.items():
            if name in queues:
                for preemptor in preemptors.values():
                    if preemptor is not but:
                        victims = [world.workloads[key] for key in preemptor.victims]
                        self.add(preemptor.key, world.cluster_queues[name].node, preemptor.usage, victims)
                        self.pending = True

    def keep(
        self, waiting: Preemptor, node: Node, beside: Mapping[FlavorResource, int] | None = None
    ) -> None:
        """Charge what a preemptor that waits in its queue waits for, and add it.

        Of a variant that is what it needs beyond its siblings (CA10) and *beside*, which one of them gets.
        """
        world, workload, usage = self._world, waiting.workload, waiting.usage
        if workload.record.parent is not None:
            usage = beyond(usage, family_usage(world, workload, node.name))
            usage = beyond(usage, beside) if beside else usage
        workloads = world.workloads
        victims = [workloads[key] for key in waiting.victims if key in workloads]
        self._trial.charge(node, usage)
        self.add(workload.key, node, usage, victims)

    def lift_family(self, workload: Workload) -> list[Preemptor]:
        """Lift the siblings of *workload* that wait: what they wait for is its own, too."""
        lifted = []
        for sibling in siblings(self._world, workload):
            waiting = None if sibling.peers is None else sibling.peers.waiting
            if waiting is not None and sibling.key in self._promises:
                self.lift(waiting)
                lifted.append(waiting)
        return lifted

    def lift(self, waiting: Preemptor) -> None:
        """Take back what `keep` has done."""
        promise = self._promises.get(waiting.workload.key)
        if promise is not None:
            self._trial.discharge(promise[0], promise[1])
            self.drop([waiting.workload])

    def holds(self, waiting: Preemptor) -> bool:
        """Is anything kept for this preemptor?"""
        return waiting.workload.key in self._promises

    def __bool__(self) -> bool:
        return bool(self._promises)

    def add(
        self,
        key: WorkloadKey,
        node: Node,
        usage: Mapping[FlavorResource, int],
        victims: Sequence[Workload],
    ) -> None:
        """Add a promise whose usage is charged; take its victims out of the tree."""
        self._overdraft = None
        self._promises[key] = (node, usage, victims)
        for victim in victims:
            _, times = self._victims.get(victim.key, (victim, 0))
            self._victims[victim.key] = (victim, times + 1)
            if not times:
                self._trial.remove(victim)

    def drop(self, preemptors: Iterable[Workload]) -> None:
        """These lose what was promised to them: victims that go for nobody else are in the tree again."""
        self._overdraft = None
        for preemptor in preemptors:
            promise = self._promises.pop(preemptor.key, None)
            for victim in promise[2] if promise is not None else ():
                times = self._victims[victim.key][1] - 1
                if times:
                    self._victims[victim.key] = (victim, times)
                else:
                    del self._victims[victim.key]
                    self._trial.restore(victim)

    def in_the_way(self, usage: Mapping[FlavorResource, int]) -> list[Workload]:
        """Return the victims that use anything of which *usage* is."""
        return [victim for victim, _ in self._victims.values() if any(fr in victim.usage for fr in usage)]

    def concern(self, workloads: Iterable[Workload]) -> bool:
        """Is one of *workloads* to go, or has it been promised anything?"""
        return any(w.key in self._victims or w.key in self._promises for w in workloads)

    def have_all_gone(self, gone: Collection[Workload] = ()) -> bool:
        """Does nobody hold anything back from the preemptors but *gone*?

        Then what fits as planned is really free: all that the real tree differs in is what the preemptors do
        not use yet. Cheap, unlike `fit_now`.
        """
        victims = self._victims
        if not victims:
            return True
        return len(victims) <= len(gone) and victims.keys() <= {workload.key for workload in gone}

    def fit_now(
        self,
        node: Node,
        usage: Mapping[FlavorResource, int],
        gone: Collection[Workload] = (),
        *,
        may_borrow: bool = True,
    ) -> bool:
        """Is *usage* available in the real tree, once *gone* have given up what they hold?"""
        if may_borrow and not gone:
            free = self._difference().leaves(node, usage)
            if free is not None:
                return free
        tree, absent = self._world.tree, self._world.absent
        leaving = {workload.key: workload for workload in gone}
        mark = tree.mark()
        for key, (victim, _) in self._victims.items():
            if key in absent and key not in leaving:
                self._change(tree.add, victim)
        for key, workload in leaving.items():
            if key not in absent and key not in self._promises:
                self._change(tree.remove, workload)
        for key, (queue, amounts, _) in self._promises.items():
            if key not in absent:
                tree.remove(queue, amounts)
        fits = tree.fits(node, usage) and (
            may_borrow or all(node.used(fr) + amount <= node.nominal(fr) for fr, amount in usage.items())
        )
        tree.rollback(mark)
        return fits

    def root_lacks(self, root: Node, least: Least) -> bool:
        """Is less than *least* free at the root of the real tree? False is always right."""
        return self._difference().root_lacks(root, least)

    def _difference(self) -> _Overdraft:
        if self._overdraft is None:
            self._overdraft = _Overdraft(self._world, self._promises, self._victims)
        return self._overdraft

    @contextmanager
    def shown(self, *, but: Container[str] = ()) -> Iterator[None]:
        """Put the victims into the tree, other than *but*: it is overdrawn, and they may be preempted."""
        absent = self._world.absent
        shown = [victim for key, (victim, _) in self._victims.items() if key not in but and key in absent]
        self._overdraft = None
        for victim in shown:
            self._trial.restore(victim)
        yield
        self._overdraft = None
        for victim in shown:
            self._trial.remove(victim)

    def _change(self, how: Callable[[Node, Mapping[FlavorResource, int]], None], workload: Workload) -> None:
        queue = self._world.cluster_queues.get(workload.cluster_queue)
        if queue is not None and workload.key in queue.workloads:
            how(queue.node, workload.usage)


def keep_waiting(overcommit: Overcommit, tree: CohortQueues, but: Preemptor | None = None) -> None:
    """Add the preemptors that wait in the queues of *tree*, other than *but*."""
    family = []
    for name in sorted(tree.waiting):
        queue = tree.waiting[name]
        for waiting in queue.holding():
            if waiting is but:
                continue
            if waiting.workload.record.parent is None:
                overcommit.keep(waiting, queue.node)
            else:
                family.append((waiting, queue.node))
    for waiting, node in family:  # whose siblings may be among the victims of others
        overcommit.keep(waiting, node)


def still_fits(world: World, workload: Workload) -> bool:
    """Is there, with what the reservation itself adds, quota for all that runs (AC7)?

    What is promised to others while its victims run does not count: it is not in use yet. Nor does what its
    job holds already, in another slice or variant: of that nothing comes back if the reservation is given up.
    """
    tree, node = world.tree, world.cluster_queues[workload.cluster_queue].node
    more = [fr for fr, amount in added(world, workload).items() if amount]
    if not may_borrow(world.config, workload.record) and _borrows(world, workload, more):
        return False
    if _within_quota(more, node):
        return True
    if not world.pending_preemptions:
        return False
    root = node.root()
    mark = tree.mark()
    for name, preemptors in world.pending_preemptions.by_queue.items():
        other = world.tree.cluster_queues.get(name)
        if other is not None and other.root() is root:
            for preemptor in preemptors.values():
                if preemptor is not workload:
                    tree.remove(other, preemptor.usage)
    fits = _within_quota(more, node)
    tree.rollback(mark)
    return fits


def _within_quota(frs: Iterable[FlavorResource], node: Node) -> bool:
    return all(node.available(fr) >= 0 for fr in frs)


def came_later(workload: Workload, queue: ClusterQueue) -> list[Workload]:
    """Return those of its queue that borrow, where *workload* cannot: they may, and came no earlier (AX6).

    What was kept for it while its victims left has been its own since then.
    """
    mine = workload.promised_at or workload.reserved_at or 0
    return [
        other
        for other in queue.workloads.values()
        if other is not workload and (other.reserved_at or 0) >= mine and not other.record.cannot_borrow
    ]


def _borrows(world: World, workload: Workload, frs: Iterable[FlavorResource]) -> bool:
    """Is any of *frs*, which a workload charges that cannot borrow (AX6), above its queue's own quota?

    Those that came later are the ones that borrow then. What is promised to others is not in use yet.
    """
    queue = world.cluster_queues[workload.cluster_queue]
    if not any(queue.node.borrowing(fr) for fr in frs):
        return False
    mark = world.tree.mark()
    later = {other.key for other in came_later(workload, queue)}
    for other in queue.workloads.values():
        if other is not workload and (other.key in later or other.preemptions):
            world.tree.remove(queue.node, other.usage)
    found = any(queue.node.borrowing(fr) for fr in frs)
    world.tree.rollback(mark)
    return found
