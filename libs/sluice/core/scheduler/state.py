"""The scheduler's state: the world, who waits in it, and what was said about its queues."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sluice.api.features import SCHEDULING_EQUIVALENCE_HASHING, enabled
from sluice.api.labels import GATE_CONCURRENT_ADMISSION
from sluice.core.cycle.requeue_filter import is_common, least_request
from sluice.core.lifecycle.due import Lifecycle
from sluice.core.queueing.manager import QueueManager
from sluice.core.queueing.pending_queue import EquivalenceClass
from sluice.core.queueing.request_index import Least
from sluice.core.queueing.sorted_map import Rank
from sluice.core.quota.tree import Tree
from sluice.core.workload.equivalence import equivalence_key
from sluice.core.world.activity import Status
from sluice.core.world.model import World
from sluice.core.world.queue_order import queue_rank
from sluice.core.world.variants import (
    family_usage,
    queue_identity,
    running_sibling,
    stays_at,
    why_barred,
)
from sluice.core.world.workload import Workload
from sluice.events.base import Micros, WorkloadKey

BARRED = "barred"
"""First part of the key of variants that wait for their admitted sibling to go, whatever they need."""


@dataclass(slots=True)
class SchedulerState:
    """Changed only by folding events. `dump` says what of it is stored; the rest is derived."""

    world: World
    pending: QueueManager
    lifecycle: Lifecycle = field(default_factory=Lifecycle)
    members: dict[str, dict[WorkloadKey, None]] = field(default_factory=dict)
    """Local queue (`namespace/name`, existing or not) -> the workloads that name it."""
    locals_of: dict[str, dict[str, None]] = field(default_factory=dict)
    """Cluster queue -> the local queues that point to it."""
    not_ready: dict[WorkloadKey, None] = field(default_factory=dict)
    """Admitted workloads whose pods are not ready."""
    statuses: dict[str, Status] = field(default_factory=dict)
    """Cluster queue -> its status as it was recorded last."""
    local_statuses: dict[str, Status] = field(default_factory=dict)
    statuses_due: dict[str, None] = field(default_factory=dict)
    """Cluster queues whose status is not what was recorded."""
    local_statuses_due: dict[str, None] = field(default_factory=dict)
    config_seq: int = 0
    """Sequence of the newest change of configuration, for `Event.cause`."""
    at: Micros = 0
    """The latest time seen."""
    touched: list[tuple[Workload, int, int]] = field(default_factory=list)
    """Marks of the event that is being folded (`marks`), with the cause of what follows; empty after it."""
    edited: dict[str, int] = field(default_factory=dict)
    """Cluster queues that this event has edited (`marks.Edit`); empty after it, likewise."""
    moved: list[tuple[Workload, bool]] = field(default_factory=list)
    """Workloads that may belong elsewhere now, for what it has edited; whether what they ask for, or their
    rank, may be another one, too; empty after it, likewise."""

    def edit(self, cluster_queue: str, what: int) -> None:
        """Mark a cluster queue, see `marks.Edit`."""
        self.edited[cluster_queue] = self.edited.get(cluster_queue, 0) | what


Handler = Callable[[SchedulerState, Any, int, Micros], None]
"""Folds one event: state, event, sequence of its message, when it was decided."""


def join_members(state: SchedulerState, workload: Workload) -> None:
    """Note a workload among those of its local queue."""
    state.members.setdefault(_local_key(workload), {})[workload.key] = None


def leave_members(state: SchedulerState, workload: Workload) -> None:
    """Take a workload off those of its local queue."""
    local = _local_key(workload)
    members = state.members.get(local)
    if members is not None:
        members.pop(workload.key, None)
        if not members:
            del state.members[local]


def _local_key(workload: Workload) -> str:
    return f"{workload.record.namespace}/{workload.record.queue_name}"


def new_state() -> SchedulerState:
    """Return the state before the first event."""
    world = World(tree=Tree())

    def rank_of(workload: Workload) -> Rank:
        if workload.last_evicted_at is None and workload.record.parent is None:
            # Most of all: nothing but their creation is known of them.
            return (-workload.priority, workload.record.created_at, workload.uid)
        return queue_rank(workload, workload.priority, queue_identity(workload), world.config)

    def least_of(workload: Workload, queue: str) -> Least:
        return least_request(world, workload, world.cluster_queues[queue])

    def common(peers: EquivalenceClass) -> bool:
        return is_common(world, peers)

    def key_of(workload: Workload) -> tuple[object, ...]:
        key = class_key(world, workload)
        shared = enabled(world.config.feature_gates, SCHEDULING_EQUIVALENCE_HASHING)
        return key if shared else (*key, workload.uid)

    return SchedulerState(world=world, pending=QueueManager(key_of, rank_of, least_of, common))


def class_key(world: World, workload: Workload) -> tuple[object, ...]:
    """Return what makes workloads equal to the scheduler; all that `equivalence_key` leaves out included.

    Variants of different jobs are equal too. What depends on siblings is in the key: whether one is barred,
    and what they hold already, which it does not need again (CA10); by whom it takes over no verdict rests
    on. Those that were said to be blocked on their gates stand apart, so that each of the others is looked at
    and said to be, too (CA11).
    """
    key = workload.equivalence
    if not key:
        key = workload.equivalence = equivalence_key(workload.record)
    if workload.reclaimable or workload.open_gates or workload.record.parent is not None:
        why = why_barred(world, workload)
        if why:
            return (BARRED, why)
        allowed = workload.record.allowed_flavors
        held = family_usage(world, workload, workload.cluster_queue)
        shared = [item for item in sorted(held.items()) if not allowed or item[0][0] in allowed]
        return (
            key,
            workload.priority,
            tuple(sorted(workload.reclaimable.items())),
            _gates(workload),
            workload.record.parent is not None and workload.blocked_on_gates,
            *_runs_on(world, workload),
            *shared,
        )
    return (key, workload.priority)


def _runs_on(world: World, workload: Workload) -> tuple[tuple[object, ...], ...]:
    """Return where the job of a variant runs, if the variant could take it there once more (CA10)."""
    running = running_sibling(world, workload) if workload.record.parent is not None else None
    return stays_at(workload.record, running.assignment or ()) if running is not None else ()


def _gates(workload: Workload) -> tuple[str, ...]:
    """Return its open gates; that which closed while its victims were leaving moves it to no other class."""
    gates = workload.open_gates
    return tuple(sorted((*gates, GATE_CONCURRENT_ADMISSION))) if workload.waits_on else gates


def is_barred(key: tuple[object, ...]) -> bool:
    """Is this `class_key` one of those whom freed capacity cannot help?"""
    return key[0] == BARRED


__all__ = ["SchedulerState"]
