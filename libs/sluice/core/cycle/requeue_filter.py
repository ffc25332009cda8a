"""Filter of the parked workloads that freed capacity could help: cheap, and never wrong by saying no (SC2).

A class that was found not to fit need not be looked at again while arithmetic shows that it still cannot
fit. `may_fit` is a necessary condition for admission or preemption of one class; `root_bounds` and
`queue_bounds` are such conditions for all classes of a tree or queue at once (see `shapes`). Queues that
could preempt are `hopeful`, since that does not depend on what is free. `least_borrowing` is a lower bound
of how far up the tree a class would borrow. All look at the tree as it is.
"""

from collections.abc import Mapping

from sluice.api import kueue
from sluice.core.flavors.memo import is_plain
from sluice.core.flavors.plan import plan_of
from sluice.core.queueing.pending_queue import CohortQueues, EquivalenceClass, PendingQueue
from sluice.core.queueing.request_index import ANY, Bounds, Least, fits, with_any
from sluice.core.quota.tree import FlavorResource, Node, find_height_of_lowest_subtree_that_fits
from sluice.core.workload.pending_reasons import (
    EXCEEDS_MAX_QUOTA,
    MISCONFIGURED,
    NO_MATCHING_FLAVOR,
    WAITING_FOR_QUOTA,
)
from sluice.core.world.model import ClusterQueue, World
from sluice.core.world.variants import allowed_flavors, family_usage
from sluice.core.world.workload import Workload

from .nomination import may_be_reduced

_HOPELESS = (EXCEEDS_MAX_QUOTA, NO_MATCHING_FLAVOR, MISCONFIGURED)


def least_request(world: World, workload: Workload, cq: ClusterQueue) -> Least:
    """Return the pairs without which *workload* cannot be admitted in any way.

    Pod sets may get different flavors, so their requests add up only where there is but one flavor. What
    siblings of a variant hold it needs no second time (CA10); when that changes, so does its class.
    """
    record = workload.record
    if record.replaces is not None:
        return ()  # only the difference to the slice that it replaces is needed (WS3)
    held = family_usage(world, workload, cq.name) if record.parent is not None else None
    allowed = allowed_flavors(world.config, record)
    sums: dict[FlavorResource, int] = {}
    for pod_set in record.pod_sets:
        # Also where ended pods give nothing back (`charges.given_back`): it is never wrong to need less.
        count = pod_set.count - workload.reclaimable.get(pod_set.name, 0)
        if pod_set.min_count is not None:
            count = min(count, pod_set.min_count)
        if count <= 0:
            continue
        requests = dict(pod_set.requests)
        if "pods" in cq.group_of:
            requests["pods"] = 1
        for resource, amount in requests.items():
            group = cq.group_of.get(resource)
            if amount <= 0 or group is None:
                # A resource that the queue does not have is ignored, or makes the workload hopeless.
                continue
            flavors = [f for f in group.flavors if f in allowed] if allowed else group.flavors
            if len(flavors) == 1:
                fr = (flavors[0], resource)
                sums[fr] = sums.get(fr, 0) + amount * count
            else:
                fr = (ANY, resource)
                sums[fr] = max(sums.get(fr, 0), amount * count)
    if held:
        sums = _beyond(sums, held)
    return tuple(sorted(sums.items()))


def _beyond(sums: dict[FlavorResource, int], held: Mapping[FlavorResource, int]) -> dict[FlavorResource, int]:
    """Return what is needed at least beyond what is *held*, of whichever flavor."""
    left: dict[FlavorResource, int] = {}
    for fr, amount in sums.items():
        flavor, resource = fr
        there = (
            max((n for (_, other), n in held.items() if other == resource), default=0)
            if flavor == ANY
            else held.get(fr, 0)
        )
        if amount > there:
            left[fr] = amount - there
    return left


def is_hopeless(workload: Workload, reason: str, *, resumed: bool) -> bool:
    """Does a verdict with this reason hold whatever is freed, until queue, flavors or workload change?

    Of a workload that would run with fewer pods only the verdict on all of them is known; of a *resumed* scan
    that on the last flavors only. Several pod sets exceed together what each of them could have: the first
    takes what is free, and with something else free it leaves that to the second.
    """
    if resumed or reason not in _HOPELESS:
        return False
    pod_sets = workload.record.pod_sets
    if len(pod_sets) > 1 and reason == EXCEEDS_MAX_QUOTA:
        return False
    return all(pod_set.min_count is None for pod_set in pod_sets)


