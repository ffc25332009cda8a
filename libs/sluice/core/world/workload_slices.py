"""Slices of elastic jobs as the scheduler sees them: a new one that takes the place of an old one (WS3-WS6).

A slice asks for all pods of its job, of which the slice that it replaces has some already. While that one
holds quota, the new one is charged the difference only; when it is admitted, it takes over the rest. It
never waits beside a slice that has no quota, or is about to lose it: then the job stops as a whole first.
"""

from collections.abc import Sequence

from sluice.core.workload.charges import asks_for_more, counts, given_back, left, scaled
from sluice.core.workload.reasons import DEACTIVATED
from sluice.events.base import Event, Micros, PodSetAssignment, WorkloadKey
from sluice.events.scheduler import QuotaReleased, WorkloadSliceReplaced, WorkloadSliceWithdrawn

from .model import World
from .workload import Workload


def replaced_slice(world: World, workload: Workload) -> Workload | None:
    """Return the slice whose place *workload* is to take, if that holds quota; None for all others."""
    old = _slice_to_replace(world, workload)
    return old if old is not None and old.assignment is not None else None


def must_wait(world: World, workload: Workload, cluster_queue: str) -> bool:
    """Must *workload* stay out of *cluster_queue* for what becomes of the slice that it replaces?

    It may queue next to one that holds quota of the same queue and is to keep it, or after it has gone.
    """
    old = _slice_to_replace(world, workload)
    if old is None:
        return False
    if old.preemptions:
        return True  # it has been promised its quota only (AC6)
    return old.assignment is None or old.evicted_at is not None or old.cluster_queue != cluster_queue


def _slice_to_replace(world: World, workload: Workload) -> Workload | None:
    """Nobody takes the place of a workload of another namespace."""
    key = workload.record.replaces
    old = world.workloads.get(key) if key is not None else None
    return old if old is not None and old.record.namespace == workload.record.namespace else None


def successor(world: World, key: WorkloadKey) -> Workload | None:
    """Return the slice that is to replace *key*."""
    found = world.replacements.get(key)
    return None if found is None else world.workloads.get(found)


def charged(world: World, old: Workload) -> tuple[PodSetAssignment, ...]:
    """Return the assignment of a slice for as many pods as it is charged for: ended ones are not (SC7)."""
    assert old.assignment is not None
    ended = given_back(world.config, old.reclaimable)
    if not ended:
        return old.assignment
    specified = counts(old.record.pod_sets)
    return tuple(scaled(assigned, left(assigned, specified, ended)) for assigned in old.assignment)


def replacement(world: World, workload: Workload, cause: int) -> Sequence[WorkloadSliceReplaced]:
    """Return what goes with the admission of *workload*: the end of the slice that it replaces (WS4)."""
    old = replaced_slice(world, workload)
    if old is None:
        return ()
    job = workload.record.job
    message = (
        f"Replaced to accommodate a workload (UID: {workload.uid or 'UNKNOWN'}, "
        f"JobUID: {(job.uid if job is not None else '') or 'UNKNOWN'}) due to workload slice aggregation"
    )
    return (WorkloadSliceReplaced(cause=cause, workload=old.key, by=workload.key, message=message),)


def grants_more(workload: Workload, old: Workload) -> bool:
    """Tell whether a slice has quota for pods that the one which it is to replace has none for.

    It has not, when what it was reserved was given up for other pods since, which no quota is reserved for.
    """
    assert workload.assignment is not None
    assert old.assignment is not None
    had = counts(old.assignment)
    if any(pods.count > had.get(pods.name, 0) for pods in workload.assignment):
        return True
    before = {pods.name: pods.requests for pods in old.record.pod_sets}
    return any(pods.requests != before.get(pods.name) for pods in workload.record.pod_sets)


def withdrawal(world: World, workload: Workload, cause: int) -> list[Event]:
    """Return the end of a slice that asks for no more than the one that runs: a growth taken back (WS3).

    Only who admits slices can say so: an admission that was decided before the resize was known comes
    first. A slice that is losing its quota is left to be replaced, as its job needs the other one then.
    """
    old = replaced_slice(world, workload)
    if old is None or workload.admitted_at is not None or old.evicted_at is not None or old.stopped:
        return []
    if asks_for_more(workload.record.pod_sets, old.record.pod_sets):
        return []
    message = f"The job is to have no more pods than {old.key} has"
    ended = WorkloadSliceWithdrawn(cause=cause, workload=workload.key, running=old.key, message=message)
    if workload.assignment is None:
        return [ended]
    return [QuotaReleased(cause=cause, workload=workload.key), ended]


def carry_over_execution_time(new: Workload, old: Workload, at: Micros) -> None:
    """The job goes on: its execution time and its attempts count as before."""
    new.past_execution_us = old.past_execution_us
    if old.admitted_at is not None:
        new.past_execution_us += max(0, at - old.admitted_at)
    new.requeue_count = old.requeue_count


def take_place(new: Workload, old: Workload, at: Micros) -> None:
    """The job has stopped as a whole, and the slice that was to replace its old one is all of it now (WS6).

    What the job has run, how often it was tried, until when it is held back and why it is switched off are
    the job's, whatever slice it is in.
    """
    carry_over_execution_time(new, old, at)
    new.lost_reservations = old.lost_reservations
    if old.held_for and (old.requeue_at or 0) >= (
        new.requeue_at or 0
    ):  # its own checks may have held it back
        new.held_for, new.requeue_at, new.evicted_message = old.held_for, old.requeue_at, old.evicted_message
        new.last_evicted_at, new.last_evicted_reason = old.last_evicted_at, old.last_evicted_reason
    if new.active and not old.active:
        # To be said of this one, too: who has heard of the takeover takes no more notice of the old one.
        new.deactivated_for = old.deactivated_for or DEACTIVATED
        new.deactivated_message = old.deactivated_message
