"""A workload, and what the scheduler knows of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sluice.core.quota.node import FlavorResource
from sluice.events.base import Micros, PodSet, PodSetAssignment, WorkloadKey
from sluice.events.slices import WorkloadRecord


@dataclass(slots=True)
class Workload:
    """A workload and what the scheduler knows of it.

    The order of fields is that of snapshots (`scheduler.snapshot`); another one raises its version.

    `usage` is what its reservation charges, by flavor and resource; empty without a reservation.
    Times are microseconds; None means not (any more).
    """

    record: WorkloadRecord
    key: WorkloadKey
    uid: str
    priority: int
    """The effective one: the record's and the boost on top of it (`sluice.core.world.queue_order`)."""
    cluster_queue: str = ""
    """With a reservation: the queue that is charged. Else the one its LocalQueue points to, or ''."""
    active: bool = True
    assignment: tuple[PodSetAssignment, ...] | None = None
    usage: dict[FlavorResource, int] = field(default_factory=dict)
    reserved_at: Micros | None = None
    admitted_at: Micros | None = None
    pods_ready_at: Micros | None = None
    evicted_at: Micros | None = None
    """Set from Evicted until its quota is released: it still holds quota, but is leaving."""
    evicted_reason: str = ""
    last_evicted_at: Micros | None = None
    """Of the eviction that it has not been given quota again since: orders the queue after some of them."""
    last_evicted_reason: str = ""
    requeue_count: int = 0
    requeue_at: Micros | None = None
    past_execution_us: Micros = 0
    """How long it was admitted in earlier attempts and slices (maximum execution time counts them). Whole
    seconds would not do: a job that is resized every second would never come to its limit."""
    reclaimable: dict[str, int] = field(default_factory=dict)
    evicted_message: str = ""
    held_for: str = ""
    """Why it may not be queued although it is active: the reason of its latest eviction, from Evicted
    until Requeued. '' for a workload that was never evicted, or is back in its queue."""
    stopped: bool = False
    """With a reservation: its pods have stopped (WorkloadStopped), so that the quota can be given back."""
    stopped_reason: str = ""
    stopped_message: str = ""
    pods_lost_at: Micros | None = None
    """Since when pods that had been ready are not any more (PodsReady=False, WaitForRecovery)."""
    checks: str = ""
    """What its admission checks say, all taken together: '', Ready, Retry or Rejected."""
    checks_message: str = ""
    checks_requeue_at: Micros | None = None
    preempted_rule: str = ""
    """The rule by which it was preempted last (`Preempted.rule`), for as long as it has no quota again."""
    preempted_at: Micros | None = None
    blocked_on_gates: bool = False
    """It would have preempted, but for a closed gate; until it has quota or the gate opens."""
    open_gates: tuple[str, ...] = ()
    """Those of `record.preemption_gates` that are open."""
    changed_by: int = 0
    """Sequence of the newest input that concerned it, for `Event.cause`."""
    delta: bool = False
    """A slice, until it is admitted: the one that it replaces is charged for what both need (WS3)."""
    reservations: int = 0
    """How often it has had quota reserved: the number of the present attempt, as checks count them."""
    lost_reservations: int = 0
    """How often its reservation was preempted since it was admitted last, or ever."""
    preemptions: str = ""
    """Waiting with its reservation for `victims`: `pending_preemptions.PENDING`, or ISSUED; else ''."""
    preemptions_allowed: bool = False
    """Its checks let pending preemptions be issued (AC6)."""
    promised_at: Micros | None = None
    """Since when what it waits for, or has got so, was kept for it; None if it did not wait for victims."""
    tries: bool = False
    """A variant whose gate is open, and that was not found unable to preempt since."""
    spent: bool = False
    """A variant that had its gate open for as long as it may, without success (CA11)."""
    waits_on: bool = False
    """A variant whose gate closed while its victims were leaving: it waits for what they leave."""
    generation: int = 0
    """How often its pods were changed in place."""
    switched_by: int = 0
    """Cause of the last change of `active` by its job or its people, 0 if there was none."""
    deactivated_for: str = ""
    """Why the system, and not a user, set `active` to false, or is about to."""
    deactivated_message: str = ""
    """Why it was set to false, by whomever."""
    victims: dict[WorkloadKey, None] = field(default_factory=dict)
    """Those who are to go and still hold quota. In no order; changed by `PendingPreemptions` only."""
    finished: bool = False
    peers: Any = field(default=None, repr=False, compare=False)
    """A slot of `pending`'s (`pending_queue.EquivalenceClass`), as a table beside would cost a look-up each
    time: those
    it queues with; None when it does not queue. Derived, never dumped."""
    rank: tuple[int, Micros, str] = field(default=(0, 0, ""), repr=False, compare=False)
    """Its place in the queue, while it queues: (-priority, queue time, uid). Derived, never dumped."""
    identity: str = ""
    """Kept by `variants.queue_identity`. Derived from the record, never dumped."""
    equivalence: str = ""
    """Kept by `state.class_key`. Derived from the record, never dumped."""

    @property
    def in_turn(self) -> bool:
        """Does a variant go for what its victims leave, or may it preempt? It stands back for no sibling.

        Nor does one that was found unable to preempt in its turn, and then preempted all the same: it waits
        for its victims, whoever asks for the next turn.
        """
        return self.tries or self.waits_on or (self.peers is not None and self.peers.waiting is not None)

    @property
    def pod_sets(self) -> Sequence[PodSet]:
        return self.record.pod_sets