def may_fit(world: World, cq: ClusterQueue, peers: EquivalenceClass, *, preempts: bool = True) -> bool:
    """Could the head of *peers* be admitted, or preempt, as things are? False is certain, True is not."""
    cells = cq.node.cells
    for fr, amount in peers.least if peers.indexed else least_request(world, peers.head(), cq):
        if fr[0] == ANY:
            if not _may_get_any(world, cq, peers, fr[1], amount, preempts=preempts):
                return False
            continue
        cell = cells.get(fr)
        if (cq.node.available(fr) if cell is None else cell.available()) >= amount:
            continue
        if not preempts or not _may_preempt(world, cq, peers.head(), fr, amount):
            return False
    return True


def may_be_free(world: World, cq: ClusterQueue, peers: EquivalenceClass) -> bool:
    """Could the head of *peers* be admitted, as things are, without preempting anybody? As `may_fit`."""
    return may_fit(world, cq, peers, preempts=False)


def _may_get_any(
    world: World, cq: ClusterQueue, peers: EquivalenceClass, resource: str, amount: int, *, preempts: bool
) -> bool:
    """Could the head of *peers* get *amount* in any of the flavors of *resource*?"""
    if resource not in cq.group_of:
        return True
    head = peers.head()
    allowed = allowed_flavors(world.config, head.record)
    for flavor in cq.group_of[resource].flavors:
        if allowed and flavor not in allowed:
            continue
        fr = (flavor, resource)
        if cq.node.available(fr) >= amount:
            return True
        if preempts and _may_preempt(world, cq, head, fr, amount):
            return True
    return False


def _may_preempt(world: World, cq: ClusterQueue, workload: Workload, fr: FlavorResource, amount: int) -> bool:
    """Could *workload* get *amount* of *fr* by preemption?"""
    if workload.blocked_on_gates and workload.record.parent is not None:
        return False  # it was said to be blocked on its gates, and need not be told again (CA11)
    return _most_by_preemption(world, cq, workload, fr) >= amount


def is_refused_again(world: World, cq: ClusterQueue, peers: EquivalenceClass) -> bool:
    """Would a look at this parked class, which `may_fit`, only repeat that it waits for quota?

    Nobody is preempted for more than the queue's own quota, but where a subtree below the root has room for
    it, or a policy, or fair sharing, lets the preemptor borrow (SC4, as in `flavors.search`). Foretold for
    the most common kind of class only, of plain workloads with one pod set. False is always right, and so is
    True of variants of whose family nobody holds or gets anything in this cycle (`Admission.is_apart`).
    """
    if len(peers.least) != 1:
        return False
    (only, resource), amount = peers.least[0]
    node = cq.node
    if only != ANY and amount <= node.nominal((only, resource)):
        return False
    plan = plan_of(cq)
    if plan.preempts_borrowing or (plan.reclaims and world.config.fair_sharing.enable):
        return False
    if peers.reason != WAITING_FOR_QUOTA or peers.reserves or peers.aside or peers.circling:
        return False
    head = peers.head()
    record = head.record
    if len(record.pod_sets) != 1 or not is_plain(head) or record.pod_sets[0].min_count is not None:
        return False
    if record.parent is not None and family_usage(world, head, cq.name):
        return False  # of what its siblings hold it needs the rest only (CA10)
    allowed = allowed_flavors(world.config, record)
    group = cq.group_of.get(resource)
    for flavor in group.flavors if group is not None else ():
        if only not in (ANY, flavor) or (allowed and flavor not in allowed):
            continue
        fr = (flavor, resource)
        if not node.available(fr) < amount <= node.potential_available(fr):
            return False
        may_ask = amount <= node.nominal(fr) or find_height_of_lowest_subtree_that_fits(node, fr, amount)[1]
        if may_ask and _most_by_preemption(world, cq, head, fr) >= amount:
            return False
    return group is not None


def is_common(world: World, peers: EquivalenceClass) -> bool:
    """Does the parked class wait for quota of the only flavors there are, in full, like most?

    Then a look at it says no more than what is free does (`Admission.is_in_use`). False is always right.
    """
    if peers.reason != WAITING_FOR_QUOTA or not plan_of(world.cluster_queues[peers.queue.name]).single:
        return False
    head = peers.head()
    return is_plain(head) and head.record.parent is None and not may_be_reduced(head)


def fits_root(root: Node, least: Least) -> bool:
    """Could a queue without quota of its own get *least* from the tree? As `fits` within `root_bounds`."""
    cells = root.cells
    for fr, amount in least:
        if fr[0] == ANY:
            return fits(least, root_bounds(root))
        cell = cells.get(fr)
        if amount > (0 if cell is None else cell.subtree - cell.usage):
            return False
    return True


