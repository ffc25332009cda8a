"""Preemptions that have waited for admission checks are issued, or found to be no longer possible (AC6).

Whom a claimant would have preempted when it got its reservation does not matter any more: targets are
computed anew against what there is now. One claimant at a time, as each changes what the next one finds.
"""

from collections.abc import Iterable, Sequence

import msgspec

from sluice.core.preemption.targets import Target, get_targets, preemption_message
from sluice.core.queueing.manager import QueueManager
from sluice.core.queueing.overcommit import Overcommit, keep_waiting
from sluice.core.queueing.pending_queue import CohortQueues
from sluice.core.step_size import Room, fits
from sluice.core.workload.admission_constraints import may_borrow
from sluice.core.workload.pending_reasons import IMPOSSIBLE, WAITING_FOR_QUOTA
from sluice.core.workload.reasons import PREEMPTED
from sluice.core.world.model import ClusterQueue, World
from sluice.core.world.preemption_history import actor
from sluice.core.world.preemption_rules import may_issue, needs_nobody
from sluice.core.world.reservations import Trial
from sluice.core.world.workload import Workload
from sluice.events.base import Event, WorkloadKey
from sluice.events.scheduler import (
    Evicted,
    PendingPreemptionsIssued,
    PendingReasonChanged,
    Preempted,
    PreemptionIssued,
    QuotaReleased,
)


def issue(world: World, pending: QueueManager) -> list[Event]:
    """Return what becomes of the first claimant whose preemptions are allowed, or not needed any more.

    [] when there is none. For whom nobody has to go, nobody has to be asked: its reservation is one like all
    others, and waits for its checks only.
    """
    for claimant in sorted((world.workloads[key] for key in world.claims.due), key=_rank):
        if may_issue(world, claimant) or needs_nobody(world, claimant):
            events = _issued(world, pending, claimant, world.claims.due[claimant.key])
            if events:
                return events
    return []


def _issued(world: World, pending: QueueManager, claimant: Workload, cause: int) -> list[Event]:
    queue = world.cluster_queues[claimant.cluster_queue]
    tree = pending.queues[claimant.cluster_queue].tree
    assert tree is not None
    targets = _choose(world, claimant, queue, tree)
    if (targets is None or targets) and not may_issue(world, claimant):
        return []
    if targets is None:
        return [
            QuotaReleased(cause=cause, workload=claimant.key),
            PendingReasonChanged(
                cause=cause, workloads=(claimant.key,), reason=WAITING_FOR_QUOTA, message=IMPOSSIBLE
            ),
        ]
    events = preempt(world, claimant, queue, targets, cause, set())
    victims = sorted(target.workload.key for target in targets)
    events.append(PendingPreemptionsIssued(cause=cause, workload=claimant.key, victims=victims))
    return in_parts(world, events)


def preempt(
    world: World,
    preemptor: Workload,
    queue: ClusterQueue,
    targets: Iterable[Target],
    cause: int,
    evicted: set[WorkloadKey],
) -> list[Event]:
    """Return the events that preempt *targets*, but for those that are leaving already.

    `queue`: the preemptor's. `evicted`: who is evicted in the same step; those of now are added.
    """
    events: list[Event] = []
    family = preemptor.record.parent
    parent = world.workloads.get(family) if family is not None else None
    for target in targets:
        victim = target.workload
        if victim.evicted_at is not None or victim.key in evicted:
            continue
        evicted.add(victim.key)
        node = world.cluster_queues[victim.cluster_queue].node
        message = preemption_message(preemptor, target.reason, queue.node, node, parent)
        events.append(Evicted(cause=cause, workload=victim.key, reason=PREEMPTED, message=message))
        events.append(
            Preempted(
                cause=cause,
                workload=victim.key,
                preemptor=preemptor.key,
                rule=target.reason,
                message=message,
                preemptor_path=queue.node.path(),
                preemptee_path=node.path(),
            )
        )
    return events


def in_parts(world: World, events: list[Event]) -> list[Event]:
    """Return what of one workload's preemptions, and of what is said of them last, comes into this step.

    With so many victims that a step does not hold them all, the first of them are told now. Then targets are
    looked for again, and those that leave already are found first. Who waits for victims waits for all of
    them from now on; quota is reserved, and pending preemptions are issued, with the last of them.
    """
    if fits(events) or not isinstance(events[0], Evicted):
        return events
    *preempted, last = events
    room = Room()
    if isinstance(last, PreemptionIssued):
        last = msgspec.structs.replace(last, more=True)
        room.takes((last,))
    found: list[Event] = []
    for told in _by_victim(world, preempted):
        if not room.takes(told) and found:
            break
        found += told
    return [*found, last] if isinstance(last, PreemptionIssued) else found


def _by_victim(world: World, events: Iterable[Event]) -> Iterable[list[Event]]:
    """Group what victims are told; variants of one job go together.

    What they share is free when the last of them has gone: until then each could have it again at once.
    """
    found: dict[WorkloadKey, list[Event]] = {}
    for event in events:
        assert isinstance(event, Evicted | Preempted)
        found.setdefault(actor(world.workloads[event.workload]), []).append(event)
    return found.values()


def _choose(
    world: World, claimant: Workload, queue: ClusterQueue, tree: CohortQueues
) -> Sequence[Target] | None:
    """Return whom *claimant* has to preempt for its reservation, None when nothing helps.

    As in a cycle (see `promises`): first without anybody who is to go for others; else among all of them.
    """
    node, usage = queue.node, claimant.usage
    with Trial(world) as trial:
        trial.remove(claimant)
        promises = Overcommit(trial, tree.members, but=claimant)
        keep_waiting(promises, tree)
        targets = _targets(world, claimant, queue)
        if targets is None:
            return None
        gone = [target.workload for target in targets]
        if not promises or (not promises.concern(gone) and promises.fit_now(node, usage, gone)):
            return targets
        with promises.shown():
            return _targets(world, claimant, queue)


def _targets(world: World, claimant: Workload, queue: ClusterQueue) -> Sequence[Target] | None:
    node = queue.node
    nominal_only = not may_borrow(world.config, claimant.record)
    short = [
        fr
        for fr, amount in claimant.usage.items()
        if amount > node.available(fr) or (nominal_only and node.used(fr) + amount > node.nominal(fr))
    ]
    if not short:
        return []
    return get_targets(world, claimant, claimant.usage, short) or None


def _rank(claimant: Workload) -> tuple[int, int, str]:
    return (-claimant.priority, claimant.reserved_at or 0, claimant.uid)


__all__ = ["issue"]
