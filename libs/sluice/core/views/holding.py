"""Holders of quota in the view, and the totals of queues that follow from them.

A workload has quota exactly while its cluster queue lists it: parents show what their variants have.
"""

from collections.abc import Mapping, Sequence

from sluice.api.kueue import ConfigurationSpec
from sluice.core.workload.charges import add, beyond, counts, given_back, left, subtract, usage_of
from sluice.events.base import WorkloadKey

from .records import ClusterQueueView, FlavorResource, WorkloadView
from .state import State


def charged(workload: WorkloadView) -> ClusterQueueView | None:
    """Return the queue whose quota the workload itself has; what a parent runs on is its variant's."""
    queue = workload.cluster_queue
    return queue if queue is not None and workload.key in queue.workloads else None


def give_back(state: State, workload: WorkloadView) -> None:
    """Take what the workload has, or shows, off the totals of its queues."""
    workload.local_queue.running_parents.pop(workload.key, None)
    queue = charged(workload)
    if queue is None:
        return
    count_locally(workload, -1)
    del queue.workloads[workload.key]
    queue.preemptors.pop(workload.key, None)
    if workload.victims:
        set_victims(state, workload, ())
    if workload.promised_to:
        _gone(state, workload)
    workload.preemptions_pending = False
    subtract(queue.reservation, workload.charge)
    if workload.admitted_at is not None:
        queue.admitted -= 1
        subtract(queue.usage, workload.charge)
    recharge_family(state, workload, queue)
    state.drop_queue_if_unused(queue)


def promised(state: State, queue: ClusterQueueView) -> dict[FlavorResource, int]:
    """Return what of the queue's reservation others have still: they are to be preempted first (AC6).

    It is charged beside what they have, so that the queue may have reserved more than there is.
    """
    total: dict[FlavorResource, int] = {}
    for preemptor in map(state.workloads.__getitem__, queue.preemptors):
        if waits_for_victims(state, queue, preemptor):
            add(total, preemptor.charge)
    return total


def waits_for_victims(state: State, queue: ClusterQueueView, workload: WorkloadView) -> bool:
    """Is its quota only promised: are those that have it to be preempted, or have not stopped yet (AC6)?"""
    if workload.key not in queue.preemptors or workload.evicted:
        return False
    return workload.preemptions_pending or bool(leaving_victims(state, workload))


def leaving_victims(state: State, workload: WorkloadView) -> list[WorkloadKey]:
    """Return those who were told to go for the workload, and have not stopped yet."""
    return [victim for victim in workload.victims if _stays(state, victim)]


def _gone(state: State, victim: WorkloadView) -> None:
    """Nobody waits any more for what it had."""
    for key in victim.promised_to:
        preemptor = state.workloads.get(key)
        if preemptor is not None:
            preemptor.victims = [other for other in preemptor.victims if other != victim.key]
    victim.promised_to = {}


def set_victims(state: State, preemptor: WorkloadView, victims: Sequence[WorkloadKey]) -> None:
    """Note who is to be preempted for a reservation, in the place of those who were."""
    for key in preemptor.victims:
        victim = state.workloads.get(key)
        if victim is not None and preemptor.key in victim.promised_to:
            victim.promised_to = {k: None for k in victim.promised_to if k != preemptor.key}
    preemptor.victims = victims
    for key in victims:
        victim = state.workloads.get(key)
        if victim is not None:
            victim.promised_to = {**victim.promised_to, preemptor.key: None}


def _stays(state: State, key: WorkloadKey) -> bool:
    victim = state.workloads.get(key)
    return victim is not None and victim.evicted and charged(victim) is not None


def replace_victim(state: State, old: WorkloadView, new: WorkloadView) -> None:
    """A new slice has taken the place of a victim: it is to go instead (WS6)."""
    for queue in state.cluster_queues.values():
        for preemptor in map(state.workloads.__getitem__, queue.preemptors):
            if old.key in preemptor.victims:
                victims = [new.key if key == old.key else key for key in preemptor.victims]
                set_victims(state, preemptor, victims)


