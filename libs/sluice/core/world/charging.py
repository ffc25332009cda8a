"""Charges of reservations: for the pods that are left; of slices that overlap, and of the variants of a
family, for what either of them needs (WS3, CA10)."""

from collections.abc import Container, Iterator, Mapping

from sluice.core.quota.tree import FlavorResource
from sluice.core.workload.charges import add, beyond, given_back, usage_of
from sluice.events.base import WorkloadKey

from .model import World
from .reservations import change_usage
from .variants import holders
from .workload import Workload
from .workload_slices import replaced_slice, successor


def charge(world: World, workload: Workload) -> dict[FlavorResource, int]:
    """Return what the workload's assignment charges now.

    While a slice and the one that is to replace it both have quota, the old one is charged for both: what
    either of them needs. So the job is one to those who could preempt it (WS6). With preemptions pending
    (AC6) the new slice is charged itself, for what it needs beyond the old one.
    """
    parent = workload.record.parent
    if parent is not None:
        family = _shares(world, parent, workload.cluster_queue)
        return next(usage for each, usage in family if each is workload)
    usage = needs(world, workload)
    if workload.delta and (old := replaced_slice(world, workload)) is not None:
        return beyond(usage, needs(world, old)) if _is_charged_itself(workload) else {}
    after = successor(world, workload.key) if world.replacements else None
    if after is not None and after.delta and after.assignment is not None and not _is_charged_itself(after):
        for fr, more in beyond(needs(world, after), usage).items():
            usage[fr] = usage.get(fr, 0) + more
    return usage


def _is_charged_itself(growth: Workload) -> bool:
    """Is it promised (AC6)? When it is evicted its promise is over, and its reservation ends as it was."""
    return bool(growth.preemptions or (growth.evicted_at is not None and growth.usage))


def _holder(world: World, workload: Workload) -> Workload:
    """Return who is charged for the workload's reservation: itself, or the slice that it is to replace."""
    old = replaced_slice(world, workload) if workload.delta and not _is_charged_itself(workload) else None
    return workload if old is None else old


def added(world: World, workload: Workload) -> Mapping[FlavorResource, int]:
    """Return what would not be charged but for the workload: nothing of what a sibling holds, too (CA10).

    Of a slice what it needs beyond the one that it is to replace, which is charged for both (WS3). What is
    promised to a sibling (AC6) is not held yet.
    """
    parent = workload.record.parent
    if parent is None:
        old = _holder(world, workload)
        return workload.usage if old is workload else beyond(needs(world, workload), needs(world, old))
    most: dict[FlavorResource, int] = {}
    for other in holders(world, parent, workload.cluster_queue):
        if other is not workload and not other.preemptions:
            add(most, beyond(needs(world, other), most))
    return beyond(needs(world, workload), most)


def recharge(world: World, workload: Workload) -> bool:
    """Charge anew what the workload, and a slice beside it, need; return whether anything became free."""
    if workload.record.parent is not None:
        return _recharge_family(world, workload, workload.record.parent)
    freed = False
    old = None if workload.record.replaces is None else replaced_slice(world, workload)
    beside = successor(world, workload.key) if world.replacements else None
    for each in (workload, old, beside):
        if each is None or each.assignment is None:
            continue
        before, usage = each.usage, charge(world, each)
        if usage != before:
            change_usage(world, each, usage)
            freed |= bool(beyond(before, usage))
    return freed


def _recharge_family(world: World, workload: Workload, parent: WorkloadKey) -> bool:
    """What a variant needs may be charged to another one now; return whether anything became free."""
    before: dict[FlavorResource, int] = {}
    after: dict[FlavorResource, int] = {}
    for each, usage in _shares(world, parent, workload.cluster_queue):
        add(before, each.usage)
        add(after, usage)
        if usage != each.usage:
            change_usage(world, each, usage)
    return bool(beyond(before, after))


def inherited(world: World, variant: Workload) -> list[tuple[Workload, dict[FlavorResource, int]]]:
    """Return what siblings would be charged for if the variant, which a trial has taken out, went (CA10)."""
    parent = variant.record.parent
    if parent is None or variant.assignment is None:
        return []
    return [
        (each, more)
        for each, usage in _shares(world, parent, variant.cluster_queue, world.absent)
        if (more := beyond(usage, each.usage))
    ]


def _shares(
    world: World, parent: WorkloadKey, cluster_queue: str, without: Container[WorkloadKey] = ()
) -> Iterator[tuple[Workload, dict[FlavorResource, int]]]:
    """Yield each variant with quota of the queue, and what it needs beyond those before it (CA10)."""
    charged: dict[FlavorResource, int] = {}
    for each in holders(world, parent, cluster_queue):
        if each.key not in without:
            usage = needs(world, each)
            if charged:
                usage = beyond(usage, charged)
            add(charged, usage)
            yield each, usage


def needs(world: World, workload: Workload) -> dict[FlavorResource, int]:
    """Return what the workload's assignment would charge if it were alone."""
    assert workload.assignment is not None
    ended: Mapping[str, int] = workload.reclaimable
    if ended:
        ended = given_back(world.config, ended)
    return usage_of(workload.assignment, workload.record.pod_sets, ended)
