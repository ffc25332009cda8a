"""Model of the scheduler's state besides workloads: cluster queues, and the world they live in.

Plain mutable records, changed only by folding events (`apply`). Deciding reads them; where a decision
has to try something out, it does so on the quota tree's journal and rolls it back (`quota.Tree.mark`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sluice.api import kueue
from sluice.core.quota.tree import Node, Tree
from sluice.events.base import WorkloadKey

from .pending_preemptions import ANYTIME, PendingPreemptions
from .preemption_history import PreemptionHistory
from .victim_index import CandidateIndex
from .workload import Workload


@dataclass(slots=True)
class ResourceGroup:
    covered_resources: tuple[str, ...]
    flavors: tuple[str, ...]
    """In the order of the manifest, which is the order of preference."""


@dataclass(slots=True)
class ClusterQueue:
    """A cluster queue: its spec with defaults filled in, its node of the quota tree, its reservations."""

    name: str
    spec: kueue.ClusterQueueSpec
    node: Node
    groups: tuple[ResourceGroup, ...]
    group_of: Mapping[str, ResourceGroup]
    """Resource name -> the group that covers it."""
    workloads: dict[WorkloadKey, Workload] = field(default_factory=dict)
    """Those with a reservation, evicted ones included until their quota is released. Filled and emptied by
    `sluice.core.world.reservations`, together with the quota tree."""
    candidates: CandidateIndex = field(default_factory=CandidateIndex, repr=False, compare=False)
    """The same workloads in order of preemption. Derived from them, never dumped."""
    active: bool = True
    terminating: bool = False
    """Deleted, but something still holds its quota; it admits nothing new."""
    flavor_plan: Any = field(default=None, repr=False, compare=False)
    """A slot that `flavors.plan.plan_of` fills and reads: what flavor assignment
    derived from spec and groups. Checked at each use, never dumped."""
    remembered: Any = field(default=None, repr=False, compare=False)
    """A slot that `remembered.remembered` fills and reads: assignments that fitted
    before. Checked at each use, never dumped."""


@dataclass(slots=True)
class LocalQueue:
    """A local queue's spec, in short."""

    key: str
    """`namespace/name`."""
    cluster_queue: str
    stop_policy: str = "None"


@dataclass(slots=True)
class AdmissionCheck:
    """What queues need to know of an admission check."""

    controller_name: str
    active: bool = True
    """Is its controller there? True until the admission-check service says otherwise (AC8)."""
    preemption_policy: str = ANYTIME
    """When what a workload needs to preempt may be preempted (AC6)."""


@dataclass(slots=True)
class World:
    """Everything that an assignment or a preemption may look at."""

    tree: Tree
    cluster_queues: dict[str, ClusterQueue] = field(default_factory=dict)
    flavors: dict[str, kueue.ResourceFlavor] = field(default_factory=dict)
    local_queues: dict[str, LocalQueue] = field(default_factory=dict)
    """By `namespace/name`."""
    cohorts: dict[str, kueue.CohortSpec] = field(default_factory=dict)
    """Those with a manifest."""
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    """Labels by name. A namespace without a manifest has none."""
    checks: dict[str, AdmissionCheck] = field(default_factory=dict)
    workloads: dict[WorkloadKey, Workload] = field(default_factory=dict)
    replacements: dict[WorkloadKey, WorkloadKey] = field(default_factory=dict)
    """Workload slice -> the one that is to replace it. Derived from the records, never dumped."""
    families: dict[WorkloadKey, dict[WorkloadKey, Workload]] = field(default_factory=dict)
    """Parent -> its variants. Derived from the workloads, never dumped."""
    pending_preemptions: PendingPreemptions = field(default_factory=PendingPreemptions)
    """Who waits with a reservation for whom to go. Derived from the workloads, never dumped."""
    circles: PreemptionHistory = field(default_factory=PreemptionHistory)
    """Who has preempted whom, so that no preemptions go round in a circle."""
    config: kueue.ConfigurationSpec = field(default_factory=kueue.ConfigurationSpec)
    absent: set[WorkloadKey] = field(default_factory=set)
    """Workloads whose reservation a trial has taken out (`reservations.Trial`); empty between decisions."""
