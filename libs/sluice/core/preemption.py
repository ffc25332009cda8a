"""Preemption: who has to go so that a workload fits (SC5, SC6).

    targets = get_targets(world, workload, usage, frs_need_preemption)
    possibility, height = preemption_possibility(world, queue, workload, fr, amount)

Both look at the world as it is, trials included (`reservations.Trial`), and leave it as it was.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Literal

from .model import ClusterQueue, Workload, World
from .quota import FlavorResource

Reason = Literal[
    "InClusterQueue", "InCohortReclamation", "InCohortFairSharing", "InCohortReclaimWhileBorrowing"
]

IN_CLUSTER_QUEUE: Final = "InClusterQueue"
IN_COHORT_RECLAMATION: Final = "InCohortReclamation"
IN_COHORT_FAIR_SHARING: Final = "InCohortFairSharing"
IN_COHORT_RECLAIM_WHILE_BORROWING: Final = "InCohortReclaimWhileBorrowing"


@dataclass(frozen=True, slots=True)
class Target:
    """A workload to be preempted, and the rule that allows it."""

    workload: Workload
    reason: Reason


class Possibility(IntEnum):
    """What preemption can do for one flavor and resource; higher is better."""

    NO_CANDIDATES = 0
    PREEMPT = 1
    """Only with victims in the preemptor's own queue."""
    RECLAIM = 2
    """All victims are in other queues, which use more than is theirs."""


def get_targets(
    world: World,
    workload: Workload,
    usage: Mapping[FlavorResource, int],
    frs_need_preemption: Collection[FlavorResource],
) -> list[Target]:
    """Return the workloads to preempt so that *workload* can use *usage*, or [] if nothing helps.

    `usage` is all that it would charge to `workload.cluster_queue`; `frs_need_preemption` is the part of it
    that is short. Evicted workloads that still hold quota may be among the targets.
    """
    raise NotImplementedError


def preemption_possibility(
    world: World, queue: ClusterQueue, workload: Workload, fr: FlavorResource, amount: int
) -> tuple[Possibility, int]:
    """Return what preemption could do for *amount* of *fr*, and how far up the tree it would then borrow.

    The height is that of `quota.find_height_of_lowest_subtree_that_fits`, after the preemptions.
    """
    raise NotImplementedError


def preemption_message(world: World, preemptor: Workload, target: Target) -> str:
    """Return the message of the Preempted and Evicted conditions of a target."""
    raise NotImplementedError
