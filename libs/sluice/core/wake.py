"""Which parked workloads freed capacity could help: cheap, and never wrong by saying no (SC2).

A class that was found not to fit need not be looked at again while arithmetic shows that it still cannot
fit. `may_fit` is a necessary condition for admission or preemption, at one or two look-ups per resource;
`least_borrowing` a lower bound of how far up the tree it would borrow. Both look at the tree as it is.
"""

from sluice.api import kueue

from .model import ClusterQueue, Workload, World
from .pending import Peers
from .quota import FlavorResource, Node, find_height_of_lowest_subtree_that_fits


def least_request(workload: Workload, cq: ClusterQueue) -> tuple[tuple[str, int], ...]:
    """Return (resource, amount) pairs without which *workload* cannot be admitted in any way.

    Pod sets may get different flavors, so their requests add up only where there is but one flavor.
    """
    record = workload.record
    if record.replaces is not None:
        return ()  # only the difference to the slice that it replaces is needed (WS3)
    sums: dict[str, int] = {}
    for pod_set in record.pod_sets:
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
            if amount <= 0:
                continue
            if group is not None and len(group.flavors) == 1:
                sums[resource] = sums.get(resource, 0) + amount * count
            else:
                sums[resource] = max(sums.get(resource, 0), amount * count)
    return tuple(sorted(sums.items()))


def may_fit(world: World, cq: ClusterQueue, peers: Peers) -> bool:
    """Could the head of *peers* be admitted, or preempt, as things are? False is certain, True is not."""
    least = peers.least
    head = None
    if least is None:
        head = peers.head()
        least = peers.least = least_request(head, cq)
    node = cq.node
    for resource, amount in least:
        group = cq.group_of.get(resource)
        if group is None:
            return False
        for flavor in group.flavors:
            fr = (flavor, resource)
            if node.available(fr) >= amount:
                break
            head = head or peers.head()
            if _may_preempt(world, cq, head, fr, amount):
                break
        else:
            return False
    return True


def _may_preempt(world: World, cq: ClusterQueue, workload: Workload, fr: FlavorResource, amount: int) -> bool:
    policy = cq.spec.preemption
    if policy is None:
        return False
    node = cq.node
    own = 0
    if policy.within_cluster_queue not in ("", "Never") and _has_victims(cq, workload, policy):
        # Whatever goes from the queue frees at most what it uses.
        own = node.used(fr)
        if node.available(fr) + own >= amount:
            return True
    if policy.reclaim_within_cohort in ("", "Never"):
        return False
    within = policy.borrow_within_cohort
    if world.config.fair_sharing.enable or (within is not None and within.policy == "LowerPriority"):
        return node.potential_available(fr) >= amount
    return _may_reclaim(node, fr, amount - own)


def _has_victims(cq: ClusterQueue, workload: Workload, policy: kueue.ClusterQueuePreemption) -> bool:
    """Does the queue hold a workload of lower (or, by policy, equal) priority?"""
    limit = workload.priority
    if policy.within_cluster_queue == "LowerPriority":
        limit -= 1
    candidates = cq.candidates
    return any(True for _ in candidates.below(limit, evicted=False)) or any(
        True for _ in candidates.below(limit, evicted=True)
    )


def _may_reclaim(node: Node, fr: FlavorResource, amount: int) -> bool:
    """Would the queue, or a cohort that it is in, stay within its own quota with *amount* more?"""
    current: Node | None = node
    while current is not None and current.parent is not None:
        if current.used(fr) + amount <= current.subtree_quota(fr):
            return True
        amount -= current.local_available(fr)
        current = current.parent
    return False


def least_borrowing(cq: ClusterQueue, peers: Peers) -> int:
    """Return a lower bound of the borrowing height of any assignment for *peers*."""
    height = 0
    node = cq.node
    for resource, amount in peers.least or ():
        group = cq.group_of.get(resource)
        if group is None:
            continue
        lowest: int | None = None
        for flavor in group.flavors:
            found = find_height_of_lowest_subtree_that_fits(node, (flavor, resource), amount)[0]
            if lowest is None or found < lowest:
                lowest = found
            if not lowest:
                break
        if lowest is not None and lowest > height:
            height = lowest
    return height


__all__ = ["least_borrowing", "least_request", "may_fit"]