def root_bounds(root: Node) -> Bounds:
    """Return the most that a queue without quota of its own could get from the tree."""
    return with_any({fr: cell.subtree - cell.usage for fr, cell in root.cells.items()})


def queue_bounds(world: World, cq: ClusterQueue, first: Workload) -> Bounds:
    """Return the most that the queue could get, freely or by preemption.

    `first`: a pending workload of the highest priority that counts.
    """
    return with_any(
        {fr: max(cq.node.available(fr), _most_by_preemption(world, cq, first, fr)) for fr in plan_of(cq).frs}
    )


def is_hopeful(cq: ClusterQueue, queue: PendingQueue) -> bool:
    """Could a parked class of the queue get in by preemption, however little is free in the tree?

    What it may take back from others depends on its own usage only, as long as it always may.
    """
    policy = cq.spec.preemption
    if policy is None or not queue.shapes:
        return False
    plan = plan_of(cq)
    if plan.preempts_own:
        first = queue.parked.first()
        assert first is not None
        if _has_victims(cq, first.head(), policy):
            return True
    if plan.preempts_borrowing:
        return True
    if not plan.reclaims:
        return False
    bounds = with_any({fr: _most_by_reclaim(cq.node, fr) for fr in plan.frs})
    return queue.shapes.has_within(bounds)


def update_hopeful(world: World, tree: CohortQueues) -> None:
    """Bring the tree's list of hopeful queues up to date."""
    for name, queue in tree.touched.items():
        cq = world.cluster_queues.get(name)
        if cq is not None and is_hopeful(cq, queue):
            tree.hopeful[name] = queue
        else:
            tree.hopeful.pop(name, None)
    tree.touched.clear()


def _most_by_preemption(world: World, cq: ClusterQueue, workload: Workload, fr: FlavorResource) -> int:
    """Return the most of *fr* that *workload* could get by preemption; 0 if none."""
    policy = cq.spec.preemption
    if policy is None:
        return 0
    plan = plan_of(cq)
    node = cq.node
    own = most = 0
    if plan.preempts_own:
        # Whatever goes from the queue frees at most what it uses.
        own = cq.candidates.held_below(_victims_up_to(workload, policy), fr)
        if own:
            most = node.available(fr) + own
    if not plan.reclaims:
        return most
    if plan.preempts_borrowing or world.config.fair_sharing.enable:
        return max(most, node.potential_available(fr))
    return max(most, _most_by_reclaim(node, fr) + own)


def _most_by_reclaim(node: Node, fr: FlavorResource) -> int:
    """Return how much more the queue, or a cohort that it is in, could use within its own quota."""
    cell = node.cells.get(fr)
    while cell is None:
        if node.parent is None:
            return 0
        node = node.parent
        cell = node.cells.get(fr)
    most = below = 0
    while (parent := cell.parent) is not None:
        usage = cell.usage
        spare = cell.subtree - usage + below
        if spare > most:
            most = spare
        if cell.local > usage:
            below += cell.local - usage
        cell = parent
    return most


def _victims_up_to(workload: Workload, policy: kueue.ClusterQueuePreemption) -> int:
    """Return up to which priority those of its own queue may go for *workload*."""
    return workload.priority - (policy.within_cluster_queue == "LowerPriority")


def _has_victims(cq: ClusterQueue, workload: Workload, policy: kueue.ClusterQueuePreemption) -> bool:
    """Does the queue hold a workload of lower (or, by policy, equal) priority?"""
    limit = _victims_up_to(workload, policy)
    # The lowest priority comes first in both lists.
    running, evicted = cq.candidates.running, cq.candidates.evicted
    return bool(running and running[0][0][0] <= limit) or bool(evicted and evicted[0][0][0] <= limit)


def least_borrowing(cq: ClusterQueue, peers: EquivalenceClass) -> int:
    """Return a lower bound of the borrowing height of any assignment for *peers*."""
    height = 0
    node = cq.node
    for (only, resource), amount in peers.least:
        group = cq.group_of.get(resource)
        if group is None:
            continue
        lowest: int | None = None
        for flavor in (only,) if only != ANY else group.flavors:
            found = find_height_of_lowest_subtree_that_fits(node, (flavor, resource), amount)[0]
            if lowest is None or found < lowest:
                lowest = found
            if not lowest:
                break
        if lowest is not None and lowest > height:
            height = lowest
    return height


__all__ = ["is_common", "is_hopeless", "least_request"]
