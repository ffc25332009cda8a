"""Inadmissible workloads: why one cannot be considered at all (the upper part of G6).

The status of a pending workload is derived from this wherever it is shown, so that stopping a queue
with ten thousand workloads writes no event for each of them (G7).
"""

import re
from typing import Final

from sluice.api import kueue
from sluice.core.workload.pending_reasons import ADMISSION_GATED, ADMISSION_GATED_BY, MISCONFIGURED, SUSPENDED
from sluice.events.slices import WorkloadRecord

from .model import World
from .workload import Workload

GATED_BY_ANNOTATION: Final = "kueue.x-k8s.io/admission-gated-by"

Reason = tuple[str, str]
"""(reason, message) of QuotaReserved=False."""


_CONSTRAINTS: Final = ("cannot-borrow", "cannot-preempt")


def constraints_in(message: str) -> tuple[str, ...]:
    """Return which of a workload's own constraints a verdict names as what holds it up (AX4)."""
    if "(cannot-" not in message:
        return ()
    return tuple(name for name in _CONSTRAINTS if f"({name})" in message)


def grows_elsewhere(runs_in: str, local_queue: str, leads_to: str) -> str:
    """Return why a growth is not queued whose job has quota of another ClusterQueue, '' if it is of this one.

    *runs_in*: '' for what replaces no slice that has quota; *leads_to*: '' for a LocalQueue that is gone.
    """
    if not runs_in or not leads_to or runs_in == leads_to:
        return ""
    return (
        f"The job has quota of ClusterQueue {runs_in}, and its LocalQueue {local_queue} leads to {leads_to} "
        "now; a job grows where it runs"
    )


def without_other_flavors(message: str) -> str:
    """Return a variant's message without what it says of the flavors that it was not made for."""
    text = _OTHER_FLAVOR.sub("", message).replace(": , ", ": ")
    return f"{text}{_NO_FLAVOR_OF_GROUP}" if text.endswith(": ") and text != message else text


_NO_FLAVOR_OF_GROUP: Final = "it may use none of the flavors of a resource that it asks for"


_OTHER_FLAVOR: Final = re.compile(
    r"(, )?skipping flavor \S+ due to WorkloadAllowedResourceFlavorAnnotation annotation"
)


def stopped(policy: str | None) -> bool:
    """Does the stop policy keep new workloads out? (None, "None" and '' do not.)"""
    return policy in ("Hold", "HoldAndDrain")


def drains(policy: str | None) -> bool:
    """Does the stop policy evict what is admitted, too?"""
    return policy == "HoldAndDrain"


def why_not_queued(world: World, record: WorkloadRecord, *, local_stops: bool = True) -> Reason | None:
    """Return why an active workload of this record must not be queued, or None; highest reason first (G6).

    `local_stops` False: as if the local queue had no stop policy.
    """
    local = world.local_queues.get(f"{record.namespace}/{record.queue_name}")
    name = local.cluster_queue if local is not None else ""
    queue = world.cluster_queues.get(name)
    return reason_of(
        record.queue_name,
        record.annotations.get(GATED_BY_ANNOTATION, ""),
        local_stop_policy=None if local is None else ((local_stops and local.stop_policy) or "None"),
        cluster_queue=name,
        spec=queue.spec if queue is not None else None,
        terminating=queue is not None and queue.terminating,
        queue_active=queue is not None and queue.active,
    )


def reason_of(
    queue_name: str,
    gated_by: str,
    *,
    local_stop_policy: str | None,
    cluster_queue: str,
    spec: kueue.ClusterQueueSpec | None,
    terminating: bool,
    queue_active: bool,
) -> Reason | None:
    """The same for an active workload, from what its `queue_name` leads to.

    `local_stop_policy` None: there is no such local queue; `spec` None: no such cluster queue.
    """
    if local_stop_policy is None:
        return (MISCONFIGURED, f"LocalQueue {queue_name} doesn't exist")
    if stopped(local_stop_policy):
        return (SUSPENDED, f"LocalQueue {queue_name} is inactive")
    if spec is None:
        return (MISCONFIGURED, f"ClusterQueue {cluster_queue} doesn't exist")
    if terminating:
        return (MISCONFIGURED, f"ClusterQueue {cluster_queue} is terminating or missing")
    if stopped(spec.stop_policy):
        return (SUSPENDED, f"ClusterQueue {cluster_queue} is inactive")
    if gated_by:
        return (ADMISSION_GATED, ADMISSION_GATED_BY.format(gated_by))
    if not queue_active:
        return (SUSPENDED, f"ClusterQueue {cluster_queue} is inactive")
    return None


def why_reservation_ends(world: World, workload: Workload) -> Reason | None:
    """Return why a reservation that was not admitted yet is given up without an eviction, or None."""
    record = workload.record
    local = world.local_queues.get(f"{record.namespace}/{record.queue_name}")
    if local is None:
        return (MISCONFIGURED, f"LocalQueue {record.queue_name} is terminating or missing")
    if stopped(local.stop_policy):
        return (SUSPENDED, f"LocalQueue {record.queue_name} is stopped")
    queue = world.cluster_queues.get(workload.cluster_queue)
    if queue is None or queue.terminating:
        return (MISCONFIGURED, f"ClusterQueue {workload.cluster_queue} is terminating or missing")
    if stopped(queue.spec.stop_policy):
        return (SUSPENDED, f"ClusterQueue {workload.cluster_queue} is stopped")
    gated_by = record.annotations.get(GATED_BY_ANNOTATION)
    if gated_by:
        return (ADMISSION_GATED, ADMISSION_GATED_BY.format(gated_by))
    return None
