"""Nobody waits for quota that is free: looked at when the scheduler has nothing more to decide (SC1, SC2).

What fits is worked out here once more, in the plainest way, and with none of the scheduler's shortcuts: what
is free in the tree with everything in it that is in use or promised to anybody. It is asked only of those
whose answer is beyond doubt.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from sluice.api.features import CONCURRENT_ADMISSION, enabled
from sluice.core.cycle.nomination import matches_namespace
from sluice.core.flavors.eligibility import FlavorRule
from sluice.core.queueing.pending_queue import CohortQueues, EquivalenceClass, PendingQueue
from sluice.core.quota.tree import FlavorResource
from sluice.core.scheduler.decider import Scheduler
from sluice.core.scheduler.state import SchedulerState
from sluice.core.workload.admission_constraints import may_borrow
from sluice.core.workload.charges import given_back
from sluice.core.world.activity import blocks_admission
from sluice.core.world.model import ClusterQueue, World
from sluice.core.world.preemption_rules import may_issue
from sluice.core.world.variants import Standing, running_sibling, standing, stays_at, yields
from sluice.core.world.workload import Workload
from sluice.events.base import PodSet

from .observer import Observer


def idle(state: SchedulerState, *, settled: bool = False) -> Iterator[str]:
    """Say who waits for quota that is free; nobody while the scheduler has something to decide.

    `settled`: it has been asked, and has not.
    """
    pending, world = state.pending, state.world
    if not settled and (pending.busy or state.lifecycle.due):
        return
    if not settled and any(may_issue(world, world.workloads[key]) for key in world.pending_preemptions.due):
        return
    if blocks_admission(world.config) and state.not_ready:
        return
    for tree in pending.trees.values():
        yield from _in_tree(world, tree)


def _in_tree(world: World, tree: CohortQueues) -> Iterator[str]:
    waiting = [queue for queue in tree.members.values() if queue.classes and not queue.stopped]
    if not waiting:
        return
    mark = world.tree.mark()
    for queue in tree.waiting.values():
        for one in queue.holding():
            world.tree.add(queue.node, one.usage)
    for queue in waiting:
        cq = world.cluster_queues[queue.name]
        # What the head of a StrictFIFO queue waits for is not lent, if it cannot be sure to get it back.
        if any(other is not queue and other.strict and not _lends(world, other) for other in waiting):
            continue
        for peers in _asked(queue):
            flavors = _could_have(world, cq, peers.head())
            if flavors:
                yield f"{peers.head().key} waits in {queue.name}, and {', '.join(flavors)} is free for it"
    world.tree.rollback(mark)


def _lends(world: World, queue: PendingQueue) -> bool:
    policy = world.cluster_queues[queue.name].spec.preemption
    return policy is not None and policy.reclaim_within_cohort == "Any"


def _asked(queue: PendingQueue) -> Iterable[EquivalenceClass]:
    """Return the classes that may be served now: behind a StrictFIFO head nobody is."""
    classes = [peers for peers in queue.classes.values() if peers.waiting is None]
    if not queue.strict:
        return classes
    if queue.waiting:
        return ()
    return sorted(classes, key=lambda peers: peers.rank or (0, 0, ""))[:1]


def _could_have(world: World, cq: ClusterQueue, workload: Workload) -> list[str]:
    """Return the flavors that the workload could have at once, [] if it cannot, or that is not sure."""
    record = workload.record
    if record.replaces is not None or not cq.active or record.misconfigured:
        return []
    if not matches_namespace(world, workload, cq.spec.namespace_selector):
        return []
    fungibility = cq.spec.flavor_fungibility
    if fungibility is not None and fungibility.when_can_preempt not in ("", "TryNextFlavor"):
        return []
    if record.parent is not None:
        how = standing(world, workload)[0]
        if how in (Standing.BARRED, Standing.MOVES_NOWHERE) or yields(world, workload):
            return []
    found: list[str] = []
    taken: dict[FlavorResource, int] = {}
    for pods in record.pod_sets:
        flavors = _for_pod_set(world, cq, workload, pods, taken)
        if not flavors:
            return []
        found += flavors
    running = running_sibling(world, workload) if record.parent is not None else None
    if running is not None and set(found) <= {name for fr in running.usage for name in fr[:1]}:
        return []  # nothing better than where the job runs already (CA10)
    if running is not None and _rather_stays(world, cq, workload, running, taken):
        return []
    return list(dict.fromkeys(found))


def _rather_stays(
    world: World, cq: ClusterQueue, workload: Workload, running: Workload, taken: Mapping[FlavorResource, int]
) -> bool:
    """May a variant prefer the flavors where its job runs to borrowing others (CA10, whenCanBorrow)?"""
    fungibility = cq.spec.flavor_fungibility
    if fungibility is None or fungibility.when_can_borrow != "TryNextFlavor":
        return False
    if not stays_at(workload.record, running.assignment or ()):
        return False
    return any(
        cq.node.used(fr) + amount - _of_siblings(world, workload, fr) > cq.node.nominal(fr)
        for fr, amount in taken.items()
    )


def _for_pod_set(
    world: World, cq: ClusterQueue, workload: Workload, pods: PodSet, taken: dict[FlavorResource, int]
) -> list[str]:
    """Return the flavors that a pod set could have beside what those before it have *taken*; [] as above.

    Where there are several pod sets, only such as have no choice: what they could have depends on it else.
    """
    count = pods.count - given_back(world.config, workload.reclaimable).get(pods.name, 0)
    requests = {**pods.requests, **({"pods": 1} if "pods" in cq.group_of else {})}
    # With none of a resource, too, the pods must be able to run on one of its flavors.
    wanted = {resource: amount * count for resource, amount in requests.items()}
    if count <= 0 or not any(wanted.values()) or any(resource not in cq.group_of for resource in wanted):
        return []
    found = []
    for group in cq.groups:
        part = {resource: amount for resource, amount in wanted.items() if group is cq.group_of[resource]}
        if not part:
            continue
        flavors = group.flavors
        if len(workload.record.pod_sets) > 1:
            flavors = tuple(f for f in flavors if _may_use(world, workload, pods, f))
            if len(flavors) != 1:
                return []
        flavor = next(
            (
                f
                for f in flavors  # what waits mostly waits for quota: that comes first
                if _fits(world, cq, workload, f, part, taken) and _may_use(world, workload, pods, f)
            ),
            None,
        )
        if flavor is None:
            return []
        for resource, amount in part.items():
            taken[flavor, resource] = taken.get((flavor, resource), 0) + amount
        found.append(flavor)
    return found


def _may_use(world: World, workload: Workload, pods: PodSet, flavor: str) -> bool:
    """May the pods run on the flavor, whatever its quota?"""
    record, known = workload.record, world.flavors.get(flavor)
    if known is None or FlavorRule(known).obstacle(pods):
        return False
    # A variant keeps to its flavors whatever the gate says.
    bound = record.parent is not None or enabled(world.config.feature_gates, CONCURRENT_ADMISSION)
    return not (bound and record.allowed_flavors and flavor not in record.allowed_flavors)


def _fits(
    world: World,
    cq: ClusterQueue,
    workload: Workload,
    flavor: str,
    wanted: Mapping[str, int],
    taken: Mapping[FlavorResource, int],
) -> bool:
    record, node = workload.record, cq.node
    constrained = not may_borrow(world.config, record)
    for resource, part in wanted.items():
        fr = (flavor, resource)
        cannot_borrow = constrained or _may_rather_preempt(cq, resource)
        amount = part + taken.get(fr, 0)
        over = node.available(fr) < 0 or (cannot_borrow and node.used(fr) > node.nominal(fr))
        if not amount and over:
            return False  # it needs none of what the queue uses too much of: not beyond doubt
        more = amount - _of_siblings(world, workload, fr)
        if more > 0 and (node.available(fr) < more or node.potential_available(fr) < amount):
            return False
        if (
            more > 0
            and cannot_borrow
            and (node.used(fr) + more > node.nominal(fr) or amount > node.nominal(fr))
        ):
            return False
    return True


def _may_rather_preempt(cq: ClusterQueue, resource: str) -> bool:
    """May a workload wait for another flavor to be left by those it preempts, and not borrow this one?

    It does so, too, behind another workload of its queue that has preempted them already.
    """
    fungibility = cq.spec.flavor_fungibility
    spares = fungibility is not None and fungibility.preference == "PreemptionOverBorrowing"
    return spares and len(cq.group_of[resource].flavors) > 1


def _of_siblings(world: World, workload: Workload, fr: FlavorResource) -> int:
    """Return what siblings of a variant are charged for in its queue: only one of them will run (CA10).

    What one that is leaving, or is to go for somebody, still holds may be promised to a preemptor.
    """
    parent = workload.record.parent
    if parent is None:
        return 0
    return sum(
        other.usage.get(fr, 0)
        for other in world.families.get(parent, {}).values()
        if other.assignment is not None
        and other is not workload
        and other.cluster_queue == workload.cluster_queue
        and not other.preemptions
        and other.evicted_at is None
        and not world.pending_preemptions.preemptors_of(other.key)
    )


FREE, SHARE = 5_000, 0.02
"""Queues and classes looked at while the cell stands still: so many, and so many per event folded."""


class IdleObserver(Observer):
    """Nobody waits for quota that is free (SC1, SC2).

    All that wait are looked at, which takes long where many do: between steps ever more rarely as the log
    goes on; and whenever the cell has stood still for a while, as often as costs little beside the folding.
    """

    name: ClassVar[str] = "idle-quota"
    decider = Scheduler

    def __init__(self) -> None:
        self.steps = self._due = 0
        self._growth, self._least = 0.5, 16
        self._spent = 0
        self._said: frozenset[str] = frozenset()

    def settled(self, state: SchedulerState) -> Iterator[str]:
        self.steps += 1
        if self.steps >= self._due and not state.pending.busy:
            self._due = self.steps + max(self._least, int(self.steps * self._growth))
            yield from idle(state)

    def stood(self, state: SchedulerState, folded: int) -> Iterator[str]:
        if self._spent > FREE + folded * SHARE:
            return
        trees = state.pending.trees.values()
        self._spent += sum(
            1 + sum(1 + len(queue.classes) for queue in tree.members.values()) for tree in trees
        )
        yield from self._new(idle(state))

    def ended(self, state: SchedulerState) -> Iterator[str]:
        yield from self._new(idle(state))

    def _new(self, texts: Iterable[str]) -> Iterator[str]:
        """Say once what is so for as long as it is looked at."""
        said = dict.fromkeys(texts)
        yield from (text for text in said if text not in self._said)
        self._said = frozenset(said)
