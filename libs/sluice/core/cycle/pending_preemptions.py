"""Preemptions that have waited for admission checks are issued, or found to be no longer possible (AC6).

Whom a preemptor would have preempted when it got its reservation does not matter any more: targets are
computed anew against what there is now. One preemptor at a time, as each changes what the next one finds.
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
from sluice.events import scheduler
from sluice.events.base import Event, WorkloadKey


def issue(world: World, pending: QueueManager) -> list[Event]:
    """Return what becomes of the first preemptor whose preemptions are allowed, or not needed any more.

    [] when there is none. For whom nobody has to go, nobody has to be asked: its reservation is one like all
    others, and waits for its checks only.
    """
    for preemptor in sorted((world.workloads[key] for key in world.pending_preemptions.due), key=_rank):
        if may_issue(world, preemptor) or needs_nobody(world, preemptor):
            events = _issued(world, pending, preemptor, world.pending_preemptions.due[preemptor.key])
            if events:
                return events
    return []


def _issued(world: World, pending: QueueManager, preemptor: Workload, cause: int) -> list[Event]:
    queue = world.cluster_queues[preemptor.cluster_queue]
    tree = pending.queues[preemptor.cluster_queue].tree
    assert tree is not None
    targets = _choose(world, preemptor, queue, tree)
    if (targets is None or targets) and not may_issue(world, preemptor):
        return []
    if targets is None:
        return [
            scheduler.QuotaReleased(cause=cause, workload=preemptor.key),
            scheduler.PendingReasonChanged(
                cause=cause, workloads=(preemptor.key,), reason=WAITING_FOR_QUOTA, message=IMPOSSIBLE
            ),
        ]
    events = preempt(world, preemptor, queue, targets, cause, set())
    victims = sorted(target.workload.key for target in targets)
    events.append(scheduler.PendingPreemptionsIssued(cause=cause, workload=preemptor.key, victims=victims))
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
        events.append(scheduler.Evicted(cause=cause, workload=victim.key, reason=PREEMPTED, message=message))
        events.append(
            scheduler.Preempted(
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
    if fits(events) or not isinstance(events[0], scheduler.Evicted):
        return events
    *preempted, last = events
    room = Room()
    if isinstance(last, scheduler.PreemptionIssued):
        last = msgspec.structs.replace(last, more=True)
        room.takes((last,))
    found: list[Event] = []
    for told in _by_victim(world, preempted):
        if not room.takes(told) and found:
            break
        found += told
    return [*found, last] if isinstance(last, scheduler.PreemptionIssued) else found


def _by_victim(world: World, events: Iterable[Event]) -> Iterable[list[Event]]:
    """Group what victims are told; variants of one job go together.

    What they share is free when the last of them has gone: until then each could have it again at once.
    """
    found: dict[WorkloadKey, list[Event]] = {}
    for event in events:
        assert isinstance(event, scheduler.Evicted | scheduler.Preempted)
        found.setdefault(actor(world.workloads[event.workload]), []).append(event)
    return found.values()


def _choose(
    world: World, preemptor: Workload, queue: ClusterQueue, tree: CohortQueues
) -> Sequence[Target] | None:
    """Return whom *preemptor* has to preempt for its reservation, None when nothing helps.

    As in a cycle (see `overcommit`): first without anybody who is to go for others; else among all of them.
    """
    node, usage = queue.node, preemptor.usage
    with Trial(world) as trial:
        trial.remove(preemptor)
        overcommit = Overcommit(trial, tree.members, but=preemptor)
        keep_waiting(overcommit, tree)
        targets = _targets(world, preemptor, queue)
        if targets is None:
            return None
        gone = [target.workload for target in targets]
        if not overcommit or (not overcommit.concern(gone) and overcommit.fit_now(node, usage, gone)):
            return targets
        with overcommit.shown():
            return _targets(world, preemptor, queue)


def _targets(world: World, preemptor: Workload, queue: ClusterQueue) -> Sequence[Target] | None:
    node = queue.node
    nominal_only = not may_borrow(world.config, preemptor.record)
    short = [
        fr
        for fr, amount in preemptor.usage.items()
        if amount > node.available(fr) or (nominal_only and node.used(fr) + amount > node.nominal(fr))
    ]
    if not short:
        return []
    return get_targets(world, preemptor, preemptor.usage, short) or None


def _rank(preemptor: Workload) -> tuple[int, int, str]:
    return (-preemptor.priority, preemptor.reserved_at or 0, preemptor.uid)


__all__ = ["issue"]