def count_locally(workload: WorkloadView, n: int) -> None:
    """Count the workload's quota in its local queue, or not any more."""
    if charged(workload) is not None:
        workload.local_queue.reserving += n
        if workload.admitted_at is not None:
            workload.local_queue.admitted += n


def recharge(state: State, workload: WorkloadView) -> None:
    """The charge follows pods that have ended, and counts that were cut in place; so does one beside it."""
    queue = charged(workload)
    if queue is None:
        return
    if workload.record.parent is not None:
        recharge_family(state, workload, queue)
        return
    _change(workload, queue, charge_beside(state, workload))
    job = state.jobs.get(workload.record.job.key) if workload.record.job is not None else None
    if job is not None and len(job.workloads) > 1:
        for other in job.workloads.values():
            if other.beside is workload:
                recharge(state, other)


def recharge_all(state: State) -> None:
    """Settings decide whether pods that have ended give their quota back."""
    for workload in state.workloads.unpacked():
        if workload.reclaimable:
            recharge(state, workload)


def recharge_family(state: State, workload: WorkloadView, queue: ClusterQueueView) -> None:
    """Charge anew what the variants of a family hold of *queue*: what they share once (CA10).

    It is shown with the one that runs, then with the one that had its quota first. The scheduler may have it
    with another one of them; the sum is the same.
    """
    parent = workload.record.parent
    family = state.workloads.get(parent) if parent is not None else None
    if family is None:
        return
    holders = [
        variant
        for key in family.variants
        if (variant := state.workloads.get(key)) is not None and charged(variant) is queue
    ]
    holders.sort(key=_charged_first)
    shared: dict[FlavorResource, int] = {}
    for variant in holders:
        charge = charge_of(state.config, variant)
        charge = beyond(charge, shared) if shared else charge
        if charge != variant.charge:
            _change(variant, queue, charge)
        add(shared, charge)


def _charged_first(variant: WorkloadView) -> tuple[bool, int, str]:
    return (variant.admitted_at is None, variant.reserved_at or 0, variant.record.uid)


def _change(workload: WorkloadView, queue: ClusterQueueView, charge: dict[FlavorResource, int]) -> None:
    for totals in (queue.reservation, *((queue.usage,) if workload.admitted_at is not None else ())):
        subtract(totals, workload.charge)
        add(totals, charge)
    workload.charge = charge


def charge_of(config: ConfigurationSpec, workload: WorkloadView) -> dict[FlavorResource, int]:
    """Return what the reservation charges now, if nobody shares it: ended pods count no longer (SC7)."""
    ended = given_back(config, workload.reclaimable)
    return usage_of(workload.assignment or (), workload.record.pod_sets, ended)


def charged_pods(config: ConfigurationSpec, workload: WorkloadView) -> Mapping[str, int]:
    """Return for how many pods each pod set is charged where that is fewer than it was given."""
    ended = given_back(config, workload.reclaimable)
    if not ended or not workload.holds_quota:
        return {}
    specified = counts(workload.record.pod_sets)
    return {
        assigned.name: pods
        for assigned in workload.assignment or ()
        if ended.get(assigned.name) and (pods := left(assigned, specified, ended)) < assigned.count
    }


def charge_beside(state: State, workload: WorkloadView) -> dict[FlavorResource, int]:
    """Return what the reservation charges: of a slice beside the one that it replaces only the rest (WS3)."""
    charge = charge_of(state.config, workload)
    return charge if workload.beside is None else beyond(charge, workload.beside.charge)


def stands_alone(workload: WorkloadView | None, without: WorkloadView) -> bool:
    """Is *without* none of those beside which *workload* has its quota?"""
    while workload is not None and workload is not without:
        workload = workload.beside
    return workload is None


__all__ = ["charged_pods"]
