"""Rules for issuing the pending preemptions of a workload (AC6)."""

from collections.abc import Iterable

from sluice.api.kueue import ClusterQueueSpec
from sluice.core.workload.admission_checks import READY, checks_for
from sluice.core.workload.admission_constraints import may_borrow
from sluice.events.base import PodSetAssignment

from .model import World
from .pending_preemptions import AFTER_CHECK, PENDING
from .workload import Workload


def waits_for_checks(world: World, spec: ClusterQueueSpec, pod_sets: Iterable[PodSetAssignment]) -> bool:
    """Must a workload with this assignment preempt nobody before its checks allow it (AC6)?"""
    return bool(holding_back(world, spec, pod_sets))


def holding_back(world: World, spec: ClusterQueueSpec, pod_sets: Iterable[PodSetAssignment]) -> list[str]:
    """Return the checks of the assignment whose policy lets nobody be preempted before they allow it."""
    # Nothing is known of a check that is missing; its queue is inactive, and there is no hurry.
    return [
        name
        for name in checks_for(spec, pod_sets)
        if (check := world.checks.get(name)) is None or check.preemption_policy == AFTER_CHECK
    ]


def may_issue(world: World, preemptor: Workload) -> bool:
    """May the pending preemptions of *preemptor* be issued? If it has any."""
    if preemptor.preemptions != PENDING:
        return False
    if preemptor.preemptions_allowed or preemptor.checks == READY:
        return True
    queue = world.cluster_queues.get(preemptor.cluster_queue)
    # Policies can be edited, and then nobody has to allow it any more.
    return queue is not None and not waits_for_checks(world, queue.spec, preemptor.assignment or ())


def needs_nobody(world: World, preemptor: Workload) -> bool:
    """May it be that nobody has to go any more for what *preemptor* has reserved with preemptions pending?

    All of its victims have gone by themselves, or what is charged fits without anybody's going, as quota was
    freed or raised meanwhile. Whether it keeps to what is promised to others, a trial has to tell. Victims
    that were told already stop all the same, but nobody waits for them.
    """
    if not preemptor.preemptions:
        return False
    queue = world.cluster_queues.get(preemptor.cluster_queue)
    if queue is None:
        return False
    node = queue.node
    nominal_only = not may_borrow(world.config, preemptor.record)
    return not preemptor.victims or all(
        node.available(fr) >= 0 and not (nominal_only and node.used(fr) > node.nominal(fr))
        for fr in preemptor.usage
    )
