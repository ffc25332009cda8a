"""Whether a cluster queue is active, and what its not being so means for whom (AC7, AC8); who blocks whom."""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Final

from sluice.api import kueue
from sluice.core.workload.admission_checks import check_names, checks_for
from sluice.core.workload.pending_reasons import WAITING_FOR_PODS_READY

from .inadmissible import Reason, stopped
from .model import ClusterQueue, World
from .workload import Workload

Status = tuple[bool, str, str]
"""The condition Active of a queue: whether it is, reason, message."""

_TERMINATING: Final = "Terminating"
STOPPED: Final = "Stopped"
_FLAVOR_NOT_FOUND: Final = "FlavorNotFound"
_CHECK_NOT_FOUND: Final = "AdmissionCheckNotFound"
CHECK_INACTIVE: Final = "AdmissionCheckInactive"

settings_of_admission: Final = attrgetter(
    "feature_gates", "fair_sharing", "wait_for_pods_ready", "quota_check_strategy"
)
"""Return what the scheduler goes by of a Configuration: with another value of it, all that waits is looked
at again, and nothing that was said of it before counts."""


def why_closed(spec: kueue.ClusterQueueSpec, *, terminating: bool) -> list[Reason]:
    """Return what somebody has done to keep the queue from giving out quota."""
    if terminating:
        return [(_TERMINATING, "is terminating")]
    return [(STOPPED, "is stopped")] if stopped(spec.stop_policy) else []


def why_inactive(world: World, cq: ClusterQueue) -> list[Reason]:
    """Return all that keeps the queue from giving out quota, the gravest first."""
    found = why_closed(cq.spec, terminating=cq.terminating)
    if cq.terminating:
        return found
    names = check_names(cq.spec)
    for reason, what, missing in (
        (
            _FLAVOR_NOT_FOUND,
            "missing ResourceFlavor(s)",
            [flavor for group in cq.groups for flavor in group.flavors if flavor not in world.flavors],
        ),
        (
            _CHECK_NOT_FOUND,
            "missing AdmissionCheck(s)",
            [name for name in names if name not in world.checks],
        ),
        (
            CHECK_INACTIVE,
            "inactive AdmissionCheck(s)",
            [name for name in names if name in world.checks and not world.checks[name].active],
        ),
    ):
        if missing:
            found.append((reason, f"references {what}: {','.join(missing)}"))
    return found


def queue_status(why: Sequence[Reason]) -> Status:
    """Return the condition of a cluster queue, by what keeps it from giving out quota."""
    if not why:
        return (True, "Ready", "Can admit new workloads")
    reason = why[0][0]
    messages = ", ".join(message for _, message in why)
    why_not = "; clusterQueue is terminating" if reason == _TERMINATING else f": {messages}."
    return (False, reason, f"Can't admit new workloads{why_not}")


def local_queue_status(stop_policy: str | None, *, active: bool | None) -> Status:
    """Return the condition of a local queue. *active*: whether its cluster queue is; None: there is none."""
    if stopped(stop_policy):
        return (False, STOPPED, "LocalQueue is stopped")
    if not active:
        reason = "ClusterQueueDoesNotExist" if active is None else "ClusterQueueIsInactive"
        return (False, reason, "Can't submit new workloads to clusterQueue")
    return (True, "Ready", "Can submit new workloads to localQueue")


def admits_what_is_ready(world: World, cq: ClusterQueue) -> bool:
    """May the queue admit a workload that has its quota, and a complete set of Ready verdicts (AC7, AC9)?

    That a controller is away keeps new quota from being reserved, as nobody would answer for it. What was
    answered stays so, whoever has answered.
    """
    return cq.active or [reason for reason, _ in why_inactive(world, cq)] == [CHECK_INACTIVE]


def blocks_admission(config: kueue.ConfigurationSpec) -> bool:
    """Must the pods of one workload be ready before the next one is admitted?"""
    settings = config.wait_for_pods_ready
    return settings.enable and settings.block_admission


def awaits_pods(workload: Workload) -> bool:
    """Is the workload admitted, and its pods are not ready, or are not any more?"""
    return (
        workload.assignment is not None
        and workload.admitted_at is not None
        and workload.pods_ready_at is None
    )


def is_asked_by(world: World, workload: Workload, checks: Iterable[str]) -> bool:
    """Does one of *checks* concern the workload's reservation still, as its queue is now (AC1)?

    What others say was said before they had heard of an edit. True of whoever has no reservation.
    """
    queue = world.cluster_queues.get(workload.cluster_queue)
    if queue is None or workload.assignment is None:
        return True
    return not set(checks).isdisjoint(checks_for(queue.spec, workload.assignment))


def may_be_so_still(reason: str, config: kueue.ConfigurationSpec, awaited: Callable[[], bool]) -> bool:
    """Can what a workload was parked for be what it waits for now, though nobody has looked at it since?

    It is looked at when it is at the head, behind the head of a StrictFIFO queue perhaps much later.
    *awaited*: are there any workloads whose pods must be ready before the next one is admitted?
    """
    return reason != WAITING_FOR_PODS_READY or (blocks_admission(config) and awaited())
